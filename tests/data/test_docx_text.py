"""The text of Word documents."""

import zipfile
from contextlib import suppress
from io import BytesIO

import pytest

from longspan.data.docx_text import docx_text
from longspan.data.sizes import Limits
from tests.data.small_archives import small_docx, word_xml, zipped

LIMITS = Limits()


def text_of(body: str) -> str:
    return docx_text(zipped({"word/document.xml": word_xml(body)}), "a.docx", LIMITS)


def test_a_paragraph_is_a_line() -> None:
    assert docx_text(small_docx(["One <line>.", "", "Grüße."]), "a.docx", LIMITS) == "One <line>.\nGrüße."
    assert docx_text(small_docx(["One."], main="word/other.xml"), "a.docx", LIMITS) == "One."


def test_pieces_of_a_paragraph_are_joined() -> None:
    runs = "<w:r><w:t>to</w:t></w:r><w:r><w:t>day</w:t><w:tab/><w:t>and</w:t><w:br/><w:t>then</w:t></w:r>"
    assert text_of(f"<w:p><w:pPr><w:tabs><w:tab/></w:tabs></w:pPr>{runs}</w:p>") == "today and then"


def test_a_row_of_a_table_is_a_line() -> None:
    def cell(*lines: str) -> str:
        return f"<w:tc>{''.join(f'<w:p><w:r><w:t>{line}</w:t></w:r></w:p>' for line in lines)}</w:tc>"

    rows = f"<w:tr>{cell('a', 'b')}{cell('1')}</w:tr><w:tr>{cell('c')}{cell('')}</w:tr>"
    assert text_of(f"<w:tbl>{rows}</w:tbl><w:p><w:r><w:t>after</w:t></w:r></w:p>") == "a b 1\nc\nafter"


def test_what_was_taken_away_or_stands_twice_is_left_out() -> None:
    gone = "<w:del><w:r><w:delText>old</w:delText></w:r></w:del>"
    moved = "<w:moveFrom><w:r><w:t>moved</w:t></w:r></w:moveFrom>"
    box = "<w:p><w:r><w:t>box</w:t></w:r></w:p>"
    twice = f"<w:r><x><Choice>{box}</Choice><Fallback>{box}</Fallback></x></w:r>"
    code = "<w:r><w:instrText>PAGE</w:instrText></w:r>"
    assert text_of(f"<w:p>{gone}{moved}{twice}{code}<w:r><w:t>new</w:t></w:r></w:p>") == "box\nnew"


def test_notes_follow_the_text() -> None:
    note = word_xml("<w:p><w:r><w:t>A note.</w:t></w:r></w:p>")
    assert docx_text(small_docx(["Text."], footnotes=note), "a.docx", LIMITS) == "Text.\nA note."


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"nothing", "a.docx cannot be read as a Word document: .*; it must be whole"),
        (small_docx(["One."])[:-30], "a.docx cannot be read as a Word document"),
        (zipped({"word/other.xml": ""}), "it lacks word/document.xml"),
        (zipped({"word/document.xml": word_xml("")[:-9]}), "a.docx, word/document.xml is damaged"),
        (bytes.fromhex("d0cf11e0a1b11ae1") + b"x" * 512, "a.docx is locked by a password, or of an old kind"),
    ],
)
def test_what_cannot_be_read_is_said(content: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        docx_text(content, "a.docx", LIMITS)


def test_bombs_are_refused() -> None:
    content = small_docx(["word " * 400_000])
    assert len(content) < 20_000
    with pytest.raises(ValueError, match=r"unpacks to more than 1,000,000 bytes; .* \(unpacked_bytes\)"):
        docx_text(content, "a.docx", Limits(unpacked_bytes=1_000_000))
    entities = '<!DOCTYPE d [<!ENTITY a "x"><!ENTITY b "&a;&a;">]>'
    bomb = zipped({"word/document.xml": f"{entities}<d><p><t>&b;</t></p></d>"})
    with pytest.raises(ValueError, match="declares the entity 'a'"):
        docx_text(bomb, "a.docx", LIMITS)
    with pytest.raises(ValueError, match="more than 50,000 parts"):
        docx_text(b"PK\x01\x02" * 50_001, "a.docx", LIMITS)


@pytest.mark.parametrize("kind", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_parts_that_python_would_unpack_whole_are_refused(kind: int) -> None:
    out = BytesIO()
    with zipfile.ZipFile(out, "w", kind) as archive:
        archive.writestr("word/document.xml", word_xml("word " * 100_000))
    with pytest.raises(ValueError, match=r"word/document\.xml is packed in a way that is not allowed"):
        docx_text(out.getvalue(), "a.docx", LIMITS)


def test_damaged_files_are_value_errors() -> None:
    whole = small_docx(["One line.", "Another."])
    for at in range(0, len(whole), 3):
        for damaged in (whole[:at], whole[:at] + b"\xff\x07" + whole[at + 2 :]):
            with suppress(ValueError):  # what is hardly damaged may be read
                docx_text(damaged, "a.docx", LIMITS)


def test_a_locked_part_is_refused() -> None:
    content = bytearray(small_docx(["One."]))
    # The flag of a password, in the directory at the end and before the part itself.
    for mark, at in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        place = -1
        while (place := content.find(mark, place + 1)) >= 0:
            content[place + at] |= 1
    with pytest.raises(ValueError, match=r"a\.docx is locked by a password; it must be open"):
        docx_text(bytes(content), "a.docx", LIMITS)
