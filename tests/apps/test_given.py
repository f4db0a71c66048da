"""Documents in the forms that people have them in, for all objects alike."""

import os
from pathlib import Path
from typing import Any, cast

import pytest

from longspan.apps.given import document_of_one, documents_of
from longspan.data.examples import Document


def test_texts_files_folders_and_named_texts_alone_and_together(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("Of b.")
    (tmp_path / "a.md").write_text("# Of a.")
    named = Document(id="mine", text="My own.")
    (text,) = documents_of("A text.")
    assert text == Document(id="0", text="A text.")
    assert list(documents_of(named)) == [named] == [document_of_one(named)]
    found = list(documents_of(iter(["One.", tmp_path, named, tmp_path / "b.txt", "Six."])))
    names = ["0", str(tmp_path / "a.md"), str(tmp_path / "b.txt"), "mine", str(tmp_path / "b.txt"), "5"]
    assert [one.id for one in found] == names
    assert [one.text for one in found] == ["One.", "Of a.", "Of b.", "My own.", "Of b.", "Six."]
    assert list(documents_of([])) == []


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Of a.")
    (tmp_path / "b.pdf").write_bytes(b"%PDF-1.7")
    said: list[str] = []
    (found,) = documents_of(tmp_path, unreadable=said.append)
    assert found.text == "Of a." and len(said) == 1 and "b.pdf" in said[0]
    with pytest.raises(ValueError, match=r"b\.pdf"):
        list(documents_of(tmp_path))
    with pytest.raises(ValueError, match=r"b\.pdf"):
        list(documents_of(tmp_path / "b.pdf", unreadable=said.append))


def test_one_document_is_one(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Of a.")
    assert document_of_one(tmp_path).text == "Of a."
    (tmp_path / "b.txt").write_text("Of b.")
    with pytest.raises(ValueError, match="has 2 documents; it must be one"):
        document_of_one(tmp_path)


def test_mistakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert document_of_one("a.txt").text == "a.txt", "there is no such file"
    (tmp_path / "a.txt").write_text("Of a.")
    with pytest.raises(ValueError, match=r"a file is given as Path\('a.txt'\)"):
        document_of_one("a.txt")
    with pytest.raises(TypeError, match="a document is given as bytes"):
        list(documents_of([cast(Any, os.fsencode("a.txt"))]))
