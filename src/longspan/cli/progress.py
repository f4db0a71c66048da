"""A bar on stderr, for those who watch."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager


@contextmanager
def bar(doing: str) -> Generator[Callable[[float], None] | None]:
    """A function to tell what is done, 0 to 1, which a bar shows; None where stderr is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(doing, total=1.0)
        yield lambda part: progress.update(task, completed=part)
