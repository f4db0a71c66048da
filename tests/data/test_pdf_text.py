"""The text of PDFs."""

from contextlib import suppress
from io import BytesIO

import pytest

from longspan.data.pdf_text import pdf_text, without_margins
from tests.data.small_pdf import small_pdf


def test_lines_are_paragraphs_again() -> None:
    pages = [["A heading", "The harbour was built for forty boats and has har-", "dly room for more."]]
    text = pdf_text(small_pdf(pages), "a.pdf")
    assert text == "A heading\nThe harbour was built for forty boats and has hardly room for more."


def test_paragraphs_go_over_pages_and_margins_are_left_out() -> None:
    pages = [
        ["Journal of Harbours, p. 1", "The first page ends in the middle of", "1"],
        ["Journal of Harbours, p. 2", "a sentence, which the second page ends", "2"],
        ["Journal of Harbours, p. 3", "after a while, and then the third one", "3"],
        ["Journal of Harbours, p. 4", "has the rest.", "4"],
    ]
    assert pdf_text(small_pdf(pages), "a.pdf") == (
        "The first page ends in the middle of a sentence, which the second page ends after a while, "
        "and then the third one has the rest."
    )


def test_few_pages_keep_their_first_lines() -> None:
    assert without_margins(["Same\na\n12", "Same\nb", ""]) == ["Same\na", "Same\nb", ""]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"%PDF-1.4 nothing else", "a.pdf cannot be read as PDF"),
        (small_pdf([[]]), "a.pdf has no text, only pictures"),
        (small_pdf([["One."], ["Two."]])[:-200], "a.pdf is cut short"),
    ],
)
def test_what_cannot_be_read_is_said(content: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pdf_text(content, "a.pdf")


def test_damaged_files_are_value_errors() -> None:
    whole = small_pdf([["One line.", "Another."], ["A second page."]])
    for at in range(0, len(whole), 7):
        damaged = whole[:at] + b"\x00<<[" + whole[at + 4 :]
        with suppress(ValueError):  # what is hardly damaged may be read
            pdf_text(damaged, "a.pdf")


def test_locked_files_are_refused() -> None:
    from pypdf import PdfReader, PdfWriter

    writer = PdfWriter()
    writer.append(PdfReader(BytesIO(small_pdf([["Secret."]]))))
    writer.encrypt("password", algorithm="RC4-128")
    locked = BytesIO()
    writer.write(locked)
    with pytest.raises(ValueError, match=r"a\.pdf is locked by a password"):
        pdf_text(locked.getvalue(), "a.pdf")
