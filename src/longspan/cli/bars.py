"""What the commands of `longspan bench` share: options checked, groups measured, bars shown and written."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longspan.cli.errors import FailedCheckError, UsageError

if TYPE_CHECKING:
    from longspan.benchmarks.bars import Result


def measure_bars(
    path: Path,
    groups: "Mapping[str, Callable[[], Iterable[Result]]]",
    *,
    check: Callable[[], object],
    setting: Mapping[str, Any],
    as_json: bool = False,
) -> None:
    """Measures group after group, shows the values beside their bars, and writes them.

    A group that fails in a process of its own is named at the end, and the others are kept.

    Args:
        path: of the JSON file.
        groups: the measurements, by name.
        check: the gate, before anything is timed.
        setting: what was measured, for the file.
        as_json: whether to print what is written instead of a table.

    Raises:
        FailedCheckError: something computes the wrong thing, or a group failed.
    """
    import json

    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from longspan.benchmarks import machine, report
    from longspan.benchmarks.fresh_process import ProcessFailedError
    from longspan.benchmarks.gate import WrongResultError
    from longspan.benchmarks.measure import ForeignLoad

    results: list[Result] = []
    failed: dict[str, str] = {}
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress, ForeignLoad() as load:
        task = progress.add_task("correctness")
        try:
            check()
        except WrongResultError as error:
            raise FailedCheckError(f"{error}; no speed is reported") from error
        progress.remove_task(task)
        for group, measure in groups.items():
            task = progress.add_task(group)
            try:
                for result in measure():
                    results.append(result)
            except ProcessFailedError as error:
                failed[group] = str(error)
            progress.remove_task(task)
    found = {
        "machine": machine.describe(),
        "setting": setting,
        "foreign_load": round(load.share, 3),
        "failed": failed,
        "results": [result.record() for result in results],
    }
    report.write_json(path, found)
    if as_json:
        print(json.dumps(found))
    else:
        show_bars(results)
        warn_of(load.share)
        print(f"Results: {path}")
    if failed:
        raise FailedCheckError("; ".join(f"{group} failed: {why}" for group, why in failed.items()))


def show_bars(results: "Sequence[Result]") -> None:
    """The values beside their bars, and how many hold."""
    from longspan.benchmarks import report

    report.console().print(report.bars_table(results))
    judged = [result for result in results if result.passed is not None]
    print(f"{sum(bool(result.passed) for result in judged)} of {len(judged)} bars hold")


def warn_of(foreign_load: float) -> None:
    """Says when other processes used much of the machine."""
    if foreign_load > 0.05:
        print(f"Other processes used {foreign_load:.0%} of the machine: measure again when it is quiet.")


def chosen(only: tuple[str, ...], known: tuple[str, ...]) -> tuple[str, ...]:
    """The groups of ``--only``, or all.

    Raises:
        ValueError: there is no such group.
    """
    unknown = [name for name in only if name not in known]
    if unknown:
        raise ValueError(f"--only has {unknown[0]!r}; it must be among {', '.join(known)}")
    return only or known


def require_native(impl: str) -> None:
    """Raises a UsageError where the native kernel is asked for and not available."""
    from longspan.attention import library

    if impl == "native" and not library.status().available:
        raise UsageError(f"the native kernel is not available: {library.status().reason}")
