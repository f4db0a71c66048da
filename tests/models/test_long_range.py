"""What all relatives share: no look ahead, padding that counts for nothing, caches, files, refusals."""

import dataclasses
import itertools
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForSequenceClassification

from longspan import (
    LongRangeConfig,
    LongRangeForCausalLM,
    LongRangeForMaskedLM,
    LongRangeForSequenceClassification,
)
from longspan.nn.kinds.registry import KINDS
from tests.models.relatives import (
    CAUSAL,
    ENCODERS,
    EXACT,
    SETTINGS,
    SIZES,
    STRICT,
    can,
    causal_lm,
    config,
    encoder,
    logits,
    tokens,
)

POSITIONS = ("none", "absolute", "relative", "learned", "rotary", "infused")


def test_every_kind_is_tested() -> None:
    assert set(SETTINGS) == set(KINDS)


def positions_of(name: str, *, causal: bool) -> list[str]:
    return [
        one
        for one in POSITIONS
        if (one == "none" or can(name, one, causal=causal)) and (causal or one != "learned")
    ]


STRIDED = [
    {"form": "strided", "stride": 3, "summary": 1, "parts": one} for one in ("heads", "layers", "merged")
]
CAUSAL_CASES = [(name, one) for name in CAUSAL for one in positions_of(name, causal=True)]
ENCODER_CASES = [(name, one) for name in ENCODERS for one in positions_of(name, causal=False)]


@pytest.mark.parametrize(("name", "positions"), [case for case in CAUSAL_CASES if case[0] in STRICT])
def test_future_changes_nothing(name: str, positions: str) -> None:
    model, ids = causal_lm(name, positions=positions), tokens(1, 40)
    other = ids.clone()
    other[:, 25:] = (other[:, 25:] + 1) % 64
    before, after = logits(model, ids), logits(model, other)
    assert torch.equal(before[:, :25], after[:, :25])
    assert not torch.equal(before[:, 25:], after[:, 25:])


@pytest.mark.parametrize(("name", "positions"), ENCODER_CASES)
def test_padding_changes_nothing(name: str, positions: str) -> None:
    model, ids = encoder(name, positions=positions), tokens(2, 40)
    mask = torch.ones_like(ids)
    mask[1, 29:] = 0
    padded = logits(model, ids, attention_mask=mask)
    torch.testing.assert_close(padded[:1], logits(model, ids[:1]), **EXACT)
    torch.testing.assert_close(padded[1:, :29], logits(model, ids[1:, :29]), **EXACT)
    noisy = torch.where(mask == 0, (ids + 7) % 64, ids)
    torch.testing.assert_close(logits(model, noisy, attention_mask=mask)[1:, :29], padded[1:, :29], **EXACT)


@pytest.mark.parametrize(("name", "positions"), CAUSAL_CASES)
def test_padding_at_the_end_changes_nothing_before_it(name: str, positions: str) -> None:
    """Of the kinds that are not strictly causal, too."""
    model, ids = causal_lm(name, positions=positions), tokens(2, 40)
    mask = torch.ones_like(ids)
    mask[1, 29:] = 0
    padded = logits(model, ids, attention_mask=mask, use_cache=False)
    torch.testing.assert_close(padded[:1], logits(model, ids[:1], use_cache=False), **EXACT)
    torch.testing.assert_close(padded[1:, :29], logits(model, ids[1:, :29], use_cache=False), **EXACT)


@pytest.mark.parametrize(
    ("name", "causal"), [(name, True) for name in CAUSAL] + [(name, False) for name in ENCODERS]
)
def test_padding_changes_nothing_where_tokens_are_the_same(name: str, causal: bool) -> None:
    """Without positions they cannot be told apart: whatever a kind chooses among them must not depend on the
    length."""
    model: Any = (causal_lm if causal else encoder)(name, positions="none")
    for seed in range(6):
        ids = tokens(2, 40, seed) % 5
        mask = torch.ones_like(ids)
        mask[1, 29:] = 0
        padded = logits(model, ids, attention_mask=mask, use_cache=False)
        torch.testing.assert_close(padded[1:, :29], logits(model, ids[1:, :29], use_cache=False), **EXACT)


@pytest.mark.parametrize("name", ENCODERS)
def test_padding_changes_no_gradient(name: str) -> None:
    """A text that is nothing but padding, too."""
    ids, grads = tokens(3, 40), list[dict[str, torch.Tensor]]()
    mask = torch.ones_like(ids)
    mask[1, 29:], mask[2] = 0, 0
    for padded in (True, False):
        model = encoder(name, positions="none")
        if padded:
            losses = [model(ids, attention_mask=mask, labels=ids.masked_fill(mask == 0, -100)).loss * 69]
        else:
            losses = [
                model(ids[row : row + 1, :length], labels=ids[row : row + 1, :length]).loss * length
                for row, length in ((0, 40), (1, 29))
            ]
        torch.stack(losses).sum().backward()
        grads.append({key: one.grad for key, one in model.named_parameters() if one.grad is not None})
    assert grads[0].keys() == grads[1].keys()
    for key, one in grads[0].items():
        torch.testing.assert_close(one, grads[1][key], atol=1e-10, rtol=1e-8, msg=key)


@pytest.mark.parametrize(
    ("name", "causal"), [(name, True) for name in CAUSAL] + [(name, False) for name in ENCODERS]
)
def test_short_texts_and_half_precision_work(name: str, causal: bool) -> None:
    for length in (1, 2, 63, 64):
        model: Any = (causal_lm if causal else encoder)(name, positions="none").bfloat16().train()
        ids = tokens(1, length)
        said = model(ids)
        said.logits.float().square().mean().backward()
        assert said.logits.dtype == torch.bfloat16 and said.logits.isfinite().all()
        for key, one in model.named_parameters():
            assert one.grad is None or one.grad.isfinite().all(), key


@pytest.mark.parametrize(
    ("name", "positions"),
    [
        (name, positions)
        for name in STRICT
        for positions in ("none", "absolute", "rotary")
        if can(name, "padding", causal=True) and (positions == "none" or can(name, positions, causal=True))
    ],
)
def test_padding_that_is_not_last_is_ignored_or_refused(name: str, positions: str) -> None:
    model, ids = causal_lm(name, positions=positions), tokens(1, 20)
    mask = torch.ones_like(ids)
    mask[0, :4] = 0
    hole = torch.ones_like(ids)
    hole[0, 7:9] = 0
    counts = any(
        one.counts_from_start or (one.turns_matter and positions == "rotary") for one in model.model.kinds
    )
    for given in (mask, hole):
        if counts:
            with pytest.raises(ValueError, match="attention_mask has zeros before ones"):
                logits(model, ids, attention_mask=given)
            continue
        noisy = torch.where(given == 0, (ids + 7) % 64, ids)
        said = [logits(model, one, attention_mask=given)[given != 0] for one in (ids, noisy)]
        torch.testing.assert_close(said[0], said[1], **EXACT)
    if not counts:
        alone = logits(model, ids[:, 4:])
        # Angles are in fp32.
        close: dict[str, Any] = {"atol": 1e-5, "rtol": 1e-5} if positions == "rotary" else EXACT
        torch.testing.assert_close(logits(model, ids, attention_mask=mask)[:, 4:], alone, **close)


REMEMBERING = [
    (name, fields)
    for name in CAUSAL
    for fields in ([SETTINGS[name]] if name != "sparse" else STRIDED)
    if name == "sparse" or can(name, "cross-length", causal=True)
]


@pytest.mark.parametrize(("name", "fields"), REMEMBERING)
def test_segments_with_a_long_memory_are_the_whole(name: str, fields: dict[str, Any]) -> None:
    ids = tokens(2, 40)
    whole = causal_lm(name, attention_settings=fields, positions="rotary")
    pieces = causal_lm(
        name, attention_settings=fields, positions="rotary", memory="xl", segment_length=7, memory_length=64
    )
    torch.testing.assert_close(logits(pieces, ids), logits(whole, ids), **EXACT)


@pytest.mark.parametrize("length", [0, 1, 3, 9])
@pytest.mark.parametrize(("name", "fields"), REMEMBERING)
def test_same_length_holds_or_is_refused(name: str, fields: dict[str, Any], length: int) -> None:
    ids = tokens(1, 40)
    made: dict[str, Any] = {
        "attention_settings": fields,
        "positions": "none",
        "memory": "xl",
        "memory_length": length,
        "same_length": True,
    }
    if name == "performer" or fields.get("parts") == "merged":
        with pytest.raises(ValueError, match=f"same_length is True, which attention '{name}' cannot"):
            causal_lm(name, **made)
        return
    said = [logits(causal_lm(name, **made, segment_length=size), ids) for size in (1, 4, 9)]
    for one in said[1:]:
        torch.testing.assert_close(one, said[0], **EXACT)


def test_global_tokens_are_refused_where_there_are_none() -> None:
    ids = tokens(1, 12)
    marks = torch.zeros_like(ids)
    for name in ENCODERS:
        assert logits(encoder(name), ids, global_attention_mask=marks).isfinite().all()
    marks[0, 3] = 1
    for name in CAUSAL:
        with pytest.raises(ValueError, match="has ones; a decoder has no global tokens"):
            logits(causal_lm(name, positions="none"), ids, global_attention_mask=marks)
    for name in ENCODERS:
        if KINDS[name].has_globals:
            assert not torch.equal(
                logits(encoder(name), ids, global_attention_mask=marks), logits(encoder(name), ids)
            )
            continue
        with pytest.raises(ValueError, match=f"attention '{name}' has no global tokens"):
            logits(encoder(name), ids, global_attention_mask=marks)


@pytest.mark.parametrize(
    ("name", "positions"), [case for case in CAUSAL_CASES if can(case[0], "cache", causal=True)]
)
@pytest.mark.parametrize("pieces", [[1] * 30, [7, 1, 1, 13, 8]])
def test_pieces_with_a_cache_are_the_whole(name: str, positions: str, pieces: list[int]) -> None:
    model, ids = causal_lm(name, positions=positions), tokens(2, 30)
    cache = model.model.new_cache()
    said = [logits(model, piece, past_key_values=cache) for piece in ids.split(pieces, 1)]
    assert cache.get_seq_length() == 30
    torch.testing.assert_close(torch.cat(said, 1), logits(model, ids, use_cache=False), **EXACT)


@pytest.mark.parametrize("name", [name for name in CAUSAL if not can(name, "cache", causal=True)])
def test_no_cache_is_refused_with_the_reason(name: str) -> None:
    model = causal_lm(name, positions="none")
    with pytest.raises(ValueError, match=f"use_cache is True, which attention '{name}' cannot"):
        logits(model, tokens(1, 8), use_cache=True)


@pytest.mark.parametrize("name", [name for name in CAUSAL if name not in STRICT])
def test_leaks_have_to_be_accepted(name: str) -> None:
    settings = {key: value for key, value in SETTINGS[name].items() if key != "accept_leak"}
    with pytest.raises(ValueError, match="depends on later tokens too, so it is not strictly causal"):
        causal_lm(name, attention_settings=settings, positions="none")


@pytest.mark.parametrize("name", CAUSAL)
def test_generates(name: str) -> None:
    model, ids = cast(Any, causal_lm(name, positions="none")), tokens(2, 5)
    with torch.no_grad():
        beams = model.generate(ids, max_new_tokens=4, num_beams=2, do_sample=False)
        greedy = model.generate(ids, max_new_tokens=4, do_sample=False)
    assert beams.shape == greedy.shape == (2, 9)
    written = ids
    for _ in range(4):
        written = torch.cat([written, logits(model, written, use_cache=False)[:, -1:].argmax(-1)], 1)
    assert torch.equal(greedy, written)


@pytest.mark.parametrize("positions", ["none", "absolute", "relative", "learned", "rotary"])
@pytest.mark.parametrize("name", ["full", "window", "performer"])
def test_texts_of_different_lengths_are_gone_on_with_as_alone(name: str, positions: str) -> None:
    if positions not in positions_of(name, causal=True) or (name, positions) == ("performer", "rotary"):
        return  # refused, and tested to be
    model, ids = cast(Any, causal_lm(name, positions=positions)), tokens(2, 20)
    mask = torch.ones_like(ids)
    mask[1, :6] = 0
    both = model.generate(ids, attention_mask=mask, max_new_tokens=6, do_sample=False)
    for row, first in ((0, 0), (1, 6)):
        one, real = ids[row : row + 1, first:], mask[row : row + 1, first:]
        alone = model.generate(one, attention_mask=real, max_new_tokens=6, do_sample=False)
        assert torch.equal(both[row : row + 1, first:], alone)


@pytest.mark.parametrize("name", CAUSAL)
def test_causal_models_are_saved_and_found(name: str, tmp_path: Path) -> None:
    model, ids = causal_lm(name, positions="none").float(), tokens(2, 20)
    model.save_pretrained(tmp_path)
    for kind in (LongRangeForCausalLM, AutoModelForCausalLM):
        again = kind.from_pretrained(tmp_path)
        assert type(again) is LongRangeForCausalLM
        for field in ("attention", "attention_settings", "is_decoder", "positions"):
            assert getattr(again.config, field) == getattr(model.config, field)
        assert torch.equal(logits(again, ids), logits(model, ids))


@pytest.mark.parametrize("name", ENCODERS)
def test_encoders_are_saved_and_found(name: str, tmp_path: Path) -> None:
    model, ids = encoder(name).float(), tokens(2, 20)
    model.save_pretrained(tmp_path)
    for kind in (LongRangeForMaskedLM, AutoModelForMaskedLM):
        assert torch.equal(logits(kind.from_pretrained(tmp_path), ids), logits(model, ids))
    classifier = AutoModelForSequenceClassification.from_pretrained(tmp_path, num_labels=3)
    assert type(classifier) is LongRangeForSequenceClassification
    assert logits(classifier, ids).shape == (2, 3)


@pytest.mark.parametrize(
    ("name", "causal"), [(name, True) for name in CAUSAL] + [(name, False) for name in ENCODERS]
)
def test_every_parameter_is_trained(name: str, causal: bool) -> None:
    model: Any = (causal_lm if causal else encoder)(name, positions="none").train()
    ids = tokens(2, 40)
    model(ids, labels=ids).loss.backward()
    without = [key for key, one in model.named_parameters() if one.grad is None or not one.grad.abs().sum()]
    assert not without


@pytest.mark.parametrize("name", CAUSAL)
def test_checkpointing_changes_no_gradient(name: str) -> None:
    ids = tokens(2, 40)
    grads: list[list[torch.Tensor]] = []
    for checkpointing in (False, True):
        model = causal_lm(name, positions="none").train()
        if checkpointing:
            model.gradient_checkpointing_enable()
        for _ in range(2):
            model.zero_grad()
            model(ids, labels=ids).loss.backward()
        grads.append([one.grad for one in model.parameters() if one.grad is not None])
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other, **EXACT)


@pytest.mark.parametrize("name", ["full", "window"])
def test_classifier_pools_what_is_there(name: str) -> None:
    ids = tokens(2, 12)
    for part in (slice(0, 7), slice(5, 12)):
        mask = torch.ones_like(ids)
        mask[1] = 0
        mask[1, part] = 1
        for pooling in ("first", "mean"):
            torch.manual_seed(0)
            model = LongRangeForSequenceClassification(config(name, pooling=pooling)).double().eval()
            both = logits(model, ids, attention_mask=mask)
            torch.testing.assert_close(both[1:], logits(model, ids[1:, part]), **EXACT)


SMALL: dict[str, Any] = {"hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 2}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"attention": "windows"}, "attention is 'windows'; it must be one of full, window"),
        ({"attention_settings": {"windw": 3}}, "did you mean window"),
        ({"attention_settings": {"window": 0}}, "attention_settings.window is 0; it must be at least 1"),
        ({"attention_settings": {"window": "6"}}, "attention_settings.window is '6'; it must be an integer"),
        ({"positions": "polar"}, "positions is 'polar'; it must be one of none, absolute"),
        ({"positions": "learned"}, "they need a decoder"),
        ({"memory": "xl"}, "with positions 'absolute'"),
        ({"memory": "xxl"}, "memory is 'xxl'; it must be one of none, xl, compressive"),
        ({"same_length": True}, "memory must not be 'none'"),
        ({"hidden_size": 30}, "it must be a multiple of num_attention_heads = 4"),
        ({"attention": ["bp", "full"]}, "'bp' keeps states beside the tokens through all layers"),
        (
            {"memory": "compressive", "positions": "relative", "compression": "mean"},
            "compression_loss is 'attention' with compression 'mean'; it must be none",
        ),
        (
            {"memory": "xl", "positions": "relative", "evaluation_memory": {"norm": "pre"}},
            "evaluation_memory.norm cannot be changed",
        ),
        (
            {"memory": "xl", "positions": "relative", "evaluation_memory": {"segment_length": 0}},
            "evaluation_memory.segment_length is 0; it must be at least 1",
        ),
        (
            {"memory": "xl", "positions": "relative", "evaluation_memory": {"memory_length": "9"}},
            "evaluation_memory.memory_length is '9'; it must be an integer",
        ),
        ({"clamp_distance": -1}, "clamp_distance is -1; it must be at least 0"),
        ({"clamp_distance": 5}, "clamp_distance is 5 with positions 'absolute'; it is about relative and"),
        ({"num_attention_heads": 0}, "num_attention_heads is 0; it must be at least 1"),
        ({"num_hidden_layers": 0}, "num_hidden_layers is 0; it must be at least 1"),
        ({"memory_length": -1}, "memory_length is -1; it must be at least 0"),
        ({"rotary_base": 0.0}, "rotary_base is 0.0; it must be above 0"),
        ({"attention_impl": "fast"}, "attention_impl is 'fast'; it must be one of auto, native"),
        (
            {"memory": "xl", "positions": "relative", "evaluation_memory": {"memory_length": -1}},
            "evaluation_memory.memory_length is -1; it must be at least 0",
        ),
        (
            {"evaluation_memory": {"same_length": True}},
            "evaluation_memory has same_length, which is",
        ),
    ],
)
def test_mistakes_are_named(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LongRangeConfig(**(SMALL | fields))


@pytest.mark.parametrize("name", list(KINDS))
def test_settings_of_a_wrong_type_are_named(name: str) -> None:
    fields = dataclasses.fields(KINDS[name].Settings)
    for field, value in itertools.product([one.name for one in fields], ("x", ["x"], {}, [True])):
        settings = SETTINGS[name] | {field: value}
        with pytest.raises(ValueError, match=rf"attention_settings\.{field} is .*; it must be"):
            config(name, attention_settings=settings, is_decoder=name in CAUSAL, positions="none")


def test_a_text_without_tokens_is_named() -> None:
    for name in SETTINGS:
        model: Any = (causal_lm if name in CAUSAL else encoder)(name, positions="none")
        with pytest.raises(ValueError, match=r"input_ids has shape \(2, 0\); it must have a token"):
            logits(model, tokens(2, 0))
        assert logits(model, tokens(0, 5)).shape == (0, 5, 64)


def test_too_long_is_named() -> None:
    with pytest.raises(ValueError, match="the input has 65 tokens; positions are 'absolute'"):
        logits(encoder("full"), tokens(1, 65))


def test_a_decoder_is_no_encoder() -> None:
    with pytest.raises(ValueError, match="needs an encoder"):
        LongRangeForMaskedLM(config("full", is_decoder=True))


def test_kinds_may_differ_by_layer() -> None:
    fields: dict[str, Any] = {
        **SMALL,
        "attention": ["window", "full"],
        "attention_settings": [{"window": 4}, {}],
    }
    mixed = LongRangeConfig(**fields)
    assert [mixed.kind(layer).name for layer in range(2)] == ["window", "full"]
    with pytest.raises(ValueError, match="attention has 1 items"):
        LongRangeConfig(**SMALL, attention=["window"])


@pytest.mark.parametrize("names", [("window", "performer"), ("sparse", "adaptive-span"), ("routing", "full")])
def test_different_kinds_work_together(names: tuple[str, str]) -> None:
    fields: dict[str, Any] = {
        "attention": list(names),
        "attention_settings": [SETTINGS[name] for name in names],
        "num_hidden_layers": 2,
        "positions": "none",
    }
    torch.manual_seed(0)
    model, ids = (
        LongRangeForCausalLM(LongRangeConfig(**SIZES | fields, is_decoder=True)).double(),
        tokens(2, 30),
    )
    whole = logits(model.eval(), ids, use_cache=False)
    if all(can(name, "cache", causal=True) for name in names):
        cache = model.model.new_cache()
        said = [logits(model, piece, past_key_values=cache) for piece in ids.split([7, 1, 22], 1)]
        torch.testing.assert_close(torch.cat(said, 1), whole, **EXACT)
    else:
        with pytest.raises(ValueError, match=f"use_cache is True, which attention '{names[0]}' cannot"):
            logits(model, ids, use_cache=True)
    model.train()(ids, labels=ids).loss.backward()
    assert all(one.grad is not None and one.grad.abs().sum() for one in model.parameters())
