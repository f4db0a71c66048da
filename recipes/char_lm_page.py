"""The page of the character models: tables, what they say, compressors beside them, speeds and pictures."""

import argparse
import json
import lzma
import math
import shutil
import statistics
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from experiments import Experiment, Model, Results, all_results, tables

TRAINING_BYTES = 90_000_000
_SCORE = "bits_per_byte"
# What the paper found in its table 4: the first has fewer bits than the second.
_ORDERS = (
    ("table-4-increasing", "table-4-fixed", "increasing windows below fixed ones"),
    ("table-4-fixed", "table-4-decreasing", "fixed windows below decreasing ones"),
    ("table-4-dilated", "table-4-increasing", "dilation on 2 heads below none"),
)


def page_of(
    experiments: Sequence[Experiment],
    where: argparse.Namespace,
    model: Model,
    *,
    more: Callable[[str], Iterable[str]],
) -> str:
    """The page; draws its pictures beside it where there is something to draw."""
    results = all_results(experiments, where)
    said = argparse.Namespace(data=Path("data"), runs=Path("runs"), precision=where.precision)
    speeds = _speeds(where.out)
    rows = list(more("table-2")) if "table-2-staged-0" in results else []
    lines = [
        "# Character models in small",
        "",
        "Written by `recipes/char_lm_tables.py`: the paper's tables 2 and 4 on enwik8, with models of 3.5",
        "and 0.9 million parameters. Table 2 is scored on all 5 MB of the test part, by streaming, the",
        "others on the first 1,000,000 bytes of the dev part. Compressors begin with no model, and read the",
        f"same 5 MB. {_conditions(results)}Spreads are standard deviations over seeds.",
        *tables(experiments, where, said, model, more=lambda table: rows if table == "table-2" else ()),
        *_section("What the tables say", [*_against_compressors(results, rows), *_orders(results)]),
        *_speed_lines(speeds),
        *_pictures(where.out, experiments, results, speeds),
    ]
    return "\n".join(lines) + "\n"


def _conditions(results: Results) -> str:
    """How the runs were made, as far as they say: how much of the text they saw, and their threads."""
    from longspan.benchmarks.machine import describe

    said = f"Machine: {describe()['cpu']}, which other work shared at times"
    threads = sorted({one["threads"] for one in results.values() if "threads" in one})
    if threads:
        said += f"; {' or '.join(map(str, threads))} thread{'s' * (threads != [1])} a run"
    seen = [one["tokens"] for one in results.values() if one.get("tokens")]
    if seen:
        least, most = min(seen) / 1e6, max(seen) / 1e6
        amount = f"{most:.1f}" if least == most else f"{least:.1f} to {most:.1f}"
        times = "once" if max(seen) <= TRAINING_BYTES else f"up to {max(seen) / TRAINING_BYTES:.1f} times"
        said += f". Models learned from {amount} MB of the {TRAINING_BYTES // 10**6} MB to train on, {times}"
    return said + ". "


@cache
def compressed(path: Path) -> dict[str, float | None]:
    """Bits per byte of the test part by programs that compress; None where one is not available."""
    from longspan.data.byte_texts import read_enwik8_bytes

    (document,) = read_enwik8_bytes(path, "test")
    content = bytes(document.content)
    sizes = {
        "xz -9e": len(lzma.compress(content, preset=9 | lzma.PRESET_EXTREME)),
        "zstd -19 --ultra": _zstd_size(content),
    }
    return {name: None if size is None else 8 * size / len(content) for name, size in sizes.items()}


def _zstd_size(content: bytes) -> int | None:
    """By the program, or by the package of that name; None where neither is there."""
    if program := shutil.which("zstd"):
        words = [program, "-19", "--ultra", "--quiet", "--stdout", "-"]
        return len(subprocess.run(words, input=content, stdout=subprocess.PIPE, check=True).stdout)
    try:
        import zstandard  # pyright: ignore[reportMissingImports]
    except ImportError:
        return None
    return len(zstandard.ZstdCompressor(level=19).compress(content))


def compressor_rows(table: str, path: Path) -> Iterator[str]:
    """What compressors make of the text of table 2."""
    for name, bits in compressed(path).items() if table == "table-2" else ():
        yield f"| `{name}` | | {'not available' if bits is None else f'bits_per_byte {bits:.3f}'} | |"


def _against_compressors(results: Results, rows: Sequence[str]) -> Iterator[str]:
    """How far each model of table 2 is from each compressor, and the two from each other."""
    found = {
        title: results[f"table-2-{name}-0"]["scores"][_SCORE]
        for name, title in (("staged", "Three phases"), ("one-phase", "One phase"))
        if f"table-2-{name}-0" in results
    }
    rivals = dict(_bits(row) for row in rows if "bits_per_byte" in row)
    for title, bits in found.items():
        for name, rival in rivals.items():
            way = "fewer: beaten" if bits < rival else "more: not beaten"
            yield (
                f"- {title} ({bits:.3f} bits per byte) against {name} ({rival:.3f}): "
                f"{abs(1 - bits / rival):.1%} {way}."
            )
    if len(found) == 2:
        staged, one = found.values()
        way = "fewer" if staged < one else "more"
        yield f"- Three phases against one: {abs(staged - one):.3f} bits {way}. One run each: no spread."


def _bits(row: str) -> tuple[str, float]:
    cells = [cell.strip() for cell in row.strip("| ").split("|")]
    return cells[0], float(cells[2].removeprefix("bits_per_byte "))


def _orders(results: Results) -> Iterator[str]:
    """Whether each order of the paper's table 4 is there beyond the spread; and rotary beside relative."""
    for better, worse, title in _ORDERS:
        difference = _difference(results, better, worse)
        if difference is not None:
            yield f"- {title.capitalize()}, as in the paper: {_verdict(*difference)}."
    difference = _difference(results, "positions-rotary", "table-4-increasing")
    if difference is not None:
        yield f"- Rotary positions below relative ones: {_verdict(*difference)}."


def _difference(results: Results, better: str, worse: str) -> tuple[float, float] | None:
    """By how many bits the first is below the second, and the standard deviation of such a difference of two
    runs; None with fewer than two runs of each."""
    scores = [
        [one["scores"][_SCORE] for name, one in results.items() if name.rpartition("-")[0] == prefix]
        for prefix in (better, worse)
    ]
    if min(map(len, scores)) < 2:
        return None
    means = [statistics.mean(values) for values in scores]
    return means[1] - means[0], math.hypot(*(statistics.stdev(values) for values in scores))


def _verdict(difference: float, spread: float) -> str:
    said = f"by {abs(difference):.3f} bits, spread of a difference {spread:.3f}"
    if abs(difference) <= spread:
        return f"not beyond the spread ({'' if difference >= 0 else 'the other way round '}{said})"
    return f"yes, {said}" if difference > 0 else f"no, the other way round, {said}"


def _speeds(out: Path) -> dict[str, Any]:
    """What `longspan bench char-lm` wrote beside the page, if it did."""
    path = out.with_name(f"{out.stem}_speed.json")
    return json.loads(path.read_text()) if path.exists() else {}


def _speed_lines(speeds: dict[str, Any]) -> list[str]:
    if not speeds:
        return []
    machine = speeds["machine"]
    rows = [
        f"| {one['name']} | {one['direction']} | {one['value']:.2f} | {one['bar'] or ''} | {one['detail']} |"
        for one in speeds["results"]
    ]
    return [
        "",
        "## Speed",
        "",
        f"By `longspan bench char-lm`: {speeds['setting']['source']}, fp32, {machine['threads']} threads of",
        f"{machine['cpu']}; other processes used {speeds['foreign_load']:.0%} of the machine.",
        "",
        "| | | value | bar | |",
        "|---|---|---|---|---|",
        *rows,
    ]


def _series(speeds: dict[str, Any], name: str) -> dict[int, float]:
    for one in speeds.get("results", []):
        if one["name"].startswith(name) and "series" in one:
            return {int(at): value for at, value in one["series"].items()}
    return {}


def _pictures(
    out: Path, experiments: Sequence[Experiment], results: Results, speeds: dict[str, Any]
) -> list[str]:
    """Draws what there is to draw, as PNG beside the page, and links it."""
    try:
        from longspan.plots import char_lm as plots
        from longspan.plots.style import image_bytes
    except ImportError:
        return []
    curves = {
        one.title: results[name]["curve"]
        for one in experiments
        if (name := one.folder(Path(), 0).name) in results and results[name].get("curve")
    }
    bars = {
        one.title: [
            results[name]["scores"][_SCORE]
            for seed in one.seeds
            if (name := one.folder(Path(), seed).name) in results
        ]
        for one in experiments
        if one.table == "table-4"
    }
    training = _series(speeds, "training, time per token")
    ours = _series(speeds, "generation, time per token")
    stock = _series(speeds, "generation, times as fast as a GPT-2")
    found = {
        "loss": ("Training losses of table 2", plots.draw_losses(curves) if curves else None),
        "windows": ("Table 4", plots.draw_scores(bars) if all(bars.values()) else None),
        "training": ("Time of a training token", plots.draw_training(training) if training else None),
        "generation": ("Speed of writing", plots.draw_generation(ours, stock) if ours else None),
    }
    lines: list[str] = []
    for name, (title, figure) in found.items():
        if figure is not None:
            path = out.with_name(f"{out.stem}-{name}.png")
            path.write_bytes(image_bytes(figure, "png"))
            lines += ["", f"![{title}]({path.name})"]
    return lines


def _section(title: str, lines: Sequence[str]) -> list[str]:
    return ["", f"## {title}", "", *lines] if lines else []
