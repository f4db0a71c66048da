"""What words passages share with a query, against the formula written out."""

import math

import numpy as np
import pytest

from longspan.apps.shared_words import PassageWords
from longspan.apps.words import K1, B, words, words_of_question

TEXTS = [
    "The river Inn flows from Switzerland to the Danube.",
    "Rivers, rivers and once more rivers; and what a river is.",
    "",
    "Ada wrote the first program for a machine that nobody had built.",
    "Nobody reads programs.",
]


def slowly(texts: list[str], query: str) -> list[float]:
    """BM25, word by word, over the sum that no passage can reach."""
    passages = [words(text) for text in texts]
    mean = sum(map(len, passages)) / len(passages)
    wanted = words_of_question(query)
    having = {word: sum(word in one for one in passages) for word in wanted}
    rarity = {word: math.log(1 + (len(texts) - n + 0.5) / (n + 0.5)) for word, n in having.items()}
    return [
        sum(
            rarity[word] * one.count(word) * (K1 + 1) / (one.count(word) + K1 * (1 - B + B * len(one) / mean))
            for word in wanted
        )
        / sum(rarity[word] * (K1 + 1) for word in wanted)
        for one in passages
    ]


@pytest.mark.parametrize(
    "query", ["Which river?", "Who built the first machines?", "river program", "xyz", "the"]
)
def test_shares_are_bm25_of_the_most_it_could_be(query: str) -> None:
    found = PassageWords.of(TEXTS).shares(query)
    assert found.dtype == np.float32 and found.min() >= 0 and found.max() < 1
    np.testing.assert_allclose(found, slowly(TEXTS, query), atol=1e-6)


def test_the_best_passage_has_the_rare_words() -> None:
    found = PassageWords.of(TEXTS).shares("Who wrote the program?")
    assert found.argmax() == 3 and found[0] == found[2] == 0 and 0 < found[4] < found[3]


def test_documents_joined_are_one_library() -> None:
    joined = PassageWords.joined(
        [PassageWords.of(TEXTS[:2]), PassageWords.of([]), PassageWords.of(TEXTS[2:])]
    )
    whole = PassageWords.of(TEXTS)
    assert np.array_equal(joined.lengths, whole.lengths) and np.array_equal(joined.hashes, whole.hashes)


def test_nothing_shares_nothing() -> None:
    assert PassageWords.joined([]).shares("river").shape == (0,)
    assert PassageWords.of(["", ""]).shares("river").tolist() == [0, 0]
    assert PassageWords.of(TEXTS).shares("?!").tolist() == [0] * len(TEXTS)


def test_texts_that_are_no_unicode_have_words() -> None:
    assert PassageWords.of(["a \ud800b"]).shares("\ud800b").shape == (1,)
