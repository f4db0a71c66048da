"""`longspan bench attention` and `bench kinds`: time and memory against length, in tables and pictures."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from longspan.cli.bars import show_bars, warn_of
from longspan.cli.errors import FailedCheckError, require, user_mistakes
from longspan.cli.options import AsJson, Flag, Names, Numbers, Out, check_folder, check_threads


def attention(
    *,
    quick: Flag = False,
    out: Out = Path("bench-results"),
    lengths: Numbers = (),
    contestants: Annotated[Names, Parameter(name=("--only", "--contestants"))] = (),
    training: Annotated[bool | None, Parameter(negative="--no-training")] = None,
    dtype: Literal["float32", "bfloat16"] = "float32",
    heads: int = 12,
    head_dim: int = 64,
    window: int = 512,
    num_globals: int = 1,
    threads: int | None = None,
    repetitions: int | None = None,
    max_seconds: float | None = None,
    max_gigabytes: float | None = None,
    as_json: AsJson = False,
) -> None:
    """Compare attention with its alternatives: time and memory against length.

    Every contestant is first checked against a dense reference. Writes attention.json,
    attention.csv and pictures (PNG and SVG), one for each direction.

    Args:
        quick: up to 4096 tokens, forward only, without the slowest; takes less than a minute.
        out: directory for the files.
        lengths: sequence lengths; by default 1024 to 65536, doubling.
        contestants: those to compare, instead of all: native, blocked, hf, hf-mask, sdpa-full,
            sdpa-band, flex, local-attention, loop.
        training: measure forward and backward too; on, unless quick.
        dtype: of the inputs.
        heads: attention heads.
        head_dim: components of a head.
        window: keys that a token sees, both sides together.
        num_globals: global tokens.
        threads: of torch; by default torch decides.
        repetitions: samples per median.
        max_seconds: a contestant grows no further once a call takes longer.
        max_gigabytes: or once it needs more memory beyond its inputs.
        as_json: print the results as one JSON object, instead of tables.
    """
    require("matplotlib", extra="plots")
    import torch

    from longspan.benchmarks import attention as benchmark
    from longspan.benchmarks.workload import Workload

    measure_training = not quick if training is None else training
    everyone = benchmark.Plan().contestants
    usual = tuple(name for name in everyone if not (quick and name in benchmark.QUICK_LEAVES_OUT))
    with user_mistakes():
        plan = benchmark.Plan(
            work=Workload(
                heads=heads, head_dim=head_dim, window=window, num_globals=num_globals, dtype=dtype
            ),
            lengths=tuple(sorted(set(lengths))) or (benchmark.QUICK_LENGTHS if quick else benchmark.LENGTHS),
            contestants=contestants or usual,
            directions=("forward", "training") if measure_training else ("forward",),
            repetitions=(3 if quick else 5) if repetitions is None else repetitions,
            max_seconds=(1.5 if quick else 60.0) if max_seconds is None else max_seconds,
            max_bytes=((2.0 if quick else 6.0) if max_gigabytes is None else max_gigabytes) * 1e9,
        )
        check_folder(out)
        if threads is not None:
            check_threads(threads)
            torch.set_num_threads(threads)
    found = _measure(lambda notify: benchmark.run(plan, notify), benchmark.steps(plan))
    _write(found, "attention", out)
    _show(found, "attention", out, as_json=as_json)


def kinds(
    *,
    quick: Flag = False,
    out: Out = Path("bench-results"),
    lengths: Numbers = (),
    only: Names = (),
    training: Annotated[bool | None, Parameter(negative="--no-training")] = None,
    heads: int = 8,
    head_dim: int = 64,
    threads: int | None = None,
    repetitions: int | None = None,
    max_seconds: float | None = None,
    max_gigabytes: float | None = None,
    as_json: AsJson = False,
) -> None:
    """Compare kinds of attention, and the packages linformer and performer-pytorch: time and memory.

    A contestant is a self-attention layer with its projections. Every kind is first checked against its
    slow form, and the packages against ours. Shows the bars, which are judged at 4,096 and 16,384 tokens, and
    writes kinds_speed.json, kinds_speed.csv and pictures (PNG and SVG), one for each direction.

    Args:
        quick: tiny lengths, forward only, to see that all works; the values say nothing.
        out: directory for the files.
        lengths: sequence lengths; by default 1024 to 32768, doubling.
        only: kinds to compare, instead of all.
        training: measure forward and backward too; on, unless quick.
        heads: attention heads.
        head_dim: components of a head.
        threads: of torch; by default torch decides.
        repetitions: samples per median.
        max_seconds: a contestant grows no further once a call takes longer.
        max_gigabytes: or once a call needs more memory beyond its inputs.
        as_json: print the results as one JSON object, instead of tables.
    """
    require("matplotlib", extra="plots")
    import torch

    from longspan.benchmarks import kinds as benchmark

    measure_training = not quick if training is None else training
    with user_mistakes():
        plan = benchmark.Plan(
            kinds=only or benchmark.Plan().kinds,
            lengths=tuple(sorted(set(lengths))) or (benchmark.QUICK_LENGTHS if quick else benchmark.LENGTHS),
            directions=("forward", "training") if measure_training else ("forward",),
            heads=heads,
            head_dim=head_dim,
            repetitions=(1 if quick else 5) if repetitions is None else repetitions,
            max_seconds=20.0 if max_seconds is None else max_seconds,
            max_bytes=(6.0 if max_gigabytes is None else max_gigabytes) * 1e9,
        )
        check_folder(out)
        if threads is not None:
            check_threads(threads)
            torch.set_num_threads(threads)
    found = _measure(lambda notify: benchmark.run(plan, notify), benchmark.steps(plan))
    _write(found, "kinds_speed", out)
    _show(found, "kinds_speed", out, as_json=as_json)
    if not as_json:
        show_bars(benchmark.results(found["records"]))


def _measure(run: Callable[[Callable[[str], None]], dict[str, Any]], steps: int) -> dict[str, Any]:
    """Measures behind a bar.

    Args:
        run: the measurement; told what to call when something has been done.
        steps: how often it calls that.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from longspan.benchmarks.gate import WrongResultError

    columns = (
        TextColumn("{task.percentage:>3.0f}%"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    try:
        with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task("starting", total=steps)
            return run(lambda what: progress.update(task, advance=1, description=what))
    except WrongResultError as error:
        raise FailedCheckError(f"{error}; no speed is reported") from error


def _write(found: Mapping[str, Any], name: str, out: Path) -> None:
    """Writes what was measured, with a picture for each direction."""
    from longspan.benchmarks import report
    from longspan.plots import scaling
    from longspan.plots.style import image_bytes

    report.write_json(out / f"{name}.json", found)
    report.write_csv(out / f"{name}.csv", found["records"])
    for direction in dict.fromkeys(record["direction"] for record in found["records"]):
        figure = scaling.draw(found, direction)
        for kind in ("png", "svg"):
            report.write_bytes(out / f"{name}-{direction}.{kind}", image_bytes(figure, kind))


def _show(found: Mapping[str, Any], name: str, out: Path, *, as_json: bool) -> None:
    """Prints what was measured, and where it was written."""
    import json

    from longspan.benchmarks import report

    if as_json:
        print(json.dumps(found))
        return
    console = report.console()
    for table in report.scaling_tables(found):
        console.print(table)
    for missing, reason in found["missing"].items():
        console.print(f"{missing}: left out, {reason}")
    warn_of(found["foreign_load"])
    print(f"Results: {out / f'{name}.json'}, picture: {out / f'{name}-forward.png'}")
