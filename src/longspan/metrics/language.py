"""Language modelling: bits per character, byte or token, and perplexity, from summed losses.

A sum and its counts, never a mean of means: batches and documents differ in length. Losses are in nats, the
natural logarithms of torch's cross entropy.
"""

import math
from dataclasses import dataclass
from typing import Any

from longspan.metrics.scores import Scores


@dataclass(frozen=True, kw_only=True, slots=True)
class LanguageScores(Scores):
    """Scores of a whole text; what was not counted is None."""

    loss: float
    """Nats per token."""
    perplexity: float
    """exp(loss), per token; infinite where that is too large for a float."""
    bits_per_token: float
    bits_per_character: float | None
    """What text8 is measured by."""
    bits_per_byte: float | None
    """What enwik8 is measured by, there too often under the name of bits per character."""

    def record(self) -> dict[str, Any]:
        """As JSON, which has no infinity: None in its place."""
        # The class by name: slots make a new class, which the short form of super() does not find.
        record = Scores.record(self)
        return record | {"perplexity": self.perplexity if math.isfinite(self.perplexity) else None}


def score_language(
    loss_sum: float, *, tokens: int, characters: int | None = None, num_bytes: int | None = None
) -> LanguageScores:
    """Turns the loss of a whole text into the units that papers report.

    Args:
        loss_sum: the sum over all predicted tokens of -ln p(token).
        tokens: how many tokens were predicted.
        characters: how many characters the predicted tokens spell, the same text as ``tokens``.
        num_bytes: how many bytes they spell.

    Raises:
        ValueError: the loss is negative or not finite, or a count is not an integer >= 1.
    """
    if not (math.isfinite(loss_sum) and loss_sum >= 0):
        raise ValueError(f"loss_sum is {loss_sum!r}; it must be a finite sum of -ln p, which is >= 0")
    counts = {"tokens": tokens, "characters": characters, "num_bytes": num_bytes}
    for name, count in counts.items():
        if name != "tokens" and count is None:
            continue
        if type(count) is not int or count < 1:
            raise ValueError(f"{name} is {count!r}; it must be an integer >= 1")
    loss = loss_sum / tokens
    return LanguageScores(
        loss=loss,
        perplexity=_exp(loss),
        bits_per_token=_bits(loss_sum, tokens),
        bits_per_character=None if characters is None else _bits(loss_sum, characters),
        bits_per_byte=None if num_bytes is None else _bits(loss_sum, num_bytes),
    )


def _bits(nats: float, count: int) -> float:
    return nats / math.log(2) / count


def _exp(loss: float) -> float:
    try:
        return math.exp(loss)
    except OverflowError:
        return math.inf
