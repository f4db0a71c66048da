"""Trains the reader that comes with the package, from an embedding model to its folder.

python recipes/reader_model.py --data data --model models/granite-30m-english --runs runs --precision bf16

Stages: a head for masked words, masked words in long texts, questions made of plain text, questions about
short texts, questions about texts of all lengths, and more of these whose answer is not there; then the fit
of its confidence, and compact weights. A stage that has its result is not run again, and one that was cut off
goes on. What came of it is measured by reader_tables.py.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

RECIPES = Path(__file__).parent
EMBEDDED = RECIPES.parent / "src" / "longspan" / "embedded" / "reader"
STAGES: dict[str, Sequence[str]] = {
    # Half of what table 5 needs: here it is a start only.
    "mlm-head": ("--run.steps", "200"),
    "reader-mlm": (),
    "reader-cloze": (),
    "reader-short": (),
    "reader": (),
    "reader-doubt": (),
}
"""Recipes, and what is changed in each."""


def python(*words: str) -> None:
    """Runs a program of Python; it says how long it takes itself."""
    print(" ".join(words), flush=True)
    subprocess.run([sys.executable, *words], check=True)


def train(stage: str, source: Path, data: Path, where: argparse.Namespace) -> Path:
    """Runs a stage, unless that was done; gives the model that came of it."""
    out = where.runs / stage
    if not (out / "result.json").exists():
        python(
            *("-m", "longspan", "train", str(RECIPES / "cpu" / f"{stage}.yaml"), "--out", str(out)),
            *("--resume", "--model.source", str(source), "--data.root", str(data)),
            *("--run.precision", where.precision, *STAGES[stage]),
        )
    return out / "last"


def main() -> None:
    """Runs what is missing."""
    parser = argparse.ArgumentParser(description="Trains the reader that comes with the package.")
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--model", type=Path, default=Path("models/granite-30m-english"))
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--out", type=Path, default=EMBEDDED)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    where = parser.parse_args()
    questions = where.runs / "reader-data"
    if not (questions / "dev.jsonl").exists():
        python(str(RECIPES / "reader_data.py"), "--data", str(where.data), "--out", str(questions))
    source = where.model
    for stage in STAGES:
        source = train(stage, source, where.data if "mlm" in stage else questions, where)
    run = source.parent
    python(str(RECIPES / "calibrate_reader.py"), "--run", str(run), "--data", str(questions / "dev.jsonl"))
    python(str(RECIPES / "embed.py"), "--run", str(run), "--out", str(where.out))


if __name__ == "__main__":
    main()
