"""Which sentences make a summary."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longspan.metrics.extracts import Budget, chosen, lead

SENTENCES = ["one two three four", "five six", "one two three again", "seven eight nine", "ten"]


def test_the_best_are_chosen_in_their_order() -> None:
    assert chosen(SENTENCES, [0.1, 0.9, 0.2, 0.8, 0.3], Budget(sentences=2)) == [1, 3]
    assert chosen(SENTENCES, [1.0, 1.0, 1.0, 1.0, 1.0], Budget(sentences=2)) == [0, 1]


def test_sentences_are_added_while_that_comes_nearer_to_the_number_of_words() -> None:
    # 4, then 6, then 10 words: 6 is nearer to 7 than 10 is.
    assert lead(SENTENCES, Budget(words=7)) == [0, 1]
    assert lead(SENTENCES, Budget(words=9)) == [0, 1, 2]
    assert lead(SENTENCES, Budget(words=8)) == [0, 1]  # as near is not nearer
    assert lead(SENTENCES, Budget(words=1)) == [0], "one sentence is always there"
    assert lead(SENTENCES, Budget(words=9, sentences=1)) == [0]
    assert lead([], Budget(words=9)) == []


def test_trigrams_are_said_once() -> None:
    assert chosen(SENTENCES, [5, 1, 4, 3, 2], Budget(sentences=2), block_trigrams=True) == [0, 3]
    assert chosen(SENTENCES, [5, 1, 4, 3, 2], Budget(sentences=2)) == [0, 2]
    # What says the same with other letters or points says the same.
    assert chosen(["A b, c.", "a B c", "d"], [3, 2, 1], Budget(sentences=2), block_trigrams=True) == [0, 2]


def test_what_was_not_read_is_not_chosen() -> None:
    assert chosen(SENTENCES, [0.0, 1.0], Budget(sentences=5)) == [0, 1]


@pytest.mark.parametrize(
    ("scores", "budget", "message"),
    [
        ([0.0] * 6, Budget(words=3), "scores has 6 numbers; there are 5 sentences"),
        ([0.0], Budget(), "both None"),
        ([0.0], Budget(words=0), "words is 0; it must be at least 1"),
    ],
)
def test_mistakes(scores: list[float], budget: Budget, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        chosen(SENTENCES, scores, budget)


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(-3, 3)), min_size=1, max_size=8),
    st.integers(1, 40),
)
def test_extracts_are_beginnings_of_the_ranking(rows: list[tuple[int, int]], words: int) -> None:
    texts, scores = ["w " * length for length, _ in rows], [float(score) for _, score in rows]
    taken = chosen(texts, scores, Budget(words=words))
    ranked = sorted(range(len(rows)), key=lambda at: (-scores[at], at))
    assert sorted(ranked[: len(taken)]) == taken

    def distance(count: int) -> int:
        return abs(sum(rows[at][0] for at in ranked[:count]) - words)

    # Lengths grow with every sentence, so the nearest is where the distance first stops shrinking.
    assert distance(len(taken)) == min(distance(count) for count in range(1, len(rows) + 1))
