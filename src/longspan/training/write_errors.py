"""What went wrong when a file could not be written: the cause, the place, the room that is left.

Libraries that write tensors wrap the error of the disk, or say it in words; a user wants to read "No space
left on device", and where.
"""

import os
import re
import shutil
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError
from torch.distributed.checkpoint.api import CheckpointException

# How safetensors, which is written in Rust, says what the system told it.
_IN_WORDS = re.compile(r"\(os error (\d+)\)")


def disk_error(error: BaseException) -> OSError | None:
    """The error of the system that another one stems from; None where there is none."""
    for one in _chain(error, set()):
        if isinstance(one, OSError):
            return one
        if isinstance(one, SafetensorError) and (found := _IN_WORDS.search(str(one))):
            number = int(found[1])
            return OSError(number, os.strerror(number))
    return None


def said(error: OSError) -> str:
    """What the system says, and of which file, if it says so."""
    return (error.strerror or str(error)) + (f" ({os.fsdecode(error.filename)})" if error.filename else "")


def room(path: Path) -> str:
    """How much could still be written at a path, which need not exist."""
    place = next(one for one in (path, *path.absolute().parents) if one.exists())
    free = shutil.disk_usage(place).free
    return (f"{free / 1e9:,.1f} GB" if free >= 1e8 else f"{free / 1e6:,.1f} MB") + " are free there"


@contextmanager
def writing(path: Path, what: str) -> Generator[None]:
    """Whatever the disk refuses in this block is an OSError that says so.

    Args:
        path: that is written.
        what: it is, for the message.

    Raises:
        OSError: the system said no.
    """
    try:
        yield
    except (Exception, CheckpointException) as error:
        found = disk_error(error)
        if found is None:
            raise
        raise OSError(f"{what} {path} cannot be written: {said(found)}; {room(path)}") from error


def _chain(error: BaseException, seen: set[int]) -> Iterator[BaseException]:
    """The error, what it was raised from, and what processes told each other of theirs."""
    if id(error) in seen:
        return
    seen.add(id(error))
    yield error
    more: list[BaseException | None] = [error.__cause__, error.__context__]
    if isinstance(error, CheckpointException):
        more += [one for one, _ in error.failures.values()]
    for one in more:
        if one is not None:
            yield from _chain(one, seen)
