"""Ctrl-C at the wrong moment: what must not be cut in two waits for it."""

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def uninterrupted() -> Generator[None]:
    """Ctrl-C in this block takes effect when the block is done; keep it short.

    Python hands signals to the main thread alone, so that there is nothing to do in another one.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    waiting: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: waiting.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if waiting:
            before(signal.SIGINT, None)
