"""Which earlier mention a mention means: the coarse-to-fine model of Lee et al. (2018), and its loss.

Kept spans are scored against all spans before them by a cheap bilinear score, against the best of these by a
network, and against "no antecedent", whose score is always 0. What a span's likely antecedents say refines
its embedding, and the network scores again. Spans are those of the whole document, whatever segments the
encoder read.

Where this differs from the paper, to train on a CPU: the bilinear score has a low rank, and so has the
element-wise product of two spans that the network sees; both are of projections, not of whole embeddings.
Distances count kept spans, in logarithmic buckets up to 512 where the paper ends at 64. There is no feature
of the genre.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from longspan.nn.dropout import Dropout
from longspan.tasks.coreference_documents import NO_ONE
from longspan.tasks.coreference_spans import (
    MentionScorer,
    SpanEmbedder,
    WordStates,
    best_spans,
    without_crossing_sentences,
)

DISTANCES = (1, 2, 3, 4, 5, 8, 16, 32, 64, 128, 256, 512)
"""Where the buckets of distances begin."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HeadShape:
    """The sizes of the head, and how much it keeps."""

    max_span_width: int
    cross_sentences: bool
    spans_per_word: float
    antecedents: int
    refinements: int
    ffnn_size: int
    similarity_size: int
    feature_size: int
    dropout: float


class SpanLinks(NamedTuple):
    """The kept spans of a document, in order of their places, and what each may mean."""

    starts: Tensor
    """[spans]: first words."""
    ends: Tensor
    """[spans]: the words after the last ones."""
    mention: Tensor
    """[spans]: scores of being a mention."""
    antecedents: Tensor
    """[spans, candidates]: spans, some of which may not be before this one."""
    links: Tensor
    """[spans, 1 + candidates]: scores of having no antecedent, which is 0, and of each; -inf for those
    that are not before this span."""
    words: WordStates
    """Of the document, for scores of more spans."""


class CoreferenceHead(nn.Module):
    """Hidden states of a document's tokens into scores of links between its spans.

    Args:
        hidden_size: of the encoder.
        shape: of the head.
    """

    def __init__(self, hidden_size: int, shape: HeadShape) -> None:
        super().__init__()
        self.shape = shape
        self.embedder = SpanEmbedder(hidden_size, shape.max_span_width, shape.feature_size)
        self.mention = MentionScorer(self.embedder, shape.ffnn_size, shape.dropout)
        self.coarse = CoarseScorer(self.embedder.size, shape)
        self.fine = PairScorer(self.embedder.size, shape)
        self.gate = nn.Linear(2 * self.embedder.size, self.embedder.size) if shape.refinements else None

    def forward(
        self, hidden: Tensor, first: Tensor, last: Tensor, sentence: Tensor, speaker: Tensor
    ) -> SpanLinks:
        """Scores one document.

        Args:
            hidden: [tokens, hidden_size].
            first: [words], each word's first token.
            last: [words], its last one.
            sentence: [words], the number of its sentence.
            speaker: [words], who says it, or `NO_ONE`.
        """
        # Half precision would tie many of the scores that are compared here.
        with torch.autocast(hidden.device.type, enabled=False):
            return self._links(hidden.float(), first, last, sentence, speaker)

    def mention_scores(self, words: WordStates, starts: Tensor, ends: Tensor) -> Tensor:
        """[spans]: of spans that need not be kept ones, at most ``max_span_width`` words long."""
        with torch.autocast(starts.device.type, enabled=False):
            return self.mention(self.embedder(words, starts, ends))

    def _links(
        self, hidden: Tensor, first: Tensor, last: Tensor, sentence: Tensor, speaker: Tensor
    ) -> SpanLinks:
        words = self.embedder.words(hidden, first, last)
        starts, ends = self._kept(words, sentence)
        spans = self.embedder(words, starts, ends)
        mention = self.mention(spans)
        scores, antecedents = self.coarse(spans, mention)
        place = torch.arange(len(spans), device=spans.device)[:, None]
        is_before = antecedents < place
        distance = distance_bucket(place - antecedents)
        speakers = _same_speaker(speaker[starts][:, None], speaker[starts][antecedents])
        links = _with_none(scores + self.fine(spans, antecedents, distance, speakers), is_before)
        for _ in range(self.shape.refinements):
            spans = self._refined(spans, antecedents, links)
            links = _with_none(scores + self.fine(spans, antecedents, distance, speakers), is_before)
        return SpanLinks(starts, ends, mention, antecedents, links, words)

    def _kept(self, words: WordStates, sentence: Tensor) -> tuple[Tensor, Tensor]:
        scores = self.mention.of_all(words, self.embedder.widths.weight)
        if not self.shape.cross_sentences:
            scores = without_crossing_sentences(scores, sentence)
        return best_spans(scores, max(1, int(self.shape.spans_per_word * len(sentence))))

    def _refined(self, spans: Tensor, antecedents: Tensor, links: Tensor) -> Tensor:
        """[spans, size]: a gated mean of each span and its expected antecedent, itself where it has none."""
        assert self.gate is not None
        weights = links.softmax(1)
        # Weights as a matrix over all spans: no copy of every antecedent's embedding.
        among = weights.new_zeros(len(spans), len(spans)).scatter_add(1, antecedents, weights[:, 1:])
        expected = among @ spans + weights[:, :1] * spans
        gate = self.gate(torch.cat([spans, expected], dim=1)).sigmoid()
        return gate * spans + (1 - gate) * expected


class CoarseScorer(nn.Module):
    """The cheap score of every pair, which chooses the antecedents that are looked at closely.

    Args:
        size: of a span's embedding.
        shape: of the head.
    """

    def __init__(self, size: int, shape: HeadShape) -> None:
        super().__init__()
        self.antecedents = shape.antecedents
        self.source = nn.Linear(size, shape.similarity_size)
        self.target = nn.Linear(size, shape.similarity_size)
        self.distance = nn.Embedding(len(DISTANCES), 1)
        nn.init.zeros_(self.distance.weight)

    def forward(self, spans: Tensor, mention: Tensor) -> tuple[Tensor, Tensor]:
        """The best antecedents of each span.

        Args:
            spans: [spans, size].
            mention: [spans], scores of being a mention.

        Returns:
            scores and places [spans, candidates], the mention scores of both spans included. The first
            spans have too few antecedents: where a place is not before the span, the score is -inf.
        """
        count = len(spans)
        source = self.source(spans) / self.source.out_features**0.5
        place = torch.arange(count, device=spans.device)
        distance = distance_bucket(place[:, None] - place)
        scores = source @ self.target(spans).T + mention[:, None] + mention
        scores = scores + self.distance.weight[:, 0][distance]
        scores = scores.masked_fill(place >= place[:, None], -torch.inf)
        return scores.topk(min(self.antecedents, max(count - 1, 0)), dim=1)


class PairScorer(nn.Module):
    """The score of a span and an antecedent: a network with one hidden layer.

    It sees both embeddings, the element-wise product of their projections, the distance, and whether the
    speaker is the same.

    Args:
        size: of a span's embedding.
        shape: of the head.
    """

    def __init__(self, size: int, shape: HeadShape) -> None:
        super().__init__()
        self.of_span = nn.Linear(size, shape.ffnn_size)
        self.of_antecedent = nn.Linear(size, shape.ffnn_size, bias=False)
        self.projection = nn.Linear(size, shape.similarity_size, bias=False)
        self.of_product = nn.Linear(shape.similarity_size, shape.ffnn_size, bias=False)
        self.distance = nn.Embedding(len(DISTANCES), shape.feature_size)
        self.speaker = nn.Embedding(3, shape.feature_size)
        self.of_distance = nn.Linear(shape.feature_size, shape.ffnn_size, bias=False)
        self.of_speaker = nn.Linear(shape.feature_size, shape.ffnn_size, bias=False)
        self.dropout = Dropout(shape.dropout)
        self.outer = nn.Linear(shape.ffnn_size, 1)
        nn.init.normal_(self.distance.weight, std=0.02)
        nn.init.normal_(self.speaker.weight, std=0.02)

    def forward(self, spans: Tensor, antecedents: Tensor, distance: Tensor, speaker: Tensor) -> Tensor:
        """Scores of pairs, all [spans, candidates].

        Args:
            spans: [spans, size].
            antecedents: places of spans.
            distance: buckets.
            speaker: 0 where one is unknown, 1 the same, 2 another.
        """
        chosen = antecedents.flatten()
        # Features have few values: their part of the hidden layer is computed once for each pair of them.
        features = self.of_distance(self.distance.weight)[:, None] + self.of_speaker(self.speaker.weight)
        projected = self.projection(spans)
        product = projected[:, None] * projected.index_select(0, chosen).view(
            *antecedents.shape, projected.shape[1]
        )
        inner = self.of_product(product)
        inner = inner + self.of_antecedent(spans).index_select(0, chosen).view_as(inner)
        inner = inner + F.embedding(3 * distance + speaker, features.flatten(0, 1))
        inner = inner + self.of_span(spans)[:, None]
        return self.outer(self.dropout(F.relu(inner))).squeeze(-1)


def distance_bucket(distance: Tensor) -> Tensor:
    """The place in `DISTANCES` of the bucket of each distance; those under 1 are in the first."""
    borders = torch.tensor(DISTANCES[1:], device=distance.device)
    return torch.bucketize(distance, borders, right=True)


def marginal_loss(links: Tensor, antecedents: Tensor, clusters: Tensor) -> Tensor:
    """Minus the log-likelihood of the right antecedents, summed over spans.

    Right is every candidate in the span's gold cluster; where there is none, having no antecedent.

    Args:
        links: [spans, 1 + candidates], as in `SpanLinks`.
        antecedents: [spans, candidates].
        clusters: [spans], the number of each span's gold cluster, negative for none.

    Returns:
        [], fp32.
    """
    is_right = (clusters[antecedents] == clusters[:, None]) & (clusters[:, None] >= 0)
    is_right = is_right & (links[:, 1:] > -torch.inf)
    is_right = torch.cat([~is_right.any(1, keepdim=True), is_right], dim=1)
    return (links.logsumexp(1) - links.masked_fill(~is_right, -torch.inf).logsumexp(1)).sum()


def best_antecedents(links: Tensor, antecedents: Tensor) -> list[int]:
    """The antecedent of each span with the highest score, if that is over 0; -1 for none."""
    best = links.argmax(1, keepdim=True)
    chosen = torch.cat([torch.full_like(best, -1), antecedents], dim=1).gather(1, best)
    return chosen.squeeze(1).tolist()


def linked_clusters(antecedents: Sequence[int]) -> list[list[int]]:
    """The spans that links join, in order of their first; a span that nothing links is one by itself.

    Args:
        antecedents: of each span, an earlier one, or -1.
    """
    clusters: list[list[int]] = []
    of_span: list[list[int]] = []
    for span, antecedent in enumerate(antecedents):
        cluster: list[int] = [] if antecedent < 0 else of_span[antecedent]
        if not cluster:
            clusters.append(cluster)
        cluster.append(span)
        of_span.append(cluster)
    return clusters


def _with_none(scores: Tensor, is_before: Tensor) -> Tensor:
    """[spans, 1 + candidates]: with the score of no antecedent in front."""
    none = scores.new_zeros(len(scores), 1)
    return torch.cat([none, scores.masked_fill(~is_before, -torch.inf)], dim=1)


def _same_speaker(speaker: Tensor, other: Tensor) -> Tensor:
    """0 where one is unknown, 1 where they are the same, 2 where not; shapes broadcast."""
    same = torch.where(speaker == other, 1, 2)
    return same.masked_fill((speaker == NO_ONE) | (other == NO_ONE), 0)
