"""QuAC: numbers worked out by hand after the official script."""

import json

import pytest

from longspan.metrics.quac import agreed, human_f1, leave_one_out_f1, score_quac

GOLDS = {
    # F1 of the first two is 0.8, and the third shares nothing: (0.8 + 0.8 + 0) / 3.
    "1": ["the red cat", "red cat sat", "a dog"],
    "2": ["cat", "dog"],  # people do not agree: 0
    "3": ["", "CANNOTANSWER", "cat"],
    "4": ["black cat"],
}
DIALOGUES = {"1": "a", "2": "a", "3": "a", "4": "b"}


def test_human_f1_compares_each_with_the_others() -> None:
    assert human_f1(GOLDS["1"]) == pytest.approx(1.6 / 3)
    assert human_f1(GOLDS["2"]) == 0
    assert human_f1(["black cat"]) == 1
    assert human_f1(["cat", "The cat!"]) == 1


def test_one_annotator_is_left_out_at_a_time() -> None:
    # "red cat" has 1, 0.8 and 0: without the first 0.8 is best, without another 1 is.
    assert leave_one_out_f1("red cat", GOLDS["1"]) == pytest.approx((0.8 + 1 + 1) / 3)
    assert leave_one_out_f1("cat", GOLDS["2"]) == 0.5
    assert leave_one_out_f1("cat", ["black cat"]) == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("answers", "right"),
    [
        (["", "cat"], ["CANNOTANSWER"]),
        (["", "cat", "dog"], ["cat", "dog"]),
        (["CANNOTANSWER", "CANNOTANSWER", "cat"], ["CANNOTANSWER"]),
        ([], ["CANNOTANSWER"]),
    ],
)
def test_half_of_the_annotators_decide_that_there_is_no_answer(answers: list[str], right: list[str]) -> None:
    assert agreed(answers) == right
    assert leave_one_out_f1("", right) == (right == ["CANNOTANSWER"])


def test_a_data_set() -> None:
    scores = score_quac({"1": "red cat", "2": "cat", "3": "", "4": "cat", "5": "?"}, GOLDS, DIALOGUES)
    first, last = (0.8 + 1 + 1) / 3, 2 / 3
    assert scores.f1 == pytest.approx((first + 1 + last) / 3)
    assert scores.human_f1 == pytest.approx((1.6 / 3 + 1 + 1) / 3)
    assert (scores.heq_q, scores.heq_d) == (pytest.approx(2 / 3), 0.5)
    assert scores.unfiltered_f1 == pytest.approx((first + 0.5 + 1 + last) / 4)
    assert (scores.questions, scores.counted, scores.dialogues, scores.missing) == (4, 3, 2, ())
    json.dumps(scores.record())
    every = score_quac({"1": "red cat", "2": "cat", "3": "", "4": "cat"}, GOLDS, DIALOGUES, least_human_f1=0)
    assert (every.counted, every.heq_q, every.f1) == (4, 0.75, every.unfiltered_f1)


def test_a_missing_prediction_is_wrong_even_where_people_disagree() -> None:
    scores = score_quac({"1": "red cat", "3": ""}, GOLDS, DIALOGUES)
    assert scores.missing == ("2", "4")
    assert (scores.counted, scores.heq_q, scores.heq_d) == (4, 0.5, 0)
    assert scores.f1 == scores.unfiltered_f1 == pytest.approx(((0.8 + 1 + 1) / 3 + 1) / 4)
    assert scores.human_f1 == pytest.approx((1.6 / 3 + 1 + 1) / 3)


def test_nothing_but_questions_that_do_not_count() -> None:
    scores = score_quac({"2": "cat"}, {"2": GOLDS["2"]}, DIALOGUES)
    assert (scores.f1, scores.heq_q, scores.heq_d, scores.unfiltered_f1) == (0, 0, 1, 0.5)


def test_refuses() -> None:
    with pytest.raises(ValueError, match="golds is empty"):
        score_quac({}, {}, {})
    with pytest.raises(ValueError, match=r"golds\['1'\] is the string 'cat'"):
        score_quac({}, {"1": "cat"}, {"1": "a"})
    with pytest.raises(ValueError, match="dialogues has no '1'"):
        score_quac({}, {"1": ["cat"]}, {})
