"""Transformer-XL: segments with a memory are one long text, and distances alone count."""

from typing import Any, cast

import pytest
import torch
from torch import Tensor

from longspan import LongRangeForCausalLM
from longspan.models.long_range_layer import LongRangeLayer
from longspan.nn.memory import Memory
from longspan.nn.sinusoids import sinusoids
from tests.models.relatives import EXACT, causal_lm, logits, tokens

XL: dict[str, Any] = {"memory": "xl", "positions": "relative", "segment_length": 6, "memory_length": 12}


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("positions", ["relative", "learned", "rotary", "infused", "none"])
def test_unlimited_memory_is_full_attention(norm: str, positions: str) -> None:
    ids = tokens(2, 40)
    whole = causal_lm("full", positions=positions, norm=norm)
    pieces = causal_lm("full", **XL | {"memory_length": 100, "positions": positions, "norm": norm})
    torch.testing.assert_close(logits(pieces, ids), logits(whole, ids), **EXACT)
    # Segments of any length, and a memory that the caller carries.
    memory: Memory | None = None
    said: list[Tensor] = []
    for piece in ids.split([3, 17, 1, 19], 1):
        with torch.no_grad():
            read = pieces.model(piece, memory=memory, use_cache=False)
            said.append(pieces.lm_head(read.last_hidden_state))
        memory = read.memory
    assert memory is not None and memory.seen == 40
    torch.testing.assert_close(torch.cat(said, 1), logits(whole, ids), **EXACT)


def test_scores_are_the_papers() -> None:
    """Section 3.3, term by term, with the distances written out."""
    model = causal_lm("full", **XL, num_hidden_layers=1)
    layer = cast(LongRangeLayer, model.model.layers[0])
    attention, biases = layer.attention, model.model.relative_biases
    assert attention.key is not None and attention.position is not None and biases is not None
    memory, x = (torch.randn(1, n, 32, dtype=torch.float64) for n in (5, 4))
    both = torch.cat([memory, x], 1)
    q, k, v = attention.query(x), attention.key(both), attention.value(both)
    out = torch.zeros(1, 4, 32, dtype=torch.float64)
    for head in range(4):
        part = slice(8 * head, 8 * head + 8)
        for i in range(4):
            scores: list[Tensor] = []
            for j in range(5 + i + 1):
                r = attention.position(sinusoids(torch.tensor(5 + i - j), 32).double())[part]
                content = (q[0, i, part] + biases.content[head, 0]) @ k[0, j, part]
                position = (q[0, i, part] + biases.position[head, 0]) @ r
                scores.append((content + position) / 8**0.5)
            out[0, i, part] = torch.stack(scores).softmax(0) @ v[0, : 5 + i + 1, part]
    reading = model.model._reading(seen=0, is_padding=None, is_global=None, losses={})
    torch.testing.assert_close(attention(x, reading, earlier=memory), attention.output(out), **EXACT)


def test_biases_serve_all_layers() -> None:
    names = [name for name, _ in causal_lm("full", **XL).named_parameters() if "biases" in name]
    assert names == ["model.relative_biases.content", "model.relative_biases.position"]


def test_memory_keeps_the_last_states_without_gradient() -> None:
    model, ids = causal_lm("full", **XL), tokens(2, 20)
    read = model.model(ids, output_hidden_states=True)
    assert [tuple(one.recent.shape) for one in read.memory.layers] == [(2, 12, 32)] * 3
    for one, state in zip(read.memory.layers, read.hidden_states, strict=False):
        assert not one.recent.requires_grad
        assert torch.equal(one.recent, state[:, -12:])


def test_gradients_stop_at_the_segment_and_values_do_not() -> None:
    model, ids = causal_lm("full", **XL), tokens(1, 12)
    embeddings = model.get_input_embeddings()(ids).detach().requires_grad_()
    model(inputs_embeds=embeddings).logits[0, -1].sum().backward()
    assert embeddings.grad is not None
    assert embeddings.grad[0, :6].abs().sum() == 0 and embeddings.grad[0, 6:].abs().sum() > 0
    other = ids.clone()
    other[0, 0] = (other[0, 0] + 1) % 64
    assert not torch.equal(logits(model, ids)[0, -1], logits(model, other)[0, -1])


def reach(model: LongRangeForCausalLM, length: int) -> int:
    """How far back a token can be whose change is felt by the last one."""
    ids = tokens(1, length)
    base = logits(model, ids)[0, -1]
    for at in range(length):
        other = ids.clone()
        other[0, at] = (other[0, at] + 1) % 64
        if not torch.equal(logits(model, other)[0, -1], base):
            return length - 1 - at
    return 0


def test_receptive_field_grows_with_layers() -> None:
    # A token at the end of a segment sees its segment's 5 before it, and the memory before that in each
    # layer.
    for layers in (1, 2, 3):
        model = causal_lm("full", **XL | {"memory_length": 6}, num_hidden_layers=layers)
        assert reach(model, 36) == 5 + 6 * layers


def test_same_length_does_not_depend_on_segments() -> None:
    ids = tokens(1, 40)
    said = [
        logits(causal_lm("full", **XL | {"segment_length": size, "same_length": True}), ids)
        for size in (1, 5, 12, 40)
    ]
    for one in said[1:]:
        torch.testing.assert_close(one, said[0], **EXACT)
    # It is a window that sees as far, the oldest slot of the memory included.
    window = causal_lm("window", positions="relative", attention_settings={"window": 12})
    torch.testing.assert_close(said[0], logits(window, ids), **EXACT)


def test_memory_is_longer_at_evaluation() -> None:
    ids = tokens(1, 40)
    changes: dict[str, Any] = {"segment_length": 4, "memory_length": 30, "clamp_distance": 7}
    model = causal_lm("full", **XL, evaluation_memory=changes)
    assert model.model(ids).memory.layers[0].recent.shape[1] == 30
    assert model.train().model(ids).memory.layers[0].recent.shape[1] == 12
    alone = causal_lm("full", **XL | changes)
    assert torch.equal(logits(model.eval(), ids), logits(alone, ids))
    far = causal_lm("full", **XL | changes | {"clamp_distance": None})
    assert not torch.equal(logits(alone, ids), logits(far, ids))


def test_clamped_distances_count_as_the_farthest() -> None:
    model = causal_lm("full", **XL | {"clamp_distance": 3}, num_hidden_layers=1)
    attention = cast(LongRangeLayer, model.model.layers[0]).attention
    reading = model.model._reading(seen=0, is_padding=None, is_global=None, losses={})
    q = torch.randn(1, 4, 9, 8, dtype=torch.float64)
    _, terms = attention._relative(q, 9, reading)
    assert terms is not None and terms.keys.shape == (4, 7, 8)


def test_padding_is_refused() -> None:
    ids = tokens(1, 8)
    mask = torch.ones_like(ids)
    mask[0, 5:] = 0
    with pytest.raises(ValueError, match="attention_mask has zeros, and a memory keeps what it was given"):
        logits(causal_lm("full", **XL), ids, attention_mask=mask)


def test_a_caller_carries_the_memory_through_the_language_model() -> None:
    model, ids = causal_lm("full", **XL), tokens(2, 30)
    with torch.no_grad():
        first = model(ids[:, :18])
        then = model(ids[:, 18:], memory=first.memory)
    assert first.memory.seen == 18 and then.memory.seen == 30
    assert torch.equal(then.logits, logits(model, ids)[:, 18:])


def test_foreign_memories_are_named() -> None:
    model, ids = causal_lm("full", **XL), tokens(2, 8)
    memory = model.model(ids, use_cache=False).memory
    with pytest.raises(
        ValueError, match=r"with \(batch, hidden_size\) in \[\(2, 32\)\]; it must have 3 with \(1,"
    ):
        model(ids[:1], memory=memory)
    with pytest.raises(ValueError, match="memory has 3 layers"):
        causal_lm("full", **XL, num_hidden_layers=2)(ids, memory=memory)
    with pytest.raises(ValueError, match="config.memory is 'none'"):
        causal_lm("full", positions="relative")(ids, memory=memory)
    used: dict[str, Any] = {"memory": "compressive", "compression": "most-used", "compression_loss": "none"}
    with pytest.raises(ValueError, match="only 'most-used' counts usage"):
        causal_lm("full", **XL | used)(ids, memory=memory)


@pytest.mark.parametrize("length", [1, 5, 6, 7, 13])
def test_prompts_of_any_length_are_gone_on_with(length: int) -> None:
    model, written = causal_lm("full", **XL, same_length=True), tokens(2, length)
    with torch.no_grad():
        said = cast(Any, model).generate(written, max_new_tokens=8, do_sample=False)
    for _ in range(8):
        written = torch.cat([written, logits(model, written, use_cache=False)[:, -1:].argmax(-1)], 1)
    assert torch.equal(said, written)


def test_generates_with_its_memory() -> None:
    model, ids = causal_lm("full", **XL | {"memory_length": 64}), tokens(2, 7)
    with torch.no_grad():
        written = cast(Any, model).generate(ids, max_new_tokens=6, num_beams=2, do_sample=False)
    whole = causal_lm("full", positions="relative")
    with torch.no_grad():
        expected = cast(Any, whole).generate(ids, max_new_tokens=6, num_beams=2, do_sample=False)
    assert torch.equal(written, expected)
