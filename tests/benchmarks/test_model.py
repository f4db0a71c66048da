"""Whole models beside Hugging Face's: the gate, the counts, and every measurement at a tiny size."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from longspan.benchmarks import model as measurements
from longspan.benchmarks.bars import BOUNDS, MODEL_BOUNDS
from longspan.benchmarks.gate import WrongResultError
from longspan.benchmarks.model_contestants import (
    EVERYONE,
    hidden_states,
    make_model,
    make_models,
    model_both_ways,
    one_row_mask,
)
from longspan.benchmarks.model_gate import TOLERANCE, check_models
from longspan.benchmarks.model_shape import ModelShape, make_batch

SHAPE = ModelShape(layers=2, hidden_size=16, heads=2, intermediate_size=24, window=8, vocabulary=50)
TINY = measurements.Setting(
    shape=SHAPE, length=16, document_lengths=(3, 9, 14), impl="blocked", repetitions=1, product_size=16
)
RUN: dict[str, Any] = {"shape": asdict(SHAPE), "impl": "blocked", "threads": torch.get_num_threads()}


def models() -> dict[str, nn.Module]:
    return make_models(EVERYONE, SHAPE, length=16, impl="blocked")


def test_right_models_pass_the_gate() -> None:
    errors = measurements.check(TINY)
    assert set(errors) == {"ours", "speed_up"}
    assert all(0 <= error <= TOLERANCE for error in errors.values())


@pytest.mark.parametrize("parameter", ["key.weight", "value_global.weight", "query_global.weight"])
def test_gate_refuses_a_model_with_one_changed_weight(parameter: str) -> None:
    found = models()
    found["ours"].load_state_dict({k: v.clone() for k, v in found["ours"].state_dict().items()}, assign=True)
    with torch.no_grad():
        found["ours"].get_parameter(f"encoder.layer.1.attention.self.{parameter}").mul_(1.05)
    with pytest.raises(WrongResultError, match="'ours' differs"):
        check_models(found, SHAPE)


def test_gate_refuses_another_window_and_values_that_are_no_numbers() -> None:
    found = models()
    other = make_model("ours", replace(SHAPE, window=6), length=16)
    other.load_state_dict(found["stock"].state_dict())
    with pytest.raises(WrongResultError, match="'other' differs"):
        check_models({"stock": found["stock"], "other": other}, SHAPE)
    with torch.no_grad():
        other.get_parameter("encoder.layer.0.intermediate.dense.bias").fill_(float("nan"))
    with pytest.raises(WrongResultError, match="nan"):
        check_models({"stock": found["stock"], "other": other}, SHAPE)


def test_models_share_weights_but_not_gradients() -> None:
    found = models()
    weights = [model.get_parameter("encoder.layer.0.output.dense.weight") for model in found.values()]
    assert len({weight.data_ptr() for weight in weights}) == 1
    model_both_ways("", found["ours"], make_batch(SHAPE, (5,)))[" training"]()
    assert [weight.grad is not None for weight in weights] == [False, True, False]


def test_both_ways_are_without_and_with_dropout() -> None:
    calls = model_both_ways("x", models()["stock"], make_batch(SHAPE, (16,)))
    forward, training = calls["x forward"], calls["x training"]
    assert torch.equal(forward(), forward())
    assert not torch.equal(training(), training())


def test_one_row_mask_changes_nothing_but_its_size() -> None:
    from transformers.models.longformer import modeling_longformer

    module: Any = modeling_longformer
    batch, model = make_batch(SHAPE, (13, 16, 4)), make_model("stock", SHAPE, length=16).eval()
    shipped = module.create_bidirectional_mask
    with torch.no_grad():
        expected = hidden_states(model, batch)
        with one_row_mask():
            assert module.create_bidirectional_mask is not shipped
            assert torch.equal(hidden_states(model, batch), expected)
    assert module.create_bidirectional_mask is shipped


def test_batch_is_padded_and_its_first_tokens_are_global() -> None:
    batch = make_batch(SHAPE, (2, 4))
    assert batch["attention_mask"].tolist() == [[1, 1, 0, 0], [1, 1, 1, 1]]
    assert batch["global_attention_mask"].tolist() == [[1, 0, 0, 0]] * 2
    assert torch.equal(batch["input_ids"] == 1, batch["attention_mask"] == 0)


@pytest.mark.parametrize("lengths", [(1,), (8,), (24,), (16, 8)])
def test_flops_are_those_of_the_layers_that_run(lengths: tuple[int, ...]) -> None:
    counted = 0
    model = make_model("stock", SHAPE, length=max(lengths)).eval()

    def count(linear: nn.Module, given: tuple[Tensor, ...], out: Tensor) -> None:
        nonlocal counted
        assert isinstance(linear, nn.Linear)
        counted += 2 * linear.in_features * linear.out_features * out.numel() // out.shape[-1]

    for name, module in model.named_modules():
        if isinstance(module, nn.Linear) and "global" not in name and "pooler" not in name:
            module.register_forward_hook(count)
    side, head_dim = SHAPE.window // 2, SHAPE.hidden_size // SHAPE.heads
    pairs = 0
    for length in lengths:
        with torch.no_grad():
            # As ids of one row: stock would pad them, and compute the padding.
            embeddings = model.get_submodule("embeddings")(torch.full((1, length), 7))
            for layer in model.get_submodule("encoder.layer").children():
                padded = nn.functional.pad(embeddings, (0, 0, 0, -length % SHAPE.window))
                mask = torch.zeros(padded.shape[:2])
                before = counted
                layer(
                    padded,
                    attention_mask=mask,
                    is_index_masked=mask < 0,
                    is_index_global_attn=mask > 0,
                    is_global_attn=False,
                )
                counted = before + (counted - before) * length // padded.shape[1]
        pairs += sum(abs(i - j) <= side for i in range(length) for j in range(length))
    attention = SHAPE.layers * SHAPE.heads * pairs * 2 * 2 * head_dim
    assert SHAPE.flops(lengths) == counted + attention
    assert SHAPE.flops(lengths, "training") == 3 * counted + 3.5 * attention


def test_base_model_has_the_flops_that_are_published() -> None:
    assert ModelShape().flops((4096,)) == pytest.approx(771e9, rel=5e-3)


def test_layers_that_fit() -> None:
    base = ModelShape()
    assert measurements.layers_that_fit(base, 16384, 0) == 1
    assert 3 <= measurements.layers_that_fit(base, 16384, int(21e9)) <= 5
    assert measurements.layers_that_fit(base, 16384, int(1e12)) == 12


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ModelShape(layers=0), "layers is 0"),
        (lambda: ModelShape(hidden_size=770), "multiple of heads = 12"),
        (lambda: ModelShape(window=7), "even"),
        (lambda: ModelShape(vocabulary=5), "above 5"),
        (lambda: replace(TINY, length=0), "length is 0"),
        (lambda: replace(TINY, document_lengths=(4, 0)), "document_lengths"),
        (lambda: replace(TINY, shape=replace(SHAPE, hidden_size=18)), "half as wide"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_sizes_that_cannot_be_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def only(answers: Iterator[Any]) -> Any:
    (answer,) = answers
    return answer


def test_bf16_group() -> None:
    results = list(measurements.bf16(TINY))
    assert [(r.name, r.direction) for r in results] == [
        ("model, bf16, times as fast as fp32", direction) for direction in ("forward", "training")
    ]
    assert all(r.value > 0 for r in results)


def test_what_runs_in_fresh_processes() -> None:
    """Here in this one, which is quicker; the memory cannot be limited in it."""
    timing: dict[str, Any] = {**RUN, "repetitions": 1}
    ways = ("forward", "training")
    beside = measurements.time_models(
        **timing, names=EVERYONE, lengths=(16,), directions=ways, product_size=16
    )
    assert set(only(beside)) == {f"{who} {way}" for who in EVERYONE for way in ways} | {"product"}
    ragged = measurements.time_models(
        **timing, names=("stock", "ours"), lengths=(3, 9, 14), directions=("forward",)
    )
    assert set(only(ragged)) == {"stock forward", "ours forward"}
    found = only(measurements.read_long_document(**timing, short=32, long=256))
    assert set(found) == {"short", "long", "extra_bytes"}
    assert found["short"] > 0 and found["long"] > 0


@pytest.mark.slow
def test_every_bar_is_measured() -> None:
    results = [r for group in measurements.GROUPS.values() for r in group(TINY)]
    found = [(r.name, r.direction) for r in results]
    assert len(found) == len(set(found))
    assert {(name, direction) for name, bounds in MODEL_BOUNDS.items() for direction in bounds} <= set(found)
    assert {name for name, _ in found} == set(MODEL_BOUNDS)
    assert all(r.value > 0 for r in results)


def test_names_of_bars_are_unique() -> None:
    assert not set(BOUNDS) & set(MODEL_BOUNDS)
