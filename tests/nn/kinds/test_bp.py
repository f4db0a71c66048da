"""BP-Transformer: as its dense mask says, spans that cover every token once, at any length and padding."""

from typing import Any

import pytest
import torch
from torch import Tensor

from longspan.nn.kinds.bp import BP, BPSettings, level_sizes
from longspan.nn.kinds.kind import Call, LayerShape
from tests.nn.kinds.dense import layer_shape

EXACT: dict[str, Any] = {"atol": 1e-12, "rtol": 1e-9}
LENGTHS = [1, 2, 3, 4, 5, 8, 17, 31, 50]


def bp(*, nodes: int = 2, clip: int = 2, shape: LayerShape | None = None) -> BP:
    torch.manual_seed(0)
    return BP(shape or layer_shape(causal=False), BPSettings(nodes=nodes, clip=clip)).double()


def states(length: int, batch: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values of tokens and spans."""
    generator = torch.Generator().manual_seed(length)
    size = (3, batch, 4, length + BP.extra_states(length), 8)
    q, k, v = torch.randn(size, dtype=torch.float64, generator=generator)
    return q, k, v


def edges(length: int, *, nodes: int, clip: int, causal: bool) -> Tensor:
    """[states, states]: the kind of the edge between each two, -1 for none; walked along, token by token."""
    sizes = level_sizes(length)
    begins = [sum(sizes[:level]) for level in range(len(sizes))]
    kinds = torch.full((sum(sizes), sum(sizes)), -1)
    for i in range(length):
        kinds[i, i] = 0
        for level in range(1, len(sizes)):
            kinds[begins[level] + (i >> level), i] = (2 * nodes + 1) * min(level, clip)
        left, right = i, i + 1  # what lies before the one, and from the other on, is still to be covered
        for level in range(len(sizes)):
            for slot in range(nodes):
                kind = (2 * nodes + 1) * min(level, clip) + 2 * slot
                if left > 0:
                    # Where a span of this level would overlap with what is covered, its half does not.
                    fits = level if left % 2**level == 0 else level - 1
                    left -= 2**fits
                    kinds[i, begins[fits] + (left >> fits)] = kind + 1
                if right < length and not causal:
                    fits = level if right % 2**level == 0 else level - 1
                    kinds[i, begins[fits] + (right >> fits)] = kind + 2
                    right += 2**fits
        assert left == 0 and (causal or right >= length)
    return kinds


def dense(kind: BP, q: Tensor, k: Tensor, v: Tensor, kinds: Tensor) -> Tensor:
    added = kind.edges.weight[kinds.clamp_min(0)]  # [states, states, D]
    scores = q @ k.transpose(-1, -2) + torch.einsum("bhnd,nmd->bhnm", q, added)
    scores = torch.where(kinds >= 0, scores / q.shape[3] ** 0.5, -torch.inf)
    return scores.softmax(-1) @ v


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("nodes", [1, 2, 3, 64])
@pytest.mark.parametrize("length", LENGTHS)
def test_is_its_dense_mask(length: int, nodes: int, causal: bool) -> None:
    kind = bp(nodes=nodes)
    q, k, v = (x.requires_grad_() for x in states(length))
    call = Call(causal=causal, extra=BP.extra_states(length))
    said = kind(q, k, v, call)
    expected = dense(kind, q, k, v, edges(length, nodes=nodes, clip=2, causal=causal))
    torch.testing.assert_close(said, expected, **EXACT)
    weights, inputs = torch.randn_like(said), (q, k, v, kind.edges.weight)
    grads = [torch.autograd.grad((out * weights).sum(), inputs) for out in (said, expected)]
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other, **EXACT)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("nodes", [1, 2, 5])
@pytest.mark.parametrize("length", LENGTHS)
def test_spans_partition_what_is_seen(length: int, nodes: int, causal: bool) -> None:
    shape = LayerShape(heads=1, head_dim=length, causal=causal, max_length=length)
    kind = bp(nodes=nodes, shape=shape)
    # Every span has a column for each token in it; without queries all that is seen counts the same.
    token = torch.arange(length)
    spans = [token >> level == torch.arange(size)[:, None] for level, size in enumerate(level_sizes(length))]
    v = torch.cat(spans).double()[None, None]
    q = torch.zeros_like(v)
    covered = kind(q, q, v, Call(causal=causal, extra=BP.extra_states(length)))[0, 0, :length]
    expected = torch.ones(length, length).tril() if causal else torch.ones(length, length)
    torch.testing.assert_close(covered / covered.diagonal()[:, None], expected.double(), **EXACT)


def test_edges_are_few() -> None:
    for length in (256, 4096):
        kind = bp(nodes=4)
        count = 1 + 4 * len(kind.sides(length, causal=False))
        assert count <= 1 + 2 * 4 * ((length // 4).bit_length() + 1)


@pytest.mark.parametrize("lengths", [(40, 22), (33, 1), (17, 16), (5, 4)])
def test_padding_changes_nothing(lengths: tuple[int, int]) -> None:
    kind, most = bp(), max(lengths)
    q, k, v = states(most)
    is_padding = torch.arange(most) >= torch.tensor(lengths)[:, None]
    padded = kind(q, k, v, Call(extra=BP.extra_states(most), is_padding=is_padding))
    for row, length in enumerate(lengths):
        # Of every level the spans that the shorter text has.
        kept = torch.cat(
            [
                torch.arange(size) + sum(level_sizes(most)[:level])
                for level, size in enumerate(level_sizes(length))
            ]
        )
        own = (x[row : row + 1, :, kept] for x in (q, k, v))
        alone = kind(*own, Call(extra=BP.extra_states(length)))
        torch.testing.assert_close(padded[row : row + 1, :, kept], alone, **EXACT)
        assert (padded[row, :, length:most] == 0).all()


def test_the_future_changes_nothing() -> None:
    kind, (q, k, v) = bp(nodes=3), states(50)
    call = Call(causal=True, extra=BP.extra_states(50))
    before = kind(q, k, v, call)
    for at in (1, 20, 31, 49):
        # All that has something of the tokens from here on: they themselves, and spans that end after here.
        later = torch.cat(
            [((torch.arange(size) + 1) << level) > at for level, size in enumerate(level_sizes(50))]
        )
        changed = [torch.where(later[:, None], x + 1.7, x) for x in (q, k, v)]
        after = kind(*changed, call)
        assert torch.equal(after[:, :, ~later], before[:, :, ~later])
        assert not torch.equal(after[:, :, at], before[:, :, at])


def test_levels() -> None:
    assert [level_sizes(length) for length in (1, 2, 3, 5, 8, 17)] == [
        [1],
        [2],
        [3, 2],
        [5, 3, 2],
        [8, 4, 2],
        [17, 9, 5, 3, 2],
    ]


@pytest.mark.parametrize(("field", "value"), [("nodes", 0), ("clip", -1)])
def test_mistakes_are_named(field: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"{field} is {value}; it must be at least"):
        BPSettings(**{field: value})
