"""A directory that appears whole or not at all."""

import os
import shutil
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from longspan.conversion.interrupts import uninterrupted


def check_target(out: Path, *, source: Path | None = None, overwrite: bool = False) -> None:
    """Refuses to write where something would be lost.

    Args:
        out: the directory to write.
        source: a directory that is read for it.
        overwrite: whether what is in ``out`` may be replaced.

    Raises:
        ValueError: ``out`` is a file, or not empty, or cannot be made, or holds ``source`` or the process.
    """
    if source is not None and source.is_dir() and source.resolve().is_relative_to(out.resolve()):
        raise ValueError(f"out is {out}, where the source is ({source}); it must be another directory")
    if Path.cwd().is_relative_to(out.resolve()):
        # A name that a script left empty is this one: all that is there would be replaced.
        raise ValueError(f"out is {out}, where this is run; it must be another directory")
    if out.exists() and not out.is_dir():
        raise ValueError(f"out is {out}, a file; it must be a directory, or not exist")
    if why := why_unwritable(out.resolve().parent):
        raise ValueError(f"out is {out}, which cannot be made: {why}")
    if out.is_dir() and any(out.iterdir()) and not overwrite:
        raise ValueError(f"out is {out}, which is not empty; choose another directory, or overwrite it")


def why_unwritable(folder: Path) -> str:
    """Why nothing can be written into a folder, which need not exist yet, so that it is said before hours of
    work; "" where it can be."""
    above = next(one for one in (folder, *folder.absolute().parents) if one.exists())
    if not above.is_dir():
        return f"{above} is a file"
    return "" if os.access(above, os.W_OK | os.X_OK) else f"{above} is read-only"


@contextmanager
def written_whole(out: Path, *, replace: bool = True) -> Generator[Path]:
    """A directory beside ``out`` to write into; it takes the place of ``out`` when the block ends well.

    Args:
        out: the directory.
        replace: False where all who write it write the same: what is there when the block ends stays.
    """
    named, out = out, out.resolve()
    mark = uuid.uuid4().hex[:8]
    new, old = out.with_name(f".{out.name}.{mark}.new"), out.with_name(f".{out.name}.{mark}.old")
    try:
        try:
            out.parent.mkdir(parents=True, exist_ok=True)
            new.mkdir()
        except OSError as error:
            # The name of ours says nothing to who gave another.
            raise OSError(error.errno, error.strerror, str(named)) from error
        yield new
        # Between two renames there is nothing at ``out``: Ctrl-C has to wait.
        with uninterrupted():
            if replace:
                _put(new, out, old)
            else:
                _put_or_drop(new, out)
    except BaseException:
        with uninterrupted():
            shutil.rmtree(new, ignore_errors=True)
        raise


def _put_or_drop(new: Path, out: Path) -> None:
    """Renames ``new`` to ``out``, or removes it where another process was first."""
    try:
        new.rename(out)
    except OSError:
        if not out.is_dir():
            raise
        shutil.rmtree(new)


def _put(new: Path, out: Path, old: Path) -> None:
    """Renames ``new`` to ``out``, and what is there to ``old`` meanwhile."""
    if out.exists():
        out.rename(old)
    try:
        new.rename(out)
    except OSError:
        if old.exists():
            old.rename(out)
        raise
    shutil.rmtree(old, ignore_errors=True)
