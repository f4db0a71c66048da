"""The text of a PDF, by pypdf: a paragraph a line.

Words that a line's end broke are joined; page numbers, and lines that stand at the top or the bottom of most
pages, are left out. A PDF says where letters are, not what belongs together: columns, tables and formulas
come as pypdf finds them. Pictures of pages have no text, and are refused; so is a file that was cut short,
though pypdf would make something of its beginning.
"""

import io
import logging
import re
from collections import Counter

from longspan.data.paragraphs import paragraphs

_DIGITS = re.compile(r"\d+")
_FEWEST_PAGES = 4
"""From so many pages on, a line that repeats is seen to do so."""


def pdf_text(content: bytes, where: str) -> str:
    """The text of all pages.

    Args:
        content: of the file.
        where: what errors call it.

    Raises:
        ModuleNotFoundError: pypdf is not installed.
        ValueError: it is no PDF, is locked, or has no text.
    """
    try:
        from pypdf import PdfReader
        from pypdf.errors import DependencyError
    except ModuleNotFoundError as error:
        message = "reading PDF needs the package pypdf; install it with: pip install 'longspan[pdf]'"
        raise ModuleNotFoundError(message, name=error.name) from error
    if b" obj" in content[content.rfind(b"%%EOF") + 1 :]:
        raise ValueError(f"{where} is cut short: objects follow without an end; it must be whole")
    # What it says of damaged files is said in the error, in one line.
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    is_open = True
    pages: list[str] = []
    try:
        reader = PdfReader(io.BytesIO(content))
        is_open = not reader.is_encrypted or bool(reader.decrypt(""))
        pages = [page.extract_text() for page in reader.pages] if is_open else []
    except DependencyError as error:
        raise ValueError(
            f"{where} is encrypted; it must be open, or the package cryptography be installed"
        ) from error
    # pypdf lets errors of damaged files through as they come, of any class.
    except Exception as error:
        raise ValueError(f"{where} cannot be read as PDF: {error}; it must be whole") from error
    if not is_open:
        raise ValueError(f"{where} is locked by a password; it must be open")
    text = paragraphs("\n".join(without_margins(pages)), join_words=True)
    if not text:
        raise ValueError(f"{where} has no text, only pictures; text recognition must come first")
    return text


def without_margins(pages: list[str]) -> list[str]:
    """Pages without their numbers, and without first and last lines that most pages share, numbers aside.

    Args:
        pages: the lines of each.
    """
    rows = [[line for line in page.splitlines() if line.strip()] for page in pages]
    ends = Counter(mark for lines in rows for mark in {_mark(lines[at]) for at in (0, -1) if lines})
    often = {mark for mark, count in ends.items() if 2 * count > len(pages) >= _FEWEST_PAGES} | {"#"}
    out: list[str] = []
    for lines in rows:
        begin, end = 0, len(lines)
        while begin < end and _mark(lines[begin]) in often:
            begin += 1
        while begin < end and _mark(lines[end - 1]) in often:
            end -= 1
        out.append("\n".join(lines[begin:end]))
    return out


def _mark(line: str) -> str:
    """A line without what its number on the page changes."""
    return _DIGITS.sub("#", " ".join(line.split()))
