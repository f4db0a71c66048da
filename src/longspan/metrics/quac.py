"""QuAC: word F1 against several annotators, and how often a system is as good as one of them.

As in the official script: of a question's annotators one is left out at a time, so that a system is compared
with as many answers as a person is. Questions on which people agree too little (a human F1 under 0.4) do not
count. HEQ-Q is the part of the questions whose F1 is at least the human one, HEQ-D that of the dialogues
whose questions all are. The script's scores of yes/no and of follow-up questions are not here, as what
predicts them is not.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from longspan.metrics.answers import Rules, normalize_squad, token_ratios
from longspan.metrics.scores import Scores, mean, missing_ids, ratio

LEAST_HUMAN_F1 = 0.4
"""Questions on which people agree less are left out."""
_NO_ANSWER = "CANNOTANSWER"
_RULES = Rules(name="QuAC", normalize=normalize_squad)


@dataclass(frozen=True, kw_only=True, slots=True)
class QuACScores(Scores):
    """Means over the questions on which people agree, but for the last ones."""

    f1: float
    human_f1: float
    """Of each annotator, compared with the others."""
    heq_q: float
    """The part of the questions whose F1 is at least the human one."""
    heq_d: float
    """The part of the dialogues in which that is so for all questions that count."""
    unfiltered_f1: float
    """Over all questions."""
    questions: int
    """All of them."""
    counted: int
    """Those on which people agree; and those without a prediction."""
    dialogues: int
    missing: tuple[str, ...]
    """Questions without a prediction; each counts as 0, and its dialogue as not as good."""


def score_quac(
    predictions: Mapping[str, str],
    golds: Mapping[str, Sequence[str]],
    dialogues: Mapping[str, str],
    *,
    least_human_f1: float = LEAST_HUMAN_F1,
) -> QuACScores:
    """Scores the questions of ``golds``; predictions for other questions are ignored.

    Args:
        predictions: the answer given to each question, by its id; empty for "no answer".
        golds: the annotators' answers, by the question's id; an empty one, or none at all, for "no answer",
            which is right where at least half of them say so.
        dialogues: the dialogue of each question, by the question's id.
        least_human_f1: see `LEAST_HUMAN_F1`.

    Raises:
        ValueError: ``golds`` is empty, a question's are one string, or it has no dialogue.
    """
    missing = missing_ids(predictions, golds)
    people: list[float] = []
    counted: list[float] = []
    every: list[float] = []
    as_good = 0
    good_dialogues: defaultdict[str, bool] = defaultdict(lambda: True)
    for id, answers in golds.items():
        if isinstance(answers, str):
            raise ValueError(f"golds[{id!r}] is the string {answers!r}; it must be a list of right answers")
        if id not in dialogues:
            raise ValueError(f"dialogues has no {id!r}; it must name the dialogue of every question")
        right = agreed(answers)
        person = human_f1(right)
        is_clear = person >= least_human_f1
        people += [person] * is_clear
        # Seen in any case: a dialogue of nothing but unclear questions counts, as a good one.
        is_good = good_dialogues[dialogues[id]]
        f1 = leave_one_out_f1(predictions[id], right) if id in predictions else 0.0
        every.append(f1)
        if is_clear or id not in predictions:
            counted.append(f1)
            is_as_good = id in predictions and f1 >= person
            as_good += is_as_good
            good_dialogues[dialogues[id]] = is_good and is_as_good
    return QuACScores(
        f1=ratio(sum(counted), len(counted)),
        human_f1=ratio(sum(people), len(people)),
        heq_q=ratio(as_good, len(counted)),
        heq_d=ratio(sum(good_dialogues.values()), len(good_dialogues)),
        unfiltered_f1=mean(every, len(every)),
        questions=len(golds),
        counted=len(counted),
        dialogues=len(good_dialogues),
        missing=missing,
    )


def agreed(answers: Sequence[str]) -> list[str]:
    """What counts as right: "no answer" alone if half of the annotators say so, else all others; at least
    one."""
    given = [answer for answer in answers if answer not in ("", _NO_ANSWER)]
    return given if 2 * len(given) > len(answers) else [_NO_ANSWER]


def human_f1(right: Sequence[str]) -> float:
    """How well people agree: the mean over answers of the best F1 with another; 1 for a single answer."""
    if len(right) == 1:
        return 1.0
    best = (
        max(_f1(one, other) for at, other in enumerate(right) if at != left_out)
        for left_out, one in enumerate(right)
    )
    return mean(best, len(right))


def leave_one_out_f1(prediction: str, right: Sequence[str]) -> float:
    """The best F1 with any answer but one, a mean over which one is left out.

    Args:
        prediction: empty for "no answer".
        right: as `agreed` gives them.
    """
    scores = [_f1(prediction or _NO_ANSWER, answer) for answer in right]
    if len(scores) == 1:
        return scores[0]
    return mean((max(scores[:at] + scores[at + 1 :]) for at in range(len(scores))), len(scores))


def _f1(prediction: str, gold: str) -> float:
    return token_ratios(prediction, gold, _RULES).f1
