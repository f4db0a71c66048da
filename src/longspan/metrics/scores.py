"""What all scores are: frozen dataclasses of named floats, and the few sums that they share.

A ratio whose denominator is 0 is 0, as in the official scripts: nothing found is nothing won.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Scores:
    """What every score of this package is."""

    def record(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class Ratios(Scores):
    """Precision, recall and their harmonic mean."""

    precision: float
    recall: float
    f1: float


def ratios(precision: float, recall: float) -> Ratios:
    """Both, with their harmonic mean."""
    return Ratios(precision=precision, recall=recall, f1=harmonic_mean(precision, recall))


def ratios_of_counts(*, common: int, predicted: int, gold: int) -> Ratios:
    """From how many things were predicted, how many are right, and how many there are."""
    return ratios(ratio(common, predicted), ratio(common, gold))


def ratio(part: float, whole: float) -> float:
    """``part / whole``, and 0 of nothing."""
    return part / whole if whole else 0.0


def harmonic_mean(precision: float, recall: float) -> float:
    """F1; 0 when both are 0."""
    return ratio(2 * precision * recall, precision + recall)


def mean(values: Iterable[float], count: int) -> float:
    """The sum of ``values`` over ``count``, which includes those that are missing and count as 0."""
    return math.fsum(values) / count


def missing_ids(
    predictions: Mapping[str, object], golds: Mapping[str, object], *, name: str = "golds"
) -> tuple[str, ...]:
    """The ids of ``golds`` that nobody predicted.

    Args:
        predictions: what was predicted, by id.
        golds: what is right, by id.
        name: what the caller calls ``golds``.

    Raises:
        ValueError: ``golds`` is empty.
    """
    if not golds:
        raise ValueError(f"{name} is empty; a score needs at least one example")
    return tuple(one for one in golds if one not in predictions)
