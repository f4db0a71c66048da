"""The rows of Longformer's global tokens: attention to everything, with projections of their own.

A few global tokens do not need the keys and values of every token. With x the hidden states,

    q . (W_k x + b_k)          = (W_k^T q) . x + q . b_k,
    sum_j p_j (W_v x_j + b_v)  = W_v (sum_j p_j x_j) + b_v sum_j p_j,

so the hidden states are scored and pooled as they are, and only the pooled vectors are projected.
That is less work while heads * globals < hidden size, about.
"""

from collections.abc import Iterator
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from longspan.attention.attend import Attention, Implementation, attend_global
from longspan.nn.dropout import dropout as drop
from longspan.nn.layout import Layout


class Projections(NamedTuple):
    """The projections of global tokens, each from hidden size to hidden size."""

    query: nn.Linear
    key: nn.Linear
    value: nn.Linear


class GlobalRows(NamedTuple):
    """Outputs of the global tokens, and what they looked at where that came along or was asked for."""

    rows: Tensor
    """[batch, heads, globals, head_dim]; 0 where an example has fewer globals than others."""
    probabilities: Tensor | None
    """[batch, heads, globals, length]."""


def attend_globally(
    x: Tensor,
    layout: Layout,
    projections: Projections,
    heads: int,
    *,
    causal: bool = False,
    dropout: float = 0.0,
    impl: Implementation = "auto",
    return_probabilities: bool = False,
) -> GlobalRows:
    """What the global tokens of ``layout`` read from all of ``x``.

    Args:
        x: [batch, length, hidden_size].
        layout: of the batch, with global positions.
        projections: of the global tokens.
        heads: number of heads.
        causal: hide the tokens after each global token.
        dropout: probability of dropping a pair.
        impl: the implementation of `attend_global`, for many globals.
        return_probabilities: also return who looked at whom.
    """
    positions = layout.global_positions
    assert positions is not None
    q = _queries(x, positions, projections.query, heads)
    plain = _is_plain(projections.key) and _is_plain(projections.value)
    if plain and (return_probabilities or _is_cheaper_absorbed(x, layout, heads)):
        with torch.autocast(x.device.type, enabled=False):
            parts = [_absorbed(part, projections, causal, dropout) for part in _parts(x, q, layout)]
        if len(parts) == 1:
            return parts[0]
        return GlobalRows(torch.cat([part.rows for part in parts], 2), None)
    attention = cast(
        Attention,
        attend_global(
            q,
            split_heads(projections.key(x), heads),
            split_heads(projections.value(x), heads),
            positions,
            causal=causal,
            is_padding=layout.is_padding,
            document_starts=layout.document_starts,
            dropout=dropout,
            return_lse=True,
            return_probabilities=return_probabilities,
            impl="auto" if return_probabilities else impl,
        ),
    )
    return GlobalRows(attention.out, attention.probabilities)


def global_shares(
    x: Tensor, layout: Layout, projections: Projections, heads: int, *, causal: bool = False
) -> Tensor:
    """How much of what the global tokens see each token is: for inspection, in linear memory.

    Args:
        x: [batch, length, hidden_size].
        layout: of the batch, with global positions; packed or padded.
        projections: of the global tokens, by their weights alone.
        heads: number of heads.
        causal: hide the tokens after each global token.

    Returns:
        [batch, length] fp32: the mean over heads and global tokens of the attention to a token. It sums to 1
        over an example, or over a document of a packed row, that has global tokens; otherwise it is 0.
    """
    positions = layout.global_positions
    assert positions is not None
    shares = x.new_zeros(x.shape[:2], dtype=torch.float32)
    q = _queries(x, positions, projections.query, heads)
    with torch.autocast(x.device.type, enabled=False):
        for part in _parts(x, q, layout):
            seen = _in_full(part.x)
            total = torch.zeros_like(shares[:, : seen.shape[1]])
            # One global token at a time: heads * length numbers, however many of them there are.
            for at in range(part.position.shape[1]):
                one = part._replace(q=part.q[:, :, at : at + 1], position=part.position[:, at : at + 1])
                total += _probabilities(one, seen, projections.key, causal).mean((1, 2))
            count = (part.position >= 0).sum(1, keepdim=True).clamp(min=1)
            shares[:, part.begin : part.begin + seen.shape[1]] = total / count
    return shares


def split_heads(x: Tensor, heads: int) -> Tensor:
    """[batch, length, hidden_size] -> [batch, heads, length, head_dim]."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def _queries(x: Tensor, positions: Tensor, project: nn.Linear, heads: int) -> Tensor:
    """[batch, heads, globals, head_dim]: of the tokens at ``positions``, [batch, globals]."""
    index = positions.clamp(min=0)[..., None].expand(-1, -1, x.shape[2])
    return split_heads(project(x.gather(1, index)), heads)


def _is_plain(projection: nn.Linear) -> bool:
    """Whether its weight is all that it does: no adapter, no quantisation, no hook that brings the weight."""
    hooked = projection._forward_hooks or projection._forward_pre_hooks or "forward" in vars(projection)
    return type(projection) is nn.Linear and type(projection.weight) is nn.Parameter and not hooked


def _is_cheaper_absorbed(x: Tensor, layout: Layout, heads: int) -> bool:
    """Whether scoring and pooling hidden states takes fewer operations than projecting them."""
    if torch.compiler.is_compiling():
        return True  # the number of globals is not known in a traced graph
    positions, starts = layout.global_positions, layout.document_starts
    assert positions is not None
    tokens, hidden = x.shape[1], x.shape[2]
    pairs = positions.shape[1] * tokens
    if starts is not None:
        lengths = starts.diff()
        pairs = int(lengths[_document_of(positions[0], starts)].sum())
    return pairs * heads * hidden <= tokens * hidden * hidden + pairs * hidden


def _document_of(position: Tensor, starts: Tensor) -> Tensor:
    return torch.bucketize(position, starts, right=True) - 1


class _Part(NamedTuple):
    """Hidden states and the global queries that read them: a batch, or one document of a packed row."""

    x: Tensor
    """[batch, length, hidden_size]."""
    q: Tensor
    """[batch, heads, globals, head_dim]."""
    position: Tensor
    """[batch, globals]; -1 for none."""
    is_padding: Tensor | None
    """[batch, length]."""
    begin: int = 0
    """Where the document begins in its row."""


def _parts(x: Tensor, q: Tensor, layout: Layout) -> Iterator[_Part]:
    positions, starts = layout.global_positions, layout.document_starts
    assert positions is not None
    if starts is None or positions.shape[1] == 0:
        yield _Part(x, q, positions, layout.is_padding)
        return
    counts = torch.bincount(_document_of(positions[0], starts), minlength=len(starts) - 1).tolist()
    borders, done = starts.tolist(), 0
    for begin, end, count in zip(borders, borders[1:], counts, strict=False):
        if count:
            these = slice(done, done + count)
            yield _Part(x[:, begin:end], q[:, :, these], positions[:, these] - begin, None, begin)
            done += count


def _absorbed(part: _Part, projections: Projections, causal: bool, dropout: float) -> GlobalRows:
    """Scores and pools the hidden states themselves."""
    heads, globals_, head_dim = part.q.shape[1:]
    x = _in_full(part.x)
    probabilities = _probabilities(part, x, projections.key, causal)
    value = projections.value.weight.to(x.dtype).unflatten(0, (heads, head_dim))
    weights = drop(probabilities, dropout, training=True)
    pooled = (weights.flatten(1, 2) @ x).unflatten(1, (heads, globals_))
    rows = torch.einsum("bhge,hde->bhgd", pooled, value)
    value_bias = projections.value.bias.to(x.dtype).unflatten(0, (heads, 1, head_dim))
    rows = rows + weights.sum(-1, keepdim=True) * value_bias
    return GlobalRows(rows.to(part.q.dtype), probabilities)


def _in_full(x: Tensor) -> Tensor:
    """Half precision is accumulated in fp32, as everywhere."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def _probabilities(part: _Part, x: Tensor, project: nn.Linear, causal: bool) -> Tensor:
    """[batch, heads, globals, length]: what the global tokens of a part look at.

    Args:
        part: with the queries.
        x: its hidden states, in full precision.
        project: to the keys.
        causal: hide the tokens after each global token.
    """
    heads, head_dim = part.q.shape[1], part.q.shape[3]
    key = project.weight.to(x.dtype).unflatten(0, (heads, head_dim))
    q = part.q.to(x.dtype) * head_dim**-0.5
    scored = torch.einsum("bhgd,hde->bhge", q, key)
    scores = (scored.flatten(1, 2) @ x.transpose(1, 2)).unflatten(1, scored.shape[1:3])
    # Cancels in the softmax; but a parameter without a gradient would stop distributed training.
    key_bias = project.bias.to(x.dtype).unflatten(0, (heads, 1, head_dim))
    scores = scores + (q * key_bias).sum(-1, keepdim=True)
    present = part.position >= 0
    if part.is_padding is not None:
        scores = scores.masked_fill(part.is_padding[:, None, None], float("-inf"))
    if causal:
        later = torch.arange(x.shape[1], device=x.device) > part.position.clamp(min=0)[..., None]
        scores = scores.masked_fill(later[:, None], float("-inf"))
    # An absent global token of an example that is all padding saw nothing at all.
    return scores.softmax(-1).masked_fill(~present[:, None, :, None], 0.0)
