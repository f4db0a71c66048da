"""HotpotQA's JSON, its split, and the same as JSONL."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from longspan.data.examples import MultiHopQuestion, Paragraph, SupportingFact
from longspan.data.hotpotqa import UNKNOWN_FACT, read_hotpotqa, read_multihop, split_hotpotqa

from .writing import ENDINGS, ids, without, write, write_jsonl

RECORD: dict[str, Any] = {
    "_id": "h1",
    "answer": "yes",
    "question": "Are both rivers?",
    "supporting_facts": [["Thaya", 0], ["Inn", 1]],
    "context": [["Inn", ["The Inn.", " It is a river."]], ["Thaya", ["A river."]]],
    "type": "comparison",
    "level": "hard",
}
OURS = without(RECORD, "_id") | {"id": "h1"}


@pytest.mark.parametrize("ending", ENDINGS)
def test_hotpotqa(ending: str, tmp_path: Path) -> None:
    (question,) = read_hotpotqa(write(tmp_path / f"dev.json{ending}", json.dumps([RECORD])))
    assert question == MultiHopQuestion(
        id="h1",
        question="Are both rivers?",
        paragraphs=(
            Paragraph(title="Inn", sentences=("The Inn.", " It is a river.")),
            Paragraph(title="Thaya", sentences=("A river.",)),
        ),
        supporting_facts=(SupportingFact(1, 0), SupportingFact(0, 1)),
        answer="yes",
        type="comparison",
    )
    assert question.paragraphs[0].text == "The Inn. It is a river."


def test_a_fact_about_no_sentence_is_not_learned_but_scored(tmp_path: Path) -> None:
    facts = {"supporting_facts": [["Inn", 0], ["Inn", 2], ["Enns", 0]]}
    dropped: Counter[str] = Counter()
    path = write(tmp_path / "dev.json", json.dumps([RECORD | facts]))
    (question,) = read_hotpotqa(path, dropped=dropped)
    assert question.supporting_facts == (SupportingFact(0, 0),)
    assert question.named_facts == (("Inn", 0), ("Inn", 2), ("Enns", 0))  # the official scores count all
    assert dropped == {UNKNOWN_FACT: 2}


def test_a_test_set_has_no_answers(tmp_path: Path) -> None:
    bare = {name: RECORD[name] for name in ("_id", "question", "context")}
    (question,) = read_hotpotqa(write(tmp_path / "test.json", json.dumps([bare])))
    assert (question.answer, question.supporting_facts, question.type) == (None, (), None)


def test_our_jsonl(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "h.jsonl", OURS)
    assert list(read_multihop(path)) == list(read_hotpotqa(write(tmp_path / "h.json", json.dumps([RECORD]))))
    bad = write_jsonl(tmp_path / "bad.jsonl", OURS | {"supporting_facts": [["Inn", 2]]})
    with pytest.raises(ValueError, match="line 1: supporting_facts is .* number of one of its sentences"):
        list(read_multihop(bad))


def test_split(tmp_path: Path) -> None:
    records = [RECORD | {"_id": f"h{at}", "type": "bridge" if at % 5 else "comparison"} for at in range(100)]
    path = write(tmp_path / "dev.json", json.dumps(records))
    parts = split_hotpotqa(path, seed=0)
    counts = [(len(part), sum(question.type == "comparison" for question in part)) for part in parts]
    assert counts == [(80, 16), (10, 2), (10, 2)]
    assert len({id for part in parts for id in ids(part)}) == 100
    backwards = write(tmp_path / "backwards.json", json.dumps(records[::-1]))
    assert split_hotpotqa(backwards, seed=0) == parts


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"context": [["Inn", "The Inn."]]}, r"record 1: context\[0\] is .*\[title, \[sentence, ...\]\]"),
        ({"context": [["Inn", ["a", 1]]]}, r"context\[0\] is"),
        ({"supporting_facts": [["Inn", "0"]]}, r"supporting_facts\[0\] is .*number of the sentence"),
        ({"supporting_facts": {}}, "supporting_facts is {}; it must be a list"),
        ({"_id": None}, "_id is None"),
    ],
)
def test_refuses(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        list(read_hotpotqa(write(tmp_path / "dev.json", json.dumps([RECORD | change]))))
