"""Trains models that write summaries and models that choose sentences, at three input lengths; writes tables.

python recipes/summary_tables.py --data data --model models/granite-30m-english [--only summaries-extract ...]

All learn from the same papers, stories and news with the same number of tokens. Each is then scored on the
test part of every data set, beside the first sentences of the documents, in as many words as references have,
and beside the sentences that the references would choose. Summaries of any kind are scored by the same code.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import summary_data
from experiments import Experiment, all_results, arguments, run

from longspan.data.examples import SummarizedDocument
from longspan.metrics.extracts import Budget, lead
from longspan.metrics.oracle import greedy_oracle
from longspan.metrics.sentences import sentences
from longspan.tasks.summary_scores import summary_scores
from longspan.training.inference import Predictor
from longspan.training.run_folder import write_whole

LENGTHS = (1024, 4096, 16384)
TEST = 100
"""Documents of each data set that are scored."""
EXPERIMENTS = tuple(
    Experiment(
        table="summaries",
        name=f"{recipe}-{length}",
        title=f"{title}, {length:,} tokens",
        recipe=recipe,
        overrides=("--settings.max_length", str(length)),
    )
    for recipe, title in (("extract", "Longformer that chooses sentences"), ("led", "LED that writes"))
    for length in LENGTHS
)
BASELINES: Mapping[str, tuple[str, Callable[[SummarizedDocument, Budget], list[int]]]] = {
    "lead": ("first sentences, as many words", lambda one, budget: lead(sentences(one.text), budget)),
    "lead-3": ("first three sentences", lambda one, _: lead(sentences(one.text), Budget(sentences=3))),
    "oracle": (
        "sentences that the references choose",
        lambda one, _: greedy_oracle(sentences(one.text), one.summaries),
    ),
}
NAMES = ("rouge_1", "rouge_2", "rouge_l", "rouge_lsum")


def model(experiment: Experiment, where: argparse.Namespace) -> list[str]:
    """The model that an experiment begins with, and where its data are."""
    source = where.runs / "small-led" if experiment.recipe == "led" else where.model
    return ["--model.source", str(source), "--data.root", str(where.runs / "summary-data")]


def words_of(name: str, data: Path) -> int:
    """How many words references have, in the training part of a data set."""
    lengths = [
        len(one.split()) for each in summary_data.documents(name, "train", data) for one in each.summaries
    ]
    return round(sum(lengths) / len(lengths))


def scored(where: argparse.Namespace) -> dict[str, Any]:
    """Scores of baselines and of all runs that are there, by "scores/who/data set"; kept beside the page."""
    found = all_results(EXPERIMENTS, where)
    folders = (one.folder(where.runs, 0) for one in EXPERIMENTS)
    runs = {folder.name: folder for folder in folders if (folder / "result.json").exists()}
    for name in summary_data.SOURCES:
        missing = [who for who in (*BASELINES, *runs) if f"scores/{who}/{name}" not in found]
        if not missing:
            continue
        examples = list(summary_data.documents(name, "test", where.data, where.test))
        words = words_of(name, where.data)
        for who in missing:
            begin = time.perf_counter()
            if who in runs:
                said = _predictor(runs[who], words)(examples)
            else:
                _, choose = BASELINES[who]
                said = [_extract(one, choose(one, Budget(words=words))) for one in examples]
            found[f"scores/{who}/{name}"] = _record(examples, said, time.perf_counter() - begin, words)
        write_whole(where.out.with_suffix(".json"), json.dumps(found, indent=1, sort_keys=True) + "\n")
    return found


def _extract(example: SummarizedDocument, chosen: Sequence[int]) -> dict[str, Any]:
    texts = sentences(example.text)
    return {"id": example.id, "summary": "\n".join(texts[at] for at in chosen)}


def _predictor(folder: Path, words: int) -> Predictor:
    """The best model of a run, told how long summaries of a data set are."""
    chooses = "-extract-" in folder.name
    return Predictor(folder, "best", (f"--settings.summary_words={words}",) if chooses else ())


def _record(
    examples: Sequence[SummarizedDocument], said: Sequence[Mapping[str, Any]], seconds: float, words: int
) -> dict[str, Any]:
    lengths = [len(one["summary"].split()) for one in said]
    return {
        "scores": summary_scores(examples, said),
        "words": sum(lengths) / len(lengths),
        "reference_words": words,
        "documents": len(examples),
        "seconds": seconds,
    }


def page(where: argparse.Namespace) -> str:
    """The page with a table for each data set."""
    from longspan.benchmarks.machine import describe

    machine = describe()
    found = scored(where)
    lines = [
        "# Summaries: written, chosen, and the first sentences",
        "",
        "Written by `recipes/summary_tables.py`. Every model learned from the same papers (ScisummNet),",
        "stories (SQuALITY, by query) and news (CNN/DailyMail), the same number of tokens, and is cut at its",
        "input length. Scores are F1 of ROUGE, in percent.",
        f"Machine: {machine['cpu']}, {machine['threads']} threads, which other work shared at times; minutes",
        "include waiting for it.",
        "",
        "A paper's text has its abstract, of which its human summary takes much: the first sentences are",
        "hard to beat there.",
    ]
    for name, source in summary_data.SOURCES.items():
        rows = list(_rows(found, name))
        if rows:
            some = next(one for key, one in found.items() if key.startswith("scores/") and key.endswith(name))
            lines += [
                "",
                f"## {name.capitalize()} ({source.format}), {some['documents']} documents, references of "
                f"{some['reference_words']} words",
                "",
                "| | ROUGE-1 | ROUGE-2 | ROUGE-L | ROUGE-Lsum | words | minutes of training |",
                "|---|---|---|---|---|---|---|",
                *rows,
            ]
    return "\n".join(lines) + "\n"


def _rows(found: Mapping[str, Any], name: str) -> Iterator[str]:
    titles = {who: title for who, (title, _) in BASELINES.items()}
    titles |= {one.folder(Path(), 0).name: one.title for one in EXPERIMENTS}
    for who, title in titles.items():
        record = found.get(f"scores/{who}/{name}")
        if record is not None:
            cells = [f"{100 * record['scores'][kind]:.1f}" for kind in NAMES]
            minutes = f"{found[who]['seconds'] / 60:.0f}" if who in found else ""
            yield f"| {title} | {' | '.join(cells)} | {record['words']:.0f} | {minutes} |"


def main() -> None:
    """Makes data and model, runs what is missing, and writes the page."""
    parser = arguments(__doc__, "benchmarks/results/summaries.md")
    parser.add_argument("--model", type=Path, default=Path("models/granite-30m-english"))
    parser.add_argument("--test", type=int, default=TEST, help="documents of each data set that are scored")
    parser.add_argument("--limit", type=int, default=None, help="only so many documents to learn from")
    where = parser.parse_args()
    if not where.write_only:
        summary_data.write(where.data, where.runs / "summary-data", where.limit)
        if not (where.runs / "small-led" / "config.json").exists():
            script = Path(__file__).with_name("small_led.py")
            made = ["--model", str(where.model), "--out", str(where.runs / "small-led")]
            subprocess.run([sys.executable, str(script), *made], check=True)
    run(EXPERIMENTS, where, model, page)


if __name__ == "__main__":
    main()
