"""Answers to questions: by whose rules they are scored, and whether there may be none."""

import dataclasses

import pytest

from longspan.data.examples import AnswerRules, Question
from longspan.tasks.extractive_qa import ExtractiveQA, ExtractiveQASettings
from tests.tasks.qa_cases import RIVER, question, task


def of_format(rules: AnswerRules, *, is_impossible: bool = False) -> Question:
    answers = () if is_impossible else ("well known",)
    made = question("What?", "It is well known.", answers=answers, is_impossible=is_impossible)
    return dataclasses.replace(made, scored_by=rules)


def test_rules_are_those_of_the_data_unless_given() -> None:
    hyphen = [{"id": "q", "answer": "well-known"}]
    assert task().score([of_format("triviaqa")], hyphen) == {"exact_match": 1, "f1": 1}
    assert task().score([of_format("squad")], hyphen) == {"exact_match": 0, "f1": 0}
    assert "heq_q" in task().score([of_format("quac")], hyphen)
    assert task(rules="squad").score([of_format("quac")], hyphen) == {"exact_match": 0, "f1": 0}
    with pytest.raises(ValueError, match="rules of quac, squad; settings.rules must say"):
        task().score([of_format("quac"), of_format("squad")], hyphen * 2)


@pytest.mark.parametrize(
    ("examples", "expected"),
    [
        ([of_format("squad"), of_format("squad", is_impossible=True)], True),
        ([of_format("squad")], False),
        ([of_format("quac"), of_format("quac", is_impossible=True)], True),
        ([of_format("triviaqa")], False),
    ],
)
def test_whether_answers_may_be_absent_is_found_out(examples: list[Question], expected: bool) -> None:
    assert ExtractiveQA.resolved(ExtractiveQASettings(), examples).answer_may_be_absent is expected
    for given in (True, False):
        settings = ExtractiveQASettings(answer_may_be_absent=given)
        assert ExtractiveQA.resolved(settings, examples) is settings


def test_what_is_never_said_but_right_is_told(caplog: pytest.LogCaptureFixture) -> None:
    asked = [of_format("squad", is_impossible=True), of_format("squad")]
    task(answer_may_be_absent=False).score(asked, [{"answer": "well"}, {"answer": "well known"}])
    assert "1 of 2 questions have no answer" in caplog.text


def test_scores_by_hand() -> None:
    examples = [
        question("Who?", RIVER, answers=("the Inn", "Inn river"), id="a"),
        question("Who?", RIVER, answers=("Passau",), id="a"),  # the same id: both count
        question("Who?", RIVER, is_impossible=True, id="c"),
    ]
    predictions = [
        {"id": "a", "answer": "Inn"},
        {"id": "a", "answer": "Passau lies"},
        {"id": "c", "answer": ""},
    ]
    scores = task().score(examples, predictions)
    assert scores == {"exact_match": pytest.approx(2 / 3), "f1": pytest.approx((1 + 2 / 3 + 1) / 3)}
    well_known = [question("What?", "a", answers=("well known",))]
    hyphen = [{"id": "q", "answer": "well-known"}]
    assert task(rules="triviaqa").score(well_known, hyphen)["exact_match"] == 1
    assert task(rules="squad").score(well_known, hyphen)["exact_match"] == 0
    with pytest.raises(ValueError, match="q: answers is empty and is_impossible is false"):
        task().score([question("Who?", RIVER)], predictions[:1])


def test_quacs_scores_are_by_dialogue() -> None:
    one = task(rules="quac", answer_may_be_absent=True)
    examples = [
        question("Who?", RIVER, answers=("the Inn", "Inn"), id="1/1"),
        question("Why?", RIVER, is_impossible=True, id="1/2"),
        question("Which city?", RIVER, answers=("the city of Passau",), id="2/1"),
    ]
    examples = [dataclasses.replace(example, dialogue=example.id[0]) for example in examples]
    said = [{"answer": "Inn"}, {"answer": ""}, {"answer": "Passau"}]
    scores = one.score(examples, said)
    assert scores == {
        "f1": pytest.approx((1 + 1 + 0.5) / 3),
        "human_f1": 1,
        "heq_q": pytest.approx(2 / 3),
        "heq_d": 0.5,
        "unfiltered_f1": pytest.approx((1 + 1 + 0.5) / 3),
    }
    assert one.best_score in scores
