"""Runs the paper's tables 5, 7 and 10 in small, one run after the other, and writes what came out.

A run that has its result is not run again, and one that was cut off goes on, so this may be stopped and
started at will. Results are kept beside the page, in tasks.json: the tables hold every run that was ever
finished, and a run's folder may be deleted when no other one begins from it.

    python recipes/tables.py --data data --model models/granite-30m-english [--only table-5 ...]
"""

import argparse
import json
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longspan.training.run_folder import write_whole

RECIPES = Path(__file__).parent / "cpu"
# The model as it was before it became long: what does not fit is cut off, or read in pieces.
SHORT = ("--model.max_length", "null", "--settings.max_length", "512")
CONTINUED = "{runs}/table-5-trained-0/last"


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A row of a table."""

    table: str
    name: str
    title: str
    recipe: str
    overrides: tuple[str, ...] = ()
    seeds: tuple[int, ...] = (0,)
    source: str | None = None
    """Of the model, where it is not the one that all begin with."""
    same_as: str | None = None
    """Table and name of a run that is this one too."""

    def folder(self, runs: Path, seed: int) -> Path:
        """Of one of its runs."""
        return runs / f"{self.same_as or f'{self.table}-{self.name}'}-{seed}"


_HEAD = "{runs}/table-5-short-0/last"
_NOTHING = ("--run.steps", "0")

EXPERIMENTS = (
    Experiment(
        table="table-5",
        name="short",
        title="short model, 512 tokens, after fitting a head",
        recipe="mlm-head",
    ),
    Experiment(
        table="table-5",
        name="copied-unseen",
        title="4,096 tokens, copied positions, <s> and </s> not global",
        recipe="mlm-continue",
        overrides=("--settings.global_tokens", "false", *_NOTHING),
        source=_HEAD,
    ),
    Experiment(
        table="table-5",
        name="trained-unseen",
        title="... after further training",
        recipe="mlm-continue",
        overrides=("--settings.global_tokens", "false"),
        source=_HEAD,
    ),
    Experiment(
        table="table-5",
        name="random",
        title="4,096 tokens, random new positions, <s> and </s> global",
        recipe="mlm-continue",
        overrides=("--model.positions", "random", *_NOTHING),
        source=_HEAD,
    ),
    Experiment(
        table="table-5",
        name="copied",
        title="4,096 tokens, copied positions, <s> and </s> global",
        recipe="mlm-continue",
        overrides=_NOTHING,
        source=_HEAD,
    ),
    Experiment(
        table="table-5",
        name="trained",
        title="... after further training",
        recipe="mlm-continue",
        source=_HEAD,
    ),
    Experiment(
        table="table-5",
        name="positions",
        title="... training the new positions only",
        recipe="mlm-continue",
        overrides=("--optimizer.train_only", "new_positions"),
        source=_HEAD,
    ),
    *(
        Experiment(
            table="table-7",
            name=f"{recipe}-{kind}",
            title=f"{title}, {kind}",
            recipe=recipe,
            overrides=SHORT if kind == "short" else (),
            seeds=seeds,
        )
        for recipe, title, seeds in (
            ("hyperpartisan", "Hyperpartisan", (0, 1, 2, 3, 4)),
            ("imdb", "IMDB", (0,)),
            ("peerread", "PeerRead", (0,)),
            ("hotpotqa", "HotpotQA", (0,)),
            ("litbank", "LitBank coreference", (0,)),
        )
        for kind in ("short", "long")
    ),
    *(
        Experiment(
            table="table-10", name=name, title=title, recipe="hotpotqa", overrides=overrides, source=source
        )
        for name, title, overrides, source in (
            ("continued", "Longformer, after further pretraining", (), CONTINUED),
            ("2048", "... sequences of 2,048", ("--settings.max_length", "2048"), CONTINUED),
            ("no-globals", "... no global tokens", ("--settings.global_tokens", "false"), CONTINUED),
            (
                "no-projections",
                "... no projections of their own for global tokens",
                ("--model.separate_global_projections", "false"),
                CONTINUED,
            ),
            ("positions", "... only the new positions pretrained", (), "{runs}/table-5-positions-0/last"),
        )
    ),
    Experiment(
        table="table-10",
        name="no-mlm",
        title="... no further pretraining",
        recipe="hotpotqa",
        same_as="table-7-hotpotqa-long",
    ),
)


def command(experiment: Experiment, seed: int, where: argparse.Namespace) -> list[str]:
    """The command of one run."""
    source = (experiment.source or str(where.model)).format(runs=where.runs)
    # What is long already needs no lengthening.
    is_long = source.endswith("/last") and experiment.recipe != "mlm-continue"
    return [
        "longspan",
        "train",
        str(RECIPES / f"{experiment.recipe}.yaml"),
        *("--out", str(experiment.folder(where.runs, seed)), "--resume"),
        *("--data.root", str(where.data), "--data.cache", str(where.runs / "features")),
        *("--model.source", source),
        *(("--model.max_length", "null") if is_long else ()),
        *("--run.seed", str(seed), "--data.split_seed", str(seed)),
        *(("--run.precision", where.precision) if where.precision != "fp32" else ()),
        *experiment.overrides,
    ]


Results = dict[str, dict[str, Any]]
"""Of runs, by the names of their folders."""


def all_results(where: argparse.Namespace) -> Results:
    """What came out of the runs so far, and of those before them; kept for those to come."""
    kept = where.out.with_suffix(".json")
    found: Results = json.loads(kept.read_text()) if kept.exists() else {}
    for path in sorted(where.runs.glob("table-*/result.json")):
        found[path.parent.name] = json.loads(path.read_text())
    write_whole(kept, json.dumps(found, indent=1, sort_keys=True) + "\n")
    return found


def row(experiment: Experiment, results: Results) -> str | None:
    """A line of a table: means over seeds, and the spread where there are several."""
    names = [experiment.folder(Path(), seed).name for seed in experiment.seeds]
    found = [results[name] for name in names if name in results]
    if not found:
        return None
    cells: list[str] = []
    for name in found[0]["scores"]:
        values = [one["scores"][name] for one in found]
        spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
        cells.append(f"{name} {statistics.mean(values):.3f}{spread}")
    minutes = statistics.mean(one["seconds"] for one in found) / 60
    return f"| {experiment.title} | {len(found)} | {', '.join(cells)} | {minutes:.1f} |"


def page(where: argparse.Namespace) -> str:
    """The page with all tables."""
    from longspan.benchmarks.machine import describe

    machine, results = describe(), all_results(where)
    lines = [
        "# The paper's tables in small",
        "",
        "Written by `recipes/tables.py`. Every run begins from granite-30m-english, a RoBERTa of 6 layers",
        f"with 384 components. Machine: {machine['cpu']}, {machine['threads']} threads, which other work",
        "shared at times. Spreads are standard deviations over seeds, which also choose the split where",
        "none is official.",
    ]
    for table in dict.fromkeys(one.table for one in EXPERIMENTS):
        rows = [(one, row(one, results)) for one in EXPERIMENTS if one.table == table]
        if any(text for _, text in rows):
            lines += [
                "",
                f"## {table.replace('-', ' ').capitalize()}",
                "",
                "| | runs | scores | minutes |",
                "|---|---|---|---|",
            ]
            lines += [text for _, text in rows if text]
            lines += ["", "```sh", *(_said(one, where) for one, text in rows if text), "```"]
    return "\n".join(lines) + "\n"


def _said(experiment: Experiment, where: argparse.Namespace) -> str:
    short = argparse.Namespace(
        data=Path("data"),
        runs=Path("runs"),
        model=Path("models") / where.model.name,
        precision=where.precision,
    )
    words = command(experiment, experiment.seeds[0], short)
    words[2] = f"recipes/cpu/{experiment.recipe}.yaml"
    return " ".join(words)


def main() -> None:
    """Runs what is missing and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--model", type=Path, default=Path("models/granite-30m-english"))
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/tasks.md"))
    parser.add_argument(
        "--precision", choices=("fp32", "bf16"), default="fp32", help="bf16 pays where the processor has it"
    )
    parser.add_argument("--only", nargs="*", default=[], help="beginnings of names, as in table-7-imdb")
    parser.add_argument("--write-only", action="store_true", help="run nothing")
    where = parser.parse_args()
    for experiment in EXPERIMENTS:
        name = f"{experiment.table}-{experiment.name}"
        chosen = not where.only or any(name.startswith(one) for one in where.only)
        for seed in experiment.seeds if chosen and not where.write_only else ():
            folder = experiment.folder(where.runs, seed)
            # What others begin from must be there; of the rest the result is enough.
            begun_from = any(other.source and folder.name in other.source for other in EXPERIMENTS)
            if not (folder / "result.json").exists() and (
                begun_from or folder.name not in all_results(where)
            ):
                words = command(experiment, seed, where)
                print(" ".join(words), flush=True)
                subprocess.run([sys.executable, "-m", *words], check=True)
                write_whole(where.out, page(where))
    write_whole(where.out, page(where))


if __name__ == "__main__":
    main()
