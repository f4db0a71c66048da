"""Questions to libraries: what is read, and where answers are."""

import pytest

from longspan.apps.asking import _excerpts, ask
from longspan.apps.library import Library
from longspan.apps.reader import Reader
from tests.apps.tiny_reader import tiny_reader

LINE = "The river Inn flows from Switzerland to the Danube, and the city lies where they meet. "
ASKED = "Where is the treasure?"


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Reader:
    return Reader(str(tiny_reader(tmp_path_factory.mktemp("reader"))), precision="fp32")


@pytest.fixture
def library() -> Library:
    library = Library()
    for name in ("a", "b", "c"):
        lines = [f"{name} {number} {LINE * 8}" for number in range(9)]
        if name != "c":
            lines[2 if name == "a" else 8] += "The treasure is here."
        library.add(name, "\n".join(lines))
    return library


def test_excerpts_are_the_best_passages_with_their_neighbours(library: Library) -> None:
    texts = {one.id: library.text(one.id) for one in library.documents()}
    parts = _excerpts(library, ASKED, 10**6)
    assert [part.document for part in parts] == sorted(texts)[:2]
    for part, first, last in zip(parts, (1, 7), (3, 8), strict=True):
        text = texts[part.document]
        assert text[part.start : part.start + len(part.text)] == part.text
        lines = text.split("\n")
        assert part.text.strip() == "\n".join(lines[first : last + 1]).strip()
    assert len(_excerpts(library, ASKED, 10)) == 1, "one at least"
    nothing = _excerpts(library, "Zanzibar?", 4000)
    assert [(one.document, one.start) for one in nothing] == [(min(texts), 0)]


def test_neighbouring_passages_are_one_text() -> None:
    with Library() as library:
        library.add("a", "\n".join(f"{at} treasure {LINE * 8}" for at in range(9)) + "\nend" * 900)
        (part,) = _excerpts(library, ASKED, 10**6)
        assert part.text.count("treasure") == 9


@pytest.mark.parametrize("read", [None, 10_000, 1000])
def test_answers_are_in_their_files(reader: Reader, library: Library, read: int | None) -> None:
    texts = {one.path: library.text(one.id) for one in library.documents()}
    done: list[float] = []
    found = ask(reader, library, ASKED, read=read, anyway=True, top=4, progress=done.append)
    assert found.is_whole == (read != 1000) and found.documents == 3 and done[-1] == 1
    assert len(found.answers) == 4
    for one in found.answers:
        text = texts[one.name]
        assert text[one.start : one.end] == one.text
        assert text[one.sentence_start : one.sentence_end] == one.sentence
        assert one.position == one.start / len(text)


def test_whole_documents_are_read_as_by_the_reader(reader: Reader, library: Library) -> None:
    texts = [library.text(one.id) for one in library.documents()]
    found = ask(reader, library, ASKED, read=None, anyway=True)
    reading = reader.read(texts, ASKED, anyway=True)
    assert [(one.start, one.confidence) for one in found.answers] == [
        (one.start, one.confidence) for one in reading.answers
    ]
    assert found.no_answer == reading.no_answer and found.tokens == reading.tokens


def test_an_empty_library(reader: Reader) -> None:
    with Library() as library:
        found = ask(reader, library, ASKED)
    assert found.answers == () and found.no_answer == 1 and found.documents == 0
    with pytest.raises(ValueError, match="read is 0"), Library() as library:
        ask(reader, library, ASKED, read=0)
