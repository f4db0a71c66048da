"""Costs against the length of the sequence: how far a contestant grows, and what is known of it then.

A contestant is measured in a process of its own, at one length after the other, until a limit.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import inf
from typing import Any

from longspan.benchmarks import fresh_process
from longspan.benchmarks.bars import DIRECTIONS
from longspan.checks import at_least

Notify = Callable[[str], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Growth:
    """How far contestants grow, and how often each is timed."""

    lengths: tuple[int, ...]
    directions: tuple[str, ...] = DIRECTIONS
    repetitions: int = 5
    max_seconds: float
    """A contestant grows no further once a call takes longer."""
    max_bytes: float = 6e9
    """Or once a call needs more memory beyond its inputs."""

    def __post_init__(self) -> None:
        if not self.lengths or min(self.lengths) < 1:
            raise ValueError(f"lengths is {self.lengths}; every length must be at least 1")
        at_least(1, repetitions=self.repetitions)
        for name in ("max_seconds", "max_bytes"):
            if not 0 < getattr(self, name) < inf:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be a number above 0")


@dataclass(kw_only=True, slots=True)
class Record:
    """One contestant at one length in one direction."""

    contestant: str
    direction: str
    length: int
    seconds: float | None = None
    """Median of the interleaved calls."""
    spread: float | None = None
    extra_bytes: int | None = None
    """Peak beyond the inputs."""
    compile_seconds: float | None = None
    stopped: str | None = None
    """Why there is no value here; the contestant grows no further."""


def memory_pass(
    function: str, arguments: Mapping[str, Any], plan: Growth, *, name: str, label: str, notify: Notify
) -> list[Record]:
    """What a contestant takes; where its process fails, the first length that is missing says why.

    Args:
        function: "package.module:name" of what yields its records, as `until_a_limit` does.
        arguments: of the function.
        plan: what to measure.
        name: of the contestant.
        label: what it is called to people.
        notify: told as often as there are lengths and directions, measured or not.
    """
    records: list[Record] = []
    expected = len(plan.lengths) * len(plan.directions)
    # Imports and compilation come on top of the calls.
    timeout = 120 + expected * (3 * plan.max_seconds + 60)
    try:
        for answer in fresh_process.answers(function, arguments, timeout=timeout):
            records.append(Record(**answer))
            notify(f"memory of {label}, {records[-1].direction}, {records[-1].length} tokens")
    except fresh_process.ProcessFailedError as error:
        done = {(record.direction, record.length) for record in records}
        stopped = {record.direction for record in records if record.stopped}
        for direction in plan.directions:
            left = [length for length in plan.lengths if (direction, length) not in done]
            if left and direction not in stopped:
                why = str(error)
                records.append(Record(contestant=name, direction=direction, length=left[0], stopped=why))
    for _ in range(expected - len(records)):
        notify(f"memory of {label}")
    return records


def until_a_limit(
    name: str,
    direction: str,
    lengths: Sequence[int],
    measure: Callable[[Record], None],
    *,
    max_seconds: float,
    max_bytes: float,
) -> Iterator[dict[str, Any]]:
    """The records of a contestant at growing lengths, the last of which says why it grows no further.

    Args:
        name: of the contestant.
        direction: "forward" or "training".
        lengths: in any order.
        measure: fills in a record, or why it cannot be.
        max_seconds: of a call.
        max_bytes: of a call, beyond its inputs.
    """
    previous: Record | None = None
    for length in sorted(lengths):
        record = Record(contestant=name, direction=direction, length=length)
        if previous is not None:
            # Nobody's cost grows more slowly than the length.
            record.stopped = _broken_limit(previous, max_seconds, max_bytes, length / previous.length)
        if record.stopped is None:
            measure(record)
            record.stopped = record.stopped or _broken_limit(record, max_seconds, max_bytes)
        yield asdict(record)
        if record.stopped:
            break
        previous = record


def _broken_limit(record: Record, max_seconds: float, max_bytes: float, growth: float = 1.0) -> str | None:
    """The limit that the costs of ``record``, times ``growth``, are beyond."""
    if record.seconds is not None and record.seconds * growth > max_seconds:
        return f"over {max_seconds:g} s"
    if record.extra_bytes is not None and record.extra_bytes * growth > max_bytes:
        return f"over {max_bytes / 1e9:g} GB"
    return None
