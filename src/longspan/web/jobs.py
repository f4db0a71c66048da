"""Heavy work, one piece at a time: a queue of bounded length, a thread, and what clients see of it.

A job's client sees its latest state, not a history: who reads slowly misses steps of the progress and costs
no memory. A job that nobody waits for any more is taken out of the queue, or ends at its next sign of
progress.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

_LOG = logging.getLogger(__name__)
HEARTBEAT = 5.0
"""Seconds after which a client that nothing was told gets an empty event: is it still there?"""


class QueueFull(Exception):
    """As many jobs wait as may."""


class _Cancelled(BaseException):
    """Ends a job from within its progress. Not an Exception: work that catches those must not catch it."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that a client is told."""

    name: str
    """"queued", "progress", "answer", "error", "done", or "" for a heartbeat."""
    data: Any = None


Work = Callable[[Callable[[float], None]], Any]
"""What a job does: gets a function to call with the fraction that is done, returns something for JSON."""


class Job:
    """Work that waits, runs or is over, as its client sees it. Made by `Jobs.submit`, in an event loop."""

    def __init__(self, work: Work, cancel: "Callable[[Job], None]") -> None:
        self.work = work
        self.cancelled = threading.Event()
        self._cancel = cancel
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._position: int | None = None
        self._fraction: float | None = None
        self._end: tuple[Event, ...] | None = None

    async def events(self) -> AsyncIterator[Event]:
        """What happens to it, until it is over."""
        position, fraction = None, None
        while True:
            try:
                async with asyncio.timeout(HEARTBEAT):
                    await self._changed.wait()
            except TimeoutError:
                yield Event("")
            self._changed.clear()
            if self._position != position and self._fraction is None and self._end is None:
                position = self._position
                yield Event("queued", {"position": position})
            if self._fraction != fraction and self._end is None:
                fraction = self._fraction
                yield Event("progress", {"fraction": fraction})
            if self._end is not None:
                for event in self._end:
                    yield event
                return

    def cancel(self) -> None:
        """Ends it; nothing happens to one that is over."""
        self._cancel(self)

    def moved(self, position: int) -> None:
        """Says how many jobs are before it. Called from any thread, as those below."""
        self._tell("_position", position)

    def advanced(self, fraction: float) -> None:
        """Takes note of progress, or ends the work of a job that was cancelled."""
        if self.cancelled.is_set():
            raise _Cancelled
        self._tell("_fraction", fraction)

    def ended(self, *events: Event) -> None:
        """Says how it came out."""
        self._tell("_end", (*events, Event("done")))

    def _tell(self, name: str, value: object) -> None:
        def change() -> None:
            setattr(self, name, value)
            self._changed.set()

        # The loop may be closed while work still ends, when a server stops.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(change)


class Jobs:
    """A thread that does one job after the other.

    Args:
        max_waiting: jobs that may wait beside the one that runs.
    """

    def __init__(self, max_waiting: int) -> None:
        self._max_waiting = max_waiting
        self._waiting = deque[Job]()
        self._running: Job | None = None
        self._is_closed = False
        self._change = threading.Condition()
        self._thread = threading.Thread(target=self._work, name="longspan-jobs", daemon=True)
        self._thread.start()

    def submit(self, work: Work) -> Job:
        """Puts work into the queue.

        Raises:
            QueueFull: no more may wait.
        """
        with self._change:
            if len(self._waiting) >= self._max_waiting or self._is_closed:
                raise QueueFull
            job = Job(work, self._cancel)
            self._waiting.append(job)
            job.moved(len(self._waiting) - 1 + (self._running is not None))
            self._change.notify()
        return job

    def close(self) -> None:
        """Cancels everything, and waits a moment for what runs."""
        with self._change:
            self._is_closed = True
            for job in (*self._waiting, *([self._running] if self._running else [])):
                job.cancelled.set()
            self._waiting.clear()
            self._change.notify()
        self._thread.join(timeout=2)

    def _cancel(self, job: Job) -> None:
        job.cancelled.set()
        with self._change:
            if job in self._waiting:
                self._waiting.remove(job)
                self._say_positions()

    def _say_positions(self) -> None:
        for place, job in enumerate(self._waiting):
            job.moved(place + (self._running is not None))

    def _work(self) -> None:
        while True:
            with self._change:
                self._running = None
                self._say_positions()
                self._change.wait_for(lambda: self._waiting or self._is_closed)
                if self._is_closed:
                    return
                job = self._running = self._waiting.popleft()
                self._say_positions()
            job.ended(*_outcome(job))
            # What waits for the next job must not keep this one's documents.
            del job


def _outcome(job: Job) -> tuple[Event, ...]:
    try:
        job.advanced(0.0)
        return (Event("answer", job.work(job.advanced)),)
    except _Cancelled:
        return ()
    except ValueError as error:
        return (Event("error", {"message": str(error)}),)
    except MemoryError:
        return (Event("error", {"message": "there is not enough memory for this; take a shorter document"}),)
    # Whatever a model does wrong, the thread must go on.
    except Exception:
        _LOG.exception("a job failed")
        return (Event("error", {"message": "the reading failed; the server's terminal says more"}),)
