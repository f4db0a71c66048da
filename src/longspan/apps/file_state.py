"""Whether a file is as it was when it was read: by size and times, and by its bytes if need be."""

import hashlib
import time
from pathlib import Path
from typing import NamedTuple

from longspan.data.documents import file_content
from longspan.data.sizes import NO_MORE, Limits

_RACY = 2 * 10**9
"""Nanoseconds: a file that changed so shortly before it was read may change once more within one tick."""


class FileState(NamedTuple):
    """What a file was like when it was looked at."""

    size: int
    modified: int
    """When its content changed, in nanoseconds."""
    changed: int
    """When anything of it changed."""
    seen: int
    """When it was looked at."""
    hash: str
    """Of its bytes."""


def look(
    path: Path, known: FileState | None = None, limits: Limits = NO_MORE
) -> tuple[FileState, bytes | None]:
    """Looks at a file.

    Args:
        path: of the file.
        known: from when it was looked at before.
        limits: of its size.

    Returns:
        Its state, and its bytes; None instead of them where they are those of ``known``.

    Raises:
        ValueError: it cannot be read.
    """
    seen = time.time_ns()
    try:
        status = path.stat()
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    times = (status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    if known is not None and known[:3] == times and known.seen - max(times[1:]) > _RACY:
        return known, None
    content = file_content(path, limits)
    state = FileState(*times, seen, hashlib.sha256(content).hexdigest())
    return state, None if known is not None and known.hash == state.hash else content


def hash_of(text: str) -> str:
    """Of a text that may have any characters."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
