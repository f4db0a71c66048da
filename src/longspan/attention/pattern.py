"""Who sees whom: the window around a query.

This is the only definition of a window in the library. Every implementation, every mask and every
picture is derived from `Pattern.allows`; units of other libraries are converted at the border
(Hugging Face's ``attention_window=512`` is ``left=right=256``; so is the original Longformer
repository's one-sided 256).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, kw_only=True, slots=True)
class Pattern:
    """Which keys a query sees: ``left`` before it, itself, ``right`` after it, ``dilation`` apart.

    A query at position i sees the keys at i - dilation * a for 1 <= a <= left, at i, and at
    i + dilation * b for 1 <= b <= right (arXiv 2004.05150, section 3.1). ``Pattern(left=None,
    right=None)`` is full attention, ``Pattern(left=None, right=0)`` full causal attention.
    """

    left: int | None
    """Keys seen before the query, itself not counted; None: all of them."""

    right: int | None
    """Keys seen after the query; 0 makes the pattern causal, None: all of them."""

    dilation: int = 1
    """Distance between neighbouring keys; 1 leaves no gaps."""

    def __post_init__(self) -> None:
        for side, count in (("left", self.left), ("right", self.right)):
            if count is not None and not (_is_int(count) and count >= 0):
                raise ValueError(
                    f"Pattern.{side} is {count!r}; it must be an integer >= 0, or None (no bound)"
                )
        if not (_is_int(self.dilation) and self.dilation >= 1):
            raise ValueError(f"Pattern.dilation is {self.dilation!r}; it must be an integer >= 1")

    @property
    def is_causal(self) -> bool:
        """Whether nothing after the query is seen; global keys in the future are hidden too."""
        return self.right == 0

    def allows(self, query: Tensor, key: Tensor) -> Tensor:
        """Whether the query at position ``query`` sees the key at position ``key`` (broadcasts)."""
        offset = key - query
        seen = offset % self.dilation == 0
        if self.left is not None:
            seen = seen & (offset >= -self.left * self.dilation)
        if self.right is not None:
            seen = seen & (offset <= self.right * self.dilation)
        return seen

    def __str__(self) -> str:
        sides = f"left={self.left}, right={self.right}"
        return f"Pattern({sides})" if self.dilation == 1 else f"Pattern({sides}, dilation={self.dilation})"


def per_head(pattern: "Pattern | Sequence[Pattern]", num_heads: int) -> tuple[Pattern, ...]:
    """One pattern for each head, from one for the layer or one per head."""
    if isinstance(pattern, Pattern):
        return (pattern,) * num_heads
    patterns = tuple(pattern)
    wrong = [item for item in patterns if not isinstance(item, Pattern)]  # pyright: ignore[reportUnnecessaryIsInstance]
    if wrong:
        raise ValueError(f"pattern holds {wrong[0]!r}; every item must be a Pattern")
    if len(patterns) != num_heads:
        raise ValueError(
            f"pattern has {len(patterns)} items for {num_heads} heads; give one Pattern, or one per head"
        )
    return patterns


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
