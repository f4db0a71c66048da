"""What benchmarks with bars share: their options, and how groups are measured, shown and written."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from longspan.cli.errors import FailedCheckError, UsageError, user_mistakes
from longspan.cli.options import AsJson, Names, Out, check_folder, check_threads

if TYPE_CHECKING:
    from longspan.benchmarks.bars import Result


@dataclass(frozen=True, kw_only=True)
class BarOptions:
    """Options of every benchmark with bars; what each says of its own files and groups stands with it."""

    out: Out = Path("bench-results")
    """directory for the results."""
    only: Names = ()
    """groups to measure, instead of all."""
    threads: int = 2
    """of torch."""
    impl: Literal["native", "blocked", "reference"] = "native"
    """the implementation of our model's attention."""
    as_json: AsJson = False
    """print the results as one JSON object, instead of tables."""


WithBars = Annotated[BarOptions, Parameter(name="*")]
"""All of them, as options of a command."""
USUAL = BarOptions()


def measure_bars(
    path: Path,
    groups: "Mapping[str, Callable[[Any], Iterable[Result]]]",
    *,
    check: Callable[[Any], object],
    setting: Any,
    options: BarOptions,
) -> None:
    """Measures group after group, shows the values beside their bars, and writes them.

    A group that fails in a process of its own is named at the end, and the others are kept.

    Args:
        path: of the JSON file.
        groups: the measurements of a setting, by name.
        check: the gate, before anything is timed.
        setting: what is measured, a dataclass.
        options: of the command.

    Raises:
        UsageError: an option is wrong, or what it asks for is not available.
        FailedCheckError: something computes the wrong thing, or a group failed.
    """
    with user_mistakes():
        wanted = chosen(options.only, groups)
        check_threads(options.threads)
        check_folder(options.out)
    _require_native(options.impl)
    import json
    from dataclasses import asdict

    import torch
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from longspan.benchmarks import machine, report
    from longspan.benchmarks.fresh_process import ProcessFailedError
    from longspan.benchmarks.gate import WrongResultError
    from longspan.benchmarks.measure import ForeignLoad

    torch.set_num_threads(options.threads)
    results: list[Result] = []
    failed: dict[str, str] = {}
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress, ForeignLoad() as load:
        task = progress.add_task("correctness")
        try:
            check(setting)
        except WrongResultError as error:
            raise FailedCheckError(f"{error}; no speed is reported") from error
        progress.remove_task(task)
        for group in wanted:
            task = progress.add_task(group)
            try:
                for result in groups[group](setting):
                    results.append(result)
            except ProcessFailedError as error:
                failed[group] = str(error)
            progress.remove_task(task)
    found = {
        "machine": machine.describe(),
        "setting": asdict(setting),
        "foreign_load": round(load.share, 3),
        "failed": failed,
        "results": [result.record() for result in results],
    }
    report.write_json(path, found)
    if options.as_json:
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


def chosen(only: tuple[str, ...], known: Collection[str]) -> tuple[str, ...]:
    """The groups of ``--only``, or all.

    Raises:
        ValueError: there is no such group.
    """
    unknown = [name for name in only if name not in known]
    if unknown:
        raise ValueError(f"--only has {unknown[0]!r}; it must be among {', '.join(known)}")
    return only or tuple(known)


def _require_native(impl: str) -> None:
    """Raises a UsageError where the native kernel is asked for and not available."""
    from longspan.attention import library

    if impl == "native" and not library.status().available:
        raise UsageError(f"the native kernel is not available: {library.status().reason}")
