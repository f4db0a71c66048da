"""Pictures of the character models: how they learned, which windows are better, and what a token costs.

They draw numbers that others measured: losses and scores of runs, and the series of `longspan bench char-lm`.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from longspan.plots.style import BLUE, FAINT, GREEN, GREY, ORANGE, PAPER, PURPLE, RC, RED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# No two lines differ by colour alone.
_LOOKS = ((BLUE, "-", "o"), (ORANGE, "--", "s"), (GREEN, "-.", "^"), (RED, ":", "D"), (PURPLE, "-", "v"))


def draw_losses(curves: Mapping[str, Sequence[Sequence[float]]]) -> "Figure":
    """Bits per byte of training against the bytes that were learned from.

    Args:
        curves: by their names, pairs of bytes and loss in nats.
    """
    figure, axes = _figure("Loss while training", "million bytes learned from", "bits per byte")
    for (name, points), (colour, line, _) in zip(curves.items(), _LOOKS, strict=False):
        xs, ys = [x / 1e6 for x, _ in points], [y / math.log(2) for _, y in points]
        axes.plot(xs, ys, color=colour, linestyle=line, linewidth=1.6, label=name)
    # The first steps, at 8 bits, would leave no room for the rest.
    least = min(loss for points in curves.values() for _, loss in points) / math.log(2)
    axes.set_ylim(least * 0.95, least * 2.2)
    axes.legend(frameon=False)
    return figure


def draw_scores(scores: Mapping[str, Sequence[float]]) -> "Figure":
    """Means of bits per byte, with every run and their spread.

    Args:
        scores: by the names of the rows, one of each run.
    """
    figure, axes = _figure("Table 4 in small", "bits per byte, dev", "", height=0.7 + 0.6 * len(scores))
    for at, ((_, values), (colour, _, marker)) in enumerate(zip(scores.items(), _LOOKS, strict=False)):
        mean = statistics.mean(values)
        spread = statistics.stdev(values) if len(values) > 1 else 0.0
        axes.errorbar([mean], [at], xerr=[spread], color=colour, marker=marker, markersize=8, capsize=5)
        axes.plot(values, [at] * len(values), color=colour, marker="|", markersize=12, linestyle="")
    axes.locator_params(axis="x", nbins=5)
    axes.set_yticks(range(len(scores)), list(scores))
    axes.set_ylim(len(scores) - 0.5, -0.5)
    return figure


def draw_training(microseconds: Mapping[int, float]) -> "Figure":
    """Microseconds a training token, by the length of a text."""
    figure, axes = _figure("A token to learn from", "tokens of a text", "microseconds")
    _line(axes, microseconds, 0, "")
    axes.set_ylim(0, max(microseconds.values()) * 1.25)
    return figure


def draw_generation(rates: Mapping[int, float], stock: Mapping[int, float]) -> "Figure":
    """Tokens a second while writing, by what came before.

    Args:
        rates: ours.
        stock: of a GPT-2 of the same size; may be empty.
    """
    figure, axes = _figure("Writing", "tokens before", "tokens a second")
    if stock:
        _line(axes, stock, 1, "GPT-2 of the same size, full attention")
    # The last line says where the ticks are: ours has more of them.
    _line(axes, rates, 0, "longspan")
    axes.set_ylim(0, max(rates.values()) * 1.25)
    axes.legend(frameon=False)
    return figure


def _line(axes: "Axes", values: Mapping[int, float], look: int, label: str) -> None:
    colour, line, marker = _LOOKS[look]
    axes.plot(
        list(values),
        list(values.values()),
        color=colour,
        linestyle=line,
        marker=marker,
        markeredgecolor=PAPER,
        markersize=8,
        label=label,
    )
    axes.set_xscale("log", base=2)
    axes.set_xticks(list(values), [f"{x:,}" for x in values])


def _figure(title: str, x: str, y: str, height: float = 3.6) -> "tuple[Figure, Axes]":
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(7, height), layout="constrained")
        axes = figure.subplots()
        axes.set_title(title, loc="left", fontweight="bold")
        axes.set_xlabel(x, color=GREY)
        axes.set_ylabel(y, color=GREY)
        axes.grid(color=FAINT, linewidth=0.8)
        axes.set_axisbelow(True)
    return figure, axes
