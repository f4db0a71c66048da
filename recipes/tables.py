"""Runs the paper's tables 5, 7 and 10 in small, one run after the other, and writes what came out.

python recipes/tables.py --data data --model models/granite-30m-english [--only table-5 ...]
"""

import argparse
import statistics
from collections.abc import Iterator
from pathlib import Path

from experiments import Experiment, Results, all_results, arguments, run, tables

# The model as it was before it became long: what does not fit is cut off, or read in pieces.
SHORT = ("--model.max_length", "null", "--settings.max_length", "512")
# Tasks on tokens begin with a model of masked words, as the paper's do: the short one, and what further
# training made of it when it had become long. Classification begins with the encoder of texts itself.
MASKED_LM = "{runs}/table-5-short-0/last"
CONTINUED = "{runs}/table-5-trained-0/last"
POSITIONS = "{runs}/table-5-positions-0/last"
_NOTHING = ("--run.steps", "0")
_LENGTHENED = ("--model.max_length", "4096")

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
        source=MASKED_LM,
    ),
    Experiment(
        table="table-5",
        name="trained-unseen",
        title="... after further training",
        recipe="mlm-continue",
        overrides=("--settings.global_tokens", "false"),
        source=MASKED_LM,
    ),
    Experiment(
        table="table-5",
        name="random",
        title="4,096 tokens, random new positions, <s> and </s> global",
        recipe="mlm-continue",
        overrides=("--model.positions", "random", *_NOTHING),
        source=MASKED_LM,
    ),
    Experiment(
        table="table-5",
        name="copied",
        title="4,096 tokens, copied positions, <s> and </s> global",
        recipe="mlm-continue",
        overrides=_NOTHING,
        source=MASKED_LM,
    ),
    Experiment(
        table="table-5",
        name="trained",
        title="... after further training",
        recipe="mlm-continue",
        source=MASKED_LM,
    ),
    Experiment(
        table="table-5",
        name="positions",
        title="... training the new positions only",
        recipe="mlm-continue",
        overrides=("--optimizer.train_only", "new_positions"),
        source=MASKED_LM,
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
            ("imdb", "IMDB", (0, 1, 2)),
            ("peerread", "PeerRead", (0, 1, 2)),
        )
        for kind in ("short", "long")
    ),
    *(
        Experiment(
            table="table-7",
            name=f"{recipe}-{kind}",
            title=f"{title}, {kind}",
            recipe=recipe,
            overrides=SHORT if kind == "short" else (),
            seeds=seeds,
            source=MASKED_LM if kind == "short" else CONTINUED,
        )
        for recipe, title, seeds in (
            ("hotpotqa", "HotpotQA", (0,)),
            ("litbank", "LitBank coreference", (0,)),
        )
        for kind in ("short", "long")
    ),
    Experiment(
        table="table-10",
        name="continued",
        title="Longformer, after further pretraining",
        recipe="hotpotqa",
        source=CONTINUED,
        same_as="table-7-hotpotqa-long",
    ),
    *(
        Experiment(
            table="table-10", name=name, title=title, recipe="hotpotqa", overrides=overrides, source=source
        )
        for name, title, overrides, source in (
            ("1024", "... sequences of 1,024", ("--settings.max_length", "1024"), CONTINUED),
            ("no-globals", "... no global tokens", ("--settings.global_tokens", "false"), CONTINUED),
            (
                "no-projections",
                "... no projections of their own for global tokens",
                ("--model.separate_global_projections", "false"),
                CONTINUED,
            ),
            ("no-mlm", "... no further pretraining", _LENGTHENED, MASKED_LM),
            ("positions", "... only the new positions pretrained", (), POSITIONS),
        )
    ),
)


def model(experiment: Experiment, where: argparse.Namespace) -> list[str]:
    """The model that all begin with, made long, or the one that an earlier run made."""
    source = (experiment.source or str(where.model)).format(runs=where.runs)
    # What is long already needs no lengthening.
    is_long = experiment.source in (CONTINUED, POSITIONS)
    return ["--model.source", source, *(("--model.max_length", "null") if is_long else ())]


# What each recipe of table 7 is judged by.
JUDGED_BY = {
    "hyperpartisan": ("accuracy",),
    "imdb": ("accuracy",),
    "peerread": ("accuracy", "macro_f1"),
    "hotpotqa": ("answer_f1", "support_f1", "joint_f1"),
    "litbank": ("conll_f1",),
}


def said(table: str, where: argparse.Namespace) -> Iterator[str]:
    """What a table says, below it."""
    results = all_results(EXPERIMENTS, where)
    if table == "table-7":
        yield from _gains(results)
    if table == "table-10":
        yield from _losses(results)


def _gains(results: Results) -> Iterator[str]:
    """What the long model has more than the short one, seed by seed on the same split."""
    by_name = {one.name: one for one in EXPERIMENTS if one.table == "table-7"}
    yield from ("", "What length gains, long minus short of the same seed:", "")
    for recipe, names in JUDGED_BY.items():
        short, long = by_name[f"{recipe}-short"], by_name[f"{recipe}-long"]
        folders = [(short.folder(Path(), seed).name, long.folder(Path(), seed).name) for seed in short.seeds]
        both = [(results[a]["scores"], results[b]["scores"]) for a, b in folders if {a, b} <= set(results)]
        for name in names if both else ():
            title = f"{long.title.removesuffix(', long')}, {name}"
            yield f"- {title}: {_gain([b[name] - a[name] for a, b in both])}"


def _losses(results: Results) -> Iterator[str]:
    """What is lost where something is left out."""
    whole, *others = [one for one in EXPERIMENTS if one.table == "table-10"]
    if whole.folder(Path(), 0).name not in results:
        return
    whole_scores = results[whole.folder(Path(), 0).name]["scores"]
    yield from (
        "",
        "Against the first row, in F1 of supporting facts and of answers. A mean over 200 questions has a",
        "standard error of up to 0.035: 0.1 is seen, 0.05 may be chance.",
        "",
    )
    for one in others:
        if (name := one.folder(Path(), 0).name) in results:
            scores = results[name]["scores"]
            support, answer = (scores[key] - whole_scores[key] for key in ("support_f1", "answer_f1"))
            yield f"- {one.title.removeprefix('... ')}: {support:+.3f} and {answer:+.3f}"


def _gain(differences: list[float]) -> str:
    """A mean and a verdict: a difference counts if it is over twice the standard error of its mean."""
    mean = statistics.mean(differences)
    if len(differences) == 1:
        return f"{mean:+.3f}, one seed."
    spread = statistics.stdev(differences)
    is_seen = abs(mean) > 2 * spread / len(differences) ** 0.5
    verdict = ("a gain" if mean > 0 else "a loss") if is_seen else "no difference beyond the spread"
    return f"{mean:+.3f} ± {spread:.3f} over {len(differences)} seeds: {verdict}."


def page(where: argparse.Namespace) -> str:
    """The page with all tables."""
    from longspan.benchmarks.machine import describe

    machine = describe()
    short = argparse.Namespace(
        data=Path("data"),
        runs=Path("runs"),
        model=Path("models") / where.model.name,
        precision=where.precision,
    )
    lines = [
        "# The paper's tables in small",
        "",
        "Written by `recipes/tables.py`. Every run begins from granite-30m-english, a RoBERTa of 6 layers",
        "with 384 components; those of tables 5 and 10, of HotpotQA and of LitBank from its lowest 4 layers,",
        f"taught masked words. Machine: {machine['cpu']}, threads of a run: {machine['threads']}; other work",
        "shared it at times; minutes include waiting for it. Spreads are standard deviations over seeds,",
        "which also choose the split where none is official.",
        *tables(EXPERIMENTS, where, short, model, after=lambda table: said(table, where)),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Runs what is missing and writes the page."""
    parser = arguments(__doc__, "benchmarks/results/tasks.md")
    parser.add_argument("--model", type=Path, default=Path("models/granite-30m-english"))
    run(EXPERIMENTS, parser.parse_args(), model, page)


if __name__ == "__main__":
    main()
