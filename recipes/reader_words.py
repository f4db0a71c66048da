"""Says what the embedded reader's weight of the question's words does to its answers, on the dev part.

python recipes/reader_words.py --data data --run runs/reader-doubt

SQuAD's answerable dev questions are asked about their paragraph and about their whole article, with every
weight. The one that was chosen is in calibrate_reader.py.
"""

import argparse
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from reader_data import squad
from reader_tables import whole_articles

from longspan.apps.reader import Reader
from longspan.data.examples import Question
from longspan.metrics.answers import token_f1

WEIGHTS = (0.0, 4.0, 8.0, 16.0, 24.0, 32.0, 48.0, 64.0)


class Remembering:
    """A model that is asked the same again and again, and computes it once."""

    def __init__(self, model: Any) -> None:
        self._model, self._said = model, None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._said is None:
            self._said = self._model(*args, **kwargs)
        return self._said

    def forget(self) -> None:
        """Before another question."""
        self._said = None


def f1_of_weights(reader: Reader, question: Question) -> list[float]:
    """Of the best span with each weight."""
    model = reader._model
    assert isinstance(model, Remembering)
    model.forget()
    texts = [one.text for one in question.documents]
    found: list[float] = []
    for weight in WEIGHTS:
        reader.words = weight
        best = reader.candidates(texts, question.question, 1).spans[0]
        found.append(100 * token_f1(texts[best.document][best.start : best.end], question.answers))
    return found


def show(name: str, rows: Sequence[Sequence[float]]) -> None:
    """Prints the means, in the order of the weights."""
    print(f"{name:14}", " ".join(f"{mean:6.1f}" for mean in np.mean(rows, axis=0)), flush=True)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--run", required=True, help="folder of a run of the task qa")
    parser.add_argument("--questions", type=int, default=600, help="of SQuAD's dev part")
    where = parser.parse_args()
    reader = Reader(where.run)
    reader._model = Remembering(reader._model)  # pyright: ignore[reportAttributeAccessIssue]
    asked = squad(where.data, "dev")
    pairs = [both for both in zip(asked, whole_articles(asked), strict=True) if not both[0].is_impossible]
    pairs = random.Random(0).sample(pairs, min(where.questions, len(pairs)))
    print(f"{len(pairs)} questions", " ".join(f"{weight:6g}" for weight in WEIGHTS), flush=True)
    show("paragraph", [f1_of_weights(reader, paragraph) for paragraph, _ in pairs])
    show("whole article", [f1_of_weights(reader, article) for _, article in pairs])


if __name__ == "__main__":
    main()
