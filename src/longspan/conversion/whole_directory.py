"""A directory that appears whole or not at all."""

import shutil
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


def check_target(out: Path, *, source: Path | None = None, overwrite: bool = False) -> None:
    """Refuses to write where something would be lost.

    Args:
        out: the directory to write.
        source: a directory that is read for it.
        overwrite: whether what is in ``out`` may be replaced.

    Raises:
        ValueError: ``out`` is a file, or not empty, or holds ``source``.
    """
    if source is not None and source.is_dir() and source.resolve().is_relative_to(out.resolve()):
        raise ValueError(f"out is {out}, where the source is ({source}); it must be another directory")
    if out.exists() and not out.is_dir():
        raise ValueError(f"out is {out}, a file; it must be a directory, or not exist")
    if out.is_dir() and any(out.iterdir()) and not overwrite:
        raise ValueError(f"out is {out}, which is not empty; choose another directory, or overwrite it")


@contextmanager
def written_whole(out: Path) -> Generator[Path]:
    """A directory beside ``out`` to write into; it takes the place of ``out`` when the block ends well."""
    out = out.resolve()
    out.parent.mkdir(parents=True, exist_ok=True)
    mark = uuid.uuid4().hex[:8]
    new, old = out.with_name(f".{out.name}.{mark}.new"), out.with_name(f".{out.name}.{mark}.old")
    new.mkdir()
    try:
        yield new
    except BaseException:
        shutil.rmtree(new)
        raise
    if out.exists():
        out.rename(old)
    try:
        new.rename(out)
    except OSError:
        if old.exists():
            old.rename(out)
        shutil.rmtree(new)
        raise
    shutil.rmtree(old, ignore_errors=True)
