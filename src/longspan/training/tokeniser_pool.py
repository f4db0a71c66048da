"""The features of many examples, made by processes of their own.

They come in the order of the examples, whatever process made them and when: what is stored does not depend
on how many processes there are. Examples are read here, a few messages ahead of what is asked for, and
never held all at once.
"""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing import connection
from typing import Any

from longspan.tasks.task import Feature, Task

# Examples of a message: enough that sending costs little, few enough that all processes have some.
_TOGETHER = 16
# Messages for each process that are under way: it never waits for the next one.
_AHEAD = 3

Numbered = tuple[int, Any]


def features_of(
    examples: Iterable[Any], task: Task[Any, Any], *, training: bool, processes: int
) -> Generator[tuple[int, Feature]]:
    """Every feature, with the number of the example that it comes from.

    Args:
        examples: of the task's kind.
        task: that makes features of them; it is sent to the processes once.
        training: see `Task.features`.
        processes: how many; 0 makes the features here. Closing the generator ends them.

    Raises:
        RuntimeError: a process ended before its work was done.
    """
    numbered = enumerate(examples)
    if not processes:
        yield from _made(task, training, numbered)
        return
    # Not forked: a copy of a process with torch's threads may hang.
    spawned = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, spawned, initializer=_begin, initargs=(task, training))
    try:
        under_way: deque[Future[list[tuple[int, Feature]]]] = deque()
        while together := list(islice(numbered, _TOGETHER)):
            under_way.append(pool.submit(_answer, together))
            if len(under_way) > _AHEAD * processes:
                yield from under_way.popleft().result()
        while under_way:
            yield from under_way.popleft().result()
    except BrokenProcessPool as error:
        raise RuntimeError(
            "a process that tokenises ended before its work was done: it was killed, or this program is a "
            'script that trains outside of `if __name__ == "__main__":`, which processes need; data.workers '
            "0 does without them"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _made(
    task: Task[Any, Any], training: bool, examples: Iterable[Numbered]
) -> Iterator[tuple[int, Feature]]:
    for number, example in examples:
        for feature in task.features(example, training=training):
            yield number, feature


# In a process of the pool: what it was sent.
_work: list[tuple[Task[Any, Any], bool]] = []


def _begin(task: Task[Any, Any], training: bool) -> None:
    # The user's Ctrl-C is for the run, which ends its processes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _work.append((task, training))


def _end_with_parent() -> None:
    """A run that is killed cannot end its processes."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)


def _answer(examples: list[Numbered]) -> list[tuple[int, Feature]]:
    task, training = _work[0]
    return list(_made(task, training, examples))
