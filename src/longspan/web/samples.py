"""Documents that a page offers, for those who come without one."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """A document on the server's side."""

    title: str
    path: Path
    questions: tuple[str, ...] = ()
    """That the page suggests."""
