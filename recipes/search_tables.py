"""Measures searches on documents that no model learned from; writes benchmarks/results/search.md.

python recipes/search_tables.py --data data --model models/granite-30m-english --alone runs/searcher-alone

Contestants are bm25, the embedding model as it was published, the same after the training of search_model.py
for passages that are read alone, and the one that comes with longspan, which reads documents in one pass. All
get the same passages. A question of SQuAD has one part to be found, the passage with its answer; a question
of HotpotQA two or more, each supporting paragraph, and other supporting ones do not compete with it.
"""

import argparse
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from search_data import Searched, articles, gold_passages, joined_documents

from longspan.apps.searcher import Searcher
from longspan.benchmarks.machine import describe
from longspan.data.examples import Document
from longspan.training.run_folder import write_whole

CUTOFFS = (1, 5, 20)
DRAWS = 2000
"""Of the bootstrap."""
_WORD = re.compile(r"\w+")


class Contestant(NamedTuple):
    """Something that scores all passages for a query."""

    title: str
    scores: Callable[[str], list[np.ndarray]]
    """[passages] for each document."""
    seconds: float
    """That reading the documents took."""


def bm25(
    passages: Sequence[Sequence[str]], k1: float = 1.2, b: float = 0.75
) -> Callable[[str], list[np.ndarray]]:
    """Scores by words that query and passage share, the usual formula."""
    words = [Counter(_words(one)) for document in passages for one in document]
    lengths = np.array([one.total() for one in words], dtype=np.float64)
    weight = 1 - b + b * lengths / lengths.mean()
    holders: dict[str, dict[int, int]] = {}
    for at, counted in enumerate(words):
        for word, count in counted.items():
            holders.setdefault(word, {})[at] = count
    ends = np.cumsum([len(document) for document in passages])[:-1]

    def scores(query: str) -> list[np.ndarray]:
        total = np.zeros(len(words))
        for word in set(_words(query)):
            held = holders.get(word, {})
            rarity = math.log(1 + (len(words) - len(held) + 0.5) / (len(held) + 0.5))
            for at, count in held.items():
                total[at] += rarity * count * (k1 + 1) / (count + k1 * weight[at])
        return np.split(total, ends)

    return scores


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def ranks(
    contestant: Contestant, documents: Sequence[Searched], places: Sequence[Sequence[tuple[int, int]]]
) -> dict[str, list[list[tuple[int, int]]]]:
    """For every question the ranks of its parts, from 0: in its document, and in all.

    Args:
        contestant: who has read all documents.
        documents: in their order.
        places: of their passages.
    """
    found: dict[str, list[list[tuple[int, int]]]] = {"squad": [], "hotpotqa": []}
    for at, document in enumerate(documents):
        for asked in document.questions:
            scores = contestant.scores(asked.question)
            parts = [gold_passages(places[at], part) for part in asked.gold]
            own = np.delete(scores[at], [one for part in parts for one in part])
            others = np.concatenate([own, *(one for other, one in enumerate(scores) if other != at)])
            best = [scores[at][part].max() for part in parts]
            # What scores the same counts as before.
            ranked = [(int((own >= one).sum()), int((others >= one).sum())) for one in best]
            found["squad" if len(document.name.split("/")) == 1 else "hotpotqa"].append(ranked)
    return found


def recalls(ranked: Sequence[Sequence[tuple[int, int]]], everywhere: bool) -> np.ndarray:
    """[questions, cutoffs]: the share of a question's parts that are found so early."""
    return np.array(
        [[np.mean([one[everywhere] < cutoff for one in parts]) for cutoff in CUTOFFS] for parts in ranked]
    )


def interval(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The 95% interval of the mean over questions, by bootstrap."""
    lot = np.random.default_rng(0)
    means = np.stack([values[lot.integers(len(values), size=len(values))].mean(0) for _ in range(DRAWS)])
    return np.quantile(means, 0.025, axis=0), np.quantile(means, 0.975, axis=0)


def page(where: argparse.Namespace) -> str:
    """All tables."""
    documents = articles(where.data, where.part)
    count = len(documents)
    squad = sum(len(one.questions) for one in documents)
    if where.questions:
        documents += joined_documents(where.data, where.part, questions=where.questions, of_each=10)
    machine = describe()
    lines = [
        "# Searches: passages within their documents, passages alone, words",
        "",
        "Written by `recipes/search_tables.py`. Recall in percent: the share of the parts that a question",
        "needs that are among the first 1, 5 and 20 passages, with 95% intervals (bootstrap over questions).",
        f"SQuAD: {squad} questions about {count} articles that no model learned from. HotpotQA:",
        f"{where.questions} questions; the paragraphs of 10 are joined into a document, in an order drawn by",
        "lot. *In its document* ranks the passages of the document that is asked about, *in all* those of",
        "all documents here. The intervals leave out what other articles, or another seed, would change.",
        f"Machine: {machine['cpu']}, {machine['threads']} thread, which other work shared.",
    ]
    for size in where.sizes:
        lines += table(where, documents, size)
    return "\n".join(lines) + "\n"


def table(where: argparse.Namespace, documents: Sequence[Searched], size: int) -> list[str]:
    """The table of one size of passages."""
    texts = [Document(id=one.name, text=one.text) for one in documents]
    contestants: list[Contestant] = []
    places: list[list[tuple[int, int]]] = []
    for title, source in (
        ("embedding model, passages alone", where.model),
        ("trained, passages alone", where.alone),
        ("trained, documents in one pass", where.late),
    ):
        searcher = Searcher(source, most=size)
        begun = time.process_time()
        searcher.index(texts)
        contestants.append(Contestant(title, searcher.scores, time.process_time() - begun))
        places = [searcher.places(at) for at in range(len(texts))]
    cut = [
        [one.text[start:end] for start, end in spans] for one, spans in zip(documents, places, strict=True)
    ]
    contestants.insert(0, Contestant("bm25", bm25(cut), 0.0))
    found = [ranks(one, documents, places) for one in contestants]
    lines = ["", f"## Passages of up to {size} characters: {sum(map(len, places)):,} passages", ""]
    for data, name in (("squad", "SQuAD"), ("hotpotqa", "HotpotQA")):
        for everywhere in (False, True) if found[0][data] else ():
            lines += [
                f"### {name}, {'in all' if everywhere else 'in its document'}",
                "",
                "| | @1 | @5 | @20 | seconds to read |",
                "|---|---|---|---|---|",
            ]
            for one, ranked in zip(contestants, found, strict=True):
                values = 100 * recalls(ranked[data], everywhere)
                low, high = interval(values)
                cells = [
                    f"{mean:.1f} ({a:.1f} to {b:.1f})"
                    for mean, a, b in zip(values.mean(0), low, high, strict=True)
                ]
                lines.append(f"| {one.title} | {' | '.join(cells)} | {one.seconds:.0f} |")
            lines.append("")
            for other, title in ((2, "trained, passages alone"), (1, "embedding model, passages alone")):
                gain = 100 * (recalls(found[3][data], everywhere) - recalls(found[other][data], everywhere))
                low, high = interval(gain)
                said = ", ".join(
                    f"@{k} {mean:+.1f} ({a:+.1f} to {b:+.1f})"
                    for k, mean, a, b in zip(CUTOFFS, gain.mean(0), low, high, strict=True)
                )
                lines.append(f"- One pass against {title}: {said}")
            lines.append("")
    return lines


def main() -> None:
    """Measures, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--model", default="models/granite-30m-english", help="the embedding model")
    parser.add_argument("--alone", default="runs/searcher-alone", help="trained with --late-layers 0")
    parser.add_argument("--late", default=None, help="by default the one that comes with longspan")
    parser.add_argument("--part", default="test", choices=("dev", "test"), help="dev is for choosing")
    parser.add_argument("--sizes", type=int, nargs="+", default=[800], help="characters of passages")
    parser.add_argument("--questions", type=int, default=40, help="of HotpotQA; 0 leaves it out")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/search.md"))
    where = parser.parse_args()
    write_whole(where.out, page(where))


if __name__ == "__main__":
    main()
