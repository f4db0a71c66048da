"""Coreference: MUC, B³, entity-based CEAF and their CoNLL-2012 average, and the detection of mentions.

scorch scores one document; here documents are summed as the CoNLL scorer sums them: numerators and
denominators over all documents first, one division at the end. (scorch's own command weights every metric by
a document's mentions, which gives other numbers for MUC and CEAF.)

Singletons, clusters of one mention, are scored as they come, as in the CoNLL scorer (version 8). MUC
counts links and does not see them; B³, CEAF and the detection of mentions do. OntoNotes marks none, so a
model for it should predict none: each one costs precision.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from longspan.metrics.optional import needs
from longspan.metrics.scores import Ratios, Scores, missing_ids, ratio, ratios, ratios_of_counts

Clusters = Iterable[Iterable[Hashable]]
"""Of one document; a mention is anything hashable, for instance ``(start, end)``."""

_Numbered = list[set[int]]
_Documents = Sequence[tuple[_Numbered, _Numbered]]


@dataclass(frozen=True, kw_only=True, slots=True)
class CoreferenceScores(Scores):
    """Scores of a whole data set."""

    conll: float
    """The mean of the F1 of MUC, B³ and CEAF."""
    muc: Ratios
    b_cubed: Ratios
    ceaf_e: Ratios
    """CEAF with the entity similarity, 2 |k ∩ r| / (|k| + |r|)."""
    mentions: Ratios
    """Of spans, whatever cluster they are in."""
    documents: int
    missing: tuple[str, ...]
    """Documents without a prediction; each counts as one without clusters."""


def score_coreference(
    predictions: Mapping[str, Clusters], golds: Mapping[str, Clusters]
) -> CoreferenceScores:
    """Scores the documents of ``golds``; predictions for others are ignored, as the CoNLL scorer does.

    A mention that a cluster names twice counts once. One that several predicted clusters name belongs to the
    first of them. Empty clusters are ignored.

    Args:
        predictions: the clusters found in each document, by its id.
        golds: the right clusters of each document, by its id.

    Raises:
        ModuleNotFoundError: scorch is not installed.
        ValueError: ``golds`` is empty, a gold mention is in two clusters, or a mention is not hashable.
    """
    with needs("scorch"):
        from scorch import scores as scorch
    missing = missing_ids(predictions, golds)
    documents = [_numbered(one, golds[one], predictions.get(one, ())) for one in golds]
    muc = _summed(documents, scorch.muc, _links)
    b_cubed = _summed(documents, scorch.b_cubed, _mentions)
    ceaf_e = _summed(documents, scorch.ceaf_e, len)
    return CoreferenceScores(
        conll=(muc.f1 + b_cubed.f1 + ceaf_e.f1) / 3,
        muc=muc,
        b_cubed=b_cubed,
        ceaf_e=ceaf_e,
        mentions=ratios_of_counts(
            common=sum(len(set().union(*gold) & set().union(*found)) for gold, found in documents),
            predicted=sum(_mentions(found) for _, found in documents),
            gold=sum(_mentions(gold) for gold, _ in documents),
        ),
        documents=len(documents),
        missing=missing,
    )


def _links(clusters: _Numbered) -> int:
    """MUC's denominator."""
    return sum(len(cluster) - 1 for cluster in clusters)


def _mentions(clusters: _Numbered) -> int:
    """B³'s denominator."""
    return sum(len(cluster) for cluster in clusters)


def _summed(
    documents: _Documents,
    metric: Callable[[_Numbered, _Numbered], tuple[float, float, float]],
    denominator: Callable[[_Numbered], int],
) -> Ratios:
    """One metric over all documents.

    scorch returns a document's recall and precision; times their denominators they are numerators again.
    Where a denominator is 0, scorch returns 0, and so is the numerator. Where no mention is common, all
    numerators are 0; scorch would divide by 0 there.
    """
    found_parts: list[float] = []
    right_parts: list[float] = []
    for gold, found in documents:
        has_common = not set().union(*gold).isdisjoint(set().union(*found))
        recall, precision, _ = metric(gold, found) if has_common else (0.0, 0.0, 0.0)
        found_parts.append(float(recall) * denominator(gold))
        right_parts.append(float(precision) * denominator(found))
    return ratios(
        ratio(math.fsum(right_parts), sum(denominator(found) for _, found in documents)),
        ratio(math.fsum(found_parts), sum(denominator(gold) for gold, _ in documents)),
    )


def _numbered(document: str, golds: Clusters, predictions: Clusters) -> tuple[_Numbered, _Numbered]:
    """Disjoint clusters of numbers in place of mentions, which scorch sorts though they may have no order."""
    numbers: dict[Hashable, int] = {}

    def number(mention: Hashable) -> int:
        try:
            return numbers.setdefault(mention, len(numbers))
        except TypeError as error:
            raise ValueError(
                f"document {document!r} has the mention {mention!r}; a mention must be hashable, "
                "for instance the tuple (start, end)"
            ) from error

    gold = [{number(mention) for mention in cluster} for cluster in golds]
    if len(set().union(*gold)) != _mentions(gold):
        mentions = list(numbers)
        twice = next(mentions[i] for i in range(len(numbers)) if sum(i in cluster for cluster in gold) > 1)
        raise ValueError(
            f"document {document!r} has the gold mention {twice!r} in two clusters; one is right"
        )
    found: _Numbered = []
    seen: set[int] = set()
    for cluster in predictions:
        new = {number(mention) for mention in cluster} - seen
        seen |= new
        found.append(new)
    return [cluster for cluster in gold if cluster], [cluster for cluster in found if cluster]
