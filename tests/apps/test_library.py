"""Files kept in an index: never stale, always valid."""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from longspan.apps import file_state
from longspan.apps import library as module
from longspan.apps.library import Library, Update, usual_place
from longspan.apps.words import bm25, words, words_of_question
from longspan.data.sizes import Limits
from tests.data.small_pdf import small_pdf

LINES = [
    "Ada wrote the first program for a machine.",
    "The river Inn flows to the Danube.",
    "Dogs bark at the river, and the dog of Ada barks most.",
    "Paris is the capital of France.",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "a.txt").write_text("\n\n".join(line * 20 for line in LINES))
    (folder / "b.md").write_text("# Cities\n\nLima is in Peru.")
    return folder


def files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def texts(library: Library) -> dict[str, str]:
    return {Path(one.path).name: library.text(one.id) for one in library.documents()}


def test_passages_are_the_text(folder: Path) -> None:
    with Library() as library:
        assert library.update(files(folder)) == Update(read=2, kept=0, dropped=0, failed=())
        long, short = library.documents()
        assert texts(library)["b.md"].endswith("Lima is in Peru.")
        assert len(library.passages(long.id)) > 1 and len(library.passages(short.id)) == 1
        for one in (long, short):
            text = library.text(one.id)
            assert (one.characters, one.bytes) == (len(text), len(text.encode()))
            for passage in library.passages(one.id):
                assert passage.text == text[passage.start : passage.end]
        first, second, *_ = library.passages(long.id)
        assert library.around(first) == library.passages(long.id)[:2]
        assert library.around(second) == library.passages(long.id)[:3]


def test_what_a_file_no_longer_says_is_not_found(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    with Library(path) as library:
        library.update(files(folder))
    with Library(path) as library:
        assert library.update(files(folder)) == Update(read=0, kept=2, dropped=0, failed=())
        assert library.find("Is it in Peru?", 9)[0].text == texts(library)["b.md"]
        # The same size and the same times.
        status = (folder / "b.md").stat()
        (folder / "b.md").write_text("# Cities\n\nLima is in Mali.")
        os.utime(folder / "b.md", ns=(status.st_atime_ns, status.st_mtime_ns))
        (folder / "c.txt").write_text("New.")
        assert library.update(files(folder)).read == 2
        assert library.find("Peru", 9) == [] and library.find("Mali", 9)
        (folder / "a.txt").unlink()
        assert library.update(files(folder)) == Update(read=0, kept=2, dropped=1, failed=())
        assert library.find("river", 9) == []
    with sqlite3.connect(path) as base:
        for table in ("passages", "words"):
            assert base.execute(f"SELECT count(*) FROM {table}").fetchone() == (2,)
    base.close()


def test_files_are_hashed_only_where_their_times_changed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Path] = []
    content = file_state.file_content

    def noticed(path: Path, limits: Limits) -> bytes:
        read.append(path)
        return content(path, limits)

    monkeypatch.setattr(file_state, "file_content", noticed)
    with Library() as library:
        written = max(path.stat().st_mtime_ns for path in files(folder))
        monkeypatch.setattr(file_state.time, "time_ns", lambda: written)
        library.update(files(folder))
        read.clear()
        library.update(files(folder))
        assert read == files(folder), "they changed just before they were read, and may have changed again"
        monkeypatch.setattr(file_state.time, "time_ns", lambda: written + 10**10)
        library.update(files(folder))
        read.clear()
        assert library.update(files(folder)).kept == 2 and read == []
        os.utime(folder / "a.txt")
        assert library.update(files(folder)).kept == 2 and read == [folder / "a.txt"]


@pytest.mark.parametrize("question", ["river", "Who has a dog that barks?", "dogs of Ada", "nothing here"])
def test_passages_are_ranked_by_bm25(question: str) -> None:
    with Library() as library:
        assert library.has_word_index
        for at in range(7):
            library.add(str(at), "\n".join(LINES[at % 4 :] * (1 + at)) * 9)
        everything = library.passages()
        scores = bm25([words(one.text) for one in everything], words_of_question(question))
        expected = sorted(
            ((-score, one.id) for score, one in zip(scores, everything, strict=True) if score > 0)
        )
        found = library.find(question, 5)
        by_score = {one.id: score for score, one in zip(scores, everything, strict=True)}
        assert [by_score[one.id] for one in found] == pytest.approx([-score for score, _ in expected[:5]])
        library.has_word_index = False
        assert [one.id for one in library.find(question, 999)] == [name for _, name in expected]


def test_without_full_text_search_words_are_counted(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "index.sqlite"
    monkeypatch.setattr(module, "_WORDS", "CREATE VIRTUAL TABLE words USING fts99(words)")
    with Library(path) as library:
        assert not library.has_word_index
        library.update(files(folder))
        assert "Peru" in library.find("Peru?", 3)[0].text
        (folder / "b.md").unlink()
        library.update(files(folder))
        assert library.find("Peru?", 3) == []
    monkeypatch.undo()
    with Library(path) as library:
        assert library.has_word_index and library.documents() == [], "made anew with words"


def test_files_that_cannot_be_read(folder: Path) -> None:
    (folder / "c.pdf").write_bytes(b"%PDF-1.4 nothing")
    with Library() as library:
        update = library.update(files(folder))
        assert update.read == 2 and len(update.failed) == 1 and "c.pdf" in update.failed[0]
        with pytest.raises(ValueError, match=r"c\.pdf"):
            library.update(files(folder), strict=[folder / "c.pdf"])
        (folder / "c.pdf").write_bytes(small_pdf([LINES]))
        assert library.update(files(folder)).failed == ()
        (folder / "c.pdf").write_bytes(b"%PDF-1.4 nothing")
        assert library.update(files(folder)).failed and len(library.documents()) == 2
        with pytest.raises(ValueError, match="cannot be read"):
            library.update([folder / "d.txt"], strict=[folder / "d.txt"])


def test_other_files_are_no_index(tmp_path: Path) -> None:
    text = tmp_path / "a.txt"
    text.write_text("no index, but a text that is long enough to be seen as one" * 20)
    other = tmp_path / "b.sqlite"
    with sqlite3.connect(other) as base:
        base.execute("CREATE TABLE documents (id)")
    base.close()
    for path in (text, other, tmp_path):
        before = path.read_bytes() if path.is_file() else None
        with pytest.raises(ValueError, match="cannot be used as an index"):
            Library(path)
        assert before is None or path.read_bytes() == before


def test_another_version_is_made_anew(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "index.sqlite"
    with Library(path) as library:
        library.update(files(folder))
    monkeypatch.setattr(module, "_VERSION", "2")
    with Library(path) as library:
        assert library.documents() == [] and library.find("river", 3) == []
        assert library.update(files(folder)).read == 2


def test_a_killed_process_leaves_a_valid_index(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    program = f"""
import os
from pathlib import Path
from longspan.apps import file_state
from longspan.apps import library as module
cover = module.cover
def dies(text):
    yield from cover(text)[:1]
    if "river" in text:
        os._exit(9)
module.cover = dies
module.Library(Path({str(path)!r})).update([Path({str(folder)!r}, name) for name in ("b.md", "a.txt")])
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 9
    with Library(path) as library:
        assert list(texts(library)) == ["b.md"]
        assert library.update(files(folder)).read == 1
        assert library.find("river", 3)


def test_processes_may_share_an_index(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    for at in range(20):
        (folder / f"{at}.txt").write_text(f"Text {at}.\n" * 50)
    program = f"""
from pathlib import Path
from longspan.apps.library import Library
with Library(Path({str(path)!r})) as library:
    library.update(sorted(Path({str(folder)!r}).iterdir()))
    print(len(library.documents()), len(library.find("text", 99)))
"""
    command = [sys.executable, "-c", program]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    said = [one.communicate()[0] for one in started]
    assert said == ["22 20\n"] * 3


def test_readers_see_one_state(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    with Library(path) as library, Library(path) as other:
        library.update(files(folder))
        with library.as_it_is():
            before = texts(library)
            other.update([])
            assert texts(library) == before
        assert library.documents() == []


def test_indexes_have_places_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    one, two = usual_place([tmp_path / "a"]), usual_place([tmp_path / "b"])
    assert one != two and one.is_relative_to(tmp_path / "longspan")
    assert usual_place([tmp_path / "b", tmp_path / "a"]) == usual_place([tmp_path / "a", tmp_path / "b"])
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert usual_place([tmp_path]).is_relative_to(Path.home() / ".cache")


def test_odd_names_and_texts(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.txt"))
    path.write_text("Nul \0 and 漢字 and 😀.")
    with Library() as library:
        assert library.update([path]).read == 1 and library.update([path]).kept == 1
        (one,) = library.documents()
        assert "\0" in library.text(one.id) and one.path.endswith("\\xff.txt")
