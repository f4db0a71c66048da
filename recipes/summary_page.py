"""The page of the summaries: a table for each data set, and what the differences say.

A model is compared with the first sentences document by document; a difference counts if the interval that 95
of 100 draws of documents give (the bootstrap) leaves out 0. All data sets together are the mean of theirs,
each with documents drawn from its own.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import summary_data
from experiments import Experiment

LEAD, ORACLE = "lead", "oracle"
KINDS = ("rouge_1", "rouge_2", "rouge_l", "rouge_lsum")
_TITLES = {"rouge_1": "ROUGE-1", "rouge_2": "ROUGE-2", "rouge_l": "ROUGE-L", "rouge_lsum": "ROUGE-Lsum"}
_JUDGED = ("rouge_1", "rouge_2", "rouge_lsum")
_DRAWN = "rouge_lsum"
_DRAWS = 10_000
Scores = Mapping[str, Sequence[float]]
"""Of documents by their ids, in the order of `KINDS`."""
Found = Mapping[str, Any]
"""Results of runs by name, and scores by "scores/who/data set"."""


class Difference(NamedTuple):
    """What one side has more than the other, in points."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        # A sign is a difference, however small; the noise of sums is none, and is rounded to 0 without one.
        mean, low, high = (f"{round(one, 6) + 0.0:+.1f}" for one in self)
        return f"{mean} ({low} to {high})"


def difference(pairs: Sequence[tuple[Scores, Scores]], kind: str) -> Difference:
    """What the first of each pair has more, and where 95 of 100 means of drawn documents are.

    Args:
        pairs: of each data set, the scores of two sides; documents that both have are compared.
        kind: one of `KINDS`.
    """
    at = KINDS.index(kind)
    means: list[float] = []
    drawn = np.zeros(_DRAWS)
    for one, other in pairs:
        each = np.array([100 * (one[id][at] - other[id][at]) for id in sorted(set(one) & set(other))])
        draws = np.random.default_rng(0).integers(len(each), size=(_DRAWS, len(each)))
        means.append(float(each.mean()))
        drawn += each[draws].mean(1) / len(pairs)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return Difference(sum(means) / len(means), float(low), float(high))


def page(found: Found, baselines: Mapping[str, str], experiments: Sequence[Experiment], out: Path) -> str:
    """The whole page; a picture is written beside it.

    Args:
        found: results and scores.
        baselines: their titles by name.
        experiments: whose runs are the other rows; those of one recipe stand together, shortest input first.
        out: where the page will be.
    """
    from longspan.benchmarks.machine import describe

    machine = describe()
    lines = [
        "# Summaries: written, chosen, and the first sentences",
        "",
        "Written by `recipes/summary_tables.py`. Every model learned from the same papers (ScisummNet),",
        "stories (SQuALITY, by query) and news (CNN/DailyMail), the same number of tokens, and is cut at its",
        "input length. Scores are F1 of ROUGE, in percent. How long its summaries are, each model says",
        "itself; the first sentences are as long as did best on the dev part of each data set.",
        f"Machine: {machine['cpu']}, {machine['threads']} threads, which other work shared at times; minutes",
        "include waiting for it.",
        "",
        "A paper's text has its abstract, of which its human summary takes much: the first sentences are",
        "hard to beat there.",
        *_picture(found, experiments, out),
    ]
    together = [name for name in summary_data.SOURCES if f"scores/{LEAD}/{name}" in found]
    verdicts = [*_verdicts(found, together, experiments), *_trends(found, together, experiments)]
    if len(together) > 1 and verdicts:
        lines += ["", "## All data sets together, each weighing the same", *verdicts]
    for name, source in summary_data.SOURCES.items():
        rows = list(_rows(found, name, baselines, experiments))
        if rows:
            lead = found[f"scores/{LEAD}/{name}"]
            lines += [
                "",
                f"## {name.capitalize()} ({source.format}), {lead['documents']} documents, references of "
                f"{lead['reference_words']:.0f} words",
                "",
                "| | documents | ROUGE-1 | ROUGE-2 | ROUGE-L | ROUGE-Lsum | words | minutes of training |",
                "|---|---|---|---|---|---|---|---|",
                *rows,
                *_verdicts(found, [name], experiments),
                *_trends(found, [name], experiments),
            ]
    return "\n".join(lines) + "\n"


def _rows(
    found: Found, name: str, baselines: Mapping[str, str], experiments: Sequence[Experiment]
) -> Iterator[str]:
    for who, title in (dict(baselines) | {_who(one): one.title for one in experiments}).items():
        record = found.get(f"scores/{who}/{name}")
        if record is not None:
            cells = [f"{100 * record['scores'][kind]:.1f}" for kind in KINDS]
            minutes = f"{found[who]['seconds'] / 60:.0f}" if who in found else ""
            cells = [title, str(record["documents"]), *cells, f"{record['words']:.0f}", minutes]
            yield f"| {' | '.join(cells)} |"


def _verdicts(found: Found, names: Sequence[str], experiments: Sequence[Experiment]) -> Iterator[str]:
    """Whether each model is better than the first sentences of the same documents."""
    there = [one for one in experiments if _has(found, names, one)]
    if there:
        yield from ("", "Against the first sentences of the same documents (95% interval):", "")
    for one in there:
        yield f"- {one.title}: {_verdict(_differences(found, names, _who(one), LEAD), ('better', 'worse'))}"


def _trends(found: Found, names: Sequence[str], experiments: Sequence[Experiment]) -> Iterator[str]:
    """What longer inputs gain: the longest against the shortest, for each recipe."""
    for recipe in dict.fromkeys(one.recipe for one in experiments):
        there = [one for one in experiments if one.recipe == recipe and _has(found, names, one)]
        if len(there) > 1:
            title = there[0].title.partition(",")[0]
            first, last = (
                one.title.partition(", ")[2].removesuffix(" tokens") for one in (there[0], there[-1])
            )
            found_ = _differences(found, names, _who(there[-1]), _who(there[0]))
            yield ""
            yield f"{title}, {last} tokens against {first}: {_verdict(found_, ('a gain', 'a loss'))}"


def _has(found: Found, names: Sequence[str], experiment: Experiment) -> bool:
    return bool(names) and all(f"scores/{_who(experiment)}/{name}" in found for name in names)


def _differences(found: Found, names: Sequence[str], who: str, other: str) -> dict[str, Difference]:
    pairs = [
        (found[f"scores/{who}/{name}"]["each"], found[f"scores/{other}/{name}"]["each"]) for name in names
    ]
    return {kind: difference(pairs, kind) for kind in _JUDGED}


def _verdict(differences: Mapping[str, Difference], words: tuple[str, str]) -> str:
    """The numbers, and in which of them there is a difference."""
    numbers = ", ".join(f"{_TITLES[kind]} {one}" for kind, one in differences.items())
    above = [_TITLES[kind] for kind, one in differences.items() if one.low > 0]
    below = [_TITLES[kind] for kind, one in differences.items() if one.high < 0]
    said = [
        f"**{word}** in {'all three' if len(names) == len(_JUDGED) else ' and '.join(names)}"
        for word, names in zip(words, (above, below), strict=True)
        if names
    ]
    return f"{numbers}: {', '.join(said) or '**no difference** beyond chance'}."


def _picture(found: Found, experiments: Sequence[Experiment], out: Path) -> list[str]:
    """Draws scores against the length of the input, as PNG beside the page, and links it."""
    try:
        from longspan.plots.style import image_bytes
        from longspan.plots.summaries import Panel, draw_lengths
    except ImportError:
        return []
    panels: dict[str, Panel] = {}
    for name in summary_data.SOURCES:
        lines: dict[str, dict[int, float]] = {}
        for one in experiments:
            if _has(found, [name], one):
                score = 100 * found[f"scores/{_who(one)}/{name}"]["scores"][_DRAWN]
                title, length = one.title.partition(",")[0], int(one.name.rpartition("-")[2])
                lines.setdefault(title, {})[length] = score
        if lines:
            levels = {
                title: 100 * found[f"scores/{who}/{name}"]["scores"][_DRAWN]
                for who, title in ((LEAD, "first sentences"), (ORACLE, "best that can be chosen"))
                if f"scores/{who}/{name}" in found
            }
            panels[name.capitalize()] = Panel(lines, levels)
    if not panels:
        return []
    path = out.with_name(f"{out.stem}-lengths.png")
    path.write_bytes(image_bytes(draw_lengths(panels, _TITLES[_DRAWN]), "png"))
    return ["", f"![{_TITLES[_DRAWN]} against the length of the input]({path.name})"]


def _who(experiment: Experiment) -> str:
    return experiment.folder(Path(), 0).name
