"""Answers to questions: exact match and token F1, by the rules of SQuAD, TriviaQA or HotpotQA.

The three official scripts look alike and differ in what punctuation becomes, in whether a question may
have no answer, and in which answers earn nothing for a part; `Rules` names these differences. None of them
folds accents or Unicode's forms of one letter, and numbers stay strings: neither do we.
"""

import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from longspan.metrics.scores import Ratios, Scores, mean, missing_ids, ratios, ratios_of_counts

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_NOTHING_FOR_PUNCTUATION = str.maketrans("", "", string.punctuation)
# The backtick, which TriviaQA's script lists with these quotes, is ASCII punctuation already.
_SPACE_FOR_PUNCTUATION = str.maketrans(dict.fromkeys(string.punctuation + "‘’´", " "))


def normalize_squad(text: str) -> str:
    """Lower case, without punctuation and articles, one space between words; HotpotQA has the same.

    Punctuation vanishes: ``1,000`` becomes ``1000``, and ``well-known`` one word.
    """
    return _words_without_articles(text.lower().translate(_NOTHING_FOR_PUNCTUATION))


def normalize_triviaqa(text: str) -> str:
    """Like `normalize_squad`, with a space for every punctuation mark, and quotes ‘ ’ ´ among them.

    ``1,000`` becomes ``1 000``, and ``well-known`` two words.
    """
    return _words_without_articles(text.lower().translate(_SPACE_FOR_PUNCTUATION))


def _words_without_articles(text: str) -> str:
    return " ".join(_ARTICLES.sub(" ", text).split())


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """What one data set's official script does differently from the others'."""

    name: str
    """For error messages."""

    normalize: Callable[[str], str]
    """Answers are compared after it."""

    may_have_no_answer: bool = False
    """SQuAD 2.0: golds that normalise to nothing are dropped, and where none is left, a prediction is right
    (exact match and F1 are 1) if it normalises to nothing too. False: an empty prediction has an F1 of 0,
    whatever is right."""

    all_or_nothing: frozenset[str] = frozenset()
    """Answers that share no part with others: F1 is 0 when one side is one of them and the other is not."""


# Those of SQuAD 2.0's script. That of 1.1 differs where a gold is an article or punctuation alone: it is
# not dropped, a prediction that normalises to nothing too is an exact match, and F1 is 0 all the same.
SQUAD = Rules(name="SQuAD", normalize=normalize_squad, may_have_no_answer=True)
TRIVIAQA = Rules(name="TriviaQA", normalize=normalize_triviaqa)
HOTPOTQA = Rules(
    name="HotpotQA", normalize=normalize_squad, all_or_nothing=frozenset({"yes", "no", "noanswer"})
)


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerScores(Scores):
    """Means over the questions of a data set."""

    exact_match: float
    f1: float
    questions: int
    missing: tuple[str, ...]
    """Questions without a prediction; each counts as 0."""


def exact_match(prediction: str, golds: Sequence[str], rules: Rules = SQUAD) -> float:
    """1 if the prediction equals one of the golds after normalisation, otherwise 0.

    Args:
        prediction: the answer that was given.
        golds: the answers that are right; none for a question that has no answer.
        rules: those of the data set.

    Raises:
        ValueError: ``golds`` is one string, or empty where a question always has an answer.
    """
    given = rules.normalize(prediction)
    return float(any(given == rules.normalize(gold) for gold in _usable(golds, rules)))


def token_f1(prediction: str, golds: Sequence[str], rules: Rules = SQUAD) -> float:
    """The F1 of `token_ratios` with the gold that gives most; arguments and errors as in `exact_match`."""
    return max(token_ratios(prediction, gold, rules).f1 for gold in _usable(golds, rules))


def token_ratios(prediction: str, gold: str, rules: Rules = SQUAD) -> Ratios:
    """Which part of the prediction's words the gold has, and the reverse; repeated words count repeatedly."""
    given, right = rules.normalize(prediction), rules.normalize(gold)
    if given != right and not rules.all_or_nothing.isdisjoint((given, right)):
        return ratios(0.0, 0.0)
    if rules.may_have_no_answer and not (given and right):
        agreed = float(given == right)
        return ratios(agreed, agreed)
    words, right_words = Counter(given.split()), Counter(right.split())
    return ratios_of_counts(
        common=(words & right_words).total(), predicted=words.total(), gold=right_words.total()
    )


def score_answers(
    predictions: Mapping[str, str], golds: Mapping[str, Sequence[str]], rules: Rules = SQUAD
) -> AnswerScores:
    """Means over the questions of ``golds``; predictions for other questions are ignored.

    A question without a prediction counts as 0. (So it is in the scripts of TriviaQA and of SQuAD 1.1; that
    of SQuAD 2.0 leaves it out of the mean, so that scores of different predictions could not be compared.)

    Args:
        predictions: the answer given to each question, by its id.
        golds: the right answers of each question, by its id.
        rules: those of the data set.

    Raises:
        ValueError: ``golds`` is empty, or a question's golds are not as `exact_match` wants them.
    """
    missing = missing_ids(predictions, golds)
    # Checked for all questions, so that a mistake in the golds does not hide behind a missing prediction.
    usable = {one: _usable(texts, rules, f"golds[{one!r}]") for one, texts in golds.items()}
    answered = [(predictions[one], texts) for one, texts in usable.items() if one in predictions]
    return AnswerScores(
        exact_match=mean((exact_match(given, texts, rules) for given, texts in answered), len(golds)),
        f1=mean((token_f1(given, texts, rules) for given, texts in answered), len(golds)),
        questions=len(golds),
        missing=missing,
    )


def _usable(golds: Sequence[str], rules: Rules, name: str = "golds") -> Sequence[str]:
    """The golds to compare with: at least one."""
    if isinstance(golds, str):
        raise ValueError(f"{name} is the string {golds!r}; it must be a list of right answers")
    if rules.may_have_no_answer:
        return [gold for gold in golds if rules.normalize(gold)] or [""]
    if not golds:
        raise ValueError(f"{name} is empty; by {rules.name}'s rules a question has at least one answer")
    return golds
