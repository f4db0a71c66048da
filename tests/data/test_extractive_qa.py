"""Questions that spans answer: our JSONL and SQuAD."""

import json
from pathlib import Path
from typing import Any

import pytest

from longspan.data.examples import Document, Question, Span, Turn
from longspan.data.extractive_qa import dialogue_of, occurrences, read_questions, read_squad

from .writing import ENDINGS, write, write_jsonl

OURS: dict[str, Any] = {
    "id": "q1",
    "question": "Who wrote it?",
    "documents": [{"id": "a", "text": "By nobody."}, {"id": "b", "text": "Ada wrote it; ada, not Adam."}],
    "answers": ["Ada"],
}


def squad(**question: Any) -> str:
    qa = {"id": "s1", "question": "Where?", "answers": [{"text": "Rome", "answer_start": 7}]} | question
    paragraphs = [{"context": "She is Rome's.", "qas": [qa]}, {"context": "Empty.", "qas": []}]
    return json.dumps({"version": "1.1", "data": [{"title": "Cities", "paragraphs": paragraphs}]})


def test_our_jsonl_finds_the_answers(tmp_path: Path) -> None:
    (question,) = read_questions(write_jsonl(tmp_path / "qa.jsonl", OURS))
    assert question == Question(
        id="q1",
        question="Who wrote it?",
        documents=(
            Document(id="a", text="By nobody."),
            Document(id="b", text="Ada wrote it; ada, not Adam."),
        ),
        answers=("Ada",),
        spans=(Span(1, 0, 3), Span(1, 14, 17)),
        is_impossible=False,
    )


def test_our_jsonl_takes_given_spans(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "qa.jsonl", OURS | {"spans": [[1, 0, 3]], "is_impossible": False})
    assert next(read_questions(path)).spans == (Span(1, 0, 3),)


def test_our_jsonl_needs_no_answers(tmp_path: Path) -> None:
    unknown = {name: OURS[name] for name in ("id", "question", "documents")}
    path = write_jsonl(tmp_path / "qa.jsonl", unknown, unknown | {"id": 2, "is_impossible": True})
    first, second = read_questions(path)
    assert (first.answers, first.spans, first.is_impossible) == ((), (), False)
    assert (second.id, second.is_impossible) == ("2", True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"is_impossible": True}, "is_impossible is True; it must be false where there are answers"),
        ({"spans": [[1, 0, 99]]}, r"spans\[0\] is \[1, 0, 99\]; it must be 0 <= start < end <= 28"),
        ({"spans": [[2, 0, 1]]}, r"spans\[0\] is .* with a document below 2"),
        ({"spans": [{"start": 1}]}, r"spans\[0\] is .*\[document, start, end\]"),
        ({"documents": ["text"]}, r"line 1, documents\[0\] is 'text'; it must be an object"),
        ({"documents": [{"id": "a"}]}, r"line 1, documents\[0\]: text is missing"),
        ({"answers": "Ada"}, "answers is 'Ada'; it must be a list of strings"),
        ({"question": None}, "question is None; it must be a string"),
    ],
)
def test_our_jsonl_refuses(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        list(read_questions(write_jsonl(tmp_path / "qa.jsonl", OURS | change)))


def test_occurrences_are_whole_words_and_the_longest() -> None:
    documents = [Document(id="d", text="New York, new york city. Newer (NEW YORK).")]
    answers = ["new york", "New York City", "  ", ""]
    assert list(occurrences(answers, documents)) == [Span(0, 0, 8), Span(0, 10, 23), Span(0, 32, 40)]
    assert list(occurrences([], documents)) == []
    assert list(occurrences(["C++ (lang)"], [Document(id="d", text="In C++ (lang), or")])) == [Span(0, 3, 13)]


@pytest.mark.parametrize("ending", ENDINGS)
def test_squad(ending: str, tmp_path: Path) -> None:
    (question,) = read_squad(write(tmp_path / f"squad.json{ending}", squad()))
    assert question == Question(
        id="s1",
        question="Where?",
        documents=(Document(id="Cities/0", text="She is Rome's."),),
        answers=("Rome",),
        spans=(Span(0, 7, 11),),
        is_impossible=False,
    )


def test_squad_2(tmp_path: Path) -> None:
    plausible = {"plausible_answers": [{"text": "Rome", "answer_start": 7}]}
    path = write(tmp_path / "squad.json", squad(answers=[], is_impossible=True, **plausible))
    (question,) = read_squad(path)
    assert (question.answers, question.spans, question.is_impossible) == ((), (), True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"answers": [{"text": "Rome", "answer_start": 6}]},
            r"record 1, paragraphs\[0\], qas\[0\], answers\[0\]: answer_start is 6; .*where .*'Rome'",
        ),
        ({"answers": []}, "answers is .*; it must be a list of answers"),
        ({"is_impossible": True}, "or empty where is_impossible is true"),
        ({"answers": [{"text": "Rome"}]}, "answer_start is missing"),
        ({"id": None}, r"qas\[0\]: id is None; it must be a string"),
    ],
)
def test_squad_refuses(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        list(read_squad(write(tmp_path / "squad.json", squad(**change))))


def test_questions_of_a_dialogue(tmp_path: Path) -> None:
    record = {"id": 1, "question": "Why?", "documents": [{"id": 1, "text": "Ada found it."}]}
    more = {"dialogue": 7, "history": [["Who?", "Ada"], ["Where?", ""]]}
    first, second = read_questions(write_jsonl(tmp_path / "qa.jsonl", record, record | more | {"id": 2}))
    assert (first.dialogue, first.history, dialogue_of(first)) == ("", (), "1")
    assert (second.dialogue, second.history) == ("7", (Turn("Who?", "Ada"), Turn("Where?", "")))
    assert dialogue_of(second) == "7"
    with pytest.raises(ValueError, match=r"history\[0\] is \['Who\?'\]; it must be \[question, answer\]"):
        list(read_questions(write_jsonl(tmp_path / "wrong.jsonl", record | {"history": [["Who?"]]})))
