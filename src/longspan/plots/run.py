"""How runs went, from their ``metrics.jsonl``: losses, scores, learning rates and speed against the step.

Runs that are still going can be drawn too. Several are laid over each other, a colour each.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from longspan.plots.style import (
    BLUE,
    BROWN,
    FAINT,
    GREEN,
    GREY,
    ORANGE,
    PAPER,
    PURPLE,
    RC,
    RED,
    SKY,
    image_bytes,
)
from longspan.training.metrics_log import read_metrics
from longspan.training.run_folder import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# No two lines differ by colour alone.
COLOURS = (BLUE, ORANGE, GREEN, RED, PURPLE, SKY, BROWN)
LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (1, 3)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
SMOOTH_SHARE = 1 / 25
"""How much of a run's lines a smoothed value is the mean of."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunLines:
    """What a run logged."""

    name: str
    lines: Sequence[dict[str, Any]]

    def series(self, kind: str, name: str) -> tuple[np.ndarray, np.ndarray]:
        """[lines] int64 steps and [lines] float64 values; what was no finite number is nan."""
        found = [line for line in self.lines if line["kind"] == kind and name in line]
        values = [np.nan if line[name] is None else line[name] for line in found]
        return np.array([line["step"] for line in found], dtype=np.int64), np.array(values, dtype=np.float64)

    def scores(self) -> list[str]:
        """The names of its dev scores."""
        ours = ("step", "time", "kind")
        dev = [line for line in self.lines if line["kind"] == "dev"]
        return list(dict.fromkeys(name for line in dev for name in line if name not in ours))


def plot_run(folder: Path | Sequence[Path], out: Path) -> None:
    """Draws one run, or several over each other.

    Args:
        folder: of the run, or of each.
        out: the picture, .png or .svg.

    Raises:
        ValueError: a folder has no run or one without a step, two are the same, or the picture's name is
            wrong.
    """
    kind = out.suffix.removeprefix(".").lower()
    if kind not in ("png", "svg"):
        raise ValueError(f"out is {out}; its name must end with .png or .svg")
    figure = draw_runs(read_runs([folder] if isinstance(folder, Path) else folder))
    write_whole(out, image_bytes(figure, kind))


def read_runs(folders: Sequence[Path]) -> list[RunLines]:
    """The logs of runs, under names that tell them apart."""
    if not folders:
        raise ValueError("folders is empty; it must name at least one run")
    names = _names(folders)
    runs = [
        RunLines(name=name, lines=read_metrics(folder)) for name, folder in zip(names, folders, strict=True)
    ]
    for run, folder in zip(runs, folders, strict=True):
        if not any(line["kind"] == "train" for line in run.lines):
            raise ValueError(f"{folder} has no step of training in its log yet")
    return runs


def draw_runs(runs: Sequence[RunLines]) -> "Figure":
    """The picture: a panel for each thing that the runs have logged."""
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    with matplotlib.rc_context(RC):
        panels = _panels(runs)
        last_step = max(line["step"] for run in runs for line in run.lines)
        rows = (len(panels) + 1) // 2
        figure = Figure(figsize=(11, 3.1 * rows + 0.6), layout="constrained")
        grid = figure.subplots(rows, 2, squeeze=False).flatten()
        for axes, (title, draw) in zip(grid, panels, strict=False):
            draw(axes)
            axes.set_title(title, loc="left", fontweight="bold")
            axes.set_xlabel("step", color=GREY)
            axes.set_xlim(0, last_step * 1.02)
            axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
            axes.grid(color=FAINT, linewidth=0.8)
            axes.set_axisbelow(True)
        for axes in grid[len(panels) :]:
            axes.remove()
        if len(runs) > 1:
            handles, labels = grid[0].get_legend_handles_labels()
            columns = min(len(runs), 4)
            figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)
        else:
            figure.suptitle(_caption(runs[0]), x=0.01, ha="left", fontsize=10)
    return figure


def _panels(runs: Sequence[RunLines]) -> list[tuple[str, Callable[["Axes"], None]]]:
    """Titles, and what draws under them. Scores from 0 to 1 share a panel, each other one has its own."""
    scores = list(dict.fromkeys(name for run in runs for name in run.scores()))
    shared = [name for name in scores if all(_is_fraction(run.series("dev", name)[1]) for run in runs)]
    groups = [shared] if shared else []
    groups += [[name] for name in scores if name not in shared]
    panels: list[tuple[str, Callable[[Axes], None]]] = [
        ("Training loss", partial(_trained, runs=runs, name="loss", smooth=True))
    ]
    for names in groups:
        title = "Dev scores" if len(names) > 1 else f"Dev {_words(names[0])}"
        panels.append((title, partial(_scored, runs=runs, names=names)))
    for title, name, smooth in (
        ("Learning rate", "lr", False),
        ("Tokens per second", "tokens_per_second", True),
    ):
        if any(len(run.series("train", name)[0]) for run in runs):
            panels.append((title, partial(_trained, runs=runs, name=name, smooth=smooth)))
    return panels


def _trained(axes: "Axes", runs: Sequence[RunLines], name: str, *, smooth: bool) -> None:
    """What every step has: as it was logged, thin, and smoothed, thick."""
    for at, run in enumerate(runs):
        steps, values = run.series("train", name)
        colour, line = COLOURS[at % len(COLOURS)], LINES[at % len(LINES)]
        width = int(len(values) * SMOOTH_SHARE)
        if smooth and width > 1:
            axes.plot(steps, values, color=colour, linewidth=0.6, alpha=0.4, zorder=1.5)
            values = smoothed(values, width)
        marker = "o" if len(values) == 1 else None
        axes.plot(steps, values, color=colour, linestyle=line, linewidth=2, marker=marker, label=run.name)
    if name == "lr":
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.3g}")
        axes.set_ylim(bottom=0)
    elif name == "tokens_per_second":
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.set_ylim(bottom=0)


def _scored(axes: "Axes", runs: Sequence[RunLines], names: Sequence[str]) -> None:
    """Scores: of one run a colour each; of several the run has the colour, and the score the marker."""
    from matplotlib.lines import Line2D

    for row, run in enumerate(runs):
        for column, name in enumerate(names):
            steps, values = run.series("dev", name)
            at = row if len(runs) > 1 else column
            axes.plot(
                steps,
                values,
                color=COLOURS[at % len(COLOURS)],
                linestyle=LINES[row % len(LINES)],
                linewidth=1.6,
                marker=MARKERS[column % len(MARKERS)],
                markersize=6,
                markeredgecolor=PAPER,
                markeredgewidth=0.6,
                label=_words(name),
            )
    if len(names) > 1 and len(runs) == 1:
        axes.legend(frameon=False, fontsize=9)
    elif len(names) > 1:
        handles = [
            Line2D([], [], color=GREY, marker=MARKERS[at % len(MARKERS)], linestyle="", label=_words(name))
            for at, name in enumerate(names)
        ]
        axes.legend(handles=handles, frameon=False, fontsize=9)


def smoothed(values: np.ndarray, width: int) -> np.ndarray:
    """[n] means of the ``width`` values around each, fewer at the ends; those that are nan do not count."""
    known = ~np.isnan(values)
    sums = np.concatenate([[0.0], np.cumsum(np.where(known, values, 0.0))])
    counts = np.concatenate([[0], np.cumsum(known)])
    places = np.arange(len(values))
    low = np.maximum(places - (width - 1) // 2, 0)
    high = np.minimum(places + width // 2 + 1, len(values))
    number = counts[high] - counts[low]
    return np.where(number > 0, (sums[high] - sums[low]) / np.maximum(number, 1), np.nan)


def _is_fraction(values: np.ndarray) -> bool:
    known = values[~np.isnan(values)]
    return bool(np.all((known >= 0) & (known <= 1)))


def _words(name: str) -> str:
    return name.replace("_", " ")


def _caption(run: RunLines) -> str:
    last = run.lines[-1]
    seconds = max(line["time"] for line in run.lines)
    unit, size = next((u, s) for u, s in (("h", 3600), ("min", 60), ("s", 1)) if seconds >= s or s == 1)
    return f"{run.name}: {last['step']:,} steps in {seconds / size:.3g} {unit}"


def _names(folders: Sequence[Path]) -> list[str]:
    """The last parts of the paths, as many as it takes to tell them apart."""
    paths = [folder.resolve() for folder in folders]
    if len(set(paths)) < len(paths):
        raise ValueError(f"folders is {', '.join(map(str, folders))}; a run may be there only once")
    for parts in range(1, max(len(path.parts) for path in paths) + 1):
        names = ["/".join(path.parts[-parts:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    raise AssertionError("whole paths differ")
