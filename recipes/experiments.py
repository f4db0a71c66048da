"""What the scripts of this folder share: runs of recipes, one after the other, and tables of what came out.

A run that has its result is not run again, and one that was cut off goes on, so a script may be stopped and
started at will. Results are kept beside the page, as JSON: tables hold every run that was ever finished, and
a run's folder may be deleted when no other one begins from it.
"""

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from longspan.training.metrics_log import read_metrics
from longspan.training.run_folder import write_whole

_POINTS = 150
"""Of a curve that is kept."""
RECIPES = Path(__file__).parent / "cpu"


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
    keeps_curve: bool = False
    """Whether the losses of training are kept with the result, for a picture."""

    def folder(self, runs: Path, seed: int) -> Path:
        """Of one of its runs."""
        return runs / f"{self.same_as or f'{self.table}-{self.name}'}-{seed}"


Model: TypeAlias = Callable[[Experiment, argparse.Namespace], Sequence[str]]
"""The part of a command that says which model an experiment begins with."""


def arguments(description: str | None, out: str) -> argparse.ArgumentParser:
    """The options that all scripts have; ``out`` is where the page goes."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0] if description else None)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--out", type=Path, default=Path(out))
    parser.add_argument(
        "--precision", choices=("fp32", "bf16"), default="fp32", help="bf16 pays where the processor has it"
    )
    parser.add_argument("--seeds", type=int, nargs="*", default=[], help="run these alone")
    parser.add_argument("--only", nargs="*", default=[], help="beginnings of names, as in table-7-imdb")
    parser.add_argument("--write-only", action="store_true", help="run nothing")
    return parser


def command(experiment: Experiment, seed: int, where: argparse.Namespace, model: Model) -> list[str]:
    """The command of one run."""
    return [
        "longspan",
        "train",
        str(RECIPES / f"{experiment.recipe}.yaml"),
        *("--out", str(experiment.folder(where.runs, seed)), "--resume"),
        *("--data.root", str(where.data), "--data.cache", str(where.runs / "features")),
        *model(experiment, where),
        *("--run.seed", str(seed), "--data.split_seed", str(seed)),
        *(("--run.precision", where.precision) if where.precision != "fp32" else ()),
        *experiment.overrides,
    ]


Results: TypeAlias = dict[str, dict[str, Any]]
"""Of runs, by the names of their folders."""


def all_results(experiments: Iterable[Experiment], where: argparse.Namespace) -> Results:
    """What came out of the runs so far, and of those before them; kept for those to come.

    Raises:
        ValueError: the file beside the page is of another program.
    """
    kept = where.out.with_suffix(".json")
    found = _kept(kept)
    for experiment in (one for one in experiments if one.same_as is None):
        for folder in (experiment.folder(where.runs, seed) for seed in experiment.seeds):
            if (folder / "result.json").exists():
                result = json.loads((folder / "result.json").read_text())
                found[folder.name] = result | _of_run(folder, experiment)
    kept.parent.mkdir(parents=True, exist_ok=True)
    write_whole(kept, json.dumps(found, indent=1, sort_keys=True) + "\n")
    return found


def _kept(path: Path) -> Results:
    """The results of earlier runs; what is not such a file is refused, for it would be written over."""
    if not path.exists():
        return {}
    found = json.loads(path.read_text())
    runs = found.values() if isinstance(found, dict) else [found]
    if not all(isinstance(one, dict) and {"scores", "seconds"} <= set(one) for one in runs):
        raise ValueError(
            f"--out is {path.with_suffix('.md')}, and {path} has no results of runs (scores and seconds "
            "by name); it belongs to another program: choose another --out"
        )
    return found


def _of_run(folder: Path, experiment: Experiment) -> dict[str, Any]:
    """What a page says of a run beside its scores: its threads, the tokens it learned from, its losses."""
    found: dict[str, Any] = {}
    if (folder / "versions.json").exists():
        # A line for every time that it was begun or went on.
        found["threads"] = json.loads((folder / "versions.json").read_text())[-1]["threads"]
    if (folder / "metrics.jsonl").exists():
        lines = [line for line in read_metrics(folder) if line["kind"] == "train" and line.get("loss")]
        # Every step of these runs has as many tokens.
        found["tokens"] = max((line["step"] * line["tokens"] for line in lines), default=0)
        if experiment.keeps_curve:
            found["curve"] = _thinned([(line["step"] * line["tokens"], line["loss"]) for line in lines])
    return found


def _thinned(points: list[tuple[float, float]]) -> list[list[float]]:
    """Means of neighbours, so that at most `_POINTS` are left."""
    size = -(-len(points) // _POINTS)
    groups = [points[begin : begin + size] for begin in range(0, len(points), max(1, size))]
    return [[round(statistics.mean(column), 4) for column in zip(*group, strict=True)] for group in groups]


def row(experiment: Experiment, results: Results) -> str | None:
    """A line of a table: means over seeds, and the spread where there are several."""
    names = [experiment.folder(Path(), seed).name for seed in experiment.seeds]
    found = [results[name] for name in names if name in results]
    if not found:
        return None
    cells: list[str] = []
    # A recipe may have got more scores since its first runs.
    common = [name for name in found[0]["scores"] if all(name in one["scores"] for one in found)]
    for name in common:
        values = [one["scores"][name] for one in found]
        spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
        cells.append(f"{name} {statistics.mean(values):.3f}{spread}")
    # A processor's time says what a run costs even where other work shared the machine; early runs lack it.
    costs = [one["processor_seconds"] for one in found if "processor_seconds" in one]
    minutes = statistics.mean(costs or [one["seconds"] for one in found]) / 60
    return f"| {experiment.title} | {len(found)} | {', '.join(cells)} | {minutes:.1f} |"


def tables(
    experiments: Sequence[Experiment],
    where: argparse.Namespace,
    said: argparse.Namespace,
    model: Model,
    *,
    more: Callable[[str], Iterable[str]] = lambda table: (),
    after: Callable[[str], Iterable[str]] = lambda table: (),
) -> list[str]:
    """The lines of all tables, each with the commands of its first runs.

    Args:
        experiments: the rows.
        where: what the script was told.
        said: the same as the commands on the page have it.
        model: see `Model`.
        more: further rows of a table that has some.
        after: lines below a table: what it says.
    """
    lines: list[str] = []
    results = all_results(experiments, where)
    for table in dict.fromkeys(one.table for one in experiments):
        rows = [(one, row(one, results)) for one in experiments if one.table == table]
        if any(text for _, text in rows):
            lines += [
                "",
                f"## {table.replace('-', ' ').capitalize()}",
                "",
                "| | runs | scores | minutes |",
                "|---|---|---|---|",
            ]
            lines += [text for _, text in rows if text]
            lines += [*more(table), *after(table)]
            lines += ["", "```sh", *(_said(one, said, model) for one, text in rows if text), "```"]
    return lines


def _said(experiment: Experiment, said: argparse.Namespace, model: Model) -> str:
    words = command(experiment, experiment.seeds[0], said, model)
    return " ".join(_quoted(word.replace(str(RECIPES), "recipes/cpu")) for word in words)


def _quoted(word: str) -> str:
    return f"'{word}'" if any(letter in word for letter in " {[#") else word


def wanted(experiment: Experiment, where: argparse.Namespace) -> bool:
    """Whether the names that the script was told, if any, have this one among them."""
    name = f"{experiment.table}-{experiment.name}"
    return not where.only or any(name.startswith(one) for one in where.only)


def run(
    experiments: Sequence[Experiment],
    where: argparse.Namespace,
    model: Model,
    page: Callable[[argparse.Namespace], str],
) -> None:
    """Runs what is missing, and writes the page after every run."""
    all_results(experiments, where)  # before hours of runs: is there a place for their results?
    for experiment in experiments:
        wanted_seeds = [seed for seed in experiment.seeds if not where.seeds or seed in where.seeds]
        for seed in wanted_seeds if wanted(experiment, where) and not where.write_only else ():
            folder = experiment.folder(where.runs, seed)
            # What others begin from must be there; of the rest the result is enough.
            begun_from = any(other.source and folder.name in other.source for other in experiments)
            is_known = not begun_from and folder.name in all_results(experiments, where)
            if not (is_known or (folder / "result.json").exists()):
                words = command(experiment, seed, where, model)
                print(" ".join(words), flush=True)
                subprocess.run([sys.executable, "-m", *words], check=True)
                write_whole(where.out, page(where))
    write_whole(where.out, page(where))
