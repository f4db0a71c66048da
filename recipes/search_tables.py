"""Measures searches on documents that no model learned from; writes benchmarks/results/search.md.

python recipes/search_tables.py --data data --model models/granite-30m-english --alone runs/searcher-alone

Contestants are words alone (BM25), the embedding model as it was published, the same after the training of
search_model.py for passages that are read alone, and the one that comes with longspan, which reads documents
in one pass; each model by meaning alone, and with words as `Searcher` has them by default. All get the same
passages. A question of SQuAD has one part to be found, the passage with its answer; a question of HotpotQA
two or more, each supporting paragraph, and other supporting ones do not compete with it.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from search_data import Searched, articles, gold_passages, joined_documents

from longspan.apps.passages import cut
from longspan.apps.searcher import WORDS, Searcher
from longspan.apps.shared_words import PassageWords
from longspan.benchmarks.machine import describe
from longspan.data.examples import Document
from longspan.training.run_folder import write_whole

CUTOFFS = (1, 5, 20)
DRAWS = 2000
"""Of the bootstrap."""
BY_WORDS = "words (BM25)"
BASE = "embedding model, passages alone"
ALONE = "trained, passages alone"
LATE = "trained, documents in one pass"
COMPARED = (
    (LATE, ALONE),
    (LATE, BASE),
    (f"{LATE}, and words", f"{ALONE}, and words"),
    (f"{LATE}, and words", f"{BASE}, and words"),
    (f"{LATE}, and words", LATE),
    (f"{LATE}, and words", BY_WORDS),
)
"""Pairs whose difference is shown."""
Ranks = list[tuple[int, int]]
"""Of the parts of a question, from 0: in its document, and in all."""


def scores_of(
    where: argparse.Namespace, documents: Sequence[Searched], size: int
) -> dict[str, list[np.ndarray]]:
    """For each contestant the score of every passage for every question: [passages], of all documents.

    Args:
        where: the models.
        documents: in their order.
        size: characters of a passage.
    """
    questions = [asked.question for one in documents for asked in one.questions]
    texts = [one.text[start:end] for one in documents for start, end in cut(one.text, size)]
    words = PassageWords.of(texts)
    shares = [words.shares(one) for one in questions]
    found = {BY_WORDS: shares}
    for title, source in ((BASE, where.model), (ALONE, where.alone), (LATE, where.late)):
        if source == "":
            continue
        searcher = Searcher(source, most=size, words=0, store=where.store)
        searcher.index([Document(id=one.name, text=one.text) for one in documents])
        cosines = [np.concatenate(searcher.scores(one)) for one in questions]
        searcher.store.close()
        found[title] = cosines
        found[f"{title}, and words"] = [
            (1 - WORDS) * cosine + WORDS * share for cosine, share in zip(cosines, shares, strict=True)
        ]
        print(f"{title}: {len(texts):,} passages of up to {size} characters", flush=True)
    return found


def ranks(scores: Sequence[np.ndarray], documents: Sequence[Searched], size: int) -> dict[str, list[Ranks]]:
    """The ranks of what a contestant should find, for the questions of each data set.

    Args:
        scores: of all passages, for each question.
        documents: in their order.
        size: characters of a passage.
    """
    found: dict[str, list[Ranks]] = {"SQuAD": [], "HotpotQA": []}
    places = [cut(one.text, size) for one in documents]
    ends = np.cumsum([len(one) for one in places])
    of_question = iter(scores)
    for one, spans, end in zip(documents, places, ends, strict=True):
        inside = np.zeros(ends[-1], bool)
        inside[end - len(spans) : end] = True
        for asked in one.questions:
            score = next(of_question)
            parts = [[at + end - len(spans) for at in gold_passages(spans, part)] for part in asked.gold]
            other = np.ones(len(score), bool)
            other[[at for part in parts for at in part]] = False
            best = [score[part].max() for part in parts]
            # What scores the same counts as before.
            ranked = [
                (int((score[other & inside] >= one).sum()), int((score[other] >= one).sum())) for one in best
            ]
            found["HotpotQA" if "/" in one.name else "SQuAD"].append(ranked)
    return found


def recalls(ranked: Sequence[Ranks], everywhere: bool) -> np.ndarray:
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
        f"*And words*: {1 - WORDS:.1f} of the cosine and {WORDS:.1f} of the share of words, the default.",
        f"Machine: {machine['cpu']}.",
    ]
    for size in where.sizes:
        lines += table(where, documents, size)
    return "\n".join(lines) + "\n"


def table(where: argparse.Namespace, documents: Sequence[Searched], size: int) -> list[str]:
    """The tables of one size of passages."""
    scores = scores_of(where, documents, size)
    found = {title: ranks(one, documents, size) for title, one in scores.items()}
    lines = ["", f"## Passages of up to {size} characters: {len(scores[BY_WORDS][0]):,} passages", ""]
    for data in [name for name, ranked in found[BY_WORDS].items() if ranked]:
        for everywhere in (False, True):
            lines += [
                f"### {data}, {'in all' if everywhere else 'in its document'}",
                "",
                "| | @1 | @5 | @20 |",
                "|---|---|---|---|",
            ]
            values = {title: 100 * recalls(ranked[data], everywhere) for title, ranked in found.items()}
            for title, one in values.items():
                low, high = interval(one)
                cells = [
                    f"{mean:.1f} ({a:.1f} to {b:.1f})"
                    for mean, a, b in zip(one.mean(0), low, high, strict=True)
                ]
                lines.append(f"| {title} | {' | '.join(cells)} |")
            lines.append("")
            for title, other in COMPARED:
                if title not in values or other not in values:
                    continue
                gain = values[title] - values[other]
                low, high = interval(gain)
                said = ", ".join(
                    f"@{k} {mean:+.1f} ({a:+.1f} to {b:+.1f})"
                    for k, mean, a, b in zip(CUTOFFS, gain.mean(0), low, high, strict=True)
                )
                lines.append(f"- *{title}* against *{other}*: {said}")
            lines.append("")
    return lines[:-1]


def main() -> None:
    """Measures, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--model", default="models/granite-30m-english", help="the embedding model")
    parser.add_argument(
        "--alone", default="runs/searcher-alone", help="trained with --late-layers 0; '' leaves it out"
    )
    parser.add_argument("--late", default=None, help="by default the one that comes with longspan")
    parser.add_argument("--part", default="test", choices=("dev", "test"), help="dev is for choosing")
    parser.add_argument("--sizes", type=int, nargs="+", default=[800], help="characters of passages")
    parser.add_argument("--questions", type=int, default=40, help="of HotpotQA; 0 leaves it out")
    parser.add_argument("--store", type=Path, help="keeps vectors: what was read once is not read again")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/search.md"))
    where = parser.parse_args()
    write_whole(where.out, page(where))


if __name__ == "__main__":
    main()
