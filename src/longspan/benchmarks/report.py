"""Results on disk and on the screen. A file appears whole or not at all."""

import csv
import io
import json
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from longspan.benchmarks.bars import Result


def write_bytes(path: Path, content: bytes) -> Path:
    """Writes a temporary file beside ``path``, then renames it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
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


def bars_table(results: Iterable[Result]) -> Table:
    """The kernel's bars, measured."""
    table = Table(title="Kernel bars", title_justify="left", pad_edge=False)
    for column, justify in (("what", "left"), ("", "left"), ("measured", "right"), ("bar", "right"), ("", "left")):
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
