"""The parts of a zip archive in memory, as Word documents and EPUBs are: read with limits.

A part is unpacked as far as the limit and no further, whatever size the archive claims. Locked archives
are refused, and so are those with absurdly many parts, before anything of them is unpacked. Parts are
stored or deflated, as both formats demand: Python unpacks other kinds whole, however large they become.
"""

import io
import lzma
import struct
import zipfile
import zlib

_LOCKED = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
"""How a compound file begins: Word documents with a password are one, and so are those of Word 97."""
_ENTRY = b"PK\x01\x02"
_MOST_PARTS = 50_000
_KINDS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    NotImplementedError,
    OSError,
    RuntimeError,
    ValueError,
    KeyError,
    IndexError,
)
"""What zipfile lets through of damaged archives."""


class ZippedParts:
    """A file that is a zip archive.

    Args:
        content: of the file.
        where: what errors call it.
        kind: what it is to be, as in "a Word document".
        unpacked_bytes: the most of all parts that are read, together.

    Raises:
        ValueError: it is no such file, is cut short, or locked.
    """

    def __init__(self, content: bytes, where: str, kind: str, unpacked_bytes: int) -> None:
        self.where = where
        self._kind = kind
        self._most = self._left = unpacked_bytes
        if content.startswith(_LOCKED):
            raise ValueError(
                f"{where} is locked by a password, or of an old kind of Word; "
                f"it must be {kind} without a password"
            )
        if content.count(_ENTRY) > _MOST_PARTS:
            raise ValueError(f"{where} has more than {_MOST_PARTS:,} parts; {kind} has far fewer")
        try:
            self._archive = zipfile.ZipFile(io.BytesIO(content))
            self._names = frozenset(self._archive.namelist())
        except _BROKEN as error:
            raise self._broken(error) from error

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def read(self, name: str) -> bytes:
        """A part, unpacked.

        Raises:
            ValueError: there is no such part, it is damaged or locked, or too large.
        """
        if name not in self._names:
            raise ValueError(
                f"{self.where} cannot be read as {self._kind}: it lacks {name}; it must be whole"
            )
        try:
            info = self._archive.getinfo(name)
            if info.flag_bits & 1:
                raise PermissionError(f"{self.where} is locked by a password; it must be open")
            if info.compress_type not in _KINDS:
                raise NotImplementedError(f"{name} is packed in a way that is not allowed there")
            with self._archive.open(info) as part:
                content = part.read(self._left + 1)
        except PermissionError as error:
            raise ValueError(str(error)) from error
        except _BROKEN as error:
            raise self._broken(error) from error
        if len(content) > self._left:
            raise ValueError(
                f"{self.where} unpacks to more than {self._most:,} bytes; no more are read (unpacked_bytes)"
            )
        self._left -= len(content)
        return content

    def _broken(self, error: Exception) -> ValueError:
        return ValueError(f"{self.where} cannot be read as {self._kind}: {error}; it must be whole")
