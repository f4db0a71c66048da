"""`longspan bench`: attention beside its alternatives, and the native kernel against its bars."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from longspan.cli.errors import UsageError, require, user_mistakes

if TYPE_CHECKING:
    from longspan.benchmarks.bars import Result

app = App(name="bench", help="Measure speed and memory.")

Impl = Literal["native", "blocked", "reference"]


@app.command
def kernel(
    *,
    output: Path = Path("bench-results"),
    only: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = (),
    repetitions: int = 7,
    threads: int = 2,
    length: int = 4096,
    heads: int = 12,
    head_dim: int = 64,
    window: int = 512,
    impl: Impl = "native",
) -> None:
    """Measure the native kernel against its bars.

    Args:
        output: directory for kernel.json.
        only: groups to measure, instead of all: shares, bf16, hugging-face, globals, dilation,
            memory, time-per-token, dropout, masks, ragged.
        repetitions: samples per median.
        threads: of torch.
        length: tokens; memory is measured at 16 times as many, time per token up to 256 times.
        heads: attention heads.
        head_dim: components of a head.
        window: keys that a token sees, both sides together.
        impl: the implementation to measure.
    """
    require("transformers", extra="bench")
    import torch
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from longspan.benchmarks import kernel as measurements
    from longspan.benchmarks import machine, report
    from longspan.benchmarks.measure import ForeignLoad
    from longspan.benchmarks.workload import Workload

    with user_mistakes():
        work = Workload(length=length, heads=heads, head_dim=head_dim, window=window)
        groups = _chosen(only, tuple(measurements.GROUPS))
        _at_least_one(repetitions=repetitions, threads=threads)
    _require_native(impl)
    torch.set_num_threads(threads)
    setting = measurements.Setting(work=work, impl=impl, repetitions=repetitions)
    measurements.check_core(setting)
    results: list[Result] = []
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress, ForeignLoad() as load:
        for group in groups:
            task = progress.add_task(group)
            results += measurements.GROUPS[group](setting)
            progress.remove_task(task)
    console = Console()
    console.print(report.bars_table(results))
    judged = [result for result in results if result.passed is not None]
    console.print(f"{sum(bool(result.passed) for result in judged)} of {len(judged)} bars hold")
    if load.share > 0.05:
        console.print(f"Other processes used {load.share:.0%} of the machine: measure again when it is quiet.")
    path = report.write_json(
        output / "kernel.json",
        {
            "machine": machine.describe(),
            "foreign_load": round(load.share, 3),
            "results": [result.record() for result in results],
        },
    )
    print(f"Results: {path}")


def _chosen(only: tuple[str, ...], known: tuple[str, ...]) -> tuple[str, ...]:
    unknown = [name for name in only if name not in known]
    if unknown:
        raise ValueError(f"--only has {unknown[0]!r}; it must be among {', '.join(known)}")
    return only or known


def _at_least_one(**counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise ValueError(f"--{name} is {count}; it must be at least 1")


def _require_native(impl: str) -> None:
    from longspan.attention import native

    if impl == "native" and not native.status().available:
        raise UsageError(f"the native kernel is not available: {native.status().reason}")
