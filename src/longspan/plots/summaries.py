"""A picture of summaries: how good they are, by how much of a document a model reads (figure 3 in small).

It draws numbers that others measured.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from longspan.plots.style import BLUE, FAINT, GREY, INK, ORANGE, PAPER, RC

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# No two lines differ by colour alone.
_LOOKS = ((BLUE, "-", "o"), (ORANGE, "--", "s"))
_LEVELS = ((INK, ":"), (GREY, "-."))


class Panel(NamedTuple):
    """What is drawn of a data set."""

    lines: Mapping[str, Mapping[int, float]]
    """At most two: scores by the tokens that a model reads, by its name."""
    levels: Mapping[str, float]
    """At most two: scores that do not depend on it."""


def draw_lengths(panels: Mapping[str, Panel], score: str) -> "Figure":
    """Scores against the length of the input, a panel for each data set.

    Args:
        panels: by the titles of the data sets; all have the same lines.
        score: its name.
    """
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(3.4 * len(panels), 3.8), layout="constrained")
        all_axes = figure.subplots(1, len(panels), squeeze=False)[0]
        for axes, (title, panel) in zip(all_axes, panels.items(), strict=True):
            for (name, points), (colour, line, marker) in zip(panel.lines.items(), _LOOKS, strict=False):
                axes.plot(
                    list(points),
                    list(points.values()),
                    color=colour,
                    linestyle=line,
                    marker=marker,
                    markeredgecolor=PAPER,
                    markersize=8,
                    label=name,
                )
            for (name, level), (colour, line) in zip(panel.levels.items(), _LEVELS, strict=False):
                axes.axhline(level, color=colour, linestyle=line, linewidth=1.3, label=name)
            axes.set_xscale("log", base=2)
            ticks = sorted({length for points in panel.lines.values() for length in points})
            axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
            axes.minorticks_off()
            axes.set_ylim(bottom=0)
            axes.set_title(title, loc="left", fontweight="bold")
            axes.set_xlabel("tokens read", color=GREY)
            axes.grid(color=FAINT, linewidth=0.8)
            axes.set_axisbelow(True)
        all_axes[0].set_ylabel(score, color=GREY)
        handles, names = all_axes[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=2, frameon=False)
    return figure
