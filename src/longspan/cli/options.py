"""Options that mean the same in every command, and their checks."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

AsJson = Annotated[bool, Parameter(name="--json", negative="", show_default=False)]
"""Print what a program can read, and nothing else, on stdout."""

Flag = Annotated[bool, Parameter(negative="", show_default=False)]
"""Something that is off unless it is named."""
Out = Annotated[Path, Parameter(name=("--out", "--output"))]
"""Where to write, in commands that have a place for it unless told otherwise."""

Names = Annotated[tuple[str, ...], Parameter(consume_multiple=True)]
Numbers = Annotated[tuple[int, ...], Parameter(consume_multiple=True)]
"""Several values after one option."""


def at_least_one(**numbers: int | None) -> None:
    """Raises a ValueError that names the option whose value is below 1."""
    for name, value in numbers.items():
        if value is not None and value < 1:
            raise ValueError(f"--{name.replace('_', '-')} is {value}; it must be at least 1")
