"""HotpotQA: numbers worked out by hand after the official script."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longspan.metrics.hotpotqa import Fact, HotpotQAScores, Part, score_hotpotqa

from .examples import examples

FACTS = st.lists(st.tuples(st.sampled_from("AB"), st.integers(0, 2)), max_size=4)
ANSWERS = st.sampled_from(["yes", "no", "a cat", "black cat", "cat", "yes cat", ""])


def score_one(answer: str, gold: str, facts: list[Fact], gold_facts: list[Fact]) -> HotpotQAScores:
    return score_hotpotqa(
        answers={"1": answer}, facts={"1": facts}, gold_answers={"1": gold}, gold_facts={"1": gold_facts}
    )


def numbers(part: Part) -> tuple[float, float, float, float]:
    return part.exact_match, part.f1, part.precision, part.recall


def test_one_question() -> None:
    gold: list[Fact] = [("A", 0), ("B", 1)]
    # One of two words is right; of three facts two are right, which are all: joint 1/2 * 2/3 and 1 * 1.
    found = score_one("black cat", "The cat", [["A", 0], ["B", 1], ["B", 2]], gold)
    assert numbers(found.answer) == pytest.approx((0, 2 / 3, 1 / 2, 1))
    assert numbers(found.facts) == pytest.approx((0, 4 / 5, 2 / 3, 1))
    assert numbers(found.joint) == pytest.approx((0, 1 / 2, 1 / 3, 1))


def test_a_title_is_not_enough_and_duplicates_count_once() -> None:
    assert numbers(score_one("x", "x", [("A", 1)], [("A", 0)]).facts) == (0, 0, 0, 0)
    assert numbers(score_one("x", "x", [("A", 0), ["A", 0]], [("A", 0)]).facts) == (1, 1, 1, 1)


def test_no_facts_match_no_facts_exactly_and_share_none() -> None:
    assert numbers(score_one("x", "x", [], []).facts) == (1, 0, 0, 0)
    assert numbers(score_one("x", "x", [], [("A", 0)]).facts) == (0, 0, 0, 0)


def test_yes_is_not_a_part_of_an_answer() -> None:
    found = score_one("yes", "yes, indeed", [("A", 0)], [("A", 0)])
    assert numbers(found.answer) == numbers(found.joint) == (0, 0, 0, 0)


def test_means_and_missing_halves() -> None:
    found = score_hotpotqa(
        answers={"1": "cat", "2": "dog", "unasked": "x"},
        facts={"1": [("A", 0)], "3": [("A", 0), ("B", 0)]},
        gold_answers={"1": "cat", "2": "dog", "3": "owl", "4": "cow"},
        gold_facts={one: [("A", 0)] for one in "1234"},
    )
    assert numbers(found.answer) == (2 / 4, 2 / 4, 2 / 4, 2 / 4)
    assert numbers(found.facts) == pytest.approx((1 / 4, (1 + 2 / 3) / 4, (1 + 1 / 2) / 4, 2 / 4))
    assert numbers(found.joint) == (1 / 4, 1 / 4, 1 / 4, 1 / 4)
    assert (found.questions, found.missing_answers, found.missing_facts) == (4, ("3", "4"), ("2", "4"))
    assert json.loads(json.dumps(found.record()))["joint"]["recall"] == 1 / 4


def test_the_mean_f1_is_not_the_f1_of_the_means() -> None:
    # F1 of the questions 2/3 (precision 1/2, recall 1) and 2/3 (the reverse); of the means it would be 3/4.
    found = score_hotpotqa(
        answers={"1": "black cat", "2": "cat"},
        facts={},
        gold_answers={"1": "cat", "2": "black cat"},
        gold_facts={"1": [], "2": []},
    )
    assert numbers(found.answer) == pytest.approx((0, 2 / 3, 3 / 4, 3 / 4))


def test_refuses() -> None:
    with pytest.raises(ValueError, match="gold_answers is empty"):
        score_hotpotqa(answers={}, facts={}, gold_answers={}, gold_facts={})
    with pytest.raises(ValueError, match="question '2' has gold facts and no gold answer; give both"):
        score_hotpotqa(answers={}, facts={}, gold_answers={"1": "x"}, gold_facts={"1": [], "2": []})


@examples(200)
@given(ANSWERS, ANSWERS, FACTS, FACTS)
def test_bounds_symmetry_and_order(answer: str, gold: str, facts: list[Fact], gold_facts: list[Fact]) -> None:
    there, back = score_one(answer, gold, facts, gold_facts), score_one(gold, answer, gold_facts, facts)
    for part, turned in ((there.answer, back.answer), (there.facts, back.facts), (there.joint, back.joint)):
        assert (part.exact_match, part.precision) == (turned.exact_match, turned.recall)
        assert all(0 <= number <= 1 for number in numbers(part))
    assert there.joint.precision <= min(there.answer.precision, there.facts.precision)
    assert there == score_one(answer, gold, facts[::-1], gold_facts[::-1])
    if gold and gold_facts:
        assert numbers(score_one(gold, gold, gold_facts, gold_facts).joint) == (1, 1, 1, 1)
