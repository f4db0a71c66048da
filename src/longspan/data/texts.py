"""Text to train language models on: files, folders, archives, our JSONL, WikiText and enwik8."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from longspan.data.examples import Document
from longspan.data.files import OpenFile, open_file, open_files, plain_name, whole
from longspan.data.records import read_jsonl

ENWIK8_SIZES = (90_000_000, 5_000_000, 5_000_000)
_TITLE = re.compile(r" = ([^=].*[^=]|[^=]) = ")


def read_texts(
    path: Path, *, names: str = "*.txt", most: int = 8_000_000, piece: int = 1_000_000
) -> Iterator[Document]:
    """One document a file, with its name as its id; in a folder or an archive, its path inside.

    A file of more than ``most`` bytes is a corpus rather than a document, and need not fit into memory: it is
    cut, at blank lines where it has some, into documents of about ``piece`` bytes, numbered behind its name.

    A file whose name ends with ``.jsonl`` has a document a line: ``{"id", "text"}``.

    Args:
        path: a file, or a folder or an archive of them.
        names: which files of a folder or an archive.
        most: bytes of a file that is one document.
        piece: bytes, at most, of the documents that a larger one is cut into.
    """
    if plain_name(path.name).endswith(".jsonl"):
        for record in read_jsonl(path, unique="id"):
            yield Document(id=record.text_or_number("id"), text=record.text("text"))
    else:
        for file in open_files(path, names):
            name = path.name if file.name == str(path) else file.name.removeprefix(f"{path}/")
            for number, text in enumerate(file.pieces(most=most, size=piece)):
                yield Document(id=f"{name}/{number}" if number else name, text=text)


def read_wikitext(path: Path) -> Iterator[Document]:
    """WikiText's articles, with their titles and numbers as ids and their text as it is, title included.

    An article begins at a line " = Title = " between blank ones. Nothing but blank lines may come before
    the first.
    """
    with open_file(path) as file:
        title: str | None = None
        lines: list[str] = []
        number = 0
        for at, (line, is_title) in enumerate(_marked(file), 1):
            if is_title:
                if title is not None:
                    yield Document(id=f"{number}/{title}", text="\n".join(lines))
                title, lines = line.strip(" ="), []
                number += 1
            elif title is None and line.strip():
                raise ValueError(
                    f"{path}, line {at}: {line[:40]!r} comes before a title; it must be ' = Title = '"
                )
            if title is not None:
                lines.append(line)
        if title is None:
            raise ValueError(f"{path} has no line ' = Title = ' between blank ones; it must be WikiText")
        yield Document(id=f"{number}/{title}", text="\n".join(lines))


def read_enwik8(
    path: Path,
    split: Literal["train", "dev", "test"],
    *,
    sizes: tuple[int, int, int] = ENWIK8_SIZES,
) -> bytes:
    """A part of enwik8 or text8: the first 90 million bytes, the next 5, or the last 5.

    Args:
        path: plain, .gz or .xz.
        split: which part.
        sizes: of the parts, in bytes.

    Raises:
        ValueError: the file is shorter or longer than its parts.
    """
    at = ("train", "dev", "test").index(split)
    begin, end, total = sum(sizes[:at]), sum(sizes[: at + 1]), sum(sizes)
    with open_file(path) as file, whole(str(path)):
        before = _skip(file, begin)
        content = file.stream.read(end - begin)
        size = before + len(content) + _skip(file, total - end + 1)
    if size != total:
        raise ValueError(f"{path} has {size if size < total else 'more'} bytes; it must have {total}")
    return content


def _skip(file: OpenFile, size: int) -> int:
    """Reads past so many bytes, or to the end; how many there were."""
    left = size
    while left and (chunk := file.stream.read(min(left, 1 << 20))):
        left -= len(chunk)
    return size - left


def _marked(file: OpenFile) -> Iterator[tuple[str, bool]]:
    """Lines, and whether each is a title."""
    before, line = "", None
    for _, after in file.lines():
        if line is not None:
            yield line, bool(not before.strip() and _TITLE.fullmatch(line) and not after.strip())
            before = line
        line = after
    if line is not None:
        yield line, False
