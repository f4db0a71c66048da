"""The autoregressive Longformer: the future stays hidden, and a cache changes nothing but the cost."""

from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from longspan import LongformerCausalLMConfig, LongformerForCausalLM
from longspan.models.causal_lm_cache import LongformerCache
from longspan.models.causal_lm_config import growing_windows

SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "attention_window": [3, 4, 6],
    "attention_dilation": [1, [2, 2, 1, 1], [3, 3, 1, 1]],
    # The default scale would leave attention nearly uniform, and mistakes in it invisible.
    "initializer_range": 0.2,
}
SHAPES: dict[str, dict[str, Any]] = {
    "relative": {},
    "rotary": {"position_kind": "rotary"},
    "window of 1": {"attention_window": 1, "attention_dilation": 1},
    "rotary, window of 1": {"position_kind": "rotary", "attention_window": 1, "attention_dilation": 5},
    "blocked": {"attention_impl": "blocked"},
    "untied": {"tie_word_embeddings": False},
}


def tiny(seed: int = 0, **changes: Any) -> LongformerForCausalLM:
    torch.manual_seed(seed)
    return LongformerForCausalLM(LongformerCausalLMConfig(**(SIZES | changes))).eval()


def tokens(batch: int, length: int, seed: int = 0) -> Tensor:
    return torch.randint(256, (batch, length), generator=torch.Generator().manual_seed(seed))


def logits(model: LongformerForCausalLM, ids: Tensor, **inputs: Any) -> Tensor:
    with torch.no_grad():
        return cast(Tensor, model(ids, **inputs).logits)


@pytest.fixture(params=SHAPES, scope="module")
def model(request: pytest.FixtureRequest) -> LongformerForCausalLM:
    return tiny(**SHAPES[request.param])


@pytest.mark.parametrize("prompt", [1, 2, 7, 31])
def test_cached_is_uncached_at_every_step(model: LongformerForCausalLM, prompt: int) -> None:
    ids = tokens(2, 70)
    whole = logits(model, ids, use_cache=False)
    cache = LongformerCache(model.config)
    said = [logits(model, ids[:, :prompt], past_key_values=cache)]
    for at in range(prompt, 70):
        assert cache.get_seq_length() == at
        said.append(logits(model, ids[:, at : at + 1], past_key_values=cache))
    torch.testing.assert_close(torch.cat(said, 1), whole, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("pieces", [[1, 1, 40, 1, 2, 25], [20, 20, 30], [5] * 14])
def test_pieces_of_any_size_are_the_whole(model: LongformerForCausalLM, pieces: list[int]) -> None:
    ids = tokens(1, 70)
    cache = LongformerCache(model.config)
    said = [logits(model, piece, past_key_values=cache) for piece in ids.split(pieces, 1)]
    torch.testing.assert_close(torch.cat(said, 1), logits(model, ids, use_cache=False), atol=1e-5, rtol=1e-5)


def test_cache_keeps_no_more_than_its_windows_see() -> None:
    model = tiny()
    cache = LongformerCache(model.config)
    for piece in tokens(1, 400).split(1, 1):
        logits(model, piece, past_key_values=cache)
    assert [len(layer.window) for layer in cache.layers] == [3, 8, 18]
    for layer in cache.layers:
        assert layer.window._buffer is not None
        assert layer.window._buffer.shape[3] <= 2 * layer.window.reach + 1


def test_long_prompts_are_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("longspan.models.causal_lm_cache._LEAST_PIECE", 16)
    model, ids = tiny(), tokens(2, 100)
    mask = torch.ones_like(ids)
    mask[1, :30] = 0
    for given in (None, mask):
        whole = logits(model, ids, attention_mask=given, use_cache=False)
        for kept in (1, 3):
            last = logits(model, ids, attention_mask=given, logits_to_keep=kept)
            torch.testing.assert_close(last, whole[:, -kept:], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", ["relative", "rotary"])
def test_a_quarter_of_a_million_bytes(kind: str) -> None:
    model, ids = tiny(position_kind=kind), tokens(1, 262_144)
    cache = LongformerCache(model.config)
    last = logits(model, ids, past_key_values=cache, logits_to_keep=1)
    assert cache.get_seq_length() == 262_144
    assert sum(len(layer.window) for layer in cache.layers) == model.config.receptive_field
    # What is farther away than windows reach has no part in it, wherever the text began.
    field = ids[:, -(model.config.receptive_field + 1) :]
    torch.testing.assert_close(last, logits(model, field, logits_to_keep=1), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", ["relative", "rotary"])
def test_half_precision(kind: str) -> None:
    model, ids = tiny(position_kind=kind), tokens(2, 60)
    exact = logits(model, ids)
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(ids, labels=ids).loss
        loss.backward()
        near = logits(model, ids)
    half = model.bfloat16()
    cache = LongformerCache(half.config)
    steps = torch.cat([logits(half, one, past_key_values=cache) for one in ids.split(1, 1)], 1)
    scale = exact.abs().max()
    for other in (near, logits(half, ids), steps):
        assert float((other.float() - exact).abs().max() / scale) < 0.05


def test_future_changes_nothing(model: LongformerForCausalLM) -> None:
    ids = tokens(1, 60)
    other = ids.clone()
    other[:, 40:] = (other[:, 40:] + 1) % 256
    before, after = logits(model, ids), logits(model, other)
    assert torch.equal(before[:, :40], after[:, :40])
    assert not torch.equal(before[:, 40:], after[:, 40:])


def test_padding_changes_nothing(model: LongformerForCausalLM) -> None:
    ids = tokens(1, 20)
    alone = logits(model, ids)
    left = torch.cat([tokens(1, 5, seed=1), ids], 1)
    mask = (torch.arange(25) >= 5).long()[None]
    torch.testing.assert_close(logits(model, left, attention_mask=mask)[:, 5:], alone, atol=1e-5, rtol=1e-5)
    right, mask = left.roll(-5, 1), mask.flip(1)
    torch.testing.assert_close(logits(model, right, attention_mask=mask)[:, :20], alone, atol=1e-5, rtol=1e-5)
    cache = LongformerCache(model.config)
    mask = (torch.arange(25) >= 5).long()[None]
    said = [
        logits(model, left[:, at : at + 1], attention_mask=mask[:, : at + 1], past_key_values=cache)
        for at in range(25)
    ]
    torch.testing.assert_close(torch.cat(said, 1)[:, 5:], alone, atol=1e-5, rtol=1e-5)


def test_receptive_field_is_what_the_configuration_says() -> None:
    model, ids = tiny(), tokens(1, 60)
    field = model.config.receptive_field
    assert field == 3 + 8 + 18
    embeddings = model.get_input_embeddings()(ids).detach().requires_grad_()
    cast(Tensor, model(inputs_embeds=embeddings).logits)[0, -1].sum().backward()
    assert embeddings.grad is not None
    seen = embeddings.grad[0].abs().sum(-1).nonzero()[:, 0]
    assert int(seen.min()) == 59 - field


def test_labels_are_shifted() -> None:
    model, ids = tiny(), tokens(2, 30)
    said = model(ids, labels=ids)
    expected = torch.nn.functional.cross_entropy(said.logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    torch.testing.assert_close(said.loss, expected)
    labels = ids.clone()
    labels[:, 10:] = -100
    expected = torch.nn.functional.cross_entropy(said.logits[:, :9].flatten(0, 1), ids[:, 1:10].flatten())
    torch.testing.assert_close(model(ids, labels=labels).loss, expected)


# The paper's vocabulary is that of Transformer-XL's enwik8, which has 204 symbols.
@pytest.mark.parametrize(
    ("name", "millions", "exactly"), [("char-lm-small", 41, 41_082_880), ("char-lm-large", 102, 102_507_520)]
)
def test_parameters_are_as_many_as_the_papers(name: str, millions: int, exactly: int) -> None:
    with torch.device("meta"):
        counts = [
            LongformerForCausalLM(LongformerCausalLMConfig.named(name, **changes)).num_parameters()
            for changes in ({"vocab_size": 204}, {})
        ]
    assert round(counts[0] / 1e6) == millions
    assert counts[1] == exactly


def test_names_have_the_papers_windows() -> None:
    config = LongformerCausalLMConfig.named("char-lm-small")
    assert [config.patterns(layer)[0].dilation for layer in range(12)] == [1] * 6 + [2, 2, 3, 3, 4, 4]
    assert [config.patterns(layer)[2].dilation for layer in range(12)] == [1] * 12
    assert config.attention_window == growing_windows(512, 8192, 12)
    assert growing_windows(32, 512, 5) == [32, 152, 272, 392, 512]
    assert growing_windows(8, 16, 1) == [8]


def test_windows_change_and_weights_stay() -> None:
    model, ids = tiny(), tokens(1, 40)
    before = logits(model, ids)
    model.model.set_windows([6, 8, 12])
    assert model.config.attention_window == [6, 8, 12]
    wider = tiny(attention_window=[6, 8, 12])
    torch.testing.assert_close(logits(model, ids), logits(wider, ids))
    with pytest.raises(ValueError, match="attention_window has 2 items"):
        model.model.set_windows([6, 8])
    model.model.set_windows([3, 4, 6])
    assert torch.equal(logits(model, ids), before)


@pytest.mark.parametrize("shape", ["relative", "rotary", "untied"])
def test_saved_and_loaded(shape: str, tmp_path: Path) -> None:
    model, ids = tiny(**SHAPES[shape]), tokens(1, 30)
    model.save_pretrained(tmp_path)
    for kind in (LongformerForCausalLM, AutoModelForCausalLM):
        loaded = kind.from_pretrained(tmp_path)
        assert isinstance(loaded, LongformerForCausalLM)
        assert loaded.config.attention_dilation == model.config.attention_dilation
        assert torch.equal(logits(loaded, ids), logits(model, ids))
        tied = loaded.lm_head.weight is loaded.model.embeddings.weight
        assert tied == (shape != "untied")


def test_gradients_are_those_of_the_reference_and_of_checkpointing() -> None:
    ids = tokens(2, 50)
    gradients: list[list[Tensor]] = []
    for impl, checkpointing in (("auto", False), ("auto", True), ("reference", False)):
        model = tiny(attention_impl=impl).train()
        if checkpointing:
            model.gradient_checkpointing_enable()
        model(ids, labels=ids).loss.backward()
        gradients.append([cast(Tensor, one.grad) for one in model.parameters()])
    for other in gradients[1:]:
        torch.testing.assert_close(gradients[0], other, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"attention_window": 0}, "attention_window is 0 in layer 0"),
        ({"attention_window": [3, 4]}, "attention_window has 2 items"),
        ({"attention_dilation": [1, 1, [2, 1]]}, "attention_dilation has 2 items in layer 2"),
        ({"position_kind": "learned"}, "position_kind is 'learned'"),
        ({"hidden_size": 30}, "hidden_size is 30"),
        ({"hidden_size": 12, "position_kind": "rotary"}, "rotary positions turn pairs"),
    ],
)
def test_wrong_configurations_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LongformerCausalLMConfig(**(SIZES | changes))


def test_wrong_calls_are_refused() -> None:
    model, ids = tiny(), tokens(1, 5)
    with pytest.raises(ValueError, match="within torch.no_grad"):
        model(ids, use_cache=True)
    with torch.no_grad():
        with pytest.raises(ValueError, match="must be a LongformerCache"):
            model(ids, past_key_values=cast(Any, object()))
        with pytest.raises(ValueError, match=r"attention_mask has shape \(1, 4\); it must be \(1, 5\)"):
            model(ids, attention_mask=torch.ones(1, 4))
        with pytest.raises(ValueError, match="neither was given"):
            model()
    with pytest.raises(ValueError, match="it must be one of char-lm-small"):
        LongformerCausalLMConfig.named("small")
