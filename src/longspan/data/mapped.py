"""A file's bytes as memory that the system fills from disk and takes back: texts may be larger than memory.

A plain file is mapped as it is. A compressed one is decompressed to a temporary file first, as a stream and
once in a process; it is gone when the process ends. `TMPDIR` says where such files are.
"""

import mmap
import shutil
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import IO, cast

from longspan.data.files import COMPRESSED, open_file, whole

_KEPT = 4
"""Files that stay decompressed: the parts of one are often asked for one after the other."""


def mapped(path: Path) -> memoryview:
    """The bytes of one file, plain, .gz or .xz; a slice of them copies nothing.

    Raises:
        ValueError: it is a folder or an archive, or cannot be decompressed.
    """
    if not path.name.endswith(COMPRESSED):
        with open_file(path) as file:
            return _map(file.stream)
    state = path.stat()
    return _decompressed(path.resolve(), state.st_size, state.st_mtime_ns)


@lru_cache(_KEPT)
def _decompressed(path: Path, size: int, changed: int) -> memoryview:
    """Its size and time are there to tell another file of the same name."""
    with open_file(path) as file, whole(file.name), tempfile.TemporaryFile(prefix="longspan-") as unpacked:
        shutil.copyfileobj(file.stream, unpacked, 1 << 20)
        unpacked.flush()
        return _map(cast("IO[bytes]", unpacked))


def _map(file: IO[bytes]) -> memoryview:
    if not file.seek(0, 2):  # an empty file cannot be mapped
        return memoryview(b"")
    # Private to the process, since torch takes only what could be written to; nobody does.
    return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
