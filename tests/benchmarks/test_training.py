"""One training step beside Hugging Face's: the gate, the counts, and the measurements at a tiny size."""

from collections.abc import Callable
from dataclasses import asdict, replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from torch import Tensor, nn
from transformers import RobertaConfig, RobertaModel

from longspan.benchmarks import training
from longspan.benchmarks.gate import WrongResultError
from longspan.benchmarks.model_shape import ModelShape
from longspan.benchmarks.products import PRODUCTS
from longspan.tasks.masked_lm import masked_loss

SHAPE = ModelShape(layers=2, hidden_size=16, heads=2, intermediate_size=24, window=8, vocabulary=50)
TINY = training.Setting(shape=SHAPE, documents=2, length=16, impl="blocked", repetitions=1, product_size=16)


def test_right_models_pass_the_gate() -> None:
    assert 0 <= training.check(TINY)["ours"] <= training.TOLERANCE


@pytest.mark.parametrize(
    "parameter", ["encoder.layer.1.attention.self.key.weight", "embeddings.LayerNorm.bias"]
)
def test_gate_refuses_another_model(parameter: str, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = training.make_models

    def dishonest(setting: training.Setting) -> Any:
        models = honest(setting)
        with torch.no_grad():
            models["ours"].get_parameter(f"longformer.{parameter}").add_(0.05)
        return models

    monkeypatch.setattr(training, "make_models", dishonest)
    with pytest.raises(WrongResultError, match="differs from Hugging Face's"):
        training.check(TINY)


def test_models_have_the_same_weights_of_their_own() -> None:
    models = training.make_models(TINY)
    ours, theirs = (dict(models[who].named_parameters()) for who in ("ours", "stock"))
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert not {p.data_ptr() for p in ours.values()} & {p.data_ptr() for p in theirs.values()}
    assert training.shape_of(models["ours"]) == SHAPE
    assert type(models["stock"]).__module__.startswith("transformers.")


def test_models_of_a_source_are_lengthened_and_have_its_weights(tmp_path: Path) -> None:
    source = RobertaModel(
        RobertaConfig(
            vocab_size=50,
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=24,
            max_position_embeddings=12,
            type_vocab_size=1,
        )
    )
    source.save_pretrained(tmp_path)
    models = training.make_models(replace(TINY, source=str(tmp_path)))
    for model in models.values():
        for name in ("embeddings.word_embeddings.weight", "encoder.layer.0.attention.self.key.weight"):
            assert torch.equal(model.get_parameter(f"longformer.{name}"), source.get_parameter(name))
        assert model.get_parameter("longformer.embeddings.position_embeddings.weight").shape[0] == 18
    assert training.shape_of(models["ours"]) == replace(SHAPE, layers=1)
    (found,) = training.time_steps(
        setting=asdict(replace(TINY, source=str(tmp_path))), dtype="float32", threads=torch.get_num_threads()
    )
    assert found["ours"] > 0


def test_batch_has_masked_words_and_padding() -> None:
    batch = training.masked_batch(SHAPE, [40, 20])
    wanted = batch["labels"] >= 0
    assert wanted.sum(1).tolist() in ([6, 3], [6, 4], [7, 3], [7, 4])
    assert not wanted[1, 20:].any()
    assert batch["attention_mask"].sum(1).tolist() == [40, 20]
    assert (batch["input_ids"] == SHAPE.vocabulary - 1)[wanted].any()
    assert (batch["labels"][wanted] >= 5).all()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("who", ["stock", "ours"])
def test_a_step_trains(who: str, dtype: str) -> None:
    model = training.make_models(TINY)[who]
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    batch = training.masked_batch(SHAPE, [16, 16])
    loss = training.training_step(model, batch, dtype=dtype)()
    assert loss.isfinite() and loss > 0
    changed = {name for name, p in model.named_parameters() if not torch.equal(p, before[name])}
    # Nothing is global, so nothing trains the projections of global tokens.
    assert changed == {name for name in before if "_global." not in name}
    assert all(p.dtype == torch.float32 for p in model.parameters())


def test_parts_of_a_batch_have_the_gradients_of_the_whole() -> None:
    batch = training.masked_batch(SHAPE, [16, 16, 16])
    gradients: list[dict[str, Tensor]] = []
    losses: list[Tensor] = []
    for parts in (1, 2, 3):
        model = training.make_models(TINY)["stock"]
        for module in model.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
            if isinstance(getattr(module, "dropout", None), float):
                setattr(module, "dropout", 0.0)  # noqa: B010
        losses.append(training.training_step(model, batch, dtype="float32", parts=parts)())
        gradients.append({n: p.grad for n, p in model.named_parameters() if p.grad is not None})
    for loss, found in zip(losses[1:], gradients[1:], strict=True):
        assert torch.allclose(loss, losses[0], rtol=1e-5)
        assert all(torch.allclose(found[n], g, rtol=1e-3, atol=1e-5) for n, g in gradients[0].items())


def test_flops_are_the_encoders_and_those_of_the_head_that_runs() -> None:
    model = training.make_models(TINY)["ours"]
    batch = training.masked_batch(SHAPE, [16, 16])
    counted = 0

    def count(linear: nn.Module, given: tuple[Tensor, ...], out: Tensor) -> None:
        nonlocal counted
        assert isinstance(linear, nn.Linear)
        counted += 2 * linear.in_features * linear.out_features * out.numel() // out.shape[-1]

    head = model.get_submodule("lm_head")
    for module in head.modules():
        if isinstance(module, nn.Linear):
            module.register_forward_hook(count)
    loss = masked_loss(model, batch)
    targets = int(loss.targets)
    assert counted > 0
    expected = SHAPE.flops((16, 16), "training") + 3 * counted
    assert training.step_flops(SHAPE, [16, 16], targets) == expected


def test_parts_that_fit() -> None:
    parts = [training.parts_that_fit(training.GRANITE, 4, 4096, int(gb * 1e9)) for gb in (1, 8, 14, 22, 1000)]
    assert parts == sorted(parts, reverse=True)
    assert (parts[0], parts[-1]) == (4, 1)
    assert parts[2] in (2, 3, 4)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_results_beside_their_bars(precision: str) -> None:
    """Here in this process, which is quicker."""
    (found,) = training.time_steps(
        setting=asdict(TINY), dtype=training.PRECISIONS[precision], threads=torch.get_num_threads(), parts=2
    )
    assert {"ours", "stock", "product"} < found.keys()
    results = list(training._results(TINY, precision, "", found, ""))
    names = [
        f"MLM step, {precision}, {what}" for what in ("times as fast as Hugging Face", "tokens per second")
    ]
    assert [results[0].name, results[2].name] == names
    assert results[0].value == pytest.approx(found["stock"] / found["ours"])
    assert "in 2 parts" in results[0].detail
    products = PRODUCTS * 2 * TINY.product_size**3 / found["product"]
    assert results[1].value == pytest.approx(found["ours"] / (found["flops"] / products))
    assert [str(result.bound) for result in results] == [">= 4", "<= 2", "None"]
    not_judged = training._results(TINY, precision, ", with huge pages", found, "; once")
    assert all(result.bound is None and result.detail.endswith("; once") for result in not_judged)


@pytest.mark.slow
def test_every_bar_is_measured() -> None:
    results = [result for group in training.GROUPS.values() for result in group(TINY)]
    assert {result.name for result in results} == set(training.BOUNDS)
    assert all(result.value > 0 for result in results)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_breakdown_of_a_step(precision: str) -> None:
    shares = training.breakdown(replace(TINY, impl="auto", repetitions=2), precision)
    kinds = [share.kind for share in shares]
    assert {"matrix products", "gelu", "layer norm", "dropout", "loss", "optimizer", "embeddings"} <= set(
        kinds
    )
    assert sum(share.share for share in shares) == pytest.approx(1)
    assert [share.seconds for share in shares] == sorted((s.seconds for s in shares), reverse=True)
    console = Console(width=120, record=True, file=StringIO())
    console.print(training.breakdown_table(shares))
    text = console.export_text()
    assert all(kind in text for kind in kinds)


@pytest.mark.parametrize(
    ("operator", "kind"),
    [
        ("aten::addmm", "matrix products"),
        ("aten::mkldnn_linear", "matrix products"),
        ("longspan::attend_backward", "attention"),
        ("longspan::dropout", "dropout"),
        ("aten::gelu_backward", "gelu"),
        ("aten::native_layer_norm", "layer norm"),
        ("aten::_fused_adamw_", "optimizer"),
        ("aten::embedding_dense_backward", "embeddings"),
        ("aten::_log_softmax", "loss"),
        ("aten::copy_", "casts and copies"),
        ("aten::softmax", "other"),
    ],
)
def test_kinds_of_operators(operator: str, kind: str) -> None:
    assert training.kind_of(operator) == kind


@pytest.mark.parametrize("name", ["documents", "length", "repetitions", "product_size"])
def test_sizes_that_cannot_be_are_refused(name: str) -> None:
    make: Callable[..., object] = replace
    with pytest.raises(ValueError, match=f"{name} is 0; it must be at least 1"):
        make(TINY, **{name: 0})
