"""QuAC as it is published, and as numbered strings with answers written one after the other."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from longspan.data.examples import Span, Turn
from longspan.data.extractive_qa import read_squad
from longspan.data.quac import read_quac, taken_apart

from .writing import ENDINGS, write, write_jsonl

PASSAGE = "In May she sang. Then she left (to Rome), and sang no more. CANNOTANSWER"
RECORD = {
    "passage": PASSAGE,
    "question": "question1: What did she do?\n answer : ?\nquestion2: Why?\n answer : ?",
    "answer": "possible answers for question1:\nshe sang. In May she sang. CANNOTANSWER\n"
    "possible answers for question2:\nCANNOTANSWER",
}


def test_one_example_a_question(tmp_path: Path) -> None:
    dropped: Counter[str] = Counter()
    first, second = read_quac(write_jsonl(tmp_path / "quac.jsonl", RECORD), dropped=dropped)
    assert (first.id, second.id) == ("1/1", "1/2")
    assert (first.question, second.question) == ("What did she do?", "Why?")
    assert first.documents[0].text == PASSAGE.removesuffix(" CANNOTANSWER")
    assert first.answers == ("she sang.", "In May she sang.")
    assert first.spans == (Span(0, 7, 16), Span(0, 0, 16))
    assert not first.is_impossible
    assert (second.answers, second.spans, second.is_impossible) == ((), (), True)
    assert not dropped
    assert (first.dialogue, first.history) == ("1", ())
    assert (second.dialogue, second.history) == ("1", (Turn("What did she do?", "she sang."),))


def test_history_has_all_turns_be_they_examples_or_not(tmp_path: Path) -> None:
    names = ("What?", "Why?", "When?", "And then?")
    asked = "\n".join(f"question{at}: {name}\n answer : ?" for at, name in enumerate(names, 1))
    given = ("CANNOTANSWER CANNOTANSWER", "she danced.", "In May", "Then she left")
    said = "\n".join(f"possible answers for question{at}:\n{one}" for at, one in enumerate(given, 1))
    record = {"passage": PASSAGE, "question": asked, "answer": said}
    *_, last = read_quac(write_jsonl(tmp_path / "quac.jsonl", record), dropped=Counter())
    assert last.id == "1/4"
    assert last.history == (Turn("What?", ""), Turn("Why?", "she danced."), Turn("When?", "In May"))


def test_half_of_the_annotators_make_a_question_impossible(tmp_path: Path) -> None:
    said = {"answer": RECORD["answer"].replace("she sang. In", "In")}
    question = next(read_quac(write_jsonl(tmp_path / "quac.jsonl", RECORD | said)))
    assert question.is_impossible
    assert question.answers == ()


def test_an_answer_that_is_not_there_is_counted(tmp_path: Path) -> None:
    said = {"answer": RECORD["answer"].replace("she sang.", "she danced.")}
    dropped: Counter[str] = Counter()
    left = list(read_quac(write_jsonl(tmp_path / "quac.jsonl", RECORD | said), dropped=dropped))
    assert [question.id for question in left] == ["1/2"]
    assert dropped == {"questions whose answers the passage does not have": 1}


def official(**change: Any) -> str:
    """A dialogue of two turns as QuAC publishes it."""
    none = {"text": "CANNOTANSWER", "answer_start": PASSAGE.index("CANNOTANSWER")}
    sang, all_of_it = {"text": "she sang.", "answer_start": 7}, {"text": PASSAGE[:16], "answer_start": 0}
    qas: list[dict[str, Any]] = [
        {
            "id": "C_1_0_q#0",
            "question": "What did she do?",
            "answers": [all_of_it, sang, none],
            "orig_answer": sang,
            "yesno": "x",
            "followup": "y",
        },
        {"id": "C_1_0_q#1", "question": "Why?", "answers": [none, none, sang, sang], "orig_answer": none},
        {"id": "C_1_0_q#2", "question": "And then?", "answers": [all_of_it]},
    ]
    paragraph = {"id": "C_1_0", "context": PASSAGE, "qas": qas} | change
    return json.dumps({"data": [{"title": "Singer", "paragraphs": [paragraph]}]})


@pytest.mark.parametrize("ending", ENDINGS)
def test_official_files_have_every_answer_and_its_place(ending: str, tmp_path: Path) -> None:
    first, second, third = read_quac(write(tmp_path / f"val_v0.2.json{ending}", official()))
    assert (first.id, first.dialogue, first.scored_by) == ("C_1_0_q#0", "C_1_0", "quac")
    assert first.documents[0].text == PASSAGE.removesuffix(" CANNOTANSWER")
    assert first.answers == ("In May she sang.", "she sang.")
    assert first.spans == (Span(0, 0, 16), Span(0, 7, 16))
    assert (second.answers, second.spans, second.is_impossible) == ((), (), True)  # half of them say so
    assert second.history == (Turn("What did she do?", "she sang."),)
    assert third.history == (Turn("What did she do?", "she sang."), Turn("Why?", ""))
    assert not third.is_impossible


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"context": "No end."}, r"paragraphs\[0\]: context is 'No end.'; it must be a text that ends with"),
        (
            {"qas": [{"id": "a", "question": "b", "answers": [{"text": "Rome", "answer_start": 0}]}]},
            r"answers\[0\]: answer_start is 0; it must be where the context says 'Rome'",
        ),
        (
            {"qas": [{"id": "a", "question": "b", "answers": []}]},
            r"qas\[0\]: answers is \[\]; .* at least one",
        ),
    ],
)
def test_official_files_refuse(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        list(read_quac(write(tmp_path / "val.json", official(**change))))


def test_squad_refuses_quac(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match="context is .*; it must be without CANNOTANSWER .* format .* is quac"
    ):
        list(read_squad(write(tmp_path / "val.json", official())))


@pytest.mark.parametrize(
    "parts",
    [
        ["she left (to Rome), and sang"],
        ["she sang.", "Then she left (to Rome),", "she sang."],
        ["CANNOTANSWER", "In May she sang.", "CANNOTANSWER"],
        # "Then" would go on from the first part too, but punctuation ends it better.
        ["In May she sang.", "Then she sang no"][:1] + ["Then she left"],
        ["she sang.", "she sang.", "she sang."],
    ],
)
def test_parts_are_found_again(parts: list[str]) -> None:
    joined = " ".join(parts)
    found = taken_apart(joined, PASSAGE)
    assert found is not None
    assert " ".join(found) == joined
    assert all(part in PASSAGE for part in found)
    assert len(found) <= len(parts)


def test_parts_end_at_punctuation_where_there_is_a_choice() -> None:
    passage = "After a deal (Senior). Graham won. Graham came back after a deal."
    joined = "After a deal (Senior). Graham came back"
    assert taken_apart(joined, passage) == ["After a deal (Senior).", "Graham came back"]
    assert taken_apart("won. Graham lost", passage) is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"passage": "No end."}, "passage is 'No end.'; it must be a text that ends with CANNOTANSWER"),
        ({"question": "What?"}, "question is 'What.'; it must be questions numbered from 1"),
        ({"question": "question2: What?\n answer : ?"}, "numbered from 1"),
        ({"question": RECORD["question"] + " and more"}, "numbered from 1, but from character"),
        ({"answer": "possible answers for question1:\nshe sang."}, "answers to 2 questions"),
        ({"answer": 7}, "answer is 7; it must be a string"),
    ],
)
def test_refuses(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"line 2: .*{message}"):
        list(read_quac(write_jsonl(tmp_path / "quac.jsonl", RECORD, RECORD | change)))
