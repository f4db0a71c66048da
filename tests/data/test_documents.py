"""Documents of users, as text."""

from pathlib import Path

import pytest

from longspan.data.documents import document_of, find_files, read_document
from longspan.data.sizes import Limits
from tests.data.small_archives import small_docx, small_epub
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
        ("a.docx", small_docx(["One line.", "Another."])),
        ("letter", small_docx(["One line.", "Another."])),
        ("a.epub", small_epub(["<p>Another.", "<p>One line."])),
        ("book", small_epub(["<p>Another.", "<p>One line."])),
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
        ("a.odt", b"x", "a.odt ends in '.odt'; it must be one of .txt, .text, .md"),
        ("a.docx", b"x", "a.docx cannot be read as a Word document"),
        ("a.epub", b"x", "a.epub cannot be read as an EPUB"),
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


def test_limits_are_said(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("One line.")
    assert read_document(path, Limits(file_bytes=9, characters=9)).text == "One line."
    with pytest.raises(ValueError, match=r"a\.txt has 9 bytes; at most 8 are read \(file_bytes\)"):
        read_document(path, Limits(file_bytes=8))
    with pytest.raises(ValueError, match=r"has 9 bytes; at most 8 are read"):
        document_of(path.read_bytes(), "x", None, Limits(file_bytes=8))
    with pytest.raises(ValueError, match=r"a\.txt has 9 characters; at most 8 are read \(characters\)"):
        read_document(path, Limits(characters=8))
    with pytest.raises(ValueError, match="characters is 0; it must be at least 1"):
        Limits(characters=0)


def test_folders_are_searched(tmp_path: Path) -> None:
    for name in ("b.txt", "a/c.PDF", "a/x.png", "LICENSE", ".git/d.txt", ".e.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "a/round").symlink_to(tmp_path)
    (tmp_path / "gone.txt").symlink_to(tmp_path / "nowhere")
    found = find_files(tmp_path)
    assert found.files == (tmp_path / "a/c.PDF", tmp_path / "b.txt")
    assert found.skipped == (tmp_path / "LICENSE", tmp_path / "a/x.png")
    with pytest.raises(ValueError, match="is no folder"):
        find_files(tmp_path / "b.txt")
