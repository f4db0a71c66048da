"""The window: what a pattern allows, and what it refuses to be."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from longspan import Pattern
from longspan.attention.pattern import per_head

from .cases import examples, patterns


@examples(200)
@given(patterns(), st.integers(0, 40), st.integers(0, 40))
def test_allows_the_steps_of_the_definition(pattern: Pattern, query: int, key: int) -> None:
    left = 100 if pattern.left is None else pattern.left
    right = 100 if pattern.right is None else pattern.right
    before = {query - pattern.dilation * a for a in range(1, left + 1)}
    after = {query + pattern.dilation * b for b in range(1, right + 1)}
    allowed = pattern.allows(torch.tensor(query), torch.tensor(key))
    assert bool(allowed) == (key in before | {query} | after)


def test_allows_broadcasts() -> None:
    seen = Pattern(left=1, right=0).allows(torch.arange(3)[:, None], torch.arange(3))
    assert seen.tolist() == [[True, False, False], [True, True, False], [False, True, True]]


@pytest.mark.parametrize(
    ("sides", "causal"), [((3, 0), True), ((None, 0), True), ((0, 1), False), ((0, None), False)]
)
def test_is_causal(sides: tuple[int | None, int | None], causal: bool) -> None:
    assert Pattern(left=sides[0], right=sides[1]).is_causal is causal


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"left": -1, "right": 0}, "Pattern.left is -1; it must be an integer >= 0, or None"),
        ({"left": 0, "right": 1.5}, "Pattern.right is 1.5; it must be"),
        ({"left": True, "right": 0}, "Pattern.left is True; it must be"),
        ({"left": 0, "right": "2"}, "Pattern.right is '2'; it must be"),
        ({"left": 1, "right": 1, "dilation": 0}, "Pattern.dilation is 0; it must be an integer >= 1"),
        ({"left": 1, "right": 1, "dilation": None}, "Pattern.dilation is None; it must be"),
    ],
)
def test_refuses(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Pattern(**fields)


def test_per_head() -> None:
    one, other = Pattern(left=1, right=1), Pattern(left=2, right=0)
    assert per_head(one, 3) == (one, one, one)
    assert per_head([one, other], 2) == (one, other)
    with pytest.raises(
        ValueError, match="pattern has 2 items for 3 heads; give one Pattern, or one per head"
    ):
        per_head([one, other], 3)
    wrong: Any = [one, 256]
    with pytest.raises(ValueError, match="pattern holds 256; every item must be a Pattern"):
        per_head(wrong, 2)


def test_str_names_a_dilation_only_when_there_is_one() -> None:
    assert str(Pattern(left=2, right=None)) == "Pattern(left=2, right=None)"
    assert str(Pattern(left=2, right=0, dilation=3)) == "Pattern(left=2, right=0, dilation=3)"
