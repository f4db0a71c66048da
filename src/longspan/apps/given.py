"""Documents as people have them: texts, files, folders of files, texts with names; one, or many.

All objects for tasks take them in these forms, and no others.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from longspan.data.documents import ENDINGS, find_files, read_document
from longspan.data.examples import Document

Given = str | Path | Document
"""A text, a file or a folder of files, or a text with a name."""
_LONGEST_NAME = 1000


def documents_of(
    given: Given | Iterable[Given],
    *,
    read: Callable[[Path], Document] = read_document,
    unreadable: Callable[[str], None] | None = None,
) -> Iterator[Document]:
    """Documents with their texts, in the order that they are given; those of a folder by name.

    Args:
        given: one, or many. A text without a name gets its number, counted from 0.
        read: what reads a file.
        unreadable: called with the reason for every file of a folder that cannot be read, which is left out
            then; by default it is an error, as a file that is named always is.

    Raises:
        ValueError: a file cannot be read, or its name is given as if it were a text.
        ModuleNotFoundError: what reads a kind of file is not installed.
        TypeError: something else is given.
    """
    count = 0
    for one in [given] if isinstance(given, str | Path | Document) else given:
        if isinstance(one, Path) and one.is_dir():
            for path in find_files(one).files:
                try:
                    document = read(path)
                except (ValueError, ModuleNotFoundError) as error:
                    if unreadable is None:
                        raise
                    unreadable(str(error))
                    continue
                count += 1
                yield document
            continue
        count += 1
        if isinstance(one, Document):
            yield one
        elif isinstance(one, Path):
            yield read(one)
        elif isinstance(one, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            yield Document(id=str(count - 1), text=_checked(one))
        else:
            kind = type(one).__name__
            raise TypeError(f"a document is given as {kind}; it must be a text, a Path or a Document")


def document_of_one(given: Given) -> Document:
    """The one document that is given.

    Raises:
        ValueError: as in `documents_of`, or a folder has another number of documents.
    """
    found = list(documents_of(given))
    if len(found) != 1:
        raise ValueError(f"{given} has {len(found)} documents; it must be one")
    return found[0]


def _checked(text: str) -> str:
    """A text, unless it is plainly the name of a file, which is an easy mistake."""
    if len(text) < _LONGEST_NAME and text.lower().endswith(ENDINGS) and os.path.isfile(text):
        raise ValueError(f"{text!r} is a file's name; a str is a text, a file is given as Path({text!r})")
    return text
