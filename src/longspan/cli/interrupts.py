"""Ctrl-C: the first one ends a command, which tidies up; impatient ones after it do not cut that short."""

import os
import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from longspan.cli.errors import INTERRUPTED

_PATIENCE = 3
"""So many end the process at once, should it hang."""


@dataclass
class Interrupts:
    """What came of Ctrl-C so far."""

    heard: int = 0


@contextmanager
def one_interrupt() -> Generator[Interrupts]:
    """Within this block the first SIGINT raises KeyboardInterrupt, and the next one does nothing.

    Libraries written in other languages may turn the KeyboardInterrupt into an error of theirs: whether there
    was one is to be asked of what this gives. Where signals are ignored, as in a job in the background, or go
    to another thread, they are left so.
    """
    interrupts = Interrupts()
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is not signal.default_int_handler:
        yield interrupts
        return

    def hear(_: int, __: object) -> None:
        interrupts.heard += 1
        if interrupts.heard == 1:
            raise KeyboardInterrupt
        if interrupts.heard >= _PATIENCE:
            os._exit(INTERRUPTED)

    signal.signal(signal.SIGINT, hear)
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, before)
