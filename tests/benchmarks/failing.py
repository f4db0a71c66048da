"""A function that answers once and then fails. It runs against time: this module imports nothing heavy."""

import time
from collections.abc import Iterator


def answer_then_fail(*, how: str) -> Iterator[int]:
    """Runs in a fresh process."""
    yield 7
    if how == "crash":
        raise RuntimeError("broken on purpose")
    time.sleep(600)
