"""Bytes and lines of files: plain, .gz or .xz, in folders and in .tar archives, read as a stream.

Text is UTF-8, decoded strictly. What cannot be read is a ValueError that names the file and the line.
"""

import gzip
import logging
import lzma
import tarfile
import zlib
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from io import BufferedReader
from pathlib import Path, PurePosixPath
from typing import IO, cast

COMPRESSED = (".gz", ".xz")
ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.xz")
_BROKEN = (lzma.LZMAError, gzip.BadGzipFile, zlib.error, tarfile.ReadError, EOFError)
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class OpenFile:
    """One file's bytes, decompressed; good until the next one is asked for."""

    name: str
    """As errors name it; a member of an archive has the archive's name before its own."""
    stream: IO[bytes]

    @property
    def stem(self) -> str:
        """Its own name, without folders and endings."""
        return plain_name(self.name).partition(".")[0]

    def lines(self) -> Iterator[tuple[int, str]]:
        """The lines with their numbers, from 1, without their ends."""
        with whole(self.name):
            for number, line in enumerate(self.stream, 1):
                if number == 1:
                    line = line.removeprefix(_BYTE_ORDER_MARK)
                yield number, decode(line, f"{self.name}, line {number}").rstrip("\r\n")

    def text(self) -> str:
        """The whole of it."""
        with whole(self.name):
            return decode(self.stream.read().removeprefix(_BYTE_ORDER_MARK), self.name)

    def pieces(self, *, most: int, size: int) -> Iterator[str]:
        """The whole of it, if it has at most so many bytes; or else pieces, which joined are the whole.

        A piece ends after a blank line, where there is one, or after a line, or in the middle of one that is
        longer than a piece. Little more than ``most`` bytes are held.

        Args:
            most: bytes of a file that is not cut.
            size: the most bytes of a piece, and less than ``most``.
        """
        with whole(self.name):
            held = self.stream.read(most + 1)
            is_large = len(held) > most
            begin = len(_BYTE_ORDER_MARK) if held.startswith(_BYTE_ORDER_MARK) else 0
            held = held[begin:]
            if not is_large:
                yield decode(held, self.name)
                return
            while held:
                end = len(held) if len(held) <= size else _cut(held, size)
                yield decode(held[:end], f"{self.name}, from byte {begin}")
                begin += end
                held = held[end:]
                if len(held) < size:
                    held += self.stream.read(size)


def open_files(path: Path, names: str = "*") -> Iterator[OpenFile]:
    """The file itself; or, sorted, those of a folder and all below; or those of an archive, in its order.

    Args:
        path: a file, a folder or an archive.
        names: which files of a folder or an archive, as in a shell, endings of compression aside.

    Raises:
        ValueError: no file has such a name.
    """
    found = False
    if path.is_dir():
        for file in sorted(file for file in path.rglob("*") if file.is_file()):
            if fnmatchcase(plain_name(file.name), names):
                found = True
                with _decompressed(file, file.name) as stream:
                    yield OpenFile(str(file), stream)
    elif path.name.endswith(ARCHIVES):
        with whole(str(path)), tarfile.open(path, "r|*") as archive:
            for member in archive:
                if member.isfile() and fnmatchcase(plain_name(member.name), names):
                    found = True
                    inside = archive.extractfile(member)
                    assert inside is not None
                    with _decompressed(inside, member.name) as stream:
                        yield OpenFile(f"{path}/{member.name}", stream)
    else:
        found = True
        with _decompressed(path, path.name) as stream:
            yield OpenFile(str(path), stream)
    if not found:
        raise ValueError(f"{path} has no file named {names}")


def has_file(path: Path, names: str) -> bool:
    """Whether a folder or an archive has a file of such a name; False for a single file."""
    if path.is_dir():
        return any(fnmatchcase(plain_name(file.name), names) for file in path.rglob("*") if file.is_file())
    if not path.name.endswith(ARCHIVES):
        return False
    with whole(str(path)), tarfile.open(path, "r|*") as archive:
        return any(fnmatchcase(plain_name(one.name), names) for one in archive if one.isfile())


@contextmanager
def open_file(path: Path) -> Generator[OpenFile]:
    """One file that is neither a folder nor an archive."""
    if path.is_dir() or path.name.endswith(ARCHIVES):
        raise ValueError(f"{path} is a folder or an archive; it must be one file")
    with _decompressed(path, path.name) as stream:
        yield OpenFile(str(path), stream)


@contextmanager
def whole(name: str) -> Generator[None]:
    """Names the file when it is cut short, or not what its ending says."""
    try:
        yield
    except _BROKEN as error:
        raise ValueError(f"{name} cannot be decompressed, {error}; it must be whole") from error


def decode(content: bytes, where: str) -> str:
    """UTF-8, strictly."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        found = content[error.start : error.start + 4]
        raise ValueError(f"{where}: byte {error.start} begins {found!r}; it must be UTF-8") from error


def plain_name(name: str) -> str:
    """The last part of a path, without the ending of its compression."""
    path = PurePosixPath(name)
    return path.stem if path.suffix in COMPRESSED else path.name


@contextmanager
def counted(path: Path, dropped: Counter[str] | None) -> Generator[Counter[str]]:
    """Counts what a reader leaves out by rule, by reason.

    Args:
        path: what is read.
        dropped: the caller's counter; without one, what was counted is logged as a warning.
    """
    counter: Counter[str] = Counter() if dropped is None else dropped
    yield counter
    if dropped is None and counter:
        reasons = "; ".join(f"{count} {reason}" for reason, count in counter.items())
        logging.getLogger(__name__).warning("%s: left out %s", path, reasons)


def _cut(content: bytes, size: int) -> int:
    """Where a piece of at most ``size`` bytes ends: at the best place in its second half, if there is one."""
    for end in (b"\n\n", b"\n\r\n", b"\n"):
        at = content.rfind(end, size // 2, size)
        if at >= 0:
            return at + len(end)
    while size > 1 and content[size] & 0xC0 == 0x80:  # within a character
        size -= 1
    return size


@contextmanager
def _decompressed(file: Path | IO[bytes], name: str) -> Generator[IO[bytes]]:
    # The readers of gzip and lzma are slow at lines; a buffer around them is not.
    if name.endswith(".xz"):
        with BufferedReader(cast("BufferedReader", lzma.open(file))) as stream:
            yield stream
    elif name.endswith(".gz"):
        with BufferedReader(cast("BufferedReader", gzip.open(file))) as stream:
            yield stream
    elif isinstance(file, Path):
        with file.open("rb") as stream:
            yield stream
    else:
        yield file
