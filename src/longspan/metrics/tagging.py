"""Tags of tokens: precision, recall and F1 of the spans that IOB tags spell, through seqeval.

Tags are ``O``, ``B-type`` and ``I-type``; other schemes are refused.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from longspan.metrics.optional import needs
from longspan.metrics.scores import Scores


@dataclass(frozen=True, kw_only=True, slots=True)
class TaggingScores(Scores):
    """Scores of a whole data set, all types of spans together."""

    precision: float
    recall: float
    f1: float
    spans: int
    """How many gold spans there are. Without any, recall and F1 are 0."""


def score_tags(
    predictions: Sequence[Sequence[str]], golds: Sequence[Sequence[str]], *, strict: bool = False
) -> TaggingScores:
    """Compares spans: one is right if its first token, its last token and its type are.

    Args:
        predictions: the tags given to each sequence's tokens.
        golds: the right tags, of the same lengths.
        strict: whether a span must begin with ``B-`` to be one (IOB2). Otherwise an ``I-`` that continues
            nothing begins a span too, as in the CoNLL-2003 evaluation and by default in seqeval.

    Raises:
        ModuleNotFoundError: seqeval is not installed.
        ValueError: there are no sequences, lengths differ, or a tag is not IOB.
    """
    with needs("seqeval"):
        from seqeval.metrics import sequence_labeling, v1
        from seqeval.scheme import IOB2
    if len(predictions) != len(golds):
        raise ValueError(
            f"predictions has {len(predictions)} sequences and golds {len(golds)}; they must match"
        )
    if not golds:
        raise ValueError("golds is empty; a score needs at least one sequence")
    for index, (given, right) in enumerate(zip(predictions, golds, strict=True)):
        if len(given) != len(right):
            raise ValueError(
                f"predictions[{index}] has {len(given)} tags and golds[{index}] has {len(right)}"
            )
        _check_tags(f"predictions[{index}]", given)
        _check_tags(f"golds[{index}]", right)

    # seqeval takes lists and no other sequences. zero_division=0 keeps it from warning where there are no
    # spans; its annotations know neither that nor what a micro average returns.
    sides = [list(tags) for tags in golds], [list(tags) for tags in predictions]
    options: dict[str, Any] = {"average": "micro", "zero_division": 0}
    if strict:
        found = v1.precision_recall_fscore_support(*sides, scheme=IOB2, **options)
    else:
        found = sequence_labeling.precision_recall_fscore_support(*sides, **options)
    precision, recall, f1, spans = cast(tuple[float, float, float, int], found)
    return TaggingScores(precision=float(precision), recall=float(recall), f1=float(f1), spans=int(spans))


def _check_tags(name: str, tags: Sequence[str]) -> None:
    for tag in tags:
        if tag != "O" and not (tag[:2] in ("B-", "I-") and len(tag) > 2):
            raise ValueError(f"{name} holds the tag {tag!r}; a tag must be 'O', 'B-type' or 'I-type'")
