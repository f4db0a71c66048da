"""What a search need not compute again: texts of files, vectors and words of passages, in one SQLite file.

A file is looked at before it is used (`file_state.py`); a text is known by its hash, vectors by the text's
hash and whatever made them. So what has changed is not found, and read again. Each text, and the vectors of
each, are one transaction.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from longspan.apps.file_state import FileState, look
from longspan.apps.file_state import hash_of as key_of
from longspan.apps.index_file import IndexFile, index_place
from longspan.apps.shared_words import PassageWords
from longspan.data.documents import READING_VERSION, document_of
from longspan.data.examples import Document
from longspan.data.sizes import NO_MORE, Limits

_APPLICATION = 0x6C737076  # "lspv"
_VERSION = f"3.{READING_VERSION}"
_TABLES = {
    "texts": "CREATE TABLE texts (hash TEXT PRIMARY KEY, text TEXT NOT NULL)",
    "files": """CREATE TABLE files (
        path BLOB PRIMARY KEY, text TEXT NOT NULL REFERENCES texts,
        size INTEGER NOT NULL, modified INTEGER NOT NULL, changed INTEGER NOT NULL, seen INTEGER NOT NULL,
        hash TEXT NOT NULL
    ) WITHOUT ROWID""",
    "vectors": """CREATE TABLE vectors (
        text TEXT NOT NULL, maker TEXT NOT NULL, places BLOB NOT NULL, vectors BLOB NOT NULL,
        lengths BLOB NOT NULL, hashes BLOB NOT NULL, PRIMARY KEY (text, maker)
    )""",
}


class Vectors(NamedTuple):
    """The passages of a text."""

    places: np.ndarray
    """[passages, 2] int64: the first character of each, and the one after its last."""
    vectors: np.ndarray
    """[passages, size] float16; the size of none may be 0."""
    words: PassageWords


class VectorStore:
    """A store on disk, or in memory. To be closed, or used in a `with` block.

    Args:
        path: the file, made with its folder if it is not there; None keeps everything in memory.

    Raises:
        ValueError: the file is something else, or cannot be opened.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._file = IndexFile(path, application=_APPLICATION, version=_VERSION, tables=_TABLES)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def read(self, path: Path, limits: Limits = NO_MORE) -> Document:
        """The text of a file, from the store where the file has not changed.

        Args:
            path: of the file.
            limits: of its size.

        Raises:
            ValueError: it cannot be read, or the store cannot be written.
            ModuleNotFoundError: what reads its kind is not installed.
        """
        name = _name(path)
        row = self._file.one(
            "SELECT size, modified, changed, seen, files.hash, texts.hash, texts.text "
            "FROM files JOIN texts ON files.text = texts.hash WHERE path = ?",
            name,
        )
        known = None if row is None else FileState(*row[:5])
        state, content = look(path, known, limits)
        if content is None:
            assert row is not None
            key, text = row[5:]
        else:
            text = document_of(content, str(path), path.suffix.lower() or None, limits).text
            key = key_of(text)
        if state != known:
            with self._file.transaction():
                self._file.execute("INSERT OR IGNORE INTO texts VALUES (?, ?)", (key, text))
                self._file.execute(
                    "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?)", (name, key, *state)
                )
        return Document(id=str(path), text=text)

    def vectors(self, key: str, maker: str) -> Vectors | None:
        """What was put there; None where nothing was.

        Args:
            key: of the text, by `key_of`.
            maker: all else that the vectors depend on.
        """
        found = self._file.one(
            "SELECT places, vectors, lengths, hashes FROM vectors WHERE text = ? AND maker = ?", key, maker
        )
        if found is None:
            return None
        places = np.frombuffer(found[0], np.int64).reshape(-1, 2)
        vectors = np.frombuffer(found[1], np.float16)
        words = PassageWords(np.frombuffer(found[2], np.int64), np.frombuffer(found[3], np.uint32))
        return Vectors(places, vectors.reshape(len(places), len(vectors) // max(len(places), 1)), words)

    def put(self, key: str, maker: str, made: Vectors) -> None:
        """Keeps the vectors of a text.

        Raises:
            ValueError: the store cannot be written.
        """
        blobs = (
            made.places.astype(np.int64).tobytes(),
            made.vectors.astype(np.float16).tobytes(),
            made.words.lengths.astype(np.int64).tobytes(),
            made.words.hashes.astype(np.uint32).tobytes(),
        )
        with self._file.transaction():
            self._file.execute(
                "INSERT OR REPLACE INTO vectors VALUES (?, ?, ?, ?, ?, ?)", (key, maker, *blobs)
            )

    def forget(self, paths: Iterable[Path]) -> None:
        """Drops files that are gone, then texts of no file and vectors of no text, of whatever maker.

        Args:
            paths: of the files.
        """
        with self._file.transaction():
            for path in paths:
                self._file.execute("DELETE FROM files WHERE path = ?", (_name(path),))
            self._file.execute("DELETE FROM texts WHERE hash NOT IN (SELECT text FROM files)")
            self._file.execute("DELETE FROM vectors WHERE text NOT IN (SELECT hash FROM texts)")

    def missing(self) -> list[Path]:
        """The files of the store that are not there any more."""
        rows = self._file.execute("SELECT path FROM files ORDER BY path")
        return [path for (name,) in rows if not (path := Path(os.fsdecode(name))).exists()]


def usual_place() -> Path:
    """Where vectors are kept unless another place is named."""
    return index_place("vectors")


def _name(path: Path) -> bytes:
    """What a file is called in the store: names need not be text."""
    return os.fsencode(path.resolve())
