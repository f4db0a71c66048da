"""LED's bars: the gate, and every group at a tiny size."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from longspan.benchmarks import led
from longspan.benchmarks.bars import DIRECTIONS, LED_BOUNDS
from longspan.benchmarks.gate import WrongResultError
from longspan.benchmarks.model_gate import TOLERANCE

TINY = replace(led.QUICK, impl="blocked")


def test_a_right_model_passes_the_gate() -> None:
    errors = led.check(TINY)
    assert len(errors) == 6 and all(0 <= error <= TOLERANCE for error in errors.values())


def test_gate_refuses_a_wrong_model(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = led.make_models

    def dishonest(*arguments: Any, **fields: Any) -> Any:
        models = honest(*arguments, **fields)
        ours = models["ours"]
        with torch.no_grad():
            ours.led.encoder.embed_positions.weight = torch.nn.Parameter(
                ours.led.encoder.embed_positions.weight * 1.01
            )
        return models

    monkeypatch.setattr(led, "make_models", dishonest)
    with pytest.raises(WrongResultError, match="LED, states 0: ours differs from Hugging Face's"):
        led.check(TINY)


def test_models_share_their_weights_and_write_the_same() -> None:
    models = led.make_models(TINY)
    stock, ours = (dict(models[who].named_parameters()) for who in ("stock", "ours"))
    assert all(ours[name].data_ptr() == weight.data_ptr() for name, weight in stock.items())
    document = led.make_document(TINY, 70)
    written = [led._writing(models[who], document, 4, 2)() for who in led.BOTH]
    assert torch.equal(*written)
    read = led._encoding(models["ours"], document)()
    known = {"encoder_outputs": read, "attention_mask": document["attention_mask"]}
    assert torch.equal(led._writing(models["ours"], known, 4, 2)(), written[0])


def test_every_group_measures_what_has_a_bar() -> None:
    results = [each for group in led.GROUPS.values() for each in group(TINY)]
    found = [(each.name, each.direction) for each in results]
    assert len(found) == len(set(found))
    assert {name for name, _ in found} == set(LED_BOUNDS)
    bars = {(name, way) for name, bounds in LED_BOUNDS.items() for way in DIRECTIONS if way in bounds}
    assert bars == {(each.name, each.direction) for each in results if each.passed is not None}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"window": 5}, "window is 5; Hugging Face needs an even one"),
        ({"heads": 3}, "d_model is 32; it must be a multiple of heads = 3"),
        ({"new_tokens": 0}, "new_tokens is 0"),
        ({"output_lengths": (32, 16)}, "output_lengths is .32, 16.; it must be at least two"),
    ],
)
def test_wrong_settings_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(TINY, **changes)
