"""What stands around places in documents, against the sums written out."""

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longspan.apps.surroundings import surroundings
from longspan.apps.words import K1, B, words, words_of_question

_WORDS = st.sampled_from(["river", "rivers", "the", "Ada", "wrote", "a", "program", "—", "Zürich", "1871"])
_SPACES = st.sampled_from([" ", "\n", "  "])
_TEXTS = st.lists(st.tuples(_WORDS, _SPACES), max_size=130).map(
    lambda parts: "".join(w + s for w, s in parts)
)


def slowly(documents: list[str], question: str) -> list[list[float]]:
    """The score of each place: blocks of ten words, those within 30 counting less the farther they are, and
    lines."""
    blocks = [[0, *[one.start() for one in re.finditer(r"\S+", text)][10::10]] for text in documents]
    lines = [[0, *(at + 1 for at, letter in enumerate(text) if letter == "\n")] for text in documents]
    near = behind_the_best(documents, blocks, question, reach=3)
    whole = behind_the_best(documents, lines, question, reach=1)
    return [[a + b for a, b in zip(*both, strict=True)] for both in zip(near, whole, strict=True)]


def behind_the_best(
    documents: list[str], begins_of: list[list[int]], question: str, *, reach: int
) -> list[list[float]]:
    """The score of each place, by parts of documents that begin at these characters."""
    parts: list[tuple[int, list[str]]] = []
    places: list[list[int]] = []
    for number, (text, begins) in enumerate(zip(documents, begins_of, strict=True)):
        first = len(parts)
        ends = [*begins[1:], len(text)]
        parts += [(number, words(text[b:e])) for b, e in zip(begins, ends, strict=True)]
        places.append([first + sum(begin <= at for begin in begins) - 1 for at in range(len(text))])

    def around(at: int, value: list[float]) -> float:
        near = (other for other in range(len(parts)) if parts[other][0] == parts[at][0])
        return sum(max(0.0, 1 - abs(at - other) / reach) * value[other] for other in near)

    count = range(len(parts))
    lengths = [around(at, [float(len(found)) for _, found in parts]) for at in count]
    mean = max(sum(lengths) / len(lengths), 1.0)
    total, most = [0.0 for _ in count], 0.0
    for word in words_of_question(question):
        many = [around(at, [float(found.count(word)) for _, found in parts]) for at in count]
        having = sum(one > 0 for one in many)
        rarity = math.log(1 + (len(parts) - having + 0.5) / (having + 0.5))
        most += rarity * (K1 + 1)
        for at in count:
            total[at] += rarity * many[at] * (K1 + 1) / (many[at] + K1 * (1 - B + B * lengths[at] / mean))
    shares = [one / most if most else 0.0 for one in total]
    return [[shares[part] - max(shares) for part in of_document] for of_document in places]


@given(st.lists(_TEXTS, min_size=1, max_size=4), st.sampled_from(["Who wrote a river?", "1871", "?", "the"]))
def test_scores_are_what_the_sums_say(documents: list[str], question: str) -> None:
    found = surroundings(documents, question)
    for text, one, slow in zip(documents, found, slowly(documents, question), strict=True):
        np.testing.assert_allclose(one.at(np.arange(len(text))), slow, atol=1e-9)
        assert one.starts[0] == 0 and one.scores.max() <= 0 and one.scores.min() >= -2


def test_the_best_place_is_where_rare_words_are_together() -> None:
    filler = "nothing much is said here at all about it " * 30
    text = f"{filler}the machine {filler}Ada wrote a program for the machine {filler}Ada {filler}"
    (found,) = surroundings([text], "Who wrote the program for the machine, Ada?")
    best = text.index("Ada wrote")
    assert found.at(np.array([best]))[0] == 0.0
    assert found.at(np.array([text.index("the machine")]))[0] < -0.1
    assert found.at(np.array([0]))[0] < -0.3


def test_a_paragraph_counts_where_nothing_near_does() -> None:
    filler = "nothing much is said here at all about it " * 6
    text = f"Ada wrote a program. {filler}It was in 1843.\n{filler}It was in 1871.\n{filler}"
    (found,) = surroundings([text], "When did Ada write a program?")
    first, second = found.at(np.array([text.index("1843"), text.index("1871")]))
    assert first > second + 0.1


def test_documents_are_compared_but_do_not_reach_into_each_other() -> None:
    one, other = surroundings(["a river of gold", "nothing is here"], "Which river?")
    assert one.scores.max() == 0.0 and np.all(other.scores < 0)


@pytest.mark.parametrize("documents", [[], [""], ["", " \n"]])
def test_nothing_is_all_the_same(documents: list[str]) -> None:
    for one in surroundings(documents, "Which river?"):
        assert not one.scores.any()
