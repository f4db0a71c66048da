"""Attention beside its alternatives: time and memory against the length of the sequence.

Three passes. The gate: every contestant against the dense reference, on a small shape; one wrong
result ends the benchmark. Memory: one fresh process per contestant, growing until a limit. Time: all
contestants that are left at a length take turns in this process.
"""

import gc
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch

from longspan.attention import library
from longspan.benchmarks import machine
from longspan.benchmarks.contestants import CONTESTANTS, Contestant
from longspan.benchmarks.gate import check
from longspan.benchmarks.growth import Growth, Notify, Record, memory_pass, until_a_limit
from longspan.benchmarks.measure import ForeignLoad, interleaved, limit_memory, peak_extra_bytes
from longspan.benchmarks.workload import Workload, both_ways, make_inputs

LENGTHS = (1024, 2048, 4096, 8192, 16384, 32768, 65536)
QUICK_LENGTHS = (1024, 2048, 4096)
# Compilation alone takes longer than the rest of the quick form, and so does the loop.
QUICK_LEAVES_OUT = ("flex", "loop")


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan(Growth):
    """What to measure."""

    work: Workload = field(default_factory=Workload)
    """Its length is replaced by each of ``lengths``."""
    contestants: tuple[str, ...] = tuple(contestant.name for contestant in CONTESTANTS)
    lengths: tuple[int, ...] = LENGTHS
    max_seconds: float = 60.0

    def __post_init__(self) -> None:
        known = [contestant.name for contestant in CONTESTANTS]
        for name in self.contestants:
            if name not in known:
                raise ValueError(f"contestants has {name!r}; it must be among {', '.join(known)}")
        Growth.__post_init__(self)


def steps(plan: Plan) -> int:
    """How often `run` notifies, for a progress bar."""
    chosen = len(available(plan.contestants)[0])
    return chosen + 2 * chosen * len(plan.lengths) * len(plan.directions)


def run(plan: Plan, notify: Notify = lambda what: None) -> dict[str, Any]:
    """Runs the three passes.

    Args:
        plan: what to measure.
        notify: told what has just been done.

    Returns:
        What goes into the JSON file.

    Raises:
        WrongResultError: a contestant does not compute what it claims.
    """
    contestants, missing = available(plan.contestants)
    with ForeignLoad() as load:
        errors: dict[str, float] = {}
        for contestant in contestants:
            errors[contestant.name] = check(contestant, plan.work, training="training" in plan.directions)
            notify(f"checked {contestant.label}")
        records = [record for contestant in contestants for record in _memory_pass(contestant, plan, notify)]
        _time_pass(contestants, plan, records, notify)
    return {
        "machine": machine.describe(),
        "workload": asdict(plan.work) | {"length": None},
        "limits": {"max_seconds": plan.max_seconds, "max_bytes": plan.max_bytes},
        "repetitions": plan.repetitions,
        "foreign_load": round(load.share, 3),
        "missing": missing,
        "contestants": [
            {
                "name": contestant.name,
                "label": contestant.label,
                "computes": contestant.claims,
                "note": contestant.note,
                "gate_error": errors[contestant.name],
            }
            for contestant in contestants
        ],
        "records": [asdict(record) for record in records],
    }


def available(names: Sequence[str]) -> tuple[list[Contestant], dict[str, str]]:
    """The contestants that can run here, and why the others cannot."""
    present: list[Contestant] = []
    missing: dict[str, str] = {}
    for contestant in CONTESTANTS:
        if contestant.name not in names:
            continue
        if contestant.needs and machine.version_of(contestant.needs) is None:
            missing[contestant.name] = f"the package {contestant.needs} is not installed"
        elif contestant.name == "native" and not library.status().available:
            missing[contestant.name] = library.status().reason or "not available"
        else:
            present.append(contestant)
    return present, missing


def _memory_pass(contestant: Contestant, plan: Plan, notify: Notify) -> list[Record]:
    arguments = {
        "name": contestant.name,
        "work": asdict(plan.work),
        "lengths": plan.lengths,
        "directions": plan.directions,
        "max_seconds": plan.max_seconds,
        "max_bytes": plan.max_bytes,
        "threads": torch.get_num_threads(),
    }
    return memory_pass(
        "longspan.benchmarks.attention:measure_memory",
        arguments,
        plan,
        name=contestant.name,
        label=contestant.label,
        notify=notify,
    )


def measure_memory(
    *,
    name: str,
    work: dict[str, Any],
    lengths: Sequence[int],
    directions: Sequence[str],
    max_seconds: float,
    max_bytes: float,
    threads: int,
) -> Iterator[dict[str, Any]]:
    """In a fresh process: one contestant's peak at growing lengths, until a limit."""
    torch.set_num_threads(threads)
    (contestant,) = (contestant for contestant in CONTESTANTS if contestant.name == name)
    base = Workload(**work)
    # The limit is on address space, so it is loose; it only keeps the machine alive.
    limit_memory(int(3 * max_bytes) + 8 * replace(base, length=max(lengths)).tensor_bytes)
    for direction in directions:
        if direction == "training" and not contestant.trains:
            continue
        # A short call first, so that libraries, threads and code are not counted.
        warm_up = Record(contestant=name, direction=direction, length=min(lengths))
        _measure_one(warm_up, contestant, replace(base, length=warm_up.length))
        yield from until_a_limit(
            name,
            direction,
            lengths,
            lambda record: _measure_one(record, contestant, replace(base, length=record.length)),
            max_seconds=max_seconds,
            max_bytes=max_bytes,
        )


def _measure_one(record: Record, contestant: Contestant, work: Workload) -> None:
    """Fills in the peak of one call and its seconds, or why there is none."""
    try:
        inputs = make_inputs(work, training=record.direction == "training")
        prepared = None
        if contestant.compiles:
            begin = time.perf_counter()
            prepared = contestant.prepare(work, inputs)
            both_ways("", prepared, inputs)[f" {record.direction}"]()
            record.compile_seconds = time.perf_counter() - begin

        def call() -> object:
            ready = both_ways("", prepared or contestant.prepare(work, inputs), inputs)[
                f" {record.direction}"
            ]
            begin = time.perf_counter()
            out = ready()
            record.seconds = time.perf_counter() - begin
            # What was prepared must outlive the call, as it would in a model.
            return out, ready

        record.extra_bytes = peak_extra_bytes(call)
    except MemoryError:
        record.stopped = "out of memory"
    except ValueError as error:
        record.stopped = str(error)
    except RuntimeError as error:
        if "allocate" not in str(error):
            raise
        record.stopped = "out of memory"


def _time_pass(contestants: list[Contestant], plan: Plan, records: list[Record], notify: Notify) -> None:
    """Fills in the seconds: interleaved medians instead of the memory pass's single cold call."""
    for record in records:
        record.seconds = None
    by_name = {contestant.name: contestant for contestant in contestants}
    for direction in plan.directions:
        for length in plan.lengths:
            alive = {
                record.contestant: record
                for record in records
                if (record.direction, record.length) == (direction, length) and not record.stopped
            }
            work = replace(plan.work, length=length)
            inputs = make_inputs(work, training=direction == "training")
            calls = {
                name: both_ways("", by_name[name].prepare(work, inputs), inputs)[f" {direction}"]
                for name in alive
            }
            for name, timing in interleaved(calls, repetitions=plan.repetitions).items():
                alive[name].seconds, alive[name].spread = timing.median, timing.spread
            del calls, inputs
            gc.collect()
            for contestant in contestants:
                notify(f"times at {length} tokens, {direction}, {contestant.label}")
