"""How sure a reader may be: scores of spans into probabilities, by coefficients fitted on held-out questions.

A span's margin is its score minus that of "no answer" in the same input. Two logistic regressions make
probabilities of it: whether the documents answer at all, by the best margin; and whether an answer is right
where they do, by its margin and its lead over the best other answer. Both look at the length of what was
read, since a longer text offers more wrong spans. `fit` finds the coefficients; they are kept in a small file
beside the model.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from longspan.training.run_folder import write_whole

FILE = "calibration.json"
_MOST_LEAD = 10.0
"""A larger lead says nothing more; it is also that of an answer without a rival."""
_RIDGE = 1e-3
_STEPS = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class Logistic:
    """Coefficients of a logistic regression."""

    intercept: float
    margin: float
    """At least 0: a better span is never less likely."""
    lead: float
    """At least 0."""
    log_tokens: float

    def __post_init__(self) -> None:
        for name in ("margin", "lead"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 0")

    def __call__(self, margin: float, lead: float, tokens: int) -> float:
        """A probability."""
        x = self.intercept + self.margin * margin + self.lead * lead + self.log_tokens * math.log(tokens)
        return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


class Probabilities(NamedTuple):
    """Of the answers to a question, best first, and that there is none."""

    answers: tuple[float, ...]
    no_answer: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """What a reader's scores mean."""

    answerable: Logistic
    """Whether the documents answer, by the best margin; it knows no lead."""
    right: Logistic
    """Whether an answer is right, where they do."""
    words: float = 0.0
    """At least 0: what was added to scores for words of the question around a span, as in `Reader`."""

    def __post_init__(self) -> None:
        if not 0 <= self.words < math.inf:
            raise ValueError(f"words is {self.words}; it must be at least 0")

    def probabilities(self, margins: Sequence[float], tokens: int) -> Probabilities:
        """Of answers with these margins, best first, in a text of so many tokens."""
        if not margins:
            return Probabilities((), 1.0)
        there = self.answerable(margins[0], 0.0, tokens)
        return Probabilities(
            tuple(
                there * self.right(margin, lead, tokens)
                for margin, lead in zip(margins, leads(margins), strict=True)
            ),
            1 - there,
        )


def uncalibrated(margins: Sequence[float], *, may_be_absent: bool = True) -> Probabilities:
    """The softmax over the answers and "no answer": what there is without a fit, and often too sure.

    Args:
        margins: of the answers, best first.
        may_be_absent: whether "no answer" is among what is chosen from.
    """
    if not margins:
        return Probabilities((), 1.0)
    highest = max(margins[0], 0.0) if may_be_absent else margins[0]
    weights = [math.exp(margin - highest) for margin in margins]
    nothing = math.exp(-highest) if may_be_absent else 0.0
    total = sum(weights) + nothing
    return Probabilities(tuple(weight / total for weight in weights), nothing / total)


def leads(margins: Sequence[float]) -> list[float]:
    """How far each margin is above the best other one, within bounds; negative for all but the best."""
    if len(margins) == 1:
        return [_MOST_LEAD]
    first, second = sorted(margins, reverse=True)[:2]
    others = [second if at == margins.index(first) else first for at in range(len(margins))]
    ahead = (margin - other for margin, other in zip(margins, others, strict=True))
    return [min(max(one, -_MOST_LEAD), _MOST_LEAD) for one in ahead]


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What a reader said to a question whose answer is known."""

    margins: tuple[float, ...]
    """Of its answers, best first; at least one."""
    is_right: tuple[bool, ...]
    """Whether each answer is right."""
    is_answerable: bool
    """Whether the documents answer."""
    tokens: int


def fit(outcomes: Sequence[Outcome], *, words: float = 0.0) -> Calibration:
    """The coefficients under which the outcomes are likeliest.

    Args:
        outcomes: of a reader.
        words: its weight of words.

    Raises:
        ValueError: there are no questions of one kind, answered or not, right or wrong.
    """
    answered = [one for one in outcomes if one.is_answerable]
    rows = [
        (margin, lead, math.log(one.tokens))
        for one in answered
        for margin, lead in zip(one.margins, leads(one.margins), strict=True)
    ]
    right = [is_right for one in answered for is_right in one.is_right]
    everything = [(one.margins[0], 0.0, math.log(one.tokens)) for one in outcomes]
    return Calibration(
        answerable=fit_logistic(everything, [one.is_answerable for one in outcomes]),
        right=fit_logistic(rows, right),
        words=words,
    )


def fit_logistic(rows: Sequence[tuple[float, float, float]], truth: Sequence[bool]) -> Logistic:
    """A logistic regression by Newton's method, with a slight pull to 0.

    Args:
        rows: margin, lead and logarithm of the tokens. What is the same in all rows gets the coefficient 0.
        truth: of each row.

    Raises:
        ValueError: ``truth`` is always the same.
    """
    y = np.array(truth, dtype=np.float64)
    if y.size == 0 or y.min() == y.max():
        raise ValueError(f"all {y.size} outcomes are alike; both right and wrong ones are needed")
    x = np.array(rows, dtype=np.float64)
    mean, spread = x.mean(0), x.std(0)
    used = spread > 1e-9
    while True:
        found = np.zeros(3)
        scaled = (x - mean)[:, used] / spread[used]
        intercept, found[used] = _newton(scaled, y)
        found[used] /= spread[used]
        # Margins and leads go together: where one takes too much, the other is left out.
        worst = int(np.argmin(found[:2]))
        if found[worst] >= 0:
            return Logistic(
                intercept=float(intercept - found @ mean),
                margin=float(found[0]),
                lead=float(found[1]),
                log_tokens=float(found[2]),
            )
        used[worst] = False


def _newton(x: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
    """The intercept, and a coefficient a column of ``x``, [rows, columns]."""
    columns = np.concatenate([np.ones((len(x), 1)), x], axis=1)
    pull = np.full(columns.shape[1], _RIDGE * len(x))
    pull[0] = 0.0
    weights = np.zeros(columns.shape[1])

    def loss(at: np.ndarray) -> float:
        scores = columns @ at
        return float((np.logaddexp(0, scores) - y * scores).sum() + (pull * at * at).sum() / 2)

    for _ in range(_STEPS):
        p = 1 / (1 + np.exp(-np.clip(columns @ weights, -500, 500)))
        slope = columns.T @ (p - y) + pull * weights
        curve = (columns * (p * (1 - p))[:, None]).T @ columns + np.diag(pull + 1e-9)
        step = np.linalg.solve(curve, slope)
        size = 1.0
        while size > 1e-6 and loss(weights - size * step) > loss(weights):
            size /= 2
        weights = weights - size * step
        if np.abs(step).max() < 1e-9:
            break
    return float(weights[0]), weights[1:]


def expected_calibration_error(
    probabilities: Sequence[float], truth: Sequence[bool], *, bins: int = 10
) -> float:
    """How far probabilities are from what came true, on average: 0 is perfect.

    Args:
        probabilities: in 0..1.
        truth: what came of each.
        bins: of equal width, within which the mean probability is compared with the share of what came true.
    """
    p, y = np.array(probabilities, dtype=np.float64), np.array(truth, dtype=np.float64)
    which = np.minimum((p * bins).astype(int), bins - 1)
    gaps = [abs(p[which == at].sum() - y[which == at].sum()) for at in range(bins)]
    return float(sum(gaps) / max(len(p), 1))


def write_calibration(folder: Path, calibration: Calibration, **measured: float) -> None:
    """Writes the file beside a model, with what was measured, for people."""
    record = {**asdict(calibration), "measured": measured}
    write_whole(folder / FILE, json.dumps(record, indent=2) + "\n")


def read_calibration(folder: Path) -> Calibration | None:
    """What `write_calibration` wrote; None where there is none.

    Raises:
        ValueError: the file says something else.
    """
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        record: Any = json.loads(path.read_text(encoding="utf-8"))
        return Calibration(
            answerable=Logistic(**record["answerable"]),
            right=Logistic(**record["right"]),
            words=float(record.get("words", 0.0)),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is no calibration of a reader: {error}") from error
