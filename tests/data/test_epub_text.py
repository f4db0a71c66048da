"""The text of EPUBs."""

from contextlib import suppress

import pytest

from longspan.data.epub_text import epub_text
from longspan.data.sizes import Limits
from tests.data.small_archives import small_epub, zipped

LIMITS = Limits()
CHAPTERS = [
    "<?xml version='1.0'?><!DOCTYPE html><html><head><title>T</title></head><body><p>Last.</p></body></html>",
    "<html><body><h1>One</h1><p>First &amp; more&nbsp;of it.<br/>Then.</p></body></html>",
]


def test_chapters_come_in_the_order_of_reading() -> None:
    assert epub_text(small_epub(CHAPTERS), "a.epub", LIMITS) == "One\nFirst & more of it.\nThen.\nLast."


def lock(part: str) -> str:
    return f'<encryption><EncryptedData><CipherReference URI="{part}"/></EncryptedData></encryption>'


def test_locked_books_are_refused_and_locked_fonts_are_not() -> None:
    assert epub_text(small_epub(CHAPTERS, encryption=lock("OPS/font.otf")), "a.epub", LIMITS)
    with pytest.raises(ValueError, match=r"a\.epub is locked by its shop"):
        epub_text(small_epub(CHAPTERS, encryption=lock("OPS/text/chapter%201.xhtml")), "a.epub", LIMITS)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"nothing", "a.epub cannot be read as an EPUB"),
        (small_epub(CHAPTERS)[:-40], "a.epub cannot be read as an EPUB"),
        (zipped({"mimetype": "application/epub+zip"}), "it lacks META-INF/container.xml"),
        (zipped({"META-INF/container.xml": "<container/>"}), "names no rootfile"),
        (zipped({"META-INF/container.xml": "<container>"}), "container.xml is damaged"),
        (small_epub(CHAPTERS, container='<c><rootfile full-path="x.opf"/></c>'), "it lacks x.opf"),
    ],
)
def test_what_cannot_be_read_is_said(content: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        epub_text(content, "a.epub", LIMITS)


def test_bombs_are_refused() -> None:
    content = small_epub(["<p>" + "word " * 400_000] * 3)
    assert len(content) < 30_000
    with pytest.raises(ValueError, match="unpacks to more than 5,000,000 bytes"):
        epub_text(content, "a.epub", Limits(unpacked_bytes=5_000_000))


def test_damaged_files_are_value_errors() -> None:
    whole = small_epub(CHAPTERS)
    for at in range(0, len(whole), 5):
        for damaged in (whole[:at], whole[:at] + b"\xff\x07" + whole[at + 2 :]):
            with suppress(ValueError):  # what is hardly damaged may be read
                epub_text(damaged, "a.epub", LIMITS)
