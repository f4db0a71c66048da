"""The formula for pairs, against the cells that are computed."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longspan.web.pattern import Shape, cost


@settings(max_examples=60)
@given(
    length=st.integers(1, 40),
    window=st.integers(2, 90),
    dilation=st.integers(1, 7),
    count=st.integers(0, 45),
)
def test_pairs_are_those_of_the_cells(length: int, window: int, dilation: int, count: int) -> None:
    shape = Shape(window=window, dilation=dilation, globals=count)
    cells = shape.cells(length)
    assert shape.pairs(length) == sum(cell > 0 for row in cells for cell in row)


def test_costs_of_a_window_are_linear() -> None:
    found = cost(Shape(window=512, globals=16), 100_000)
    assert found["full"] == 10**10 and found["pairs"] < 546 * 100_000
    whole = cost(Shape(window=512, globals=16), 200_000)
    assert whole["pairs"] / found["pairs"] == pytest.approx(2, rel=0.01)
    assert all(one["pairs"] <= one["full"] for one in found["series"])
