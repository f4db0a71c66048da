"""Spans of tokens as answers: a loss that any right span satisfies, and the best spans of a model's scores.

A span is a first and a last token, both inclusive. Nothing here knows of text, windows or questions.
"""

from typing import NamedTuple

import torch
from torch import Tensor


class ScoredSpan(NamedTuple):
    """Tokens from ``start`` to ``end``, both inclusive."""

    score: float
    """The logit of the start plus that of the end."""
    start: int
    end: int


def or_loss(
    start_logits: Tensor, end_logits: Tensor, is_start: Tensor, is_end: Tensor, allowed: Tensor
) -> Tensor:
    """The OR-loss of Clark and Gardner (2018): the probability of all right places together counts.

    For the starts it is ``-log(sum of p(i) over all right i)``, where p is the softmax over the allowed
    tokens; likewise for the ends. The two are added.

    Args:
        start_logits: [batch, length], of any float dtype; the loss is computed in fp32.
        end_logits: [batch, length].
        is_start: [batch, length] bool: first tokens of right spans, all of them allowed.
        is_end: [batch, length] bool: last tokens of right spans, all of them allowed.
        allowed: [batch, length] bool: tokens that an answer may begin or end with.

    Returns:
        [batch] fp32: the loss of each feature; exactly 0, without a gradient, where it has no right start
        and no right end.
    """
    return _one_of(start_logits, is_start, allowed) + _one_of(end_logits, is_end, allowed)


def _one_of(logits: Tensor, is_right: Tensor, allowed: Tensor) -> Tensor:
    """[batch] fp32: -log of the probability that one of the right tokens is chosen."""
    logits = logits.float()
    has_right = is_right.any(1)
    # A row of nothing but -inf has no gradient but nan: rows without a target are kept out beforehand.
    idle = ~has_right[:, None]
    of_all = logits.masked_fill(~(allowed | idle), -torch.inf).logsumexp(1)
    of_right = logits.masked_fill(~(is_right | idle), -torch.inf).logsumexp(1)
    return torch.where(has_right, of_all - of_right, 0.0)


def best_spans(
    start: Tensor, end: Tensor, allowed: Tensor, max_tokens: int, count: int
) -> list[list[ScoredSpan]]:
    """The spans with the highest ``start[i] + end[j]``, i <= j < i + max_tokens, all tokens i..j allowed.

    Exact, in memory of batch * (length + count * max_tokens): a span among the best ``count`` begins at one
    of the ``count`` tokens whose own best spans are the best.

    Args:
        start: [batch, length] logits of the first token.
        end: [batch, length] logits of the last token.
        allowed: [batch, length] bool: tokens that an answer may consist of.
        max_tokens: the most tokens of a span, at least 1.
        count: how many spans are wanted, at least 1.

    Returns:
        For each row of the batch its spans, best first; fewer than ``count``, or none, where it has fewer.
    """
    if max_tokens < 1 or count < 1:
        raise ValueError(f"max_tokens is {max_tokens} and count is {count}; both must be at least 1")
    length = start.shape[1]
    max_tokens, count = min(max_tokens, length), min(count, length * max_tokens)
    if length == 0:
        return [[] for _ in start]
    start = start.detach().float().masked_fill(~allowed, -torch.inf)
    end = end.detach().float()

    best_end = torch.full_like(end, -torch.inf)
    inside = torch.ones_like(allowed)
    for more in range(max_tokens):
        # inside[:, i]: whether i..i + more are all allowed.
        inside = inside[:, : length - more] & allowed[:, more:]
        here = best_end[:, : length - more]
        torch.maximum(here, end[:, more:].masked_fill(~inside, -torch.inf), out=here)
    order = (start + best_end).sort(dim=1, descending=True, stable=True).indices
    firsts = order[:, :count]  # [batch, firsts]

    lasts = firsts[:, :, None] + torch.arange(max_tokens, device=start.device)
    rows = torch.arange(len(start), device=start.device)[:, None, None]
    exists = lasts < length
    lasts = lasts.clamp(max=length - 1)
    usable = (exists & allowed[rows, lasts]).cumprod(2).bool()
    scores = start.gather(1, firsts)[:, :, None] + end[rows, lasts]
    scores = scores.masked_fill(~usable, -torch.inf).flatten(1)  # [batch, firsts * max_tokens]
    ranked = scores.sort(dim=1, descending=True, stable=True)
    values, places = ranked.values[:, :count].tolist(), ranked.indices[:, :count].tolist()
    starts = firsts.tolist()
    return [
        [
            ScoredSpan(
                value, row_starts[place // max_tokens], row_starts[place // max_tokens] + place % max_tokens
            )
            for value, place in zip(row_values, row_places, strict=True)
            if value > -torch.inf
        ]
        for row_values, row_places, row_starts in zip(values, places, starts, strict=True)
    ]


def disjoint_spans(
    start: Tensor, end: Tensor, allowed: Tensor, max_tokens: int, count: int
) -> list[ScoredSpan]:
    """The best span, the best of those that share no token with it, and so on, as in `best_spans`.

    Args:
        start: [length] logits of the first token.
        end: [length] logits of the last token.
        allowed: [length] bool: tokens that an answer may consist of.
        max_tokens: the most tokens of a span, at least 1.
        count: how many spans are wanted, at least 1.

    Returns:
        The spans, best first; fewer than ``count`` where there are no more.
    """
    left = allowed.clone()
    found: list[ScoredSpan] = []
    while len(found) < count:
        best = best_spans(start[None], end[None], left[None], max_tokens, 1)[0]
        if not best:
            break
        found += best
        left[best[0].start : best[0].end + 1] = False
    return found
