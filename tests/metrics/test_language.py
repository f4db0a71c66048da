"""Language modelling: units, and counts that are wrong."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longspan.metrics.language import score_language

from .examples import examples


def test_units() -> None:
    # Uniform over 4 tokens: 2 bits each. 10 tokens that spell 20 characters in 40 bytes.
    found = score_language(10 * math.log(4), tokens=10, characters=20, num_bytes=40)
    assert found.loss == pytest.approx(math.log(4))
    assert found.perplexity == pytest.approx(4)
    assert found.bits_per_token == pytest.approx(2)
    assert found.bits_per_character == pytest.approx(1)
    assert found.bits_per_byte == pytest.approx(0.5)


def test_what_was_not_counted_is_none() -> None:
    found = score_language(1.0, tokens=1)
    assert (found.bits_per_character, found.bits_per_byte) == (None, None)
    assert json.loads(json.dumps(found.record()))["bits_per_byte"] is None


def test_a_certain_and_a_hopeless_model() -> None:
    certain = score_language(0.0, tokens=3, characters=3)
    assert (certain.perplexity, certain.bits_per_token, certain.bits_per_character) == (1, 0, 0)
    hopeless = score_language(1e6, tokens=1)
    assert math.isinf(hopeless.perplexity)
    assert hopeless.record()["perplexity"] is None
    assert hopeless.record()["loss"] == 1e6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"loss_sum": -1.0, "tokens": 1}, "loss_sum is -1.0; it must be a finite sum of -ln p"),
        ({"loss_sum": math.nan, "tokens": 1}, "loss_sum is nan"),
        ({"loss_sum": math.inf, "tokens": 1}, "loss_sum is inf"),
        ({"loss_sum": 1.0, "tokens": 0}, "tokens is 0; it must be an integer >= 1"),
        ({"loss_sum": 1.0, "tokens": None}, "tokens is None; it must be"),
        ({"loss_sum": 1.0, "tokens": 1, "characters": 1.5}, "characters is 1.5; it must be"),
        ({"loss_sum": 1.0, "tokens": 1, "num_bytes": True}, "num_bytes is True; it must be"),
    ],
)
def test_refuses(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        score_language(**arguments)


@examples(200)
@given(st.floats(0, 1e6), st.integers(1, 10**6), st.integers(1, 10**6))
def test_units_agree(loss_sum: float, tokens: int, characters: int) -> None:
    found = score_language(loss_sum, tokens=tokens, characters=characters, num_bytes=tokens)
    assert found.bits_per_byte == found.bits_per_token >= 0
    assert found.bits_per_character is not None
    # The same bits, however they are shared out.
    assert found.bits_per_character * characters == pytest.approx(found.bits_per_token * tokens)
    if found.bits_per_token < 1000:
        assert found.perplexity == pytest.approx(2**found.bits_per_token)
