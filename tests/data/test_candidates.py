"""Candidates to choose from: WikiHop, and as JSONL."""

import json
from pathlib import Path
from typing import Any

import pytest

from longspan.data.candidates import read_candidates, read_wikihop
from longspan.data.examples import CandidateQuestion

from .writing import ENDINGS, without, write, write_jsonl

RECORD: dict[str, Any] = {
    "id": "WH_train_0",
    "query": "country_of_river thaya",
    "candidates": ["austria", "moldova"],
    "supports": ["The Thaya is in Austria.", "Moldova is a country."],
    "answer": "austria",
}
QUESTION = CandidateQuestion(
    id="WH_train_0",
    query="country_of_river thaya",
    candidates=("austria", "moldova"),
    supports=("The Thaya is in Austria.", "Moldova is a country."),
    answer=0,
)


@pytest.mark.parametrize("ending", ENDINGS)
def test_wikihop(ending: str, tmp_path: Path) -> None:
    path = write(tmp_path / f"dev.json{ending}", json.dumps([RECORD | {"annotations": [["follows"]]}]))
    assert list(read_wikihop(path)) == [QUESTION]


def test_our_jsonl(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "c.jsonl", RECORD, without(RECORD, "answer") | {"id": 1})
    first, second = read_candidates(path)
    assert first == QUESTION
    assert (second.id, second.answer) == ("1", None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answer": "france"}, "record 2: answer is 'france'; it must be one of the candidates"),
        ({"candidates": ["austria", "austria"]}, "record 2: candidates is .* different strings"),
        ({"candidates": []}, "at least one"),
        ({"supports": [3]}, r"record 2: supports\[0\] is 3; it must be a string"),
    ],
)
def test_refuses(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "dev.json", json.dumps([RECORD, RECORD | change]))
    with pytest.raises(ValueError, match=message):
        list(read_wikihop(path))
