"""Options that mean the same in every command, and their checks."""

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

AsJson = Annotated[bool, Parameter(name="--json", negative="", show_default=False)]
"""Print what a program can read, and nothing else, on stdout."""

Flag = Annotated[bool, Parameter(negative="", show_default=False)]
"""Something that is off unless it is named."""
Out = Annotated[Path, Parameter(name=("--out", "--output"))]
"""Where to write, in commands that have a place for it unless told otherwise."""

Names = Annotated[tuple[str, ...], Parameter(consume_multiple=1)]
Numbers = Annotated[tuple[int, ...], Parameter(consume_multiple=1)]
"""Several values after one option."""

_MOST_THREADS = 1024


def at_least_one(**numbers: int | None) -> None:
    """Raises a ValueError that names the option whose value is below 1."""
    for name, value in numbers.items():
        if value is not None and value < 1:
            raise ValueError(f"--{name.replace('_', '-')} is {value}; it must be at least 1")


def named(**options: Any) -> dict[str, Any]:
    """The options that were named; None stands for those that were not."""
    return {name: value for name, value in options.items() if value is not None}


def check_threads(threads: int) -> None:
    """Raises a ValueError where there cannot be so many."""
    if not 1 <= threads <= _MOST_THREADS:
        raise ValueError(f"--threads is {threads}; it must be 1 to {_MOST_THREADS}")


def check_folder(out: Path) -> None:
    """Raises a ValueError where files cannot be written into a folder: said before hours of work."""
    from longspan.conversion.whole_directory import why_unwritable

    if why := why_unwritable(out):
        raise ValueError(f"--out is {out}, but {why}; it must be a folder to write into")


def check_seed(seed: int) -> None:
    """Raises a ValueError where torch takes no such seed."""
    if not -(2**63) <= seed < 2**64:
        raise ValueError(f"--seed is {seed}; it must be a whole number of at most 64 bits")
