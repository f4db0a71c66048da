"""Who sees whom, drawn: figure 2 of the Longformer paper, or one pattern and its receptive field.

What is drawn is what is computed: the cells are the non-zero probabilities of `attend` and
`attend_global` on equal scores.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor

from longspan.attention.attend import Attention, attend, attend_global
from longspan.attention.pattern import Pattern
from longspan.attention.positions import global_positions
from longspan.plots.style import BLUE, FAINT, GREY, INK, ORANGE, PAPER, RC

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NOT_SEEN, WINDOW, GLOBAL = 0, 1, 2
NOBODY = "#F1F1F1"
LONGEST = 256
_FURTHEST = 2**31 - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Layer:
    """One layer's attention over a short sequence."""

    pattern: Pattern
    length: int
    globals: tuple[int, ...] = ()
    """Positions of the global tokens."""

    def __post_init__(self) -> None:
        if not 1 <= self.length <= LONGEST:
            raise ValueError(f"length is {self.length}; a picture shows 1 to {LONGEST} tokens")
        for name in ("left", "right", "dilation"):
            # Further than any picture; torch counts in 64 bits.
            if (getattr(self.pattern, name) or 0) > _FURTHEST:
                raise ValueError(f"{name} is {getattr(self.pattern, name)}; it must be at most {_FURTHEST}")
        for position in self.globals:
            if not 0 <= position < self.length:
                raise ValueError(f"globals has {position}; it must lie between 0 and {self.length - 1}")

    def pairs(self) -> Tensor:
        """[length, length] int64, query by key: NOT_SEEN, WINDOW or GLOBAL."""
        is_global = torch.zeros(1, self.length, dtype=torch.bool)
        is_global[0, list(self.globals)] = True
        equal = torch.zeros(1, 1, self.length, 1)
        local = attend(equal, equal, equal, self.pattern, is_global=is_global, return_probabilities=True)
        seen = _probabilities(local) > 0
        if self.globals:
            positions = global_positions(is_global)
            rows = attend_global(
                equal[:, :, positions[0]],
                equal,
                equal,
                positions,
                causal=self.pattern.is_causal,
                return_probabilities=True,
            )
            seen[positions[0]] = _probabilities(rows) > 0
        through_global = is_global | is_global.T
        return torch.where(seen, torch.where(through_global, GLOBAL, WINDOW), NOT_SEEN)

    def receptive_field(self, query: int, layers: int) -> Tensor:
        """[length] int64: after how many layers ``query`` depends on each position; -1 for never."""
        seen = self.pairs() > 0
        reached = torch.arange(self.length) == query
        first = torch.where(reached, 0, -1)
        for layer in range(1, layers + 1):
            reached = seen[reached].any(0) | reached
            first = torch.where(reached & (first < 0), layer, first)
        return first


def draw_paper() -> "Figure":
    """The four panels of figure 2 (arXiv 2004.05150)."""
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    length = 24
    panels = {
        "Full attention": Layer(pattern=Pattern(left=None, right=None), length=length),
        "Sliding window": Layer(pattern=Pattern(left=3, right=3), length=length),
        "Dilated sliding window": Layer(pattern=Pattern(left=3, right=3, dilation=2), length=length),
        "Global + sliding window": Layer(pattern=Pattern(left=3, right=3), length=length, globals=(0, 1, 13)),
    }
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(13.4, 3.9), layout=ConstrainedLayoutEngine(wspace=0.05))
        for axes, (title, layer) in zip(figure.subplots(1, 4), panels.items(), strict=True):
            _matrix(axes, layer)
            axes.set_title(title, fontweight="bold", pad=10)
            seen = int((layer.pairs() > 0).sum())
            axes.set_xlabel(f"{seen} of {length * length} pairs", color=GREY)
        figure.axes[0].set_ylabel("query")
        figure.axes[0].annotate("key \u2192", (0, 1.01), xycoords="axes fraction", color=INK, fontsize=9)
    return figure


def draw_layer(layer: Layer, layers: int) -> "Figure":
    """One pattern, and what the token in the middle depends on after each of ``layers`` layers."""
    import matplotlib
    from matplotlib.figure import Figure

    if layers < 0:
        raise ValueError(f"layers is {layers}; it must be >= 0")
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(11, 5.2) if layers else (5.4, 5.6), layout="constrained")
        panels = figure.subplots(1, 2 if layers else 1, squeeze=False)[0]
        _matrix(panels[0], layer)
        panels[0].set_title(_title(layer), loc="left", fontweight="bold", pad=10)
        panels[0].set_ylabel("query")
        panels[0].set_xlabel("key")
        _ticks(panels[0], layer.length, both=True)
        if layers:
            _field(panels[1], layer, layers)
    return figure


def _matrix(axes: "Axes", layer: Layer) -> None:
    from matplotlib.colors import ListedColormap

    axes.imshow(layer.pairs().numpy(), cmap=ListedColormap([NOBODY, BLUE, ORANGE]), vmin=0, vmax=2)
    _lines_between_cells(axes, layer.length, layer.length)
    axes.set_xticks([])
    axes.set_yticks([])


def _field(axes: "Axes", layer: Layer, layers: int) -> None:
    """A triangle that grows downwards: row l shows what the middle token depends on after l layers."""
    from matplotlib.colors import ListedColormap

    query = layer.length // 2
    first = layer.receptive_field(query, layers)
    depth = torch.arange(layers + 1)[:, None]
    inside = (first >= 0) & (first <= depth)
    # 1 for what this layer added, 2 for what was there before.
    shown = torch.where(inside, torch.where(first == depth, 1, 2), 0)
    axes.imshow(shown.numpy(), cmap=ListedColormap([NOBODY, BLUE, "#9CC7E2"]), vmin=0, vmax=2, aspect="auto")
    _lines_between_cells(axes, layers + 1, layer.length)
    axes.set_title(f"What token {query} depends on", loc="left", fontweight="bold", pad=10)
    axes.set_yticks(
        range(layers + 1), ["itself", *(f"{n} layer{'' if n == 1 else 's'}" for n in range(1, layers + 1))]
    )
    axes.tick_params(length=0)
    axes.set_xlabel("token (dark: new in this layer)")
    counts = inside.sum(1).tolist()
    for row, count in enumerate(counts):
        axes.text(layer.length - 0.3, row, f"{count}", va="center", ha="left", color=GREY, fontsize=9)
    axes.text(layer.length - 0.3, -0.75, "tokens", va="center", ha="left", color=GREY, fontsize=9)
    _ticks(axes, layer.length, both=False)


def _lines_between_cells(axes: "Axes", rows: int, columns: int) -> None:
    if max(rows, columns) <= 64:
        width = 1.0 if max(rows, columns) <= 32 else 0.5
        axes.hlines([y - 0.5 for y in range(1, rows)], -0.5, columns - 0.5, colors=PAPER, linewidth=width)
        axes.vlines([x - 0.5 for x in range(1, columns)], -0.5, rows - 0.5, colors=PAPER, linewidth=width)
    for spine in axes.spines.values():
        spine.set_visible(True)
        spine.set_color(FAINT)


def _ticks(axes: "Axes", length: int, *, both: bool) -> None:
    step = max(1, 2 ** ((length - 1).bit_length() - 3))
    positions = list(range(0, length, step))
    axes.set_xticks(positions)
    axes.tick_params(length=0)
    if both:
        axes.set_yticks(positions)


def _title(layer: Layer) -> str:
    text = str(layer.pattern).removeprefix("Pattern(").removesuffix(")")
    return f"{text}\nglobal: {_listed(layer.globals)}" if layer.globals else text


def _listed(positions: Sequence[int]) -> str:
    shown = ", ".join(map(str, positions[:6]))
    return f"{shown}, ..." if len(positions) > 6 else shown


def _probabilities(answer: Tensor | Attention) -> Tensor:
    """[queries, keys] of the only example and head."""
    return cast(Tensor, cast(Attention, answer).probabilities)[0, 0]
