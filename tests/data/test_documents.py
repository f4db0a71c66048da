"""Documents of users, as text."""

from pathlib import Path

import pytest

from longspan.data.documents import document_of, read_document
from tests.data.small_pdf import small_pdf


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", b"One line.\n\nAnother."),
        ("README", b"One line.\n\nAnother."),
        ("a.MD", b"# One line.\n\n*Another.*"),
        ("a.html", b"<p>One line.<p>Another."),
        ("page", b"\n<!DOCTYPE html><p>One line.<p>Another."),
        ("a.pdf", small_pdf([["One line.", "Another."]])),
        ("download", small_pdf([["One line.", "Another."]])),
        ("a.txt", "\ufeffOne line.\n\nAnother.".encode()),
        ("a.txt", b"\xff\xfe" + "One line.\n\nAnother.".encode("utf-16-le")),
    ],
)
def test_kinds_are_known_by_name_or_by_first_bytes(name: str, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    document = read_document(path)
    assert (document.id, document.text.replace("\n", " ")) == (str(path), "One line. Another.")


def test_pages_say_how_they_are_encoded() -> None:
    page = "<meta charset=latin-1><p>Grüße".encode("latin-1")
    assert document_of(page, "page", ".html").text == "Grüße"
    with pytest.raises(ValueError, match="'klingon', which nobody knows"):
        document_of(b"<meta charset=klingon><p>x", "page", ".html")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.docx", b"x", "a.docx ends in '.docx'; it must be one of .txt, .text, .md"),
        ("a.txt", b"\xfc", "it must be UTF-8"),
        ("a.txt", b" \n", "has no text"),
        ("missing.txt", None, "missing.txt cannot be read: No such file"),
    ],
)
def test_mistakes(name: str, content: bytes | None, message: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_document(tmp_path / name)
