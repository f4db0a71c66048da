"""Documents of users, in the formats that people have them in, as plain text: a paragraph a line.

The ending of its name says what a file is; of a name without one, and of standard input, the first bytes do.
Text is UTF-8, or what a byte order mark or a web page says. Unlike the readers of data sets, these tidy:
nobody wants the line breaks of a PDF. Files larger than the limits, cut short or locked are refused.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from longspan.data.docx_text import docx_text
from longspan.data.encodings import decoded
from longspan.data.epub_text import epub_text
from longspan.data.examples import Document
from longspan.data.html_text import charset_of, html_text
from longspan.data.markdown_text import markdown_text
from longspan.data.paragraphs import paragraphs
from longspan.data.pdf_text import pdf_text
from longspan.data.sizes import NO_MORE, Limits

_PAGE_BEGINS = (b"<!doctype html", b"<html")
_ZIP_BEGINS = b"PK\x03\x04"
_EPUB_SAYS = b"mimetypeapplication/epub+zip"
READING_VERSION = 1
"""Of what the readers make of a file; another one where the same file gives another text."""


def read_document(path: Path, limits: Limits = NO_MORE) -> Document:
    """The text of a file, with its name as its id.

    Raises:
        ValueError: it is not there, is of an unknown kind, too large, or cannot be read as what it is.
        ModuleNotFoundError: what reads its kind is not installed.
    """
    return document_of(file_content(path, limits), str(path), path.suffix.lower() or None, limits)


def file_content(path: Path, limits: Limits = NO_MORE) -> bytes:
    """The bytes of a file of a kind that `document_of` reads.

    Raises:
        ValueError: it is not there, is of a kind that is not known, or too large.
    """
    if path.suffix and path.suffix.lower() not in _READERS:
        raise ValueError(f"{path} ends in {path.suffix!r}; it must be one of {', '.join(_READERS)}")
    try:
        with path.open("rb") as file:
            # A pipe has no size: what it gives is read as far as the limit.
            content = file.read(limits.file_bytes + 1)
            if len(content) > limits.file_bytes:
                limits.check_file(max(os.fstat(file.fileno()).st_size, len(content)), str(path))
            return content
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error


def document_of(content: bytes, name: str, ending: str | None = None, limits: Limits = NO_MORE) -> Document:
    """The text of a file's bytes.

    Args:
        content: all of them.
        name: the document's id, and what errors call it.
        ending: of the file's name, such as ".pdf"; None looks at the first bytes.
        limits: of its size.

    Raises:
        ValueError: it cannot be read as that, is too large, or has no text.
    """
    limits.check_file(len(content), name)
    if ending is not None and ending not in _READERS:
        raise ValueError(f"{name} ends in {ending!r}; it must be one of {', '.join(_READERS)}")
    text = _READERS[ending or _ending_of(content)](content, name, limits)
    if not text.strip():
        raise ValueError(f"{name} has no text; a document must have some")
    limits.check_text(text, name)
    return Document(id=name, text=text)


class FoundFiles(NamedTuple):
    """What is in a folder."""

    files: tuple[Path, ...]
    """Those that can be read, sorted."""
    skipped: tuple[Path, ...]
    """Those of other kinds, sorted."""


def find_files(folder: Path) -> FoundFiles:
    """The files of a folder and all below, by their endings; hidden ones, and folders that are links, aside.

    Raises:
        ValueError: it is no folder, or cannot be read.
    """

    def stop(error: OSError) -> None:
        raise ValueError(f"{error.filename} cannot be read: {error.strerror}") from error

    if not folder.is_dir():
        raise ValueError(f"{folder} is no folder; it must be one")
    files: list[Path] = []
    skipped: list[Path] = []
    for place, folders, names in os.walk(folder, onerror=stop):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in names:
            path = Path(place, name)
            if not name.startswith(".") and path.is_file():
                (files if path.suffix.lower() in _READERS else skipped).append(path)
    return FoundFiles(tuple(sorted(files)), tuple(sorted(skipped)))


def _plain(content: bytes, name: str, limits: Limits) -> str:
    return paragraphs(decoded(content, name))


def _markdown(content: bytes, name: str, limits: Limits) -> str:
    return markdown_text(decoded(content, name))


def _html(content: bytes, name: str, limits: Limits) -> str:
    return html_text(decoded(content, name, charset_of(content)))


def _pdf(content: bytes, name: str, limits: Limits) -> str:
    return pdf_text(content, name)


_READERS: Mapping[str, Callable[[bytes, str, Limits], str]] = {
    ".txt": _plain,
    ".text": _plain,
    ".md": _markdown,
    ".markdown": _markdown,
    ".html": _html,
    ".htm": _html,
    ".xhtml": _html,
    ".pdf": _pdf,
    ".docx": docx_text,
    ".epub": epub_text,
}
ENDINGS = tuple(_READERS)
"""Of the files that can be read."""


def _ending_of(content: bytes) -> str:
    if content.startswith(b"%PDF-"):
        return ".pdf"
    if content.startswith(_ZIP_BEGINS):
        return ".epub" if _EPUB_SAYS in content[:128] else ".docx"
    return ".html" if content.lstrip()[:64].lower().startswith(_PAGE_BEGINS) else ".txt"
