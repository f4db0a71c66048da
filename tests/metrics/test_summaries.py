"""Summaries: ROUGE by hand, sentences by lines, several references."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longspan.metrics.scores import Ratios
from longspan.metrics.summaries import SummaryScores, score_summaries

from .examples import examples

KINDS = ("rouge_1", "rouge_2", "rouge_l", "rouge_lsum")
TEXTS = st.lists(st.sampled_from(["cat", "dog", "owl", "sat", "\n", "."]), max_size=8).map(" ".join)


def score_one(prediction: str, *references: str, stem: bool = True) -> SummaryScores:
    return score_summaries({"d": prediction}, {"d": references}, stem=stem)


def pair(found: Ratios) -> tuple[float, float]:
    return found.precision, found.recall


def test_by_hand() -> None:
    found = score_one("the cat sat here", "The cat, black, sat!")
    assert pair(found.rouge_1) == (3 / 4, 3 / 4)
    assert pair(found.rouge_2) == (1 / 3, 1 / 3)  # "the cat"
    assert pair(found.rouge_l) == pair(found.rouge_lsum) == (3 / 4, 3 / 4)
    assert pair(score_one("cat cat cat", "cat").rouge_1) == (1 / 3, 1)


def test_sentences_are_lines() -> None:
    found = score_one("dogs bark\ncats purr", "cats purr\ndogs bark")
    assert found.rouge_1.f1 == found.rouge_lsum.f1 == 1
    assert found.rouge_l.f1 == 1 / 2
    one_line = score_one("dogs bark. cats purr.", "cats purr. dogs bark.")
    assert one_line.rouge_lsum == one_line.rouge_l


def test_stems() -> None:
    assert score_one("cats barked", "cats barking").rouge_1.f1 == 1
    assert score_one("cats barked", "cats barking", stem=False).rouge_1.f1 == 1 / 2


def test_the_best_reference_of_each_kind() -> None:
    # The first shares more words, the second longer runs of them.
    words, run = "d c b a", "a b x y z u v w"
    found = score_one("a b c d", words, run)
    assert found.rouge_1 == score_one("a b c d", words).rouge_1
    assert found.rouge_2 == score_one("a b c d", run).rouge_2
    assert found == score_one("a b c d", run, words)


def test_means_and_missing() -> None:
    found = score_summaries({"1": "cat", "unasked": "x"}, {"1": "cat", "2": ["dog", "owl"]})
    assert pair(found.rouge_1) == (1 / 2, 1 / 2)
    assert (found.documents, found.missing) == (2, ("2",))
    assert json.loads(json.dumps(found.record()))["rouge_1"]["f1"] == 1 / 2


@pytest.mark.parametrize("text", ["", "\n\n", "...", "東京"])
def test_texts_without_a_word_score_0(text: str) -> None:
    assert score_one(text, text).rouge_1.f1 == score_one(text, "cat").rouge_lsum.f1 == 0


def test_refuses() -> None:
    with pytest.raises(ValueError, match="references is empty"):
        score_summaries({}, {})
    with pytest.raises(ValueError, match=r"references\['1'\] is empty; a document needs at least one"):
        score_summaries({}, {"1": []})


@examples(150)
@given(TEXTS, TEXTS)
def test_bounds_and_symmetry(one: str, other: str) -> None:
    there, back = score_one(one, other), score_one(other, one)
    for kind in KINDS:
        found: Ratios = getattr(there, kind)
        assert 0 <= found.f1 <= 1
        # The summary-level LCS walks through the reference's sentences, so it is not symmetric.
        if kind != "rouge_lsum":
            assert pair(found) == pair(getattr(back, kind))[::-1]
    assert there.rouge_l.f1 <= there.rouge_1.f1


@examples(100)
@given(TEXTS)
def test_a_perfect_summary(text: str) -> None:
    found = score_one(text, "something else", text)
    words = len([word for word in text.split() if word != "."])
    assert found.rouge_1.f1 == found.rouge_l.f1 == found.rouge_lsum.f1 == (words > 0)
    assert found.rouge_2.f1 == (words > 1)
