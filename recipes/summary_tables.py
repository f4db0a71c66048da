"""Trains models that write summaries and models that choose sentences, at three input lengths; writes tables.

python recipes/summary_tables.py --data data --model models/granite-30m-english [--only summaries-extract ...]

Two may run at once, --only summaries-extract and --only summaries-led, each with an --out of its own, when
summary_data.py has written the data; --write-only then makes one page of both.

All learn from the same papers, stories and news with the same number of tokens. Each is then scored on the
test part of every data set, beside the first sentences of the documents and beside the sentences that the
references would choose, all by the same code; summary_page.py says what came out.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import summary_data
import summary_page
from experiments import Experiment, all_results, arguments, run, wanted

from longspan.data.examples import SummarizedDocument
from longspan.data.splits import sample
from longspan.metrics.extracts import Budget, lead
from longspan.metrics.oracle import greedy_oracle
from longspan.metrics.sentences import sentences
from longspan.tasks.summary_scores import summary_scores
from longspan.training.inference import Predictor
from longspan.training.run_folder import write_whole

LENGTHS = (1024, 4096, 16384)
WRITTEN = 60
"""Documents of each data set that models that write are scored on: a token of theirs takes some 10 ms."""
AT_ONCE = 16384
"""Tokens of documents that are read together; a token more is written of each in nearly the same time."""
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
_FACTORS = (0.5, 0.75, 1.0, 1.25, 1.5, 2.0)
"""Of the words that references have: lengths of first sentences that are tried."""
Choice = Callable[[SummarizedDocument, int], list[int]]
"""Chooses sentences of a document; told how many words do best for first sentences."""
BASELINES: Mapping[str, tuple[str, Choice]] = {
    summary_page.LEAD: (
        "first sentences, as long as does best on the dev part",
        lambda one, words: lead(sentences(one.text), Budget(words=words)),
    ),
    "lead-3": ("first three sentences", lambda one, _: lead(sentences(one.text), Budget(sentences=3))),
    summary_page.ORACLE: (
        "sentences that the references choose",
        lambda one, _: greedy_oracle(sentences(one.text), one.summaries),
    ),
}


def model(experiment: Experiment, where: argparse.Namespace) -> list[str]:
    """The model that an experiment begins with, and where its data are."""
    source = where.runs / "small-led" if experiment.recipe == "led" else where.model
    return ["--model.source", str(source), "--data.root", str(where.runs / "summary-data")]


def lead_words(name: str, where: argparse.Namespace) -> int:
    """How many words first sentences have that do best on a data set's dev part, by ROUGE-1 + ROUGE-2."""
    most = where.test or summary_data.SOURCES[name].test
    examples = list(summary_data.documents(name, "dev", where.data, most))
    lengths = [len(one.split()) for each in examples for one in each.summaries]
    mean = sum(lengths) / len(lengths)

    def score(words: int) -> float:
        said = [_extract(one, lead(sentences(one.text), Budget(words=words))) for one in examples]
        scores = summary_scores(examples, said)
        return scores["rouge_1"] + scores["rouge_2"]

    return max((max(round(factor * mean), 1) for factor in _FACTORS), key=score)


def scored(where: argparse.Namespace) -> dict[str, Any]:
    """Scores of baselines and of all runs that are there, by "scores/who/data set"; kept beside the page.

    Those of a run are kept in its folder too, so that scripts that share the work need not repeat it.
    """
    found = all_results(EXPERIMENTS, where)
    runs = {
        one.folder(where.runs, 0).name: one.folder(where.runs, 0) for one in EXPERIMENTS if wanted(one, where)
    }
    for name, source in summary_data.SOURCES.items():
        for who, folder in runs.items():
            if (kept := folder / f"scores-{name}.json").exists():
                found[f"scores/{who}/{name}"] = json.loads(kept.read_text())
        there = [who for who, folder in runs.items() if (folder / "result.json").exists()]
        missing = [who for who in (*BASELINES, *there) if f"scores/{who}/{name}" not in found]
        if not missing:
            continue
        examples = list(summary_data.documents(name, "test", where.data, where.test or source.test))
        words = lead_words(name, where)
        for who in missing:
            if who in BASELINES:
                said = [_extract(one, BASELINES[who][1](one, words)) for one in examples]
                found[f"scores/{who}/{name}"] = _record(examples, said, 0.0)
            else:
                found[f"scores/{who}/{name}"] = record = _scores_of_run(runs[who], examples)
                write_whole(runs[who] / f"scores-{name}.json", json.dumps(record) + "\n")
    write_whole(where.out.with_suffix(".json"), json.dumps(found, indent=1, sort_keys=True) + "\n")
    return found


def _scores_of_run(folder: Path, examples: list[SummarizedDocument]) -> dict[str, Any]:
    """Of the best model of a run; on fewer documents, drawn by their ids, where it writes."""
    asked = examples
    if "-led-" in folder.name:
        asked = list(sample(lambda: examples, WRITTEN, seed=0))
    begin = time.perf_counter()
    said = Predictor(folder, tokens=AT_ONCE)(asked)
    return _record(asked, said, time.perf_counter() - begin)


def _extract(example: SummarizedDocument, chosen: Sequence[int]) -> dict[str, Any]:
    texts = sentences(example.text)
    return {"id": example.id, "summary": "\n".join(texts[at] for at in chosen)}


def _record(
    examples: Sequence[SummarizedDocument], said: Sequence[Mapping[str, Any]], seconds: float
) -> dict[str, Any]:
    """The mean scores, and those of each document: a list in the order of ``summary_page.KINDS``."""
    each = [summary_scores([one], [its]) for one, its in zip(examples, said, strict=True)]
    lengths = [len(one["summary"].split()) for one in said]
    references = [len(one.split()) for example in examples for one in example.summaries]
    return {
        "scores": {kind: sum(one[kind] for one in each) / len(each) for kind in summary_page.KINDS},
        "each": {
            example.id: [round(one[kind], 5) for kind in summary_page.KINDS]
            for example, one in zip(examples, each, strict=True)
        },
        "words": sum(lengths) / len(lengths),
        "reference_words": sum(references) / len(references),
        "documents": len(examples),
        "seconds": seconds,
    }


def page(where: argparse.Namespace) -> str:
    """The page with a table for each data set, and what they say."""
    return summary_page.page(
        scored(where), {who: title for who, (title, _) in BASELINES.items()}, EXPERIMENTS, where.out
    )


def main() -> None:
    """Makes data and model, runs what is missing, and writes the page."""
    parser = arguments(__doc__, "benchmarks/results/summaries.md")
    parser.add_argument("--model", type=Path, default=Path("models/granite-30m-english"))
    parser.add_argument("--test", type=int, default=None, help="score so many documents of each data set")
    parser.add_argument("--limit", type=int, default=None, help="only so many documents to learn from")
    where = parser.parse_args()
    if not where.write_only:
        summary_data.write(where.data, where.runs / "summary-data", where.limit)
        writes = any(one.recipe == "led" and wanted(one, where) for one in EXPERIMENTS)
        if writes and not (where.runs / "small-led" / "config.json").exists():
            script = Path(__file__).with_name("small_led.py")
            made = ["--model", str(where.model), "--out", str(where.runs / "small-led")]
            subprocess.run([sys.executable, str(script), *made], check=True)
    run(EXPERIMENTS, where, model, page)


if __name__ == "__main__":
    main()
