"""Fits how sure a reader may be, on questions that it did not learn from.

python recipes/calibrate_reader.py --run runs/reader --data runs/reader-data/dev.jsonl

An answer counts as right if it shares half of its words with one that people gave (F1 of at least 0.5). One
half of the questions is for the fit, the other for the errors that are printed; then all are used, and
`calibration.json` is written beside the model. Questions within dialogues are left out: a reader is asked
them alone.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from longspan.apps.calibration import (
    FILE,
    Calibration,
    Outcome,
    Probabilities,
    expected_calibration_error,
    fit,
    uncalibrated,
    write_calibration,
)
from longspan.apps.reader import Reader
from longspan.apps.sources import run_of
from longspan.data.examples import Question
from longspan.data.parts import read_part
from longspan.metrics.answers import token_f1

ANSWERS = 3
RIGHT = 0.5
WORDS = 24.0
"""Chosen on SQuAD's dev part: F1 of paragraphs and of whole articles is highest with it (reader_words.py)."""


def outcomes(reader: Reader, questions: Sequence[Question]) -> list[Outcome]:
    """What the reader says to questions whose answers are known; those without any span are left out."""
    found: list[Outcome] = []
    for at, one in enumerate(questions):
        texts = [document.text for document in one.documents]
        said = reader.candidates(texts, one.question, ANSWERS)
        words = [texts[span.document][span.start : span.end] for span in said.spans]
        if words:
            found.append(
                Outcome(
                    margins=tuple(span.margin for span in said.spans),
                    is_right=tuple(
                        bool(one.answers) and token_f1(word, one.answers) >= RIGHT for word in words
                    ),
                    is_answerable=not one.is_impossible,
                    tokens=said.tokens,
                )
            )
        if at % 100 == 99:
            print(f"{at + 1} of {len(questions)} questions", flush=True)
    return found


def errors(outcomes: Sequence[Outcome], said: Sequence[Probabilities]) -> dict[str, float]:
    """Expected calibration errors: of the best answers, and of there being none."""
    right = [one.is_right[0] and one.is_answerable for one in outcomes]
    absent = [not one.is_answerable for one in outcomes]
    return {
        "answer_error": expected_calibration_error([one.answers[0] for one in said], right),
        "no_answer_error": expected_calibration_error([one.no_answer for one in said], absent),
    }


def calibrated(calibration: Calibration, outcomes: Sequence[Outcome]) -> list[Probabilities]:
    """The probabilities of all outcomes."""
    return [calibration.probabilities(one.margins, one.tokens) for one in outcomes]


def main() -> None:
    """Fits, says how good that is, and writes the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", required=True, help="folder of a run of the task qa, or of a model")
    parser.add_argument("--data", required=True, help="questions in our JSONL")
    parser.add_argument("--limit", type=int, default=None, help="the first so many questions only")
    parser.add_argument("--words", type=float, default=WORDS, help="weight of the question's words")
    where = parser.parse_args()
    questions = cast(list[Question], list(read_part(where.data, "qa")))
    alone = [one for one in questions if not one.history][: where.limit]
    found = outcomes(Reader(where.run, words=where.words), alone)
    fitted, held_out = found[::2], found[1::2]
    before = errors(held_out, [uncalibrated(one.margins) for one in held_out])
    after = errors(held_out, calibrated(fit(fitted), held_out))
    for name in before:
        print(f"{name}: {before[name]:.3f} by the softmax, {after[name]:.3f} fitted", flush=True)
    run, checkpoint = run_of(where.run)
    folder = Path(where.run) if run is None else run / checkpoint
    write_calibration(folder, fit(found, words=where.words), questions=len(found), **after)
    print(f"{folder / FILE}: {len(found):,} questions")


if __name__ == "__main__":
    main()
