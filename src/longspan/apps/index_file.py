"""A SQLite file that keeps what can be computed again: opened, written in transactions, and where it is.

What another version kept is dropped. A file of something else is refused and left alone. A process that is
killed leaves the file as it was before the transaction that it was in; several processes may share a file.
"""

import os
import sqlite3
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

_WAIT = 60.0
"""Seconds for another process to finish writing."""
_FACTS = "CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL)"


class IndexFile:
    """A file, or the like in memory. To be closed, or used in a `with` block.

    Args:
        path: made with its folder if it is not there; None keeps everything in memory.
        application: what marks files of this kind, in SQLite's header.
        version: of all that its content depends on.
        tables: statements that make them, by name, those that others refer to first.

    Raises:
        ValueError: the file is something else, or cannot be opened.
    """

    def __init__(
        self, path: Path | None, *, application: int, version: str, tables: Mapping[str, str]
    ) -> None:
        self.path = path
        try:
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
            # Transactions are begun below, by name.
            self._base = sqlite3.connect(
                ":memory:" if path is None else path, timeout=_WAIT, isolation_level=None
            )
            try:
                self._prepare(application, version, tables)
            except BaseException:
                self._base.close()
                raise
        except (OSError, sqlite3.Error) as error:
            # "File exists", says the system where a folder would have to be.
            is_file = isinstance(error, FileExistsError | NotADirectoryError)
            why = "it is in a file, not in a folder" if is_file else getattr(error, "strerror", error)
            raise ValueError(f"{path} cannot be used as an index: {why}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file."""
        self._base.close()

    def execute(self, statement: str, values: Sequence[object] = ()) -> sqlite3.Cursor:
        """Runs a statement of SQL."""
        return self._base.execute(statement, values)

    def one(self, question: str, *values: object) -> tuple[Any, ...] | None:
        """The first row that answers; None where there is none."""
        return self._base.execute(question, values).fetchone()

    @contextmanager
    def transaction(self) -> Generator[None]:
        """What is done in the block is done whole or not at all.

        Raises:
            ValueError: the file cannot be written.
        """
        try:
            self._base.execute("BEGIN IMMEDIATE")
            yield
            self._base.execute("COMMIT")
        except BaseException as error:
            with suppress(sqlite3.Error):
                if self._base.in_transaction:
                    self._base.execute("ROLLBACK")
            if isinstance(error, sqlite3.OperationalError):
                raise ValueError(f"{self.path} cannot be written: {error}") from error
            raise

    @contextmanager
    def as_it_is(self) -> Generator[None]:
        """Within the block other processes' changes are not seen."""
        self._base.execute("BEGIN")
        try:
            yield
        finally:
            self._base.execute("COMMIT")

    def _prepare(self, application: int, version: str, tables: Mapping[str, str]) -> None:
        self._base.execute("PRAGMA foreign_keys = ON")
        # At one moment: another process may be making the file.
        with self.as_it_is():
            (found,) = self._base.execute("PRAGMA application_id").fetchone()
            (count,) = self._base.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if count and found != application:
            raise sqlite3.DatabaseError("it is a database of something else")
        self._write_ahead()
        self._base.execute("PRAGMA synchronous = NORMAL")
        with self.transaction():
            self._base.execute(f"PRAGMA application_id = {application}")
            self._base.execute(_FACTS)
            if self.one("SELECT value FROM facts WHERE name = 'version'") == (version,):
                return
            for name in reversed([*tables]):
                self._base.execute(f"DROP TABLE IF EXISTS {name}")
            for statement in tables.values():
                self._base.execute(statement)
            self._base.execute("INSERT OR REPLACE INTO facts VALUES ('version', ?)", (version,))

    def _write_ahead(self) -> None:
        """So that who reads does not wait for who writes; some network file systems cannot."""
        until = time.monotonic() + _WAIT
        while True:
            try:
                self._base.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                # For this SQLite does not wait itself.
                if "locked" not in str(error) or time.monotonic() > until:
                    raise
                time.sleep(0.01)


def index_place(name: str) -> Path:
    """Where an index is kept unless another place is named: in the user's cache.

    Raises:
        ValueError: nobody says where that is.
    """
    try:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError as error:
        raise ValueError("there is no home folder, and XDG_CACHE_HOME names no cache") from error
    return Path(home, "longspan", "index", f"{name}.sqlite")
