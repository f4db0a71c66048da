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


def bytes_of(document: int, output: int, *, squared: int, paired: int) -> int:
    return 1000 + 7 * document + 3 * output + squared * output**2 + paired * document * output


@pytest.mark.parametrize(("squared", "ratio"), [(0, 1.0), (1000, 2.0)])
def test_growth_tells_linear_from_quadratic(squared: int, ratio: float) -> None:
    found = {length: bytes_of(32, length, squared=squared, paired=0) for length in TINY.output_lengths}
    said = led._linear(found, "output", "32 tokens of the document")
    assert said.value == pytest.approx(ratio, rel=1e-3)
    assert said.passed == (ratio < 1.25)
    assert "32 tokens of the document" in said.detail


@pytest.mark.parametrize("paired", [0, 288])
def test_growth_finds_what_is_kept_for_pairs(paired: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(setting: led.Setting, document: int, output: int, causal_window: int | None = None) -> int:
        return bytes_of(document, output, squared=5, paired=paired)

    monkeypatch.setattr(led, "_step_bytes", measured)
    documents, outputs = TINY.document_lengths, TINY.output_lengths
    said = led._of_pairs(
        TINY,
        {length: measured(TINY, length, outputs[0]) for length in documents},
        {length: measured(TINY, documents[0], length) for length in outputs},
    )
    assert said.value == paired


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"window": 5}, "window is 5; Hugging Face needs an even one"),
        ({"heads": 3}, "d_model is 32; it must be a multiple of heads = 3"),
        ({"new_tokens": 0}, "new_tokens is 0"),
        ({"output_lengths": (16, 32)}, "output_lengths is .16, 32.; it must be at least three"),
        (
            {"document_lengths": (16, 32, 65)},
            "document_lengths is .16, 32, 65.; .* each twice the one before",
        ),
    ],
)
def test_wrong_settings_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(TINY, **changes)
