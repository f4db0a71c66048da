"""Measures the embedded reader on questions that it never learned from; writes benchmarks/results/reader.md.

python recipes/reader_tables.py --data data --short runs/reader-short

Contestants are the reader, which reads every document in one pass, and the short model that it was made of,
which learned from texts of at most 512 tokens (reader_model.py) and reads documents in pieces of 512 that
share 128. Both count the question's words around a span in its score; the reader is asked without, too.
SQuAD's questions are asked about their paragraph, and again about their whole article; HotpotQA's about ten
paragraphs, and as many about the eight that do not answer. Each contestant decides that there is no answer by
a fit to the dev part, as calibrate_reader.py makes it. QuAC's dialogues are scored by their official rules.
"""

import argparse
import json
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from calibrate_reader import ANSWERS, RIGHT, WORDS, calibrated, errors
from reader_data import (
    QUAC,
    article_of,
    as_question,
    hotpotqa,
    paragraphs_of_articles,
    squad,
    without_support,
)

from longspan.apps.calibration import Calibration, Outcome, fit
from longspan.apps.reader import Reader
from longspan.benchmarks.machine import describe
from longspan.data.examples import Question
from longspan.data.parts import read_part
from longspan.embedded import READER
from longspan.metrics.answers import SQUAD, score_answers, token_f1
from longspan.tasks.windows import text_tokens, windows
from longspan.training.inference import Predictor
from longspan.training.run_folder import write_whole

PIECE, SHARED = 512, 128
_ROOM = 40
"""Tokens of a piece that are the question's."""
ONE_PASS, IN_PIECES = "reader, one pass", f"short model, pieces of {PIECE}"
PLAIN = ", words not counted"
DRAWS = 2000
"""Of the bootstrap."""


class Contestant(NamedTuple):
    """A way to read."""

    title: str
    reader: Reader
    in_pieces: bool


class Said(NamedTuple):
    """What was said to a question."""

    best: str
    """The best span, whether or not it was given as the answer."""
    outcome: Outcome
    seconds: float


def pieces(reader: Reader, text: str) -> list[str]:
    """A text in overlapping pieces that a short model reads."""
    tokens = text_tokens(reader.task.tokenizer, text, plain=True)
    cut = windows(len(tokens.ids), PIECE - _ROOM, SHARED)
    return [text[tokens.starts[one.start] : tokens.ends[one.stop - 1]] for one in cut if len(one)]


def say(contestant: Contestant, question: Question) -> Said:
    """Asks a contestant."""
    reader = contestant.reader
    texts = [one.text for one in question.documents]
    if contestant.in_pieces:
        texts = [piece for text in texts for piece in pieces(reader, text)]
    begun = time.perf_counter()
    found = reader.candidates(texts, question.question, ANSWERS)
    seconds = time.perf_counter() - begun
    words = [texts[span.document][span.start : span.end] for span in found.spans]
    outcome = Outcome(
        margins=tuple(span.margin for span in found.spans),
        is_right=tuple(
            bool(question.answers) and token_f1(word, question.answers) >= RIGHT for word in words
        ),
        is_answerable=not question.is_impossible,
        tokens=found.tokens,
    )
    return Said(words[0], outcome, seconds)


def whole_articles(questions: Sequence[Question]) -> list[Question]:
    """The same questions about all of the articles that their paragraphs are from."""
    articles = paragraphs_of_articles(questions)
    return [_about_all(one, articles[article_of(one)]) for one in questions]


def _about_all(question: Question, paragraphs: Sequence[Any]) -> Question:
    text = "\n".join(one.text for one in paragraphs)
    return Question(
        id=question.id,
        question=question.question,
        documents=(paragraphs[0].__class__(id=article_of(question), text=text),),
        answers=question.answers,
        spans=(),
        is_impossible=question.is_impossible,
    )


def scores(questions: Sequence[Question], said: Sequence[Said], decide: Calibration) -> dict[str, Any]:
    """What a contestant reached: per question, for the bootstrap, and the errors of its confidence."""
    outcomes = [one.outcome for one in said]
    probabilities = calibrated(decide, outcomes)
    given = ["" if sure.no_answer > 0.5 else one.best for one, sure in zip(said, probabilities, strict=True)]
    answerable = np.array([not one.is_impossible for one in questions])
    best = _each(questions, [one.best for one in said])
    decided = _each(questions, given)
    found: dict[str, Any] = {
        "answerable": best[answerable],
        "all": decided,
        "tokens": float(np.mean([one.tokens for one in outcomes])),
        "seconds": float(np.sum([one.seconds for one in said])),
    }
    return found | (errors(outcomes, probabilities) if not answerable.all() else {})


def _each(questions: Sequence[Question], answers: Sequence[str]) -> np.ndarray:
    """[questions, 2]: exact match and F1 in percent."""
    rows: list[tuple[float, float]] = []
    for question, answer in zip(questions, answers, strict=True):
        one = score_answers({"": answer}, {"": question.answers}, SQUAD)
        rows.append((100 * one.exact_match, 100 * one.f1))
    return np.array(rows)


def interval(values: np.ndarray) -> str:
    """The mean, and the 95% interval by bootstrap over questions."""
    lot = np.random.default_rng(0)
    means = [values[lot.integers(len(values), size=len(values))].mean() for _ in range(DRAWS)]
    low, high = np.quantile(means, (0.025, 0.975))
    return f"{values.mean():.1f} ({low:.1f} to {high:.1f})"


def quac(run: Path, data: Path, most: int, length: int) -> dict[str, float]:
    """QuAC's scores on published dev dialogues, earlier turns read before the questions."""
    examples = cast(list[Question], list(read_part(QUAC.format(part="val"), "quac", root=data)))
    dialogues = sorted({one.dialogue for one in examples})
    kept = set(random.Random(0).sample(dialogues, min(most, len(dialogues))))
    chosen = [one for one in examples if one.dialogue in kept]
    overrides = ("--settings.rules", "quac", "--settings.max_windows", "null")
    with Predictor(run, overrides=(*overrides, "--settings.max_length", str(length)), tokens=8192) as predict:
        return predict.task.score(chosen, predict(chosen)) | {"questions": len(chosen)}


def drawn(questions: Sequence[Question], most: int) -> list[Question]:
    """So many of the questions, by lot."""
    return random.Random(0).sample(list(questions), min(most, len(questions)))


def measured(where: argparse.Namespace, found: dict[str, Any]) -> None:
    """Adds to what was found all that the page says of the models that are asked for."""
    models = {ONE_PASS: where.reader, IN_PIECES: where.short}
    models = {title: run for title, run in models.items() if title.startswith(where.only)}
    contestants = [
        Contestant(title + ("" if words else PLAIN), Reader(str(run), words=words), title == IN_PIECES)
        for title, run in models.items()
        for words in ((WORDS, 0.0) if title == ONE_PASS else (WORDS,))
    ]
    asked = squad(where.data, "test")
    one_paragraph = drawn(asked, where.questions)
    chosen = {one.id for one in one_paragraph}
    by_id = {one.id: one for one in whole_articles(asked) if one.id in chosen}
    multi = hotpotqa(where.data, "test")
    there = filter(None, (as_question(one, None) for one in multi))
    absent = filter(None, (without_support(one, len(one.paragraphs)) for one in multi))
    tests: dict[str, list[Question]] = {
        "SQuAD 2.0, a paragraph": one_paragraph,
        "SQuAD 2.0, the whole article": [by_id[one.id] for one in one_paragraph],
        "HotpotQA, ten paragraphs, or the eight that do not answer": [
            one for form in (there, absent) for one in drawn(list(form), where.questions // 2)
        ],
    }
    dev = [one for one in cast(Any, read_part(str(where.dev), "qa")) if not one.history]
    dev = drawn(dev, where.fitted)
    for contestant in contestants:
        fitted = fit([say(contestant, one).outcome for one in _progress("dev", contestant, dev)])
        for test, questions in tests.items():
            said = [say(contestant, one) for one in _progress(test, contestant, questions)]
            found["tests"].setdefault(test, {})[contestant.title] = scores(questions, said, fitted)
    for title, run in models.items():
        length = 16384 if title == ONE_PASS else PIECE
        found["quac"][title] = quac(run, where.data, where.dialogues, length)
    found["fitted"] = len(dev)
    found["questions"] = {name: len(questions) for name, questions in tests.items()}


def _progress(test: str, contestant: Contestant, questions: Sequence[Any]) -> Sequence[Any]:
    print(f"{contestant.title}: {test}, {len(questions):,} questions", flush=True)
    return questions


def page(found: dict[str, Any], articles: int) -> str:
    """The tables."""
    machine = describe()
    lines = [
        "# The embedded reader, on questions that it never learned from",
        "",
        "Written by `recipes/reader_tables.py`. Exact match and F1 in percent, with 95% intervals (bootstrap",
        "over questions; what other articles or another seed would change is not in them). *Answerable*: of",
        "the questions with an answer, the best span, whether or not it was given. *All*: where the reader",
        "may say that there is no answer, and does by its fitted probability. *Calibration*: the expected",
        "error of the probability that the answer is right, and of that there is none, 0 to 1; the fit is to",
        f"{found['fitted']:,} questions of the dev part.",
        "*Words not counted*: scores are the model's alone; otherwise the question's words around a span",
        f"are counted too, with a weight of {WORDS:g} that was chosen on the dev part.",
        f"SQuAD's questions are about {articles} articles that nothing was learned from.",
        f"Machine: {machine['cpu']}, {machine['threads']} threads, which other work shared.",
    ]
    for test, unsorted in found["tests"].items():
        rows = dict(sorted(unsorted.items()))
        first = next(iter(rows.values()))
        lines += [
            "",
            f"## {test}",
            "",
            f"{found['questions'][test]:,} questions, {len(first['answerable']):,} of them answerable.",
            "",
            "| | tokens | EM answerable | F1 answerable | EM all | F1 all | calibration | tokens/s |",
            "|---|---|---|---|---|---|---|---|",
        ]
        lines += [_row(title, one) for title, one in rows.items()]
    near, far = (found["tests"][f"SQuAD 2.0, {what}"] for what in ("a paragraph", "the whole article"))
    lines += ["", "## From the paragraph to the whole article", ""]
    for title in near:
        loss = interval(_each_of(far[title], "answerable", 1) - _each_of(near[title], "answerable", 1))
        lines.append(f"- {title}: F1 of answerable questions {loss}")
    lines += [
        "",
        "## QuAC, published dev dialogues",
        "",
        "| | F1 | HEQ-Q | HEQ-D | questions |",
        "|---|---|---|---|---|",
    ]
    for title, one in found["quac"].items():
        cells = [f"{100 * one[name]:.1f}" for name in ("f1", "heq_q", "heq_d")]
        lines.append(f"| {title} | {' | '.join(cells)} | {one['questions']:,} |")
    return "\n".join(lines) + "\n"


def _row(title: str, one: dict[str, Any]) -> str:
    values = [interval(_each_of(one, which, at)) for which in ("answerable", "all") for at in (0, 1)]
    fitted = f"{one['answer_error']:.3f}, {one['no_answer_error']:.3f}" if "answer_error" in one else ""
    speed = one["tokens"] * len(one["all"]) / one["seconds"]
    return f"| {title} | {one['tokens']:,.0f} | {' | '.join(values)} | {fitted} | {speed:,.0f} |"


def _each_of(row: dict[str, Any], which: str, at: int) -> np.ndarray:
    """[questions]: the exact matches (0) or the F1 (1) of a row."""
    return np.array(row[which])[:, at]


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


def main() -> None:
    """Measures, and writes the page and what it was made of."""
    parser = argparse.ArgumentParser(description="Measures the embedded reader.")
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--reader", type=Path, default=READER)
    parser.add_argument("--short", type=Path, default=Path("runs/reader-short"))
    parser.add_argument("--dev", type=Path, default=Path("runs/reader-data/dev.jsonl"))
    parser.add_argument("--fitted", type=int, default=600, help="questions of the dev part that a fit takes")
    parser.add_argument("--questions", type=int, default=600, help="of SQuAD; half as many of HotpotQA")
    parser.add_argument("--dialogues", type=int, default=100, help="of QuAC")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/reader.md"))
    parser.add_argument(
        "--only",
        choices=("reader", "short"),
        default="",
        help="measure this model; what the file beside the page says of the other one stays",
    )
    where = parser.parse_args()
    kept = where.out.with_suffix(".json")
    found = json.loads(kept.read_text()) if where.only else {"tests": {}, "quac": {}}
    measured(where, found)
    articles = len({article_of(one) for one in squad(where.data, "test")})
    write_whole(where.out, page(found, articles))
    write_whole(kept, json.dumps(found, default=_plain) + "\n")


if __name__ == "__main__":
    main()
