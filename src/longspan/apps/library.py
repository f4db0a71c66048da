"""Texts of files and their passages, kept on disk, in one SQLite file: an index.

```
documents  id, path, and what tells that a file is as it was: size, times, hash of its bytes
passages   id, document, number, start, end, text; in order they are the document's text
words      the words of each passage, in SQLite's full-text index where it was built with one
```

Files are looked at before every use, so that nothing is found that a file no longer says. A file and its
passages are written in one transaction: whoever is killed leaves a valid index, which the next one completes.
"""

import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

from longspan.apps import passages as cutting
from longspan.apps import words as wording
from longspan.apps.file_state import FileState, hash_of, look
from longspan.apps.index_file import IndexFile, index_place
from longspan.apps.passages import cover
from longspan.apps.words import bm25, words, words_of_question
from longspan.data.documents import READING_VERSION, document_of

_APPLICATION = 0x6C73706E  # "lspn"
_VERSION = f"2.{READING_VERSION}.{cutting.VERSION}.{wording.VERSION}"
_TABLES = {
    "documents": """CREATE TABLE documents (
        id INTEGER PRIMARY KEY AUTOINCREMENT, path TEXT NOT NULL UNIQUE, size INTEGER NOT NULL,
        modified INTEGER NOT NULL, changed INTEGER NOT NULL, seen INTEGER NOT NULL, hash TEXT NOT NULL,
        characters INTEGER NOT NULL, bytes INTEGER NOT NULL
    )""",
    "passages": """CREATE TABLE passages (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        document INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE,
        number INTEGER NOT NULL, start INTEGER NOT NULL, end INTEGER NOT NULL, text TEXT NOT NULL,
        UNIQUE (document, number)
    )""",
}
_WORDS = 'CREATE VIRTUAL TABLE words USING fts5(said, tokenize = "unicode61 remove_diacritics 0")'
_PASSAGE = "id, document, number, start, end, text"


class StoredDocument(NamedTuple):
    """A document of a library."""

    id: int
    path: str
    characters: int
    """Of its text."""
    bytes: int
    """Of its text in UTF-8."""


class StoredPassage(NamedTuple):
    """A part of a document, with the white space behind it."""

    id: int
    document: int
    number: int
    """Its place among the document's passages, counted from 0."""
    start: int
    end: int
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Update:
    """What `Library.update` did."""

    read: int
    """New files, and changed ones."""
    kept: int
    dropped: int
    """Files that are gone."""
    failed: tuple[str, ...]
    """Why files could not be read, a line each; they are not in the library."""


class Library:
    """An index of files.

    Args:
        path: of the SQLite file; made if it is not there. None keeps it in memory.

    Raises:
        ValueError: the file is something else, or cannot be written.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.has_word_index = _has_full_text_search()
        kind = "words" if self.has_word_index else "no words"
        tables = _TABLES | ({"words": _WORDS} if self.has_word_index else {})
        self._base = IndexFile(path, application=_APPLICATION, version=f"{_VERSION} {kind}", tables=tables)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file."""
        self._base.close()

    def update(
        self,
        files: Sequence[Path],
        *,
        progress: Callable[[int, int], None] = lambda done, of: None,
        strict: Iterable[Path] = (),
    ) -> Update:
        """Makes the library one of these files as they are now.

        Args:
            files: that shall be in it; all others are dropped.
            progress: told how many files were looked at, and of how many.
            strict: files that must be read; of others it is said that they could not be.

        Raises:
            ValueError: one of ``strict`` cannot be read.
            ModuleNotFoundError: what reads its kind is not installed.
        """
        must = {_name(path) for path in strict}
        wanted = {_name(path): path for path in files}
        known = dict[str, int](self._base.execute("SELECT path, id FROM documents").fetchall())
        gone = [document for name, document in known.items() if name not in wanted]
        if gone:
            with self._base.transaction():
                for document in gone:
                    self._drop(document)
        failed: list[str] = []
        read = 0
        for done, (name, path) in enumerate(wanted.items()):
            progress(done, len(wanted))
            stored = "SELECT size, modified, changed, seen, hash FROM documents WHERE path = ?"
            row = self._base.one(stored, name)
            was = None if row is None else FileState(*row)
            try:
                state, content = look(path, was)
                ending = path.suffix.lower() or None
                text = None if content is None else document_of(content, str(path), ending).text
            except (ValueError, ModuleNotFoundError) as error:
                if name in must:
                    raise
                failed.append(str(error))
                if name in known:
                    with self._base.transaction():
                        self._drop(known[name])
                continue
            if state != was:
                with self._base.transaction():
                    self._mark(name, state) if text is None else self._put(name, state, text)
            read += text is not None
        progress(len(wanted), len(wanted))
        return Update(
            read=read, kept=len(wanted) - read - len(failed), dropped=len(gone), failed=tuple(failed)
        )

    def add(self, name: str, text: str) -> None:
        """Puts a text into the library that is in no file; one of the same name is replaced."""
        with self._base.transaction():
            self._put(name, FileState(0, 0, 0, 0, hash_of(text)), text)

    def as_it_is(self) -> AbstractContextManager[None]:
        """Within the block other processes' changes are not seen."""
        return self._base.as_it_is()

    def documents(self) -> list[StoredDocument]:
        """All documents, by their paths."""
        found = self._base.execute("SELECT id, path, characters, bytes FROM documents ORDER BY path")
        return [StoredDocument(*row) for row in found]

    def text(self, document: int) -> str:
        """The whole text of a document."""
        found = self._base.execute(
            "SELECT text FROM passages WHERE document = ? ORDER BY number", (document,)
        )
        return "".join(text for (text,) in found)

    def passages(self, document: int | None = None) -> list[StoredPassage]:
        """The passages of a document, or of all, in order."""
        chosen = "" if document is None else "WHERE document = ?"
        query = f"SELECT {_PASSAGE} FROM passages {chosen} ORDER BY document, number"
        return [
            StoredPassage(*row) for row in self._base.execute(query, () if document is None else (document,))
        ]

    def around(self, passage: StoredPassage) -> list[StoredPassage]:
        """A passage, with the one before and the one after it where there are such."""
        query = (
            f"SELECT {_PASSAGE} FROM passages WHERE document = ? AND number BETWEEN ? AND ? ORDER BY number"
        )
        place = (passage.document, passage.number - 1, passage.number + 1)
        return [StoredPassage(*row) for row in self._base.execute(query, place)]

    def find(self, question: str, count: int) -> list[StoredPassage]:
        """The passages that have the words of a question best, best first; fewer if fewer have any."""
        wanted = words_of_question(question)
        if not wanted:
            return []
        if self.has_word_index:
            found = self._base.execute(
                f"SELECT {_PASSAGE} FROM passages JOIN (SELECT rowid AS hit, rank AS score FROM words "
                "WHERE words MATCH ? ORDER BY rank, rowid LIMIT ?) ON id = hit ORDER BY score, id",
                (" OR ".join(f'"{word}"' for word in wanted), count),
            )
            return [StoredPassage(*row) for row in found]
        everything = self.passages()
        scores = bm25([words(one.text) for one in everything], wanted)
        ranked = sorted(zip(scores, everything, strict=True), key=lambda pair: (-pair[0], pair[1].id))
        return [one for score, one in ranked[:count] if score > 0]

    def _mark(self, name: str, state: FileState) -> None:
        update = "UPDATE documents SET size = ?, modified = ?, changed = ?, seen = ?, hash = ? WHERE path = ?"
        self._base.execute(update, (*state, name))

    def _put(self, name: str, state: FileState, text: str) -> None:
        row = self._base.execute("SELECT id FROM documents WHERE path = ?", (name,)).fetchone()
        if row is not None:
            self._drop(row[0])
        sizes = (len(text), len(text.encode("utf-8", "replace")))
        columns = "path, size, modified, changed, seen, hash, characters, bytes"
        document = self._base.execute(
            f"INSERT INTO documents ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (name, *state, *sizes)
        ).lastrowid
        for number, (start, end) in enumerate(cover(text)):
            part = text[start:end]
            passage = self._base.execute(
                "INSERT INTO passages (document, number, start, end, text) VALUES (?, ?, ?, ?, ?)",
                (document, number, start, end, part),
            ).lastrowid
            if self.has_word_index:
                row = (passage, " ".join(words(part)))
                self._base.execute("INSERT INTO words (rowid, said) VALUES (?, ?)", row)

    def _drop(self, document: int) -> None:
        if self.has_word_index:
            own = "SELECT id FROM passages WHERE document = ?"
            self._base.execute(f"DELETE FROM words WHERE rowid IN ({own})", (document,))
        self._base.execute("DELETE FROM documents WHERE id = ?", (document,))


def _has_full_text_search() -> bool:
    """Whether this SQLite was built with it."""
    with closing(sqlite3.connect(":memory:")) as base:
        try:
            base.execute(_WORDS)
        except sqlite3.OperationalError as error:
            if "no such module" not in str(error):
                raise
            return False
    return True


def _name(path: Path) -> str:
    """What a file is called in the library; names that are no text are spelled out."""
    return os.fsencode(os.path.abspath(path)).decode("utf-8", "backslashreplace")


def usual_place(sources: Iterable[Path]) -> Path:
    """Where the library of files and folders is kept unless another place is named."""
    names = "\0".join(sorted(_name(path.resolve()) for path in sources))
    return index_place(f"words-{hashlib.sha256(names.encode()).hexdigest()[:24]}")
