"""Plain text in files, folders, archives and JSONL; WikiText; enwik8."""

import tracemalloc
from pathlib import Path

import pytest

from longspan.data.examples import Document
from longspan.data.texts import read_enwik8, read_texts, read_wikitext

from .writing import ENDINGS, ids, write, write_jsonl, write_tar

WIKITEXT = "".join(
    line + "\n"
    for line in (
        " ",
        " = Ada = ",
        " ",
        " Ada @-@ the first . ",
        " = not a title = ",
        " ",
        " = = Life = = ",
        " ",
        " She lived . ",
        " ",
        " = B = ",
        " ",
        " Second .",
    )
)


@pytest.mark.parametrize("ending", ENDINGS)
def test_one_file(ending: str, tmp_path: Path) -> None:
    path = write(tmp_path / f"novel.txt{ending}", "Chapter I\n\nLong ago")
    assert list(read_texts(path)) == [Document(id=path.name, text="Chapter I\n\nLong ago")]


def test_folders_and_archives(tmp_path: Path) -> None:
    write(tmp_path / "in/b.txt", "second")
    write(tmp_path / "in/a/a.txt.gz", "first")
    write(tmp_path / "in/notes.md", "other")
    assert [(text.id, text.text) for text in read_texts(tmp_path / "in")] == [
        ("a/a.txt.gz", "first"),
        ("b.txt", "second"),
    ]
    assert ids(read_texts(tmp_path / "in", names="*.md")) == ["notes.md"]
    archive = write_tar(tmp_path / "in.tar.xz", {"x/1.txt": "one", "x/2.txt": "two"})
    assert ids(read_texts(archive)) == ["x/1.txt", "x/2.txt"]


@pytest.mark.parametrize("ending", ENDINGS)
def test_jsonl(ending: str, tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / f"t.jsonl{ending}", {"id": "a", "text": "x"}, {"id": 2, "text": "y"})
    assert list(read_texts(path)) == [Document(id="a", text="x"), Document(id="2", text="y")]
    with pytest.raises(ValueError, match="line 1: text is missing"):
        list(read_texts(write_jsonl(tmp_path / "bad.jsonl", {"id": 1})))


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize(
    ("line", "end"), [("ein Wörtchen\n\n", "\n\n"), ("ein Wörtchen\n", "\n"), ("Wörtchen", "")]
)
def test_a_large_file_is_cut(line: str, end: str, ending: str, tmp_path: Path) -> None:
    content = line * 200
    # With the mark of UTF-8 before it, which is no part of the text.
    path = write(tmp_path / f"a.txt{ending}", b"\xef\xbb\xbf" + content.encode())
    found = list(read_texts(path, most=1000, piece=100))
    assert len(list(read_texts(path, most=len(content.encode()) + 2, piece=100))) == len(found)
    assert len(list(read_texts(path, most=len(content.encode()) + 3, piece=100))) == 1
    assert "".join(one.text for one in found) == content
    assert all(one.text.endswith(end) and len(one.text.encode()) <= 100 for one in found)
    assert len(found) < len(content.encode()) / 50
    assert [one.id for one in found][:3] == [f"a.txt{ending}", f"a.txt{ending}/1", f"a.txt{ending}/2"]


def test_a_large_file_need_not_fit_into_memory(tmp_path: Path) -> None:
    path = tmp_path / "large.txt"
    with path.open("w") as file:
        for _ in range(50):
            file.write("It was a long way to the sea.\n\n" * 31_250)  # 1 MB
    tracemalloc.start()
    try:
        sizes = [len(document.text) for document in read_texts(path)]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sum(sizes) == path.stat().st_size and max(sizes) <= 1_000_000
    assert peak < 20_000_000 < path.stat().st_size


def test_what_is_not_utf_8_in_a_large_file_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", b"abc\n" * 30 + b"\xff\n" * 10)
    with pytest.raises(ValueError, match=r"a.txt, from byte \d+: byte \d+ begins .*; it must be UTF-8"):
        list(read_texts(path, most=100, piece=50))


def test_wikitext(tmp_path: Path) -> None:
    first, second = read_wikitext(write(tmp_path / "wiki.raw.xz", WIKITEXT))
    assert (first.id, second.id) == ("1/Ada", "2/B")
    assert first.text.startswith(" = Ada = \n \n Ada @-@ the first . \n = not a title = \n")
    assert first.text.endswith(" She lived . \n ")
    assert f" \n{first.text}\n{second.text}\n" == WIKITEXT


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (" Words . \n" + WIKITEXT, "line 1: ' Words . ' comes before a title"),
        (" \n \n", "has no line ' = Title = '"),
        ("", "has no line ' = Title = '"),
    ],
)
def test_wikitext_refuses(content: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        list(read_wikitext(write(tmp_path / "wiki.raw", content)))


@pytest.mark.parametrize("ending", ENDINGS)
def test_enwik8_is_cut_in_three(ending: str, tmp_path: Path) -> None:
    content = bytes(range(100))
    path = write(tmp_path / f"enwik8{ending}", content)
    parts = [read_enwik8(path, split, sizes=(90, 5, 5)) for split in ("train", "dev", "test")]
    assert [len(part) for part in parts] == [90, 5, 5]
    assert b"".join(parts) == content


@pytest.mark.parametrize(("size", "said"), [(99, "99"), (101, "more"), (3, "3"), (0, "0")])
@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_enwik8_refuses_another_size(size: int, said: str, split: str, tmp_path: Path) -> None:
    path = write(tmp_path / "enwik8", bytes(size))
    with pytest.raises(ValueError, match=f"enwik8 has {said} bytes; it must have 100"):
        read_enwik8(path, split, sizes=(90, 5, 5))  # pyright: ignore[reportArgumentType]
