"""Words by which passages are found."""

import math

import pytest

from longspan.apps.words import bm25, words, words_of_question


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("Dogs dog DOG dog's", ["dog", "dog", "dog", "dog", "s"]),
        ("lived lives living live", ["liv", "liv", "liv", "liv"]),
        ("Cities city", ["city", "city"]),
        ("Café snake_case 3,14", ["caf", "snak", "cas", "3", "14"]),
        ("press bus is", ["press", "bus", "is"]),
    ],
)
def test_words(text: str, found: list[str]) -> None:
    assert words(text) == found


def test_a_question_is_what_few_texts_say() -> None:
    assert words_of_question("Who sold the dogs to the dog?") == ["sold", "dog"]
    assert words_of_question("What is it?") == ["what", "is", "it"]
    assert words_of_question("?!") == []


def test_rarer_words_and_shorter_texts_count_more() -> None:
    texts = [["a", "b"], ["a", "c"], ["a", "c", "d", "d"], ["e"], ["e"]]
    b, c = bm25(texts, ["b"]), bm25(texts, ["c"])
    assert b[0] > c[1] > c[2] > c[0] == 0
    weight = math.log(4.5 / 1.5)
    assert b[0] == pytest.approx(weight * 2.2 / (1 + 1.2 * (0.25 + 0.75 * 2 / 2)))
    assert bm25([], ["a"]) == []
