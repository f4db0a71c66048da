"""One class for each example: accuracy, F1 of one class, macro F1, confusion matrix.

WikiHop and IMDB are scored by accuracy, Hyperpartisan by the F1 of its positive class.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from longspan.metrics.scores import Ratios, Scores, mean, ratios_of_counts

Label = TypeVar("Label", int, str)


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassificationScores(Scores, Generic[Label]):
    """Scores of a whole data set."""

    accuracy: float
    macro_f1: float
    """The plain mean of all classes' F1."""
    positive: Ratios | None
    """Of the positive class, where one was named."""
    by_class: tuple[Ratios, ...]
    """In the order of ``labels``."""
    labels: tuple[Label, ...]
    confusion: tuple[tuple[int, ...], ...]
    """How often each class (row) was taken for each class (column), in the order of ``labels``."""
    examples: int


def score_classes(
    predictions: Sequence[Label],
    golds: Sequence[Label],
    *,
    positive: Label | None = None,
    labels: Sequence[Label] | None = None,
) -> ClassificationScores[Label]:
    """Compares one predicted class with one right class for each example.

    Args:
        predictions: the class given to each example.
        golds: the right class of each example, in the same order.
        positive: the class whose precision, recall and F1 are wanted apart.
        labels: all classes, in the order wanted for the confusion matrix. Left out: those that occur, sorted.
            A class that occurs nowhere has an F1 of 0 and takes part in ``macro_f1`` if it is named here.

    Raises:
        ValueError: the lengths differ, there are no examples, a class is not in ``labels`` or is there twice.
    """
    if len(predictions) != len(golds):
        raise ValueError(
            f"predictions has {len(predictions)} items and golds {len(golds)}; they must be as many"
        )
    if not golds:
        raise ValueError("golds is empty; a score needs at least one example")
    known = tuple(sorted({*golds, *predictions}) if labels is None else labels)
    _check_labels(known, {"predictions": predictions, "golds": golds})
    if positive is not None and positive not in known:
        raise ValueError(f"positive is {positive!r}; it must be one of the classes {list(known)}")

    pairs = Counter(zip(golds, predictions, strict=True))
    confusion = tuple(tuple(pairs[gold, given] for given in known) for gold in known)
    by_class = tuple(
        ratios_of_counts(
            common=confusion[i][i], predicted=sum(row[i] for row in confusion), gold=sum(confusion[i])
        )
        for i in range(len(known))
    )
    return ClassificationScores(
        accuracy=sum(confusion[i][i] for i in range(len(known))) / len(golds),
        macro_f1=mean((one.f1 for one in by_class), len(known)),
        positive=None if positive is None else by_class[known.index(positive)],
        by_class=by_class,
        labels=known,
        confusion=confusion,
        examples=len(golds),
    )


def _check_labels(labels: tuple[Label, ...], sides: dict[str, Sequence[Label]]) -> None:
    if len(set(labels)) != len(labels):
        raise ValueError(f"labels is {list(labels)}; each class must be there once")
    for name, side in sides.items():
        unknown = set(side) - set(labels)
        if unknown:
            raise ValueError(
                f"{name} holds {min(unknown)!r}; every class must be one of labels {list(labels)}"
            )
