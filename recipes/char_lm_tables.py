"""Runs the character models of the paper's section 4 in small, and writes what came out beside compressors.

Table 2: staged training against one phase of the same cost, on the test part of enwik8. Table 4: windows that
shrink, stay or grow upwards, and dilation, on the dev part; and rotary positions beside relative ones.

    python recipes/char_lm_tables.py --data data --precision bf16 [--only table-4 ...]
"""

import argparse

from char_lm_page import compressor_rows, page_of
from experiments import RECIPES, Experiment, arguments, run

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
        keeps_curve=True,
    ),
    Experiment(
        table="table-2",
        name="one-phase",
        title="one phase of the same cost",
        recipe="char-lm-one-phase",
        overrides=WHOLE_TEST,
        keeps_curve=True,
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
        title="... with dilation on 2 of 8 heads of the upper layers",
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


def page(where: argparse.Namespace) -> str:
    """The page with all tables; draws its pictures."""
    return page_of(EXPERIMENTS, where, model, more=lambda table: compressor_rows(table, where.data / ENWIK8))


def main() -> None:
    """Runs what is missing and writes the page."""
    run(EXPERIMENTS, arguments(__doc__, "benchmarks/results/char_lm.md").parse_args(), model, page)


if __name__ == "__main__":
    main()
