"""The pictures show what is computed."""

import pytest
import torch

from longspan.attention.pattern import Pattern
from longspan.plots.pattern import GLOBAL, NOT_SEEN, WINDOW, Layer, draw_layer, draw_paper


def test_pairs_are_the_window_and_the_global_cross() -> None:
    pairs = Layer(pattern=Pattern(left=1, right=1), length=6, globals=(2,)).pairs()
    expected = [
        [WINDOW, WINDOW, GLOBAL, NOT_SEEN, NOT_SEEN, NOT_SEEN],
        [WINDOW, WINDOW, GLOBAL, NOT_SEEN, NOT_SEEN, NOT_SEEN],
        [GLOBAL] * 6,
        [NOT_SEEN, NOT_SEEN, GLOBAL, WINDOW, WINDOW, NOT_SEEN],
        [NOT_SEEN, NOT_SEEN, GLOBAL, WINDOW, WINDOW, WINDOW],
        [NOT_SEEN, NOT_SEEN, GLOBAL, NOT_SEEN, WINDOW, WINDOW],
    ]
    assert pairs.tolist() == expected


def test_causal_pairs_never_look_ahead() -> None:
    pairs = Layer(pattern=Pattern(left=2, right=0), length=8, globals=(0, 5)).pairs()
    assert torch.equal(pairs, pairs.tril())


def test_receptive_field_grows_by_the_window() -> None:
    field = Layer(pattern=Pattern(left=2, right=1), length=12).receptive_field(query=6, layers=2)
    assert field.tolist() == [-1, -1, 2, 2, 1, 1, 0, 1, 2, -1, -1, -1]


def test_a_global_token_reaches_everything_in_two_layers() -> None:
    field = Layer(pattern=Pattern(left=1, right=1), length=40, globals=(3,)).receptive_field(20, layers=2)
    assert int(field.max()) == 2 and int(field.min()) == 0


def test_figures_have_their_panels() -> None:
    assert [axes.get_title() for axes in draw_paper().axes][1] == "Sliding window"
    layer = Layer(pattern=Pattern(left=1, right=1), length=9, globals=(0,))
    assert len(draw_layer(layer, layers=0).axes) == 1
    assert len(draw_layer(layer, layers=2).axes) == 2
    with pytest.raises(ValueError, match="layers is -1"):
        draw_layer(layer, layers=-1)
