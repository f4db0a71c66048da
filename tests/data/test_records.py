"""JSON records: streamed, and checked field by field."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longspan.data import records
from longspan.data.records import Record, read_json_items, read_jsonl

from .writing import ENDINGS, write, write_jsonl


@pytest.mark.parametrize("ending", ENDINGS)
def test_jsonl_gives_an_object_a_line(ending: str, tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / f"a.jsonl{ending}", {"id": "é"}, {"id": 2})
    found = list(read_jsonl(path, unique="id"))
    assert [record.text_or_number("id") for record in found] == ["é", "2"]
    assert found[1].where == f"{path}, line 2"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"id": 1}\n\n{"id": 2}\n', "line 2, column 1: Expecting value; it must be one JSON object"),
        ('{"id": 1}\n{"id": \n', "line 2, column 8: Expecting value"),
        ("[1]\n", r"line 1 is \[1\]; it must be an object"),
        ('{"id": 1}\n{"id": "1"}\n', "line 2: id is '1'; it must be unique, but line 1 has it too"),
        ('{"name": 1}\n', "line 1: id is missing"),
    ],
)
def test_jsonl_refuses(content: str, message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "bad.jsonl", content)
    with pytest.raises(ValueError, match=message):
        list(read_jsonl(path, unique="id"))


values: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60)
@given(
    items=st.lists(st.dictionaries(st.text(), values, max_size=3), max_size=5),
    around=st.dictionaries(st.text(), values, max_size=3),
    indent=st.sampled_from([None, 1]),
    ascii=st.booleans(),
    chunk=st.integers(1, 40),
)
def test_an_array_read_in_pieces_is_the_array(
    items: list[dict[str, Any]],
    around: dict[str, Any],
    indent: int | None,
    ascii: bool,
    chunk: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path = tmp_path_factory.mktemp("json") / "items.json"
    around.pop("data", None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "_CHUNK", chunk)
        for key, content in ((None, items), ("data", {**around, "data": items, "after": 1.5})):
            text = json.dumps(content, indent=indent, ensure_ascii=ascii)
            path.write_bytes(text.encode("utf-8"))
            assert [dict(record.fields) for record in read_json_items(path, key)] == items


@pytest.mark.parametrize(
    ("content", "key", "message"),
    [
        ("{}", None, "there is '{}'; it must be a list of objects"),
        ("", None, "the file ends; it must be a list of objects"),
        ('[{"a": 1}', None, "record 1: the file ends; it must be a comma, or the end of the list"),
        ('[{"a": 1} {"a": 2}]', None, "record 1: there is '{\"a\": 2}]'; it must be a comma"),
        ('[{"a": 1}, {"a": ', None, "record 2: Expecting value; it must be JSON"),
        ('[{"a": "unended', None, "record 1: Unterminated string"),
        ('[{"a": 1}, 7]', None, "record 2 is 7; it must be an object"),
        ('[{"a": 1}] more', None, "there is 'more'; it must be the end of the file"),
        ("[]", "data", r"there is '\[\]'; it must be an object with the field data"),
        ('{"Data": []}', "data", "data is missing; it must be a list of objects"),
        ('{"data": {}}', "data", "there is '{}}'; it must be a list of objects"),
        ('{"data" []}', "data", "it must be a colon"),
    ],
)
def test_an_array_refuses(content: str, key: str | None, message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "bad.json", content)
    with pytest.raises(ValueError, match=f"bad.json.*{message}"):
        list(read_json_items(path, key))


def test_an_array_is_read_only_as_far_as_it_is_wanted(tmp_path: Path) -> None:
    good = ", ".join('{"a": 1}' for _ in range(100))
    path = write(tmp_path / "late.json", f"[{good}, {{broken}}, {good * 4000}]")
    stream = read_json_items(path)
    assert [next(stream).integer("a") for _ in range(100)] == [1] * 100
    with pytest.raises(ValueError, match="record 101: Expecting property name"):
        next(stream)


def test_an_array_must_be_utf_8(tmp_path: Path) -> None:
    path = write(tmp_path / "latin.json", b'[{"a": 1}, {"a": "caf\xe9"}]')
    with pytest.raises(ValueError, match=r"latin.json.*must be UTF-8"):
        list(read_json_items(path))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda r: r.text("number"), "here: number is 3; it must be a string"),
        (lambda r: r.text("half"), "half is .*; it must be text without half surrogate pairs"),
        (lambda r: r.text("absent"), "here: absent is missing; it must be a string"),
        (lambda r: r.text_or_number("flag"), "flag is True; it must be a string or an integer"),
        (lambda r: r.integer("flag"), "flag is True; it must be an integer, at least 0"),
        (lambda r: r.integer("negative"), "negative is -1; it must be an integer, at least 0"),
        (lambda r: r.flag("number"), "number is 3; it must be true or false"),
        (lambda r: r.flag("absent"), "absent is missing; it must be true or false"),
        (lambda r: r.one_of("number", ("a", "b")), "number is 3; it must be 'a' or 'b'"),
        (lambda r: r.texts("number"), "number is 3; it must be a list of strings"),
        (lambda r: r.texts("mixed"), r"mixed\[1\] is 2; it must be a string"),
        (lambda r: list(r.records("mixed")), r"here, mixed\[0\] is 'a'; it must be an object"),
        (lambda r: r.record("mixed"), "mixed is .*; it must be an object"),
    ],
)
def test_fields_are_checked(call: Any, message: str) -> None:
    fields = {"number": 3, "flag": True, "negative": -1, "half": "a\ud800", "mixed": ["a", 2]}
    with pytest.raises(ValueError, match=message):
        call(Record("here", fields))
