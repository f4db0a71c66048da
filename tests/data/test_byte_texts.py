"""Text as bytes: files, folders, JSONL; enwik8 and text8 in parts."""

import mmap
import pickle
from pathlib import Path

import pytest

from longspan.data.byte_texts import read_bytes, read_bytes_part, read_enwik8_bytes, read_text8
from longspan.data.examples import ByteDocument
from longspan.data.parts import read_part

from .writing import write


def test_files_are_documents(tmp_path: Path) -> None:
    write(tmp_path / "a" / "b.bin", b"\xff\x00")
    write(tmp_path / "c.txt.xz", b"three")
    found = list(read_bytes(tmp_path))
    assert found == [
        ByteDocument(id="a/b.bin", content=b"\xff\x00"),
        ByteDocument(id="c.txt.xz", content=b"three"),
    ]
    lines = write(tmp_path / "d.jsonl", '{"id": 1, "text": "größer"}\n')
    assert list(read_bytes(lines)) == [ByteDocument(id="1", content="größer".encode())]


@pytest.mark.parametrize("format", ["bytes", "text8"])
def test_one_text_is_split_in_order(format: str, tmp_path: Path) -> None:
    content = b"".join(bytes([97 + at % 26]) for at in range(207))
    write(tmp_path / "text.xz", content)
    parts = [
        next(iter(read_part(f"text.xz#{part}", format, root=tmp_path)))  # pyright: ignore[reportArgumentType]
        for part in ("train", "dev", "test")
    ]
    assert [getattr(part, "id", None) for part in parts] == ["text.xz#train", "text.xz#dev", "text.xz#test"]
    assert b"".join(getattr(part, "content", b"") for part in parts) == content
    assert [len(getattr(part, "content", b"")) for part in parts] == [186, 10, 11]


@pytest.mark.parametrize("name", ["text", "text.gz", "text.xz"])
def test_single_files_are_mapped(name: str, tmp_path: Path) -> None:
    """A text and its parts are views of one mapping, not copies."""
    path = write(tmp_path / name, b"abcdefghij" * 1000)
    (document,) = read_bytes(path)
    assert isinstance(document.content, memoryview) and isinstance(document.content.obj, mmap.mmap)
    assert bytes(document.content) == b"abcdefghij" * 1000
    for read in (read_bytes_part, read_text8):
        (part,) = read(path, "dev")
        assert isinstance(part.content, memoryview) and isinstance(part.content.obj, mmap.mmap)
        assert len(part.content) == 500
    again = pickle.loads(pickle.dumps(document))
    assert again == document, "and can be sent to another process"


def test_a_file_is_decompressed_once(tmp_path: Path) -> None:
    path = write(tmp_path / "text.xz", b"abc" * 100)
    (first,) = read_bytes_part(path, "train")
    (second,) = read_bytes_part(path, "test")
    assert isinstance(first.content, memoryview) and isinstance(second.content, memoryview)
    assert first.content.obj is second.content.obj
    write(path, b"xyz" * 50)  # another file of the same name
    (other,) = read_bytes_part(path, "test")
    assert bytes(other.content) == (b"xyz" * 50)[142:]


def test_enwik8_has_its_size(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has 5 bytes; it must have 100000000"):
        list(read_enwik8_bytes(write(tmp_path / "enwik8", b"<medi"), "dev"))
    whole = tmp_path / "whole"
    with whole.open("wb") as file:
        file.truncate(100_000_000)  # a hole, which takes no room
    assert [len(next(read_enwik8_bytes(whole, part)).content) for part in ("train", "dev", "test")] == [
        90_000_000,
        5_000_000,
        5_000_000,
    ]


def test_text8_refuses_other_symbols(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="b'A' in it; text8 must have the letters"):
        list(read_text8(write(tmp_path / "text8", b"an Apple")))
    with pytest.raises(ValueError, match="nothing in it"):
        list(read_text8(write(tmp_path / "empty", b"")))
