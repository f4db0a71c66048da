"""Documents that commands are given: files, folders, or standard input."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from longspan.cli.errors import UsageError, user_mistakes

if TYPE_CHECKING:
    from longspan.data.examples import Document

Files = Annotated[Path, Parameter(allow_leading_hyphen=True)]
"""A document, a folder of them, or -."""
Words = Annotated[str, Parameter(allow_leading_hyphen=True)]
"""A document, a folder of them, -, or what is looked for in them."""
STANDARD_INPUT = "-"


def read_documents(files: Sequence[Path]) -> "list[Document]":
    """The documents of a command, in the order they were given; those of a folder by name.

    Args:
        files: none, or -, is standard input.

    Raises:
        UsageError: one that is named cannot be read, or a folder has none.
    """
    from longspan.apps.given import documents_of

    documents: list[Document] = []
    with user_mistakes():
        for path in files or (Path(STANDARD_INPUT),):
            if str(path).startswith("-") and str(path) != STANDARD_INPUT and not path.exists():
                raise UsageError(f"{path} is no option, and there is no such file")
            given = standard_input() if str(path) == STANDARD_INPUT else path
            found = list(documents_of(given, unreadable=say_left_out))
            if not found:
                raise UsageError(f"{path} has no document that can be read; a folder must have some")
            documents += found
    return documents


def say_left_out(why: str) -> None:
    """Says on stderr why a file of a folder is not among the documents."""
    print(f"longspan: left out: {why}", file=sys.stderr)


def standard_input() -> "Document":
    """What is sent to the process, as a document.

    Raises:
        UsageError: a terminal is there, and nothing will come.
        ValueError: it cannot be read.
    """
    from longspan.data.documents import document_of

    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError("no document is given; name a file, or send one to standard input")
    return document_of(sys.stdin.buffer.read(), "standard input")


def documents_and_words(command: str, given: Sequence[str], words: str | None) -> tuple[list[Path], str]:
    """Which documents a command reads, and what it looks for there.

    Args:
        command: its name, and that of what it looks for, such as "ask QUESTION".
        given: documents, then the words where no option has them.
        words: of the option.

    Returns:
        The documents, - where standard input is one of them, and the words.

    Raises:
        ValueError: the words are missing, or a file is not there, or folders have no documents.
    """
    from longspan.data.documents import find_files

    name, what = command.split()
    unknown = [one for one in given if one.startswith("-") and one != STANDARD_INPUT]
    if unknown:
        option = f"--{what.lower()}={unknown[0]}"
        raise ValueError(f"{unknown[0]} is no option of {name}; words that begin so are given as {option!r}")
    *files, asked = (*given, words) if words is not None else given or ("",)
    right = f"it is the last argument: longspan {name} FILE... {what}"
    if not asked.strip():
        raise ValueError(f"the {what.lower()} is missing; {right}")
    if words is None and os.path.exists(asked):
        raise ValueError(f"the {what.lower()} is missing: {asked} is a file; {right}")
    paths = [Path(one) for one in files or (STANDARD_INPUT,)]
    for path in paths:
        if str(path) != STANDARD_INPUT and not path.exists():
            raise ValueError(f"{path} cannot be read: there is no such file or folder")
    if all(path.is_dir() and not find_files(path).files for path in paths):
        raise ValueError(f"there is no document in {', '.join(map(str, paths))}")
    return paths, asked
