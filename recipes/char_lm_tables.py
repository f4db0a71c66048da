"""Runs the character models of the paper's section 4 in small, and writes what came out beside compressors.

Table 2: staged training against one phase of the same cost, on the test part of enwik8. Table 4: windows that
shrink, stay or grow upwards, and dilation, on the dev part; and rotary positions beside relative ones.

    python recipes/char_lm_tables.py --data data --precision bf16 [--only table-4 ...]
"""

import argparse
import lzma
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from experiments import RECIPES, Experiment, arguments, run, tables

ENWIK8 = "enwik8/enwik8.xz"
# The whole test part, read once, with the last model: scoring so much while training would take longer than
# training does.
WHOLE_TEST = (
    *("--data.dev", "null", "--data.test", f"{ENWIK8}#test"),
    *("--settings.evaluation_limit", "null"),
)
SEEDS = (0, 1, 2)


def _windows(lowest: int, highest: int) -> tuple[str, ...]:
    phase = f"steps: 900, max_length: 1024, examples: 8, lr: 2.0e-3, windows: [{lowest}, {highest}]"
    return ("--phases", f"[{{{phase}}}]")


EXPERIMENTS = (
    Experiment(
        table="table-2",
        name="staged",
        title="three phases, length and windows doubled",
        recipe="char-lm",
        overrides=WHOLE_TEST,
    ),
    Experiment(
        table="table-2",
        name="one-phase",
        title="one phase of the same cost",
        recipe="char-lm-one-phase",
        overrides=WHOLE_TEST,
    ),
    Experiment(
        table="table-4",
        name="decreasing",
        title="decreasing windows, 112 to 16",
        recipe="char-lm-windows",
        overrides=_windows(112, 16),
        seeds=SEEDS,
    ),
    Experiment(
        table="table-4",
        name="fixed",
        title="fixed windows, 64",
        recipe="char-lm-windows",
        overrides=_windows(64, 64),
        seeds=SEEDS,
    ),
    Experiment(
        table="table-4",
        name="increasing",
        title="increasing windows, 16 to 112; no dilation",
        recipe="char-lm-windows",
        seeds=SEEDS,
    ),
    Experiment(
        table="table-4",
        name="dilated",
        title="... with dilation on 2 heads of the upper layers",
        recipe="char-lm-windows",
        seeds=SEEDS,
        source="char-lm-tiny-dilated.json",
    ),
    Experiment(
        table="positions",
        name="relative",
        title="relative sinusoids; as increasing in table 4",
        recipe="char-lm-windows",
        seeds=SEEDS,
        same_as="table-4-increasing",
    ),
    Experiment(
        table="positions",
        name="rotary",
        title="rotary",
        recipe="char-lm-windows",
        seeds=SEEDS,
        source="char-lm-tiny-rotary.json",
    ),
)


def model(experiment: Experiment, where: argparse.Namespace) -> list[str]:
    """A configuration of this folder, or what the recipe names."""
    if experiment.source is None and experiment.recipe != "char-lm-windows":
        return []
    return ["--model.source", str(RECIPES / (experiment.source or "char-lm-tiny.json"))]


@cache
def compressed(data: Path) -> dict[str, float | None]:
    """Bits per byte of the test part by programs that compress; None where one is not available."""
    from longspan.data.byte_texts import read_enwik8_bytes

    (document,) = read_enwik8_bytes(data / ENWIK8, "test")
    content = document.content
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


def compressor_rows(table: str, data: Path) -> Iterator[str]:
    """What compressors make of the text of table 2."""
    for name, bits in compressed(data).items() if table == "table-2" else ():
        yield f"| `{name}` | | {'not available' if bits is None else f'bits_per_byte {bits:.3f}'} | |"


def page(where: argparse.Namespace) -> str:
    """The page with all tables."""
    from longspan.benchmarks.machine import describe

    machine = describe()
    said = argparse.Namespace(data=Path("data"), runs=Path("runs"), precision=where.precision)
    lines = [
        "# Character models in small",
        "",
        "Written by `recipes/char_lm_tables.py`: the paper's tables 2 and 4 on enwik8, with models of 3.5",
        "and 0.9 million parameters that saw a part of it once. Table 2 is scored on all 5 MB of the test",
        "part, by streaming, the others on the first 1,000,000 bytes of the dev part. Compressors begin",
        f"with no model, and read the same 5 MB. Machine: {machine['cpu']}, {machine['threads']} threads, which",
        "other work shared at times. Spreads are standard deviations over seeds.",
        *tables(EXPERIMENTS, where, said, model, more=lambda table: compressor_rows(table, where.data)),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Runs what is missing and writes the page."""
    run(EXPERIMENTS, arguments(__doc__, "benchmarks/results/char_lm.md").parse_args(), model, page)


if __name__ == "__main__":
    main()
