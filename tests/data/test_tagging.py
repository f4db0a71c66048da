"""Tags in columns, and our JSONL."""

from pathlib import Path
from typing import Any

import pytest

from longspan.data.examples import TaggedSentence
from longspan.data.tagging import read_conll_tags, read_tagged

from .writing import ENDINGS, write, write_jsonl

COLUMNS = """-DOCSTART- -X- -X- O

Ada NNP B-NP B-PER
sings VBZ B-VP O

# NN B-NP O


-DOCSTART- -X- -X- O

Rome NNP B-NP B-LOC"""


@pytest.mark.parametrize("ending", ENDINGS)
def test_columns(ending: str, tmp_path: Path) -> None:
    path = write(tmp_path / f"train.conll{ending}", COLUMNS)
    assert list(read_conll_tags(path)) == [
        TaggedSentence(id="train/1", words=("Ada", "sings"), tags=("B-PER", "O")),
        TaggedSentence(id="train/2", words=("#",), tags=("O",)),
        TaggedSentence(id="train/3", words=("Rome",), tags=("B-LOC",)),
    ]
    assert [sentence.tags for sentence in read_conll_tags(path, tag=1)][0] == ("NNP", "VBZ")


def test_whole_documents(tmp_path: Path) -> None:
    first, second = read_conll_tags(write(tmp_path / "train.conll", COLUMNS), whole_documents=True)
    assert first.words == ("Ada", "sings", "#")
    assert second == TaggedSentence(id="train/2", words=("Rome",), tags=("B-LOC",))


def test_tabs_keep_spaces_in_words(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "New York\tB-LOC\nis\tO\n")
    assert next(read_conll_tags(path)).words == ("New York", "is")


@pytest.mark.parametrize(
    ("content", "columns", "message"),
    [
        ("a x O\nb O\n", {}, "line 2: the number of columns is 2; it must be 3, as in the lines before"),
        ("a O\n", {"tag": 3}, "line 1: the column of the tag is 3; it must be below 2"),
        ("a O\n", {"word": -3}, "line 1: the column of the word is -3"),
        ("a\tO\nb\t\n", {}, "line 2: the line is .*; it must be a word and a tag"),
    ],
)
def test_columns_refuse(content: str, columns: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        list(read_conll_tags(write(tmp_path / "bad.conll", content), **columns))


def test_our_jsonl(tmp_path: Path) -> None:
    record: dict[str, Any] = {"id": 1, "words": ["Ada", "sings"], "tags": ["B-PER", "O"]}
    (sentence,) = read_tagged(write_jsonl(tmp_path / "t.jsonl", record))
    assert sentence == TaggedSentence(id="1", words=("Ada", "sings"), tags=("B-PER", "O"))
    with pytest.raises(ValueError, match=r"line 1: tags is \['O'\]; it must be 2 strings, one for each word"):
        list(read_tagged(write_jsonl(tmp_path / "bad.jsonl", record | {"tags": ["O"]})))
