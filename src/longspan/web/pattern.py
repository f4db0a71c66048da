"""Who sees whom at a window's size, and what that costs: small pictures and large numbers.

The cells are those of `longspan plot pattern`, which are what is computed. Pairs of long inputs are counted
by a formula, which tests hold against the cells.
"""

from dataclasses import dataclass
from typing import Any

from longspan.attention.pattern import Pattern
from longspan.plots.pattern import Layer

MOST_CELLS = 96
"""Tokens of a picture."""
_MOST_TOKENS = 10_000_000
_LENGTHS = tuple(2**power for power in range(9, 18))
"""512 to 131,072 tokens: where costs are compared."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """A window with global tokens at the beginning, where a question stands."""

    window: int
    """Tokens that a token sees on both sides together, itself aside."""
    dilation: int = 1
    globals: int = 0

    def __post_init__(self) -> None:
        for name, least in (("window", 2), ("dilation", 1), ("globals", 0)):
            if not least <= getattr(self, name) <= _MOST_TOKENS:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be {least} to {_MOST_TOKENS:,}")

    def cells(self, length: int) -> list[list[int]]:
        """[query][key]: 0 not seen, 1 seen in the window, 2 seen through a global token.

        Raises:
            ValueError: it is too long for a picture.
        """
        if not 1 <= length <= MOST_CELLS:
            raise ValueError(f"length is {length}; a picture shows 1 to {MOST_CELLS} tokens")
        side = self.window // 2
        pattern = Pattern(left=side, right=side, dilation=self.dilation)
        tokens = tuple(range(min(self.globals, length)))
        return Layer(pattern=pattern, length=length, globals=tokens).pairs().tolist()

    def pairs(self, length: int) -> int:
        """Pairs of a token and one that it sees, itself among them, in one head of one layer."""
        seeing_all = min(self.globals, length)
        rest = length - seeing_all
        # Neighbours at distance a exist rest - a times on each side; beyond the text there are none.
        reach = min(self.window // 2, max(rest - 1, 0) // self.dilation)
        near = rest + 2 * (reach * rest - self.dilation * reach * (reach + 1) // 2)
        return near + 2 * seeing_all * rest + seeing_all**2


def picture(shape: Shape, length: int) -> dict[str, Any]:
    """A pattern for the page.

    Raises:
        ValueError: it is too long for a picture.
    """
    return {"cells": shape.cells(length), "pairs": shape.pairs(length), "full": length**2}


def cost(shape: Shape, tokens: int) -> dict[str, Any]:
    """Pairs at the length of a document, and at lengths around it, beside those of full attention.

    Raises:
        ValueError: the document is too long.
    """
    if not 1 <= tokens <= _MOST_TOKENS:
        raise ValueError(f"tokens is {tokens}; it must be 1 to {_MOST_TOKENS:,}")
    return {
        "tokens": tokens,
        "pairs": shape.pairs(tokens),
        "full": tokens**2,
        "series": [
            {"tokens": length, "pairs": shape.pairs(length), "full": length**2} for length in _LENGTHS
        ],
    }
