"""Time as interleaved medians, memory as the growth of the process's peak.

Times are comparable only within one call of `interleaved`: all candidates take turns, so a slow
minute of the machine hits them alike. Peaks are comparable between fresh processes (`fresh_process`).
"""

import ctypes
import gc
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one candidate, one sample per round."""

    samples: tuple[float, ...]

    @property
    def median(self) -> float:
        """The figure that is reported."""
        return statistics.median(self.samples)

    @property
    def spread(self) -> float:
        """(slowest - fastest) / median: how much the figure can be trusted."""
        return (max(self.samples) - min(self.samples)) / self.median


def interleaved(
    candidates: Mapping[str, Callable[[], object]],
    *,
    repetitions: int,
    warmups: int = 1,
    on_call: Callable[[str], None] = lambda name: None,
) -> dict[str, Timing]:
    """Runs all candidates in turn, round after round.

    Args:
        candidates: what to time, by name.
        repetitions: rounds that count.
        warmups: rounds before them that do not.
        on_call: told the candidate's name before each call, for progress bars.
    """
    samples: dict[str, list[float]] = {name: [] for name in candidates}
    for turn in range(warmups + repetitions):
        for name, candidate in candidates.items():
            on_call(name)
            begin = time.perf_counter()
            result = candidate()
            seconds = time.perf_counter() - begin
            # Freed outside of the timed region: the caller would still hold it.
            del result
            if turn >= warmups:
                samples[name].append(seconds)
    return {name: Timing(tuple(values)) for name, values in samples.items()}


class ForeignLoad:
    """How much of the machine other processes used while the block ran."""

    def __enter__(self) -> "ForeignLoad":
        self._begin = (time.perf_counter(), _busy_seconds(), _own_seconds())
        return self

    def __exit__(self, *exception: object) -> None:
        wall, busy, own = (
            now - then
            for now, then in zip(
                (time.perf_counter(), _busy_seconds(), _own_seconds()), self._begin, strict=True
            )
        )
        cores = os.cpu_count() or 1
        self.share = max(0.0, busy - own) / (wall * cores) if wall > 0 else 0.0


def peak_extra_bytes(run: Callable[[], object]) -> int:
    """Growth of the resident peak while ``run`` works; its result is alive at the end.

    Only pages that are touched count. Freed heap is given back first, or ``run`` would reuse it
    unseen; call it in a process that has done little else.
    """
    gc.collect()
    _trim_heap()
    reset = _reset_peak()
    # Without a reset the peak so far is the baseline, so a smaller peak would read as 0.
    before = _status_bytes("VmRSS") if reset else peak_bytes()
    result = run()
    peak = peak_bytes()
    del result
    return max(0, peak - before)


def limit_memory(extra_bytes: int) -> None:
    """Makes allocations beyond ``extra_bytes`` more address space fail, instead of the machine."""
    current = _status_bytes("VmSize")
    if current:
        resource.setrlimit(resource.RLIMIT_AS, (current + extra_bytes, resource.RLIM_INFINITY))


def peak_bytes() -> int:
    """The most memory that this process ever had, or has had since its peak was set back."""
    peak = _status_bytes("VmHWM")
    if peak:
        return peak
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _reset_peak() -> bool:
    """Whether the kernel let us set VmHWM back to the present size."""
    try:
        _CLEAR_REFS.write_text("5")
    except OSError:
        return False
    return True


def _status_bytes(field: str) -> int:
    """A field of the process's status in bytes; 0 where the system has no such file."""
    with suppress(OSError):
        for line in _STATUS.read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    return 0


def _trim_heap() -> None:
    # Only glibc has it.
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _busy_seconds() -> float:
    with suppress(OSError, ValueError):
        fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:8]]
        user, nice, system, _idle, _iowait, irq, softirq = fields
        return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _own_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
