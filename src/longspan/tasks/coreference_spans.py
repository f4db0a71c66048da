"""Spans of words: their embeddings, how likely each is a mention, and which are worth keeping.

A span's embedding is that of Lee et al. (2017): its first token's hidden state, its last one's, the mean of
all its tokens' weighted by an attention over them, and a feature of its width. A document has tens of
thousands of spans, of which few are kept. All are scored without gradients, on projections computed once
for a word; what is kept is computed again with them, as only kept spans reach the loss. The scores are
those of the paper's network, but for dropout, which the choice of spans goes without.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from longspan.nn.dropout import Dropout


class WordStates(NamedTuple):
    """What is known of each word."""

    first: Tensor
    """[words, hidden_size]: the hidden state of its first token."""
    last: Tensor
    """[words, hidden_size]: of its last token."""
    pooled: Tensor
    """[words, hidden_size]: of all its tokens, weighted by the attention among them."""
    logits: Tensor
    """[words]: the word's weight in a span, before the softmax: the log of the sum over its tokens."""


class SpanEmbedder(nn.Module):
    """Hidden states of tokens into embeddings of spans.

    Args:
        hidden_size: of the encoder.
        max_width: the most words of a span.
        feature_size: of the embedding of a width.
    """

    def __init__(self, hidden_size: int, max_width: int, feature_size: int) -> None:
        super().__init__()
        self.size = 3 * hidden_size + feature_size
        self.max_width = max_width
        self.attention = nn.Linear(hidden_size, 1)
        self.widths = nn.Embedding(max_width, feature_size)
        nn.init.normal_(self.widths.weight, std=0.02)

    def words(self, hidden: Tensor, first: Tensor, last: Tensor) -> WordStates:
        """Pools the tokens of each word.

        Attention over the tokens of a span is then attention over its words: the softmax over words of
        the logarithms of sums gives each token what the softmax over all tokens would.

        Args:
            hidden: [tokens, hidden_size].
            first: [words], each word's first token.
            last: [words], its last one.
        """
        sizes = last - first + 1
        word = torch.repeat_interleave(torch.arange(len(first), device=hidden.device), sizes)
        token = torch.arange(len(word), device=hidden.device) + (first - sizes.cumsum(0) + sizes)[word]
        inside = hidden.index_select(0, token)
        scores = self.attention(inside).squeeze(1)
        top = scores.new_zeros(len(first)).scatter_reduce(
            0, word, scores.detach(), "amax", include_self=False
        )
        mass = (scores - top[word]).exp()
        total = torch.zeros_like(top).index_add(0, word, mass)
        weighted = inside * (mass / total[word])[:, None]
        return WordStates(
            first=hidden.index_select(0, first),
            last=hidden.index_select(0, last),
            pooled=hidden.new_zeros(len(first), hidden.shape[1]).index_add(0, word, weighted),
            logits=top + total.log(),
        )

    def forward(self, words: WordStates, starts: Tensor, ends: Tensor) -> Tensor:
        """Embeddings of spans.

        Args:
            words: of the document.
            starts: [spans], first words.
            ends: [spans], the words after the last ones; at most ``max_width`` further.

        Returns:
            [spans, size].
        """
        places = starts[:, None] + torch.arange(self.max_width, device=starts.device)
        outside = places >= ends[:, None]
        places = places.clamp(max=len(words.logits) - 1)
        weights = words.logits[places].masked_fill(outside, -torch.inf).softmax(1)
        members = words.pooled.index_select(0, places.flatten()).view(*places.shape, words.pooled.shape[1])
        head = torch.bmm(weights[:, None], members).squeeze(1)
        return torch.cat(
            [
                words.first.index_select(0, starts),
                words.last.index_select(0, ends - 1),
                head,
                self.widths(ends - starts - 1),
            ],
            dim=1,
        )


class MentionScorer(nn.Module):
    """How likely a span is a mention: a network with one hidden layer.

    Args:
        embedder: what makes the embeddings.
        ffnn_size: width of the hidden layer.
        dropout: of the hidden layer.
    """

    def __init__(self, embedder: SpanEmbedder, ffnn_size: int, dropout: float) -> None:
        super().__init__()
        self.inner = nn.Linear(embedder.size, ffnn_size)
        self.dropout = Dropout(dropout)
        self.outer = nn.Linear(ffnn_size, 1)

    def forward(self, spans: Tensor) -> Tensor:
        """[spans, size] to [spans]."""
        return self.outer(self.dropout(F.relu(self.inner(spans)))).squeeze(1)

    @torch.no_grad()
    def of_all(self, words: WordStates, widths: Tensor) -> Tensor:
        """What `forward` says, dropout apart, of every span of a document.

        The hidden layer is linear in each part of an embedding. So words are projected, and the weighted
        mean of a span's projections grows by one word a step, as a softmax that is computed online.

        Args:
            words: of the document.
            widths: [max_width, feature_size], the embeddings of widths.

        Returns:
            [max_width, words]: at [w, s], the span of w + 1 words from s; -inf where the document ends.
        """
        size = words.first.shape[1]
        by_first, by_last, by_head, by_width = self.inner.weight.split(
            [size, size, size, widths.shape[1]], dim=1
        )
        first = F.linear(words.first, by_first, self.inner.bias)
        last = F.linear(words.last, by_last)
        members = F.linear(words.pooled, by_head)
        of_width = F.linear(widths, by_width)
        top, mass, total = words.logits, torch.ones_like(words.logits), members
        scores = first.new_full((len(widths), len(first)), -torch.inf)
        for more in range(min(len(widths), len(first))):
            count = len(first) - more
            if more:
                highest = torch.maximum(top[:count], words.logits[more:])
                kept, added = (top[:count] - highest).exp(), (words.logits[more:] - highest).exp()
                top, mass = highest, mass[:count] * kept + added
                total = total[:count] * kept[:, None] + members[more:] * added[:, None]
            inner = total / mass[:, None]
            inner += first[:count]
            inner += last[more:]
            inner += of_width[more]
            scores[more, :count] = self.outer(inner.relu_()).squeeze(1)
        return scores


def without_crossing_sentences(scores: Tensor, sentence: Tensor) -> Tensor:
    """``scores`` [max_width, words] of spans, -inf for those whose ends are in two sentences [words]."""
    last = torch.arange(len(sentence), device=scores.device) + torch.arange(
        len(scores), device=scores.device
    ).unsqueeze(1)
    other = sentence[last.clamp(max=len(sentence) - 1)] != sentence
    return scores.masked_fill(other, -torch.inf)


def best_spans(scores: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """The spans with the highest scores, of which no two cross.

    Best first, each is kept that does not cross one kept before: that does not begin inside it and end
    outside, or the other way round.

    Args:
        scores: [max_width, words], as of `MentionScorer.of_all`.
        most: how many to keep at most.

    Returns:
        starts and ends [kept], in order of the starts, and of the ends where these are the same.
    """
    order = scores.flatten().argsort(descending=True, stable=True)
    order = order[: int((scores > -torch.inf).sum())]
    starts = (order % scores.shape[1]).tolist()
    ends = (order % scores.shape[1] + order // scores.shape[1] + 1).tolist()
    kept = sorted(_not_crossing(starts, ends, most, scores.shape[1]))
    places = torch.tensor(kept, dtype=torch.int64, device=scores.device).reshape(-1, 2)
    return places[:, 0], places[:, 1]


def _not_crossing(starts: Sequence[int], ends: Sequence[int], most: int, words: int) -> list[tuple[int, int]]:
    """Of spans, best first, at most so many that do not cross."""
    kept: list[tuple[int, int]] = []
    latest_end = [0] * (words + 1)
    """Of the kept spans that begin at a word."""
    earliest_start = [words] * (words + 1)
    """Of the kept spans that end before a word."""
    for start, end in zip(starts, ends, strict=True):
        if len(kept) >= most:
            break
        if end - start > 1 and (
            max(latest_end[start + 1 : end]) > end or min(earliest_start[start + 1 : end]) < start
        ):
            continue
        kept.append((start, end))
        latest_end[start] = max(latest_end[start], end)
        earliest_start[end] = min(earliest_start[end], start)
    return kept
