"""Text as bytes: files, folders, JSONL; enwik8 and text8 in parts."""

from pathlib import Path

import pytest

from longspan.data.byte_texts import read_bytes, read_text8
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


def test_text8_refuses_other_symbols(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="b'A' in it; text8 must have the letters"):
        list(read_text8(write(tmp_path / "text8", b"an Apple")))
    with pytest.raises(ValueError, match="nothing in it"):
        list(read_text8(write(tmp_path / "empty", b"")))
