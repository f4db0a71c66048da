"""Spans that a model proposes as answers: which of them to show, and the sentences around them."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from longspan.metrics.answers import normalize_squad
from longspan.metrics.sentences import sentence_spans


class Candidate(NamedTuple):
    """A span of a document that may answer."""

    margin: float
    """How far its score exceeds that of "no answer" in the same input."""
    document: int
    start: int
    end: int
    """Characters, the end exclusive."""


def distinct(candidates: Iterable[Candidate], documents: Sequence[str], count: int) -> list[Candidate]:
    """The best candidates of which no two overlap or say the same.

    Args:
        candidates: in any order.
        documents: their texts.
        count: the most that are wanted.

    Returns:
        Best first; of equal ones the first in the text.
    """
    kept: list[Candidate] = []
    said: set[str] = set()
    for one in sorted(candidates, key=lambda c: (-c.margin, c.document, c.start)):
        if len(kept) == count:
            break
        text = documents[one.document][one.start : one.end]
        words = normalize_squad(text) or text
        overlaps = any(
            one.document == other.document and one.start < other.end and other.start < one.end
            for other in kept
        )
        if words not in said and not overlaps:
            said.add(words)
            kept.append(one)
    return kept


def sentences_around(text: str, start: int, end: int) -> tuple[int, int]:
    """Where the sentences begin and end that have the characters start..end - 1; a line's end ends one."""
    line = text.rfind("\n", 0, start) + 1
    stop = text.find("\n", end)
    for first, last in sentence_spans(text[line : len(text) if stop < 0 else stop]):
        if line + first < end and line + last > start:
            start, end = min(start, line + first), max(end, line + last)
    return start, end
