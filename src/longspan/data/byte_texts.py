"""Text as bytes, for models of bytes: any files, enwik8 and text8.

Nothing is decoded: a byte is a symbol, whatever it stands for. One long text is split in order, 90, 5 and 5
percent of its bytes, as language models of enwik8 and text8 are compared. Single files are mapped into
memory, not read into it; of a folder or an archive one file at a time is read.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from longspan.data.examples import ByteDocument
from longspan.data.files import ARCHIVES, open_files, plain_name, whole
from longspan.data.mapped import mapped
from longspan.data.texts import ENWIK8_SIZES, read_texts

Part = Literal["train", "dev", "test"]
_ENDS = {"train": (0, 90), "dev": (90, 95), "test": (95, 100)}
_TEXT8 = b"abcdefghijklmnopqrstuvwxyz "
_CHUNK = 1 << 20


def read_bytes(path: Path) -> Iterator[ByteDocument]:
    """One document a file, with its name as its id; in a folder or an archive, its path inside.

    A file whose name ends with ``.jsonl`` has a document a line, ``{"id", "text"}``: its text in UTF-8.
    """
    if plain_name(path.name).endswith(".jsonl"):
        for document in read_texts(path):
            yield ByteDocument(id=document.id, content=document.text.encode())
    elif is_one_text(path):
        yield ByteDocument(id=path.name, content=mapped(path))
    else:
        for file in open_files(path):
            name = path.name if file.name == str(path) else file.name.removeprefix(f"{path}/")
            with whole(file.name):
                yield ByteDocument(id=name, content=file.stream.read())


def is_one_text(path: Path) -> bool:
    """Whether `read_bytes` gives a single document, which can only be split in order."""
    return (
        path.is_file() and not plain_name(path.name).endswith(".jsonl") and not path.name.endswith(ARCHIVES)
    )


def read_bytes_part(path: Path, part: Part) -> Iterator[ByteDocument]:
    """A part of a single file, of its bytes in order."""
    yield _part(path, mapped(path), part)


def read_enwik8_bytes(path: Path, part: Part | None = None) -> Iterator[ByteDocument]:
    """enwik8, the first 10^8 bytes of a dump of Wikipedia, or one of its parts.

    Raises:
        ValueError: it has another size.
    """
    content = mapped(path)
    # A file that was cut short has other parts, which could not be compared.
    if len(content) != sum(ENWIK8_SIZES):
        raise ValueError(f"{path} has {len(content)} bytes; it must have {sum(ENWIK8_SIZES)}")
    yield ByteDocument(id=path.name, content=content) if part is None else _part(path, content, part)


def read_text8(path: Path, part: Part | None = None) -> Iterator[ByteDocument]:
    """text8, or what `longspan.data.text8` makes of any dump of Wikipedia, or one of its parts.

    Raises:
        ValueError: there is anything but small letters and spaces in it.
    """
    content = mapped(path)
    pieces = (content[begin : begin + _CHUNK] for begin in range(0, len(content), _CHUNK))
    other = next((rest for piece in pieces if (rest := bytes(piece).translate(None, _TEXT8))), b"")
    if other or not content:
        found = f"{other[:1]!r}" if other else "nothing"
        raise ValueError(
            f"{path} has {found} in it; text8 must have the letters a to z and spaces only "
            "(longspan data text8 makes it from Wikipedia's XML)"
        )
    yield ByteDocument(id=path.name, content=content) if part is None else _part(path, content, part)


def _part(path: Path, content: memoryview, part: Part) -> ByteDocument:
    begin, end = (len(content) * percent // 100 for percent in _ENDS[part])
    return ByteDocument(id=f"{path.name}#{part}", content=content[begin:end])
