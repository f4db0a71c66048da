"""Funnel: as written out, shorter by half with every block, whatever the length and the padding."""

from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForMaskedLM, AutoModelForSequenceClassification

from longspan import LongRangeForCausalLM, LongRangeForMaskedLM, LongRangeForSequenceClassification
from longspan.models.long_range import LongRangeModel
from longspan.models.long_range_layer import LongRangeLayer
from longspan.nn.pooling import Pooling
from longspan.nn.sinusoids import sinusoids
from tests.models.relatives import EXACT, config, encoder, logits, tokens

BLOCKS: dict[str, Any] = {"num_hidden_layers": 4, "block_sizes": [2, 1, 1], "decoder_layers": 2}
KINDS = ["full", "window", "performer"]
LENGTHS = [1, 2, 3, 5, 17, 40]


def states(model: Any, ids: Tensor, **inputs: Any) -> tuple[Tensor, ...]:
    with torch.no_grad():
        return model(ids, output_hidden_states=True, **inputs).hidden_states


def attention(layer: LongRangeLayer, model: LongRangeModel, q: Tensor, x: Tensor, at: Any) -> Tensor:
    """Full attention of states at some positions to others, written out."""
    own, (from_, to) = layer.attention, at
    split = lambda y: y.unflatten(2, (own.heads, -1)).transpose(1, 2)  # noqa: E731
    query, key, value = split(own.query(q)), split(cast(Any, own.key)(x)), split(own.value(x))
    scores = query @ key.transpose(2, 3)
    if own.position is not None:
        assert model.relative_biases is not None
        waves = sinusoids(from_[:, None] - to, x.shape[2]).double()
        table = own.position(waves).unflatten(2, (own.heads, -1))  # [queries, keys, heads, head_dim]
        content, position = model.relative_biases.content, model.relative_biases.position
        scores = (query + content) @ key.transpose(2, 3)
        scores = scores + torch.einsum("bhqd,qkhd->bhqk", query + position, table)
    read = (scores / query.shape[3] ** 0.5).softmax(3) @ value
    return own.output(read.transpose(1, 2).flatten(2))


def written_out(model: LongRangeModel, ids: Tensor) -> Tensor:
    """The whole model, block by block, without pooling's own functions."""
    x, separate = model.embeddings(ids), model.config.separate_cls
    stride, first_block, layers = 1, x, [cast(LongRangeLayer, layer) for layer in model.layers]
    assert model.config.block_sizes is not None

    def run(layer: LongRangeLayer, x: Tensor, added_to: Tensor, at: Any) -> Tensor:
        queries, keys = layer.attention_norm(added_to), layer.attention_norm(x)
        y = added_to + attention(layer, model, queries, keys, at)
        return y + layer.feed_forward(y)

    for block, size in enumerate(model.config.block_sizes):
        for at in range(size):
            layer, place = layers.pop(0), torch.arange(x.shape[1]) * stride
            if block and not at:
                pairs = list(range(1, x.shape[1], 2)) if separate else list(range(0, x.shape[1], 2))
                pooled = [x[:, begin : begin + 2].mean(1) for begin in pairs]
                pairs, pooled = ([0, *pairs], [x[:, 0], *pooled]) if separate else (pairs, pooled)
                x = run(layer, x, torch.stack(pooled, 1), (torch.tensor(pairs) * stride, place))
                stride *= 2
            else:
                x = run(layer, x, x, (place, place))
        first_block = x if block == 0 else first_block
    if len(model.decoder):
        back = [
            x[:, 0 if not token else 1 + (token - 1) // stride] if separate else x[:, token // stride]
            for token in range(ids.shape[1])
        ]
        x, place = torch.stack(back, 1) + first_block, torch.arange(ids.shape[1])
        for layer in model.decoder:
            x = run(cast(LongRangeLayer, layer), x, x, (place, place))
    return cast(Any, model.norm)(x)


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("positions", ["none", "relative"])
@pytest.mark.parametrize("length", LENGTHS)
def test_is_what_is_written_out(length: int, positions: str, separate: bool) -> None:
    model = encoder("full", positions=positions, separate_cls=separate, **BLOCKS).model
    ids = tokens(2, length)
    said, expected = model(ids).last_hidden_state, written_out(model, ids)
    torch.testing.assert_close(said, expected, atol=1e-10, rtol=1e-8)
    weights = torch.randn_like(said)
    inputs = [one for one in model.parameters() if one.requires_grad]
    grads = [
        torch.autograd.grad((out * weights).sum(), inputs, allow_unused=True, materialize_grads=True)
        for out in (said, expected)
    ]
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other, atol=1e-9, rtol=1e-7)


@pytest.mark.parametrize("name", KINDS)
def test_without_pooling_is_the_plain_encoder(name: str) -> None:
    ids = tokens(2, 30)
    assert torch.equal(logits(encoder(name), ids), logits(encoder(name, block_sizes=[3]), ids))


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("length", LENGTHS)
def test_length_halves_with_every_block(length: int, separate: bool) -> None:
    fields = BLOCKS | {"decoder_layers": 0, "separate_cls": separate}
    model = LongRangeModel(config("full", **fields)).eval()
    lengths = [length]
    for _ in range(2):
        rest = lengths[-1] - separate
        lengths.append(separate + (rest + 1) // 2)
    found = [one.shape[1] for one in states(model, tokens(2, length))]
    assert found == [lengths[0]] * 3 + lengths[1:]


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize(
    ("name", "positions"),
    [("full", "relative"), ("window", "relative"), ("window", "rotary"), ("performer", "infused")],
)
def test_padding_changes_nothing(name: str, positions: str, separate: bool) -> None:
    model = encoder(name, positions=positions, separate_cls=separate, **BLOCKS)
    for length in (30, 17, 1):
        ids = tokens(2, 40)
        mask, is_global = torch.ones_like(ids), torch.zeros_like(ids)
        mask[1, length:] = 0
        is_global[:, ::13] = int(model.config.has_globals)
        padded = logits(model, ids, attention_mask=mask, global_attention_mask=is_global * mask)
        alone = logits(model, ids[1:, :length], global_attention_mask=is_global[1:, :length])
        torch.testing.assert_close(padded[1:, :length], alone, **EXACT)


def test_classifier_reads_the_last_block() -> None:
    ids = tokens(2, 21)
    mask = torch.ones_like(ids)
    mask[1, 14:] = 0
    for pooling in ("first", "mean"):
        torch.manual_seed(0)
        model = LongRangeForSequenceClassification(config("full", pooling=pooling, **BLOCKS)).double().eval()
        assert not len(model.model.decoder)
        both = logits(model, ids, attention_mask=mask)
        torch.testing.assert_close(both[1:], logits(model, ids[1:, :14]), **EXACT)
        model.train()(ids, attention_mask=mask, labels=torch.tensor([0, 1])).loss.backward()
        assert all(one.grad is not None and one.grad.abs().sum() for one in model.parameters())


def test_a_global_token_sees_all_in_every_block() -> None:
    """Whatever changes far away reaches the first token in one layer, and the second of a pair too."""
    for position in (0, 2):
        torch.manual_seed(0)
        fields = BLOCKS | {"num_hidden_layers": 2, "block_sizes": [1, 1], "decoder_layers": 0}
        model = LongRangeModel(config("window", positions="none", **fields)).double().eval()
        ids, is_global = tokens(1, 40), torch.zeros(1, 40)
        is_global[:, position] = 1
        other = ids.clone()
        other[:, 39] = (other[:, 39] + 1) % 64
        one, two = (states(model, x, global_attention_mask=is_global)[-1] for x in (ids, other))
        assert (one != two)[0, (position + 1) // 2].any()


def test_every_parameter_is_trained_and_checkpointing_changes_no_gradient() -> None:
    ids = tokens(2, 37)
    grads: list[list[Tensor]] = []
    for checkpointing in (False, True):
        model = encoder("full", positions="relative", **BLOCKS).train()
        if checkpointing:
            model.gradient_checkpointing_enable()
        model(ids, labels=ids).loss.backward()
        assert all(one.grad is not None and one.grad.abs().sum() for one in model.parameters())
        grads.append([cast(Tensor, one.grad) for one in model.parameters()])
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other, **EXACT)


def test_is_saved_and_found(tmp_path: Path) -> None:
    model, ids = encoder("full", positions="relative", **BLOCKS).float(), tokens(2, 20)
    model.save_pretrained(tmp_path)
    for kind in (LongRangeForMaskedLM, AutoModelForMaskedLM):
        again = kind.from_pretrained(tmp_path)
        assert again.config.block_sizes == [2, 1, 1]
        assert torch.equal(logits(again, ids), logits(model, ids))
    classifier, told = AutoModelForSequenceClassification.from_pretrained(tmp_path, output_loading_info=True)
    assert not told["unexpected_keys"] or all("lm_head" in key for key in told["unexpected_keys"])
    inner = model.model(ids, output_hidden_states=True).hidden_states
    assert torch.equal(states(classifier.model, ids)[3], inner[3])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"block_sizes": [2, 2]}, r"block_sizes is \[2, 2\]; it must add up to num_hidden_layers = 3"),
        ({"block_sizes": [3, 0]}, "of at least one layer each"),
        ({"block_sizes": []}, "at least one block"),
        ({"decoder_layers": 2}, "decoder_layers is 2; it must be 0 without block_sizes"),
        ({"decoder_layers": -1}, "decoder_layers is -1; it must be at least 0"),
        ({"block_sizes": [2, 1], "reversible": True}, "layers of one length"),
    ],
)
def test_mistakes_are_named(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        config("full", **fields)


def test_what_it_cannot_do_is_refused() -> None:
    fields: dict[str, Any] = {"block_sizes": [2, 1]}
    with pytest.raises(ValueError, match="with is_decoder True, where a pair would see"):
        LongRangeForCausalLM(config("full", **fields))
    with pytest.raises(ValueError, match="needs decoder_layers of at least 1"):
        LongRangeForMaskedLM(config("full", **fields))
    for name in ("bigbird", "linformer", "reformer", "bp"):
        with pytest.raises(ValueError, match=rf"block_sizes is \[2, 1\], which attention '{name}' cannot"):
            config(name, **fields)
    model, mask = encoder("full", decoder_layers=1, **fields), torch.ones(1, 8)
    mask[:, 0] = 0
    with pytest.raises(ValueError, match="zeros before ones"):
        logits(model, tokens(1, 8), attention_mask=mask)


def test_pooling_is_in_the_configuration() -> None:
    assert config("full", block_sizes=[2, 1], separate_cls=False).pooling_between == Pooling(False)
