"""Shortformer's position-infused attention: positions in queries and keys alone, so that states can be
kept."""

import torch

from longspan.models.long_range_layer import LongRangeLayer
from longspan.nn.sinusoids import sinusoids
from tests.models.relatives import EXACT, causal_lm, logits, tokens
from tests.nn.kinds.dense import dense_attention


def test_two_segments_with_a_cache_are_one_pass() -> None:
    ids = tokens(2, 24)
    cached = causal_lm("full", memory="xl", positions="infused", segment_length=12, memory_length=12)
    once = causal_lm("full", positions="infused")
    torch.testing.assert_close(logits(cached, ids), logits(once, ids), **EXACT)


def test_values_have_no_positions() -> None:
    """Section 5: q = (x + p) W_q, k = (y + p) W_k, v = y W_v, the cache at positions 0 .. L - 1."""
    model = causal_lm("full", memory="xl", positions="infused", num_hidden_layers=1)
    layer = model.model.layers[0]
    assert isinstance(layer, LongRangeLayer) and layer.attention.key is not None
    attention = layer.attention
    memory, x = (torch.randn(1, n, 32, dtype=torch.float64) for n in (5, 4))
    both = torch.cat([memory, x], 1)
    p = sinusoids(torch.arange(9), 32).double()
    heads = [
        t.unflatten(-1, (4, 8)).transpose(1, 2)
        for t in (attention.query(x + p[5:]), layer.attention.key(both + p), attention.value(both))
    ]
    seen = torch.ones(4, 9, dtype=torch.bool).tril(5)
    expected = attention.output(
        dense_attention(heads[0], heads[1], heads[2], seen).transpose(1, 2).flatten(2)
    )
    reading = model.model._reading(seen=0, is_padding=None, is_global=None, losses={})
    torch.testing.assert_close(attention(x, reading, earlier=memory), expected, **EXACT)


def test_embeddings_have_no_positions() -> None:
    model = causal_lm("full", positions="infused")
    states = model.model(tokens(1, 8).fill_(3), output_hidden_states=True, use_cache=False).hidden_states
    assert torch.equal(states[0][:, :1].expand_as(states[0]), states[0])
