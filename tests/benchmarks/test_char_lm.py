"""The autoregressive model's bars: the gate, and every group at a tiny size."""

from dataclasses import replace
from typing import Any, cast

import pytest
import torch

from longspan.benchmarks import char_lm
from longspan.benchmarks.bars import CHAR_LM_BOUNDS, DIRECTIONS
from longspan.benchmarks.gate import TOLERANCE, WrongResultError

TINY = replace(char_lm.QUICK, impl="blocked")


def test_a_right_implementation_passes_the_gate() -> None:
    errors = char_lm.check(TINY)
    assert set(errors) == {"attention", "reading in pieces"}
    assert all(0 <= error <= TOLERANCE["float32"] for error in errors.values())


def test_gate_refuses_a_wrong_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    from longspan.nn.window_cache import WindowCache

    honest = WindowCache.__init__
    monkeypatch.setattr(WindowCache, "__init__", lambda self, reach: honest(self, reach - 1))
    with pytest.raises(WrongResultError, match="reading in pieces: blocked differs from the reference"):
        char_lm.check(TINY)


def test_gate_refuses_wrong_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    honest: Any = char_lm.attend

    def dishonest(*arguments: Any, impl: str, **options: Any) -> Any:
        if impl != "reference" and "position_keys" in options:
            options["position_keys"] = options["position_keys"] * 1.001
        return honest(*arguments, impl=impl, **options)

    monkeypatch.setattr(char_lm, "attend", dishonest)
    with pytest.raises(WrongResultError, match="attention: blocked differs"):
        char_lm.check(TINY)


def test_every_group_measures_what_has_a_bar() -> None:
    results = [each for group in char_lm.GROUPS.values() for each in group(TINY)]
    assert all(each.value > 0 for each in results)
    found = [(each.name, each.direction) for each in results]
    assert len(found) == len(set(found))
    assert {name for name, _ in found} == set(CHAR_LM_BOUNDS)
    bars = {(name, way) for name, bounds in CHAR_LM_BOUNDS.items() for way in DIRECTIONS if way in bounds}
    assert bars == {(each.name, each.direction) for each in results if each.passed is not None}


def test_a_sample_goes_on_where_the_last_one_ended() -> None:
    model = char_lm.make_model(TINY).eval()
    write = char_lm._writing(model, TINY, 40)
    first, second = write(), write()
    assert (first.shape[1], second.shape[1]) == (44, 48)
    text = first[:, :40]
    whole = cast(Any, model).generate(
        text, attention_mask=torch.ones_like(text), max_new_tokens=8, do_sample=False
    )
    assert torch.equal(second, torch.as_tensor(whole))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lengths": (100, 512)}, "lengths has 100"),
        ({"rival_context": 17}, "rival_context is 17"),
        ({"new_tokens": 0}, "new_tokens is 0"),
    ],
)
def test_wrong_settings_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(TINY, **changes)
