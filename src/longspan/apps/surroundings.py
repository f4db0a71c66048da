"""How many words of a question stand around each place in documents.

A model's scores say whether a span is of the kind that is asked for. In a paragraph one span is; in a book,
hundreds are, and a small model confuses them. Which of them stands among the question's own words is simple
to count, in what is near and in the paragraph, and it is what a reader adds to the scores.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from longspan.apps.shared_words import PassageWords, shares

_BLOCK = 10
"""Words that have the same surroundings."""
_REACH = 3
"""Blocks: a word counts less the farther it is, and nothing from here on."""


class Surroundings(NamedTuple):
    """Of all places in a document."""

    starts: np.ndarray
    """[parts] int64: the first character of each part whose places are alike; that of the first is 0."""
    scores: np.ndarray
    """[parts] fp64: how far what is near is behind the best of all documents, and how far its paragraph is
    behind the best one, together -2 to 0."""

    def at(self, characters: np.ndarray) -> np.ndarray:
        """The scores of places."""
        return self.scores[np.searchsorted(self.starts, characters, side="right") - 1]


def surroundings(documents: Sequence[str], question: str) -> list[Surroundings]:
    """The surroundings of all places in documents, for a question.

    Args:
        documents: their texts, a paragraph a line. Which words are rare is counted in all of them together.
        question: in words.
    """
    near = _behind_the_best(documents, [_block_starts(one) for one in documents], question, _REACH)
    whole = _behind_the_best(documents, [_line_starts(one) for one in documents], question, 1)
    return [_sum(*both) for both in zip(near, whole, strict=True)]


def _behind_the_best(
    documents: Sequence[str], starts: Sequence[Sequence[int]], question: str, reach: int
) -> list[Surroundings]:
    """How far each part, with those around it, is behind the best: -1 to 0.

    Args:
        documents: their texts.
        starts: of the parts of each document; the first is 0.
        question: in words.
        reach: parts beyond which nothing counts; with 1 only the part itself does.
    """
    if not documents:
        return []
    parts = PassageWords.of(
        [
            text[first:last]
            for text, begin in zip(documents, starts, strict=True)
            for first, last in zip(begin, [*begin[1:], len(text)], strict=True)
        ]
    )
    ends = np.cumsum([len(one) for one in starts])[:-1]
    near = 1 - np.abs(np.arange(1 - reach, reach)) / reach

    def spread(of_parts: np.ndarray) -> np.ndarray:
        """What is around each part, within its document."""
        several = np.split(of_parts.astype(np.float64), ends)
        return np.concatenate([np.convolve(one, near)[reach - 1 :][: len(one)] for one in several])

    found = shares(spread(parts.lengths), map(spread, parts.counts(question)))
    scores = np.split(found - found.max(), ends)
    return [Surroundings(np.array(one), score) for one, score in zip(starts, scores, strict=True)]


def _sum(one: Surroundings, other: Surroundings) -> Surroundings:
    starts = np.union1d(one.starts, other.starts)
    return Surroundings(starts, one.at(starts) + other.at(starts))


def _block_starts(text: str) -> list[int]:
    words = (one.start() for one in re.finditer(r"\S+", text))
    return [0, *(start for at, start in enumerate(words) if at and at % _BLOCK == 0)]


def _line_starts(text: str) -> list[int]:
    return [0, *(one.end() for one in re.finditer("\n", text))]
