"""Answers: each data set's rules, and what holds whatever the texts."""

import json
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longspan.metrics.answers import (
    HOTPOTQA,
    SQUAD,
    TRIVIAQA,
    Rules,
    exact_match,
    normalize_squad,
    normalize_triviaqa,
    score_answers,
    token_f1,
    token_ratios,
)

from .examples import examples

ALL_RULES = st.sampled_from([SQUAD, TRIVIAQA, HOTPOTQA])
# Mostly words, marks and articles, so that answers overlap; sometimes any text at all.
TEXTS = st.one_of(
    st.lists(st.sampled_from(["the", "A", "an", "cat", "Dog", "1,000", "O'Neil", "_", "-", "yes", "é"])).map(
        " ".join
    ),
    st.text(max_size=20),
)


@pytest.mark.parametrize(
    ("text", "squad", "triviaqa"),
    [
        ("The Beatles", "beatles", "beatles"),
        ("  a  cat\tand\nan  owl ", "cat and owl", "cat and owl"),
        # Articles are words, not letters; a mark that vanishes can make one, a space cannot.
        ("theatre", "theatre", "theatre"),
        ("a.m.", "am", "m"),
        ("T.h.e", "", "t h e"),
        ("the-end", "theend", "end"),
        ("well-known", "wellknown", "well known"),
        ("1,000.50", "100050", "1 000 50"),
        ("$5 & 10%", "5 10", "5 10"),
        ("snake_case", "snakecase", "snake case"),
        ("O'Neil", "oneil", "o neil"),
        # Typographic quotes are punctuation to TriviaQA only; other marks outside ASCII to neither.
        ("O’Neil", "o’neil", "o neil"),
        ("‘x’ ´y´ `z`", "‘x’ ´y´ z", "x y z"),
        ("“x” – y…", "“x” – y…", "“x” – y…"),
        # Lower case, not folded case, and no accent is taken away.
        ("STRASSE Straße", "strasse straße", "strasse straße"),
        ("ÉCOLE", "école", "école"),
        ("東京", "東京", "東京"),
        # Every white space of Unicode separates words.
        ("x\u00a0y\u3000z", "x y z", "x y z"),
        ("", "", ""),
        ("...", "", ""),
        ("The", "", ""),
    ],
)
def test_normalization(text: str, squad: str, triviaqa: str) -> None:
    assert normalize_squad(text) == squad
    assert normalize_triviaqa(text) == triviaqa


@pytest.mark.parametrize(
    ("prediction", "gold", "precision", "recall"),
    [
        ("the cat", "a cat", 1.0, 1.0),
        ("big black cat", "black cat", 2 / 3, 1.0),
        ("cat", "big black cat", 1.0, 1 / 3),
        # A repeated word counts as often as both sides have it.
        ("cat cat cat", "cat cat dog", 2 / 3, 2 / 3),
        ("dog", "cat", 0.0, 0.0),
    ],
)
@pytest.mark.parametrize("rules", [SQUAD, TRIVIAQA, HOTPOTQA], ids=lambda rules: rules.name)
def test_token_ratios(rules: Rules, prediction: str, gold: str, precision: float, recall: float) -> None:
    found = token_ratios(prediction, gold, rules)
    assert (found.precision, found.recall) == pytest.approx((precision, recall))
    assert found.f1 == pytest.approx(2 * precision * recall / (precision + recall) if precision else 0)


def test_best_of_several_golds() -> None:
    golds = ["New York City", "NYC", "York"]
    assert exact_match("nyc!", golds) == 1
    assert token_f1("New York", golds) == pytest.approx(0.8)
    # Exact match and F1 may come from different golds, and equal ones do not add up.
    assert exact_match("York", [*golds, "York"]) == token_f1("York", [*golds, "York"]) == 1


@pytest.mark.parametrize(
    ("prediction", "golds", "score"),
    [
        ("", [], 1),
        ("the", [], 1),  # normalises to nothing
        ("cat", [], 0),
        ("", ["cat"], 0),
        # Golds that normalise to nothing say that there is no answer, if no other gold says more.
        ("", ["the", "..."], 1),
        ("", ["the", "cat"], 0),
        ("cat", ["the", "cat"], 1),
    ],
)
def test_squad_questions_without_an_answer(prediction: str, golds: list[str], score: float) -> None:
    assert exact_match(prediction, golds, SQUAD) == token_f1(prediction, golds, SQUAD) == score


@pytest.mark.parametrize("rules", [TRIVIAQA, HOTPOTQA], ids=lambda rules: rules.name)
def test_empty_answers_elsewhere_match_exactly_and_share_no_words(rules: Rules) -> None:
    assert (exact_match("", ["the"], rules), token_f1("", ["the"], rules)) == (1, 0)
    assert (exact_match("", ["cat"], rules), token_f1("", ["cat"], rules)) == (0, 0)


@pytest.mark.parametrize("word", ["yes", "no", "noanswer"])
def test_hotpotqa_gives_nothing_for_a_part_of_yes_or_no(word: str) -> None:
    assert token_f1(word, [f"{word} cat"], HOTPOTQA) == token_f1(f"{word} cat", [word], HOTPOTQA) == 0
    assert token_f1(f"The {word}.", [word.upper()], HOTPOTQA) == 1
    # The other data sets have no such words.
    assert token_f1(word, [f"{word} cat"], SQUAD) == token_f1(word, [f"{word} cat"], TRIVIAQA) > 0.6


def test_score_answers() -> None:
    golds = {"1": ["cat"], "2": ["black dog"], "3": [], "4": ["x"]}
    scores = score_answers({"1": "The cat", "2": "dog", "3": "", "unasked": "x"}, golds)
    assert scores.exact_match == 2 / 4
    assert scores.f1 == pytest.approx((1 + 2 / 3 + 1) / 4)
    assert (scores.questions, scores.missing) == (4, ("4",))
    assert json.loads(json.dumps(scores.record())) == {
        "exact_match": scores.exact_match,
        "f1": scores.f1,
        "questions": 4,
        "missing": ["4"],
    }


def test_a_missing_prediction_is_not_an_empty_one() -> None:
    assert score_answers({"1": ""}, {"1": []}).f1 == 1
    assert score_answers({}, {"1": []}).f1 == 0


def test_refuses() -> None:
    with pytest.raises(ValueError, match="golds is empty; a score needs at least one example"):
        score_answers({"1": "x"}, {})
    with pytest.raises(ValueError, match=r"golds\['1'\] is the string 'cat'; it must be a list"):
        score_answers({"1": "cat"}, {"1": "cat"})
    with pytest.raises(ValueError, match=r"golds\['2'\] is empty; by TriviaQA's rules a question has"):
        score_answers({"1": "cat"}, {"1": ["cat"], "2": []}, TRIVIAQA)
    with pytest.raises(ValueError, match="golds is empty; by HotpotQA's rules"):
        token_f1("cat", [], HOTPOTQA)


@examples(300)
@given(TEXTS)
def test_normalization_does_nothing_twice(text: str) -> None:
    for normalize in (normalize_squad, normalize_triviaqa):
        assert normalize(normalize(text)) == normalize(text)


@examples(300)
@given(TEXTS, TEXTS, ALL_RULES)
def test_bounds_and_symmetry(one: str, other: str, rules: Rules) -> None:
    there, back = token_ratios(one, other, rules), token_ratios(other, one, rules)
    assert (there.precision, there.recall, there.f1) == (back.recall, back.precision, back.f1)
    assert 0 <= there.f1 <= 1
    # To match exactly earns the full F1, unless there is no word to earn it with.
    if rules.normalize(one):
        assert token_f1(one, [one], rules) == exact_match(one, [one], rules) == 1
        assert exact_match(one, [other], rules) <= there.f1


@examples(100)
@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=4), ALL_RULES, st.randoms())
def test_the_order_of_golds_and_more_of_them(
    prediction: str, golds: list[str], rules: Rules, random: Random
) -> None:
    shuffled = random.sample(golds, len(golds))
    assert token_f1(prediction, golds, rules) == token_f1(prediction, shuffled, rules)
    assert exact_match(prediction, golds, rules) == exact_match(prediction, shuffled, rules)
    if any(map(rules.normalize, golds)):
        assert token_f1(prediction, [*golds, "cat"], rules) >= token_f1(prediction, golds, rules)


@examples(100)
@given(st.dictionaries(st.text(max_size=3), TEXTS, min_size=1), ALL_RULES)
def test_means_do_not_depend_on_the_order(answers: dict[str, str], rules: Rules) -> None:
    golds = {one: ["cat", "1000"] for one in answers}
    turned = dict(reversed(list(golds.items())))
    assert score_answers(answers, golds, rules) == score_answers(answers, turned, rules)
    own = {one: [text] for one, text in answers.items()}
    assert score_answers(answers, own, rules).exact_match == 1
