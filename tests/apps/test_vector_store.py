"""The store of texts and vectors: never stale."""

import os
import time
from pathlib import Path

import numpy as np
import pytest

from longspan.apps import file_state, vector_store
from longspan.apps.shared_words import PassageWords
from longspan.apps.vector_store import Vectors, VectorStore, key_of


def some_vectors(passages: int = 3) -> Vectors:
    return Vectors(
        np.arange(2 * passages).reshape(-1, 2),
        np.linspace(-1, 1, passages * 4, dtype=np.float16).reshape(-1, 4),
        PassageWords.of([f"The river {number} is long." for number in range(passages)]),
    )


def test_vectors_come_back_for_their_text_and_maker_alone(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "index.sqlite"
    made = some_vectors()
    with VectorStore(path) as store:
        store.put(key_of("a"), "model", made)
    with VectorStore(path) as store:
        found = store.vectors(key_of("a"), "model")
        assert found is not None
        assert np.array_equal(found.places, made.places) and np.array_equal(found.vectors, made.vectors)
        assert np.array_equal(found.words.shares("river 2"), made.words.shares("river 2"))
        assert store.vectors(key_of("b"), "model") is None and store.vectors(key_of("a"), "other") is None


def test_no_passages_are_something_else_than_none(tmp_path: Path) -> None:
    with VectorStore(tmp_path / "index") as store:
        store.put("key", "model", Vectors(np.zeros((0, 2)), np.zeros((0, 4)), PassageWords.of([])))
        found = store.vectors("key", "model")
        assert found is not None and len(found.places) == 0 and len(found.vectors) == 0


def test_an_unchanged_file_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.txt"
    path.write_text("The river is long.")
    later = time.time_ns() + 10**10
    monkeypatch.setattr(file_state.time, "time_ns", lambda: later)
    with VectorStore(tmp_path / "index") as store:
        assert store.read(path).text == "The river is long."

        def refuse(*_: object) -> bytes:
            raise AssertionError("the file was read again")

        monkeypatch.setattr(file_state, "file_content", refuse)
        assert store.read(path).text == "The river is long."
        assert store.read(path).id == str(path)


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("The river is long.")
    with VectorStore(tmp_path / "index") as store:
        assert store.read(path).text == "The river is long."
        # As long as before, at the same time: only the content tells.
        state = path.stat()
        path.write_text("The river is deep.")
        os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
        assert store.read(path).text == "The river is deep."
        os.utime(path, ns=(10**18, 10**18))
        assert store.read(path).text == "The river is deep."


def test_files_that_are_gone_take_their_vectors_along(tmp_path: Path) -> None:
    with VectorStore(tmp_path / "index") as store:
        for name in ("a", "b"):
            path = tmp_path / f"{name}.txt"
            path.write_text(f"Text {name}.")
            store.put(key_of(store.read(path).text), "model", some_vectors())
        (tmp_path / "a.txt").unlink()
        assert store.missing() == [tmp_path / "a.txt"]
        store.forget(store.missing())
        assert store.missing() == []
        assert store.vectors(key_of("Text a."), "model") is None
        assert store.vectors(key_of("Text b."), "model") is not None


def test_the_index_of_another_version_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with VectorStore(tmp_path / "index") as store:
        store.put("key", "model", some_vectors())
    monkeypatch.setattr(vector_store, "_VERSION", "another")
    with VectorStore(tmp_path / "index") as store:
        assert store.vectors("key", "model") is None


def test_names_that_are_no_text(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.txt"))
    path.write_text("The river is long.")
    with VectorStore() as store:
        assert store.read(path).text == store.read(path).text == "The river is long."
        assert store.missing() == []
        path.unlink()
        assert store.missing() == [path]
