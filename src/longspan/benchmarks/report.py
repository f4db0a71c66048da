"""Results on disk and on the screen. A file appears whole or not at all."""

import csv
import io
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from longspan.benchmarks.bars import DIRECTIONS, Result


def write_bytes(path: Path, content: bytes) -> Path:
    """Writes a temporary file beside ``path``, then renames it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        # The name of ours says nothing to who gave another.
        raise OSError(error.errno, error.strerror, str(path)) from error
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        # mkstemp makes files that only their owner reads.
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path


def write_json(path: Path, content: Mapping[str, Any]) -> Path:
    """Indented, with a newline at the end."""
    return write_bytes(path, (json.dumps(content, indent=2, allow_nan=False) + "\n").encode())


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """One line per row; the columns are those of the first."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return write_bytes(path, text.getvalue().encode())


def console() -> Console:
    """As wide as the terminal; wide enough for the tables where there is none."""
    screen = Console()
    return screen if screen.is_terminal else Console(width=150)


def bars_table(results: Iterable[Result]) -> Table:
    """The kernel's bars, measured."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column, justify in (
        ("what", "left"),
        ("", "left"),
        ("measured", "right"),
        ("bar", "right"),
        ("", "left"),
    ):
        table.add_column(column, justify=justify)  # pyright: ignore[reportArgumentType]
    table.add_column("detail", style="dim")
    for result in results:
        table.add_row(
            result.name,
            result.direction,
            f"{result.value:.3g}",
            str(result.bound) if result.bound else "",
            _verdict(result.passed),
            result.detail,
        )
    return table


def _verdict(passed: bool | None) -> Text:
    if passed is None:
        return Text("shown", style="dim")
    return Text("pass", style="green") if passed else Text("FAIL", style="bold red")


def scaling_tables(report: Mapping[str, Any]) -> Iterator[Table]:
    """Time and memory at every length, for each direction that was measured."""
    records = {(r["contestant"], r["direction"], r["length"]): r for r in report["records"]}
    lengths = sorted({length for _, _, length in records})
    directions = [d for d in DIRECTIONS if any(direction == d for _, direction, _ in records)]
    for direction in directions:
        for title, key, show in (("time", "seconds", _seconds), ("extra memory", "extra_bytes", _megabytes)):
            table = Table(
                title=f"{direction}: {title}", title_justify="left", box=SIMPLE_HEAD, pad_edge=False
            )
            table.add_column("")
            for length in lengths:
                table.add_column(f"{length:,}", justify="right")
            for contestant in report["contestants"]:
                row = [records.get((contestant["name"], direction, length)) for length in lengths]
                if any(row):
                    table.add_row(contestant["label"], *(_cell(record, key, show) for record in row))
            yield table


def _cell(record: Mapping[str, Any] | None, key: str, show: Callable[[float], str]) -> str:
    if record is None:
        return ""
    return record["stopped"] or ("" if record[key] is None else show(record[key]))


def _seconds(value: float) -> str:
    return f"{value * 1e3:.3g} ms" if value < 1 else f"{value:.3g} s"


def _megabytes(value: float) -> str:
    return f"{value / 1e6:.0f} MB"
