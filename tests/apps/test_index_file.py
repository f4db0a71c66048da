"""Files that keep what can be computed again: whole after a kill, never those of others."""

import signal
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from longspan.apps.index_file import IndexFile, index_place

TABLES = {"one": "CREATE TABLE one (id INTEGER PRIMARY KEY)", "two": "CREATE TABLE two (id REFERENCES one)"}


def open_index(path: Path | None, version: str = "1", application: int = 7) -> IndexFile:
    return IndexFile(path, application=application, version=version, tables=TABLES)


def test_what_is_written_is_there_again(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "index.sqlite"
    with open_index(path) as file, file.transaction():
        file.execute("INSERT INTO one VALUES (?)", (3,))
    with open_index(path) as file:
        assert file.one("SELECT id FROM one WHERE id = ?", 3) == (3,)
        assert file.one("SELECT id FROM one WHERE id = ?", 4) is None


def test_several_may_make_it_at_once(tmp_path: Path) -> None:
    together = threading.Barrier(4)

    def make(at: int) -> None:
        together.wait()
        open_index(tmp_path / str(at)).close()

    with ThreadPoolExecutor(4) as pool:
        for at in range(50):
            for made in [pool.submit(make, at) for _ in range(4)]:
                made.result()


def test_another_version_begins_anew(tmp_path: Path) -> None:
    with open_index(tmp_path / "index") as file, file.transaction():
        file.execute("INSERT INTO one VALUES (3)")
        file.execute("INSERT INTO two VALUES (3)")
    with open_index(tmp_path / "index", version="2") as file:
        assert file.one("SELECT * FROM one") is None and file.one("SELECT * FROM two") is None


def test_what_is_no_index_is_refused_and_left_alone(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("not a database " * 100)
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as base:
        base.execute("CREATE TABLE one (mine TEXT)")
    base.close()
    kind = tmp_path / "kind.sqlite"
    open_index(kind, application=8).close()
    for path in (text, other, kind, tmp_path):
        before = path.read_bytes() if path.is_file() else None
        with pytest.raises(ValueError, match="cannot be used as an index"):
            open_index(path)
        assert before is None or path.read_bytes() == before


def test_a_transaction_is_whole_or_nothing() -> None:
    with open_index(None) as file:
        with pytest.raises(KeyError), file.transaction():
            file.execute("INSERT INTO one VALUES (3)")
            raise KeyError
        assert file.one("SELECT * FROM one") is None


def test_a_file_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    with open_index(tmp_path / "index") as file:
        file.execute("PRAGMA query_only = 1")
        with pytest.raises(ValueError, match="index cannot be written"), file.transaction():
            file.execute("INSERT INTO one VALUES (3)")


def test_a_killed_process_leaves_what_it_finished(tmp_path: Path) -> None:
    path = tmp_path / "index"
    program = f"""
import os, signal
from pathlib import Path
from tests.apps.test_index_file import open_index
file = open_index(Path({str(path)!r}))
with file.transaction():
    file.execute("INSERT INTO one VALUES (1)")
with file.transaction():
    file.execute("INSERT INTO one VALUES (2)")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    ended = subprocess.run([sys.executable, "-c", program], cwd=Path(__file__).parents[2], check=False)
    assert ended.returncode == -signal.SIGKILL
    with open_index(path) as file:
        assert file.execute("SELECT id FROM one").fetchall() == [(1,)]
        with file.transaction():
            file.execute("INSERT INTO one VALUES (3)")


def test_the_usual_place_is_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert index_place("a") == tmp_path / "longspan" / "index" / "a.sqlite"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert index_place("a").is_relative_to(Path.home() / ".cache")
