"""Summaries that are sentences of the document itself: which ones, by a score for each.

Whoever gives the scores, a model or the order of the sentences, gets the same rules, so that a baseline and a
model differ in their scores alone. Nothing is written or shortened here: a sentence is taken whole.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from longspan.checks import at_least

_WORD = re.compile(r"\w+")


class Budget(NamedTuple):
    """How long an extract is."""

    words: int | None = None
    """About so many: a sentence is added as long as that brings the extract nearer to it. None for any."""
    sentences: int | None = None
    """At most so many; None for any."""


def chosen(
    sentences: Sequence[str], scores: Sequence[float], budget: Budget, *, block_trigrams: bool = False
) -> list[int]:
    """The sentences with the highest scores that the budget allows, in their order; the first of equal ones.

    Args:
        sentences: of a document.
        scores: one for each; there may be fewer, where the end of a document was not read.
        budget: how long. One sentence is always chosen, if there is any.
        block_trigrams: whether sentences are passed over that say three words in a row which the chosen ones
            say already.

    Raises:
        ValueError: there are more scores than sentences, or the budget has no limit.
    """
    if len(scores) > len(sentences):
        raise ValueError(f"scores has {len(scores)} numbers; there are {len(sentences)} sentences")
    check(budget)
    best = sorted(range(len(scores)), key=lambda at: (-scores[at], at))
    taken: list[int] = []
    said: set[tuple[str, ...]] = set()
    words = 0
    for at in best:
        if budget.sentences is not None and len(taken) == budget.sentences:
            break
        trigrams = _trigrams(sentences[at]) if block_trigrams else set[tuple[str, ...]]()
        if trigrams & said:
            continue
        longer = words + len(sentences[at].split())
        if taken and budget.words is not None and abs(longer - budget.words) >= abs(words - budget.words):
            break
        taken.append(at)
        said |= trigrams
        words = longer
    return sorted(taken)


def lead(sentences: Sequence[str], budget: Budget) -> list[int]:
    """The first sentences, which is what a summary has to be better than."""
    return chosen(sentences, [-float(at) for at in range(len(sentences))], budget)


def check(budget: Budget) -> None:
    """Refuses a budget that says nothing.

    Raises:
        ValueError: it has no limit, or one below 1.
    """
    if budget == Budget():
        raise ValueError("words and sentences are both None; one of them must be given")
    at_least(1, **budget._asdict())


def _trigrams(sentence: str) -> set[tuple[str, ...]]:
    words = _WORD.findall(sentence.lower())
    return set(zip(words, words[1:], words[2:], strict=False))
