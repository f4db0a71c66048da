"""What our Longformer does and stock's does not, or does wrong."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

import longspan
from longspan.models.longformer_config import LongformerConfig
from longspan.nn.layout import Layout
from tests.models.tiny import SIZES, config, marks, padding, stock_config, tokens


def build(kind: Any = None, **changes: Any) -> Any:
    torch.manual_seed(0)
    return (kind or longspan.LongformerModel)(config(**changes)).eval()


def dense_self_attention(module: Any, x: Tensor, seen: Tensor) -> Tensor:
    """[batch, length, hidden_size]: with the local projections, where query i sees key j if seen[h, i, j]."""
    heads = len(module.patterns)
    q, k, v = (
        p(x).unflatten(-1, (heads, -1)).transpose(1, 2) for p in (module.query, module.key, module.value)
    )
    scores = q @ k.transpose(2, 3) * q.shape[-1] ** -0.5
    weights = scores.masked_fill(~seen, float("-inf")).softmax(-1)
    return (weights @ v).transpose(1, 2).flatten(2)


@pytest.mark.parametrize(
    ("changes", "stock_runs"),
    [
        ({"attention_window": 8}, True),
        ({"attention_window": 7}, False),
        ({"attention_window": 2}, False),
        ({"attention_window": [6, 8, 5]}, False),
        ({"attention_dilation": 3}, False),
        ({"attention_dilation": [1, 2, [1, 1, 2, 4]]}, False),
        ({"causal": True}, False),
    ],
)
def test_windows_dilation_and_causal_against_a_dense_layer(changes: dict[str, Any], stock_runs: bool) -> None:
    model = build(**changes)
    assert model.config.is_stock == stock_runs
    x = torch.randn(1, 19, SIZES["hidden_size"], generator=torch.Generator().manual_seed(1))
    place = torch.arange(19)
    for layer, module in enumerate(model.encoder.layer):
        patterns = model.config.patterns(layer)
        seen = torch.stack([pattern.allows(place[:, None], place) for pattern in patterns])
        with torch.no_grad():
            expected = dense_self_attention(module.attention.self, x, seen)
            actual = module.attention.self(x, Layout()).context
        torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)


def test_a_model_that_stock_lacks_is_saved_under_another_type(tmp_path: Path) -> None:
    model = build(attention_dilation=2, causal=True, attention_window=7)
    model.save_pretrained(tmp_path)
    again = transformers.AutoModel.from_pretrained(tmp_path).eval()
    assert type(again) is longspan.LongformerModel
    ids = tokens(1, 30)
    with torch.no_grad():
        torch.testing.assert_close(again(ids)[0], model(ids)[0], atol=0, rtol=0)
    assert transformers.AutoConfig.from_pretrained(tmp_path).attention_dilation == 2


def test_transformers_alone_refuses_such_a_model(tmp_path: Path) -> None:
    build(causal=True).save_pretrained(tmp_path)
    program = "import sys, transformers; transformers.AutoModel.from_pretrained(sys.argv[1])"
    run = subprocess.run([sys.executable, "-c", program, tmp_path], capture_output=True, text=True)
    assert run.returncode and "longspan_longformer" in run.stderr


def test_auto_classes_take_ours_for_stock_checkpoints_when_asked(tmp_path: Path) -> None:
    build(longspan.LongformerForMaskedLM).save_pretrained(tmp_path)
    before = dict(transformers.models.auto.configuration_auto.CONFIG_MAPPING._extra_content)
    try:
        longspan.register_auto_classes(replace_stock=True)
        assert (
            type(transformers.AutoModelForMaskedLM.from_pretrained(tmp_path))
            is longspan.LongformerForMaskedLM
        )
    finally:
        mapping = transformers.models.auto.configuration_auto.CONFIG_MAPPING
        mapping._extra_content.clear()
        mapping._extra_content.update(before)


@pytest.mark.parametrize("kind", ["sinusoidal", "none"])
def test_other_positions(kind: str, tmp_path: Path) -> None:
    model = build(position_kind=kind)
    model.save_pretrained(tmp_path)
    again = longspan.LongformerModel.from_pretrained(tmp_path).eval()
    ids = tokens(1, 300)  # more than max_position_embeddings
    with torch.no_grad():
        torch.testing.assert_close(again(ids)[0], model(ids)[0], atol=0, rtol=0)


def test_without_positions_a_shifted_input_gives_shifted_outputs() -> None:
    model = build(position_kind="none", num_hidden_layers=1)
    ids = tokens(1, 40)
    with torch.no_grad():
        whole, part = model(ids)[0], model(ids[:, 5:])[0]
    torch.testing.assert_close(part[:, 4:], whole[:, 9:], atol=1e-5, rtol=1e-5)


def test_causal_models_do_not_see_the_future_through_global_tokens() -> None:
    model = build(causal=True)
    ids, mask = tokens(1, 24), marks(1, 24, (0, 3), (0, 20))
    changed = ids.clone()
    changed[0, 20:] = 7
    with torch.no_grad():
        a, b = (model(x, global_attention_mask=mask)[0][:, :20] for x in (ids, changed))
    torch.testing.assert_close(a, b, atol=0, rtol=0)


@pytest.mark.parametrize("left", [False, True])
def test_padding_changes_nothing(left: bool) -> None:
    """Every example of a ragged batch comes out as it does alone; stock agrees for padding on the right."""
    model = build()
    lengths = [23, 1, 40, 9]
    mask, ids = padding(lengths, left=left), torch.ones(4, 40, dtype=torch.int64)
    ids[mask.bool()] = tokens(1, sum(lengths))[0]
    globals_ = mask * (ids % 7 == 0)
    with torch.no_grad():
        batch = model(ids, attention_mask=mask, global_attention_mask=globals_)
        for example, length in enumerate(lengths):
            real = mask[example].bool()
            alone = model(ids[example, real][None], global_attention_mask=globals_[example, real][None])
            assert alone[0].shape[1] == length
            torch.testing.assert_close(batch[0][example, real], alone[0][0], atol=1e-5, rtol=1e-5)
            torch.testing.assert_close(batch[1][example], alone[1][0], atol=1e-5, rtol=1e-5)
    assert not batch[0][~mask.bool()].any()


def test_padding_in_the_middle_keeps_distances() -> None:
    model = build()
    ids, mask = tokens(2, 30), torch.ones(2, 30, dtype=torch.int64)
    mask[0, 10:14] = 0
    mask[1, 25:] = 0
    stock = transformers.LongformerModel(stock_config()).eval()
    stock.load_state_dict(model.state_dict())
    with torch.no_grad():
        actual, expected = model(ids, attention_mask=mask)[0], stock(ids, attention_mask=mask)[0]
    torch.testing.assert_close(actual[mask.bool()], expected[mask.bool()], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("all_of_it", [False, True])
def test_an_example_of_nothing_but_padding(all_of_it: bool) -> None:
    model = build()
    mask = torch.ones(2, 12, dtype=torch.int64)
    mask[1] = 0
    if all_of_it:
        mask[0] = 0
    with torch.no_grad():
        out = model(tokens(2, 12), attention_mask=mask, global_attention_mask=marks(2, 12, (0, 0), (1, 0)))
    assert out[0].isfinite().all()


def test_marks_of_the_original_repository_are_understood() -> None:
    model = build()
    ids, mask = tokens(1, 20), marks(1, 20, (0, 2), (0, 9))
    with torch.no_grad():
        a = model(ids, attention_mask=1 + mask)[0]
        b = model(ids, global_attention_mask=mask)[0]
    torch.testing.assert_close(a, b, atol=0, rtol=0)


def test_such_marks_come_beside_a_task_s_default() -> None:
    model = build(longspan.LongformerForSequenceClassification)
    ids, marked = tokens(1, 20), marks(1, 20, (0, 9))
    stock = transformers.LongformerForSequenceClassification(stock_config()).eval()
    stock.load_state_dict(model.state_dict())
    with torch.no_grad():
        expected = model(ids, global_attention_mask=marks(1, 20, (0, 0), (0, 9))).logits
        for each in (model, stock):
            torch.testing.assert_close(
                each(ids, attention_mask=1 + marked).logits, expected, atol=1e-5, rtol=1e-5
            )


def test_segments_and_positions_of_one_row_serve_all() -> None:
    model = build()
    ids, mask = tokens(2, 20), padding([20, 13])
    given = {"token_type_ids": (torch.arange(20) > 8).long()[None], "position_ids": torch.arange(2, 22)[None]}
    with torch.no_grad():
        rows = {name: row.expand(2, -1) for name, row in given.items()}
        a, b = (model(ids, attention_mask=mask, **each)[0] for each in (given, rows))
    torch.testing.assert_close(a, b, atol=0, rtol=0)


def test_a_configuration_of_transformers_is_taken(tmp_path: Path) -> None:
    build().save_pretrained(tmp_path)
    stock = transformers.AutoConfig.from_pretrained(tmp_path)
    model = longspan.LongformerModel.from_pretrained(tmp_path, config=stock).eval()
    assert type(model.config) is LongformerConfig
    with torch.no_grad():
        torch.testing.assert_close(model(tokens(1, 9))[0], build()(tokens(1, 9))[0], atol=0, rtol=0)


def test_question_answering_finds_the_question_of_each_example() -> None:
    """Stock counts separators over the batch: four and two pass, and the wrong tokens are global."""
    model = build(longspan.LongformerForQuestionAnswering)
    ids = tokens(2, 24)
    ids[0, [3, 4, 12, 23]] = 2
    ids[1, [6, 7]] = 2
    explicit = marks(2, 24, *((0, i) for i in range(3)), *((1, i) for i in range(6)))
    stock = transformers.LongformerForQuestionAnswering(stock_config()).eval()
    stock.load_state_dict(model.state_dict())
    with torch.no_grad():
        right = stock(ids, global_attention_mask=explicit).start_logits
        torch.testing.assert_close(model(ids).start_logits, right, atol=1e-5, rtol=1e-5)
        assert not torch.allclose(stock(ids).start_logits, right, atol=1e-3)


def test_question_answering_needs_separators_or_a_mask() -> None:
    model = build(longspan.LongformerForQuestionAnswering)
    with pytest.raises(ValueError, match="example 0 holds no separator"):
        model(tokens(2, 12))
    with pytest.raises(ValueError, match="global_attention_mask is None and so is input_ids"):
        model(inputs_embeds=torch.randn(1, 12, 32))


def test_classification_takes_inputs_embeds() -> None:
    """Stock raises TypeError: it makes its global mask from input_ids."""
    model = build(longspan.LongformerForSequenceClassification)
    ids = tokens(2, 16)
    embeds = model.longformer.embeddings.word_embeddings(ids)
    with torch.no_grad():
        torch.testing.assert_close(
            model(inputs_embeds=embeds).logits, model(ids).logits, atol=1e-5, rtol=1e-5
        )


def test_too_long_an_input_is_a_clear_error() -> None:
    """Stock raises IndexError from inside an embedding."""
    with pytest.raises(ValueError, match="at most 198 tokens fit"):
        build()(tokens(1, 199))
    with torch.no_grad():
        build()(tokens(1, 198))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"attention_window": 1}, "attention_window is 1 in layer 0"),
        ({"attention_window": [8, 8]}, "attention_window has 2 items"),
        ({"attention_dilation": 0}, "dilation"),
        ({"attention_dilation": [[1, 2], 1, 1]}, "attention_dilation has 2 items in layer 0"),
        ({"position_kind": "rotary"}, "position_kind is 'rotary'"),
        ({"hidden_size": 30}, "hidden_size is 30"),
    ],
)
def test_bad_configurations_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        config(**changes)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "neither was given"),
        ({"input_ids": tokens(1, 4), "inputs_embeds": torch.zeros(1, 4, 32)}, "both were given"),
        ({"input_ids": tokens(1, 4), "attention_mask": torch.ones(1, 5)}, "attention_mask has shape"),
        (
            {"input_ids": tokens(1, 4), "global_attention_mask": torch.ones(2, 4)},
            "global_attention_mask has shape",
        ),
    ],
)
def test_bad_inputs_are_named(inputs: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()(**inputs)


def test_a_checkpoint_of_the_original_repository_loads(tmp_path: Path) -> None:
    import json

    from safetensors.torch import save_file

    model = build(longspan.LongformerForMaskedLM)
    state = {k.replace("longformer.", "roberta.", 1): v.clone() for k, v in model.state_dict().items()}
    for tied in ("lm_head.decoder.weight", "lm_head.decoder.bias"):
        del state[tied]
    save_file(state, tmp_path / "model.safetensors", metadata={"format": "pt"})
    fields = model.config.to_dict() | {
        "model_type": "roberta",
        "attention_window": [4, 4, 4],
        "attention_dilation": [1, 1, 1],
        "attention_mode": "sliding_chunks",
        "autoregressive": False,
    }
    (tmp_path / "config.json").write_text(json.dumps(fields))
    again = longspan.LongformerForMaskedLM.from_pretrained(tmp_path).eval()
    assert isinstance(again.config, LongformerConfig) and again.config.attention_window == [8, 8, 8]
    again.save_pretrained(tmp_path / "again")
    saved = transformers.LongformerForMaskedLM.from_pretrained(tmp_path / "again").eval()
    ids = tokens(1, 20)
    with torch.no_grad():
        torch.testing.assert_close(again(ids).logits, model(ids).logits, atol=0, rtol=0)
        torch.testing.assert_close(saved(ids).logits, model(ids).logits, atol=1e-5, rtol=1e-5)


def test_few_and_many_globals_give_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hidden states scored directly, against projected keys and values."""
    from longspan.nn import global_rows

    model = build()
    ids, mask = tokens(2, 30), padding([30, 22])
    globals_ = marks(2, 30, (0, 0), (0, 11), (1, 5))
    results: list[Tensor] = []
    for absorbed in (True, False):
        monkeypatch.setattr(global_rows, "_is_cheaper_absorbed", lambda *_, absorbed=absorbed: absorbed)
        out = model(ids, attention_mask=mask, global_attention_mask=globals_)[0]
        model.zero_grad()
        out.square().sum().backward()
        results += [out.detach(), *(p.grad.clone() for p in model.encoder.parameters())]
    half = len(results) // 2
    for a, b in zip(results[:half], results[half:], strict=True):
        torch.testing.assert_close(a, b, atol=1e-3, rtol=1e-4)


def test_adapters_on_global_projections_are_not_bypassed() -> None:
    class Doubled(torch.nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            return 2 * super().forward(input)

    model = build()
    ids, mask = tokens(1, 20), marks(1, 20, (0, 0))
    with torch.no_grad():
        before = model(ids, global_attention_mask=mask)[0]
        for layer in model.encoder.layer:
            layer.attention.self.value_global.__class__ = Doubled
        assert not torch.allclose(model(ids, global_attention_mask=mask)[0], before, atol=1e-3)
