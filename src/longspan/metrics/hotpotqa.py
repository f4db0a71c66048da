"""HotpotQA: the answer, the supporting facts, and both jointly, as the official script computes them.

Every number is a mean over questions of that question's number; the mean F1 is not the F1 of the means.
Duplicate facts count once. A question without a prediction counts as 0, in the joint numbers also when only
one half of it is missing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from longspan.metrics.answers import HOTPOTQA, exact_match, token_ratios
from longspan.metrics.scores import Ratios, Scores, mean, missing_ids, ratios, ratios_of_counts

Fact = Sequence[str | int]
"""A paragraph's title and the number of a sentence in it; a list, as JSON has it, or a tuple."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Part(Scores):
    """The numbers of the answer, of the facts, or of both jointly."""

    exact_match: float
    f1: float
    precision: float
    recall: float


@dataclass(frozen=True, kw_only=True, slots=True)
class HotpotQAScores(Scores):
    """Means over the questions of a data set."""

    answer: Part
    facts: Part
    joint: Part
    """Of each question, the products of precisions, of recalls and of exact matches, and F1 from them."""
    questions: int
    missing_answers: tuple[str, ...]
    missing_facts: tuple[str, ...]


def score_hotpotqa(
    *,
    answers: Mapping[str, str],
    facts: Mapping[str, Iterable[Fact]],
    gold_answers: Mapping[str, str],
    gold_facts: Mapping[str, Iterable[Fact]],
) -> HotpotQAScores:
    """Scores predictions for the questions of ``gold_answers``; others are ignored.

    Args:
        answers: the answer given to each question, by its id.
        facts: the supporting facts given for each question, by its id.
        gold_answers: the right answer of each question.
        gold_facts: the supporting facts of each question.

    Raises:
        ValueError: there are no golds, or ``gold_answers`` and ``gold_facts`` are of different questions.
    """
    missing_answers = missing_ids(answers, gold_answers, name="gold_answers")
    if gold_answers.keys() != gold_facts.keys():
        one = min(gold_answers.keys() ^ gold_facts.keys())
        has, lacks = ("answer", "facts") if one in gold_answers else ("facts", "answer")
        raise ValueError(f"question {one!r} has gold {has} and no gold {lacks}; give both for every question")
    answer_parts = {one: _answer(answers[one], gold) for one, gold in gold_answers.items() if one in answers}
    fact_parts = {one: _facts(facts[one], gold) for one, gold in gold_facts.items() if one in facts}
    joint_parts = [_joint(part, fact_parts[one]) for one, part in answer_parts.items() if one in fact_parts]
    count = len(gold_answers)
    return HotpotQAScores(
        answer=_mean(answer_parts.values(), count),
        facts=_mean(fact_parts.values(), count),
        joint=_mean(joint_parts, count),
        questions=count,
        missing_answers=missing_answers,
        missing_facts=missing_ids(facts, gold_facts, name="gold_facts"),
    )


def _answer(prediction: str, gold: str) -> Part:
    return _part(exact_match(prediction, [gold], HOTPOTQA), token_ratios(prediction, gold, HOTPOTQA))


def _facts(prediction: Iterable[Fact], gold: Iterable[Fact]) -> Part:
    given, right = set(map(tuple, prediction)), set(map(tuple, gold))
    counts = ratios_of_counts(common=len(given & right), predicted=len(given), gold=len(right))
    return _part(float(given == right), counts)


def _joint(answer: Part, facts: Part) -> Part:
    both = ratios(answer.precision * facts.precision, answer.recall * facts.recall)
    return _part(answer.exact_match * facts.exact_match, both)


def _part(exact: float, of_parts: Ratios) -> Part:
    return Part(exact_match=exact, f1=of_parts.f1, precision=of_parts.precision, recall=of_parts.recall)


def _mean(parts: Iterable[Part], count: int) -> Part:
    present = list(parts)
    return Part(
        exact_match=mean((part.exact_match for part in present), count),
        f1=mean((part.f1 for part in present), count),
        precision=mean((part.precision for part in present), count),
        recall=mean((part.recall for part in present), count),
    )
