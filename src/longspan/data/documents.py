"""Documents of users, in the formats that people have them in, as plain text: a paragraph a line.

The ending of its name says what a file is; of a name without one, and of standard input, the first bytes do.
Text is UTF-8, or what a byte order mark or a web page says. Unlike the readers of data sets, these tidy:
nobody wants the line breaks of a PDF.
"""

import codecs
from collections.abc import Callable, Mapping
from pathlib import Path

from longspan.data.examples import Document
from longspan.data.files import decode
from longspan.data.html_text import charset_of, html_text
from longspan.data.markdown_text import markdown_text
from longspan.data.paragraphs import paragraphs
from longspan.data.pdf_text import pdf_text

_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_PAGE_BEGINS = (b"<!doctype html", b"<html")


def read_document(path: Path) -> Document:
    """The text of a file, with its name as its id.

    Raises:
        ValueError: it is not there, is of a kind that is not known, or cannot be read as what it is.
        ModuleNotFoundError: what reads its kind is not installed.
    """
    if path.suffix and path.suffix.lower() not in _READERS:
        raise ValueError(f"{path} ends in {path.suffix!r}; it must be one of {', '.join(_READERS)}")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    return document_of(content, str(path), path.suffix.lower() or None)


def document_of(content: bytes, name: str, ending: str | None = None) -> Document:
    """The text of a file's bytes.

    Args:
        content: all of them.
        name: the document's id, and what errors call it.
        ending: of the file's name, such as ".pdf"; None looks at the first bytes.

    Raises:
        ValueError: it cannot be read as that, or has no text.
    """
    text = _READERS[ending or _ending_of(content)](content, name)
    if not text.strip():
        raise ValueError(f"{name} has no text; a document must have some")
    return Document(id=name, text=text)


def _plain(content: bytes, name: str) -> str:
    return paragraphs(_decoded(content, name))


def _markdown(content: bytes, name: str) -> str:
    return markdown_text(_decoded(content, name))


def _html(content: bytes, name: str) -> str:
    return html_text(_decoded(content, name, charset_of(content)))


_READERS: Mapping[str, Callable[[bytes, str], str]] = {
    ".txt": _plain,
    ".text": _plain,
    ".md": _markdown,
    ".markdown": _markdown,
    ".html": _html,
    ".htm": _html,
    ".xhtml": _html,
    ".pdf": pdf_text,
}
ENDINGS = tuple(_READERS)
"""Of the files that can be read."""


def _ending_of(content: bytes) -> str:
    if content.startswith(b"%PDF-"):
        return ".pdf"
    return ".html" if content.lstrip()[:64].lower().startswith(_PAGE_BEGINS) else ".txt"


def _decoded(content: bytes, name: str, charset: str | None = None) -> str:
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            return content[len(mark) :].decode(encoding, "replace")
    if charset in (None, "utf-8", "utf8"):
        return decode(content, name)
    try:
        # What a page says about itself is often nearly right.
        return content.decode(charset, "replace")
    except LookupError as error:
        raise ValueError(f"{name} says that it is encoded as {charset!r}, which nobody knows") from error
