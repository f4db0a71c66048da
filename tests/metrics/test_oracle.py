"""The greedy oracle, against one that asks rouge-score at every step."""

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer
from rouge_score.tokenizers import DefaultTokenizer

from longspan.metrics.oracle import greedy_oracle, rouge_words

WORDS = ["harbour", "boats", "boating", "council", "river", "the", "and", "built", "a"]


def f1(sentences: Sequence[str], reference: str, size: int) -> float:
    """ROUGE of sentences, pairs of words counted inside of each."""
    tokenizer = DefaultTokenizer(use_stemmer=True)

    def grams(text: str) -> Counter[tuple[str, ...]]:
        words = tokenizer.tokenize(text)
        return Counter(tuple(words[at : at + size]) for at in range(len(words) - size + 1))

    said: Counter[tuple[str, ...]] = sum((grams(one) for one in sentences), Counter())
    wanted = grams(reference)
    both = said.total() + wanted.total()
    return 2 * (said & wanted).total() / both if both else 0.0


def slow_oracle(sentences: Sequence[str], references: Sequence[str]) -> list[int]:
    taken: list[int] = []

    def score(numbers: Sequence[int]) -> float:
        texts = [sentences[at] for at in numbers]
        return sum(f1(texts, one, size) for one in references for size in (1, 2)) / len(references)

    while rest := [at for at in range(len(sentences)) if at not in taken]:
        best = max(rest, key=lambda at: (round(score([*taken, at]), 9), -at))
        if score([*taken, best]) <= score(taken) + 1e-8:
            break
        taken.append(best)
    return sorted(taken)


texts = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)


@given(st.lists(texts, max_size=6), st.lists(texts, min_size=1, max_size=3))
def test_it_is_the_slow_one(sentences: list[str], references: list[str]) -> None:
    fast, slow = greedy_oracle(sentences, references), slow_oracle(sentences, references)

    def score(numbers: Sequence[int]) -> float:
        chosen = [sentences[at] for at in numbers]
        return sum(f1(chosen, one, size) for one in references for size in (1, 2))

    # Sentences that are worth the same may be taken for each other, where rounding decides.
    assert fast == slow or score(fast) == pytest.approx(score(slow), abs=1e-6)


def test_ngrams_inside_one_sentence_are_rouge_scores_own() -> None:
    scorer = RougeScorer(["rouge1", "rouge2"], use_stemmer=True)
    said, reference = "The harbour was built for boats.", "Boats: a harbour was built, and built again."
    scores = scorer.score(reference, said)
    assert f1([said], reference, 1) == pytest.approx(scores["rouge1"].fmeasure)
    assert f1([said], reference, 2) == pytest.approx(scores["rouge2"].fmeasure)


@pytest.mark.parametrize("text", ["Boating, boats; BOATS' boat-house 3.5 x", "", "Ünïcode words—and dashes"])
def test_words_are_rouge_scores(text: str) -> None:
    assert rouge_words(text) == DefaultTokenizer(use_stemmer=True).tokenize(text)


def test_an_obvious_case() -> None:
    sentences = ["The sun shone.", "The council built a second basin.", "Boats were lost.", "It was late."]
    references = ["The council builds a basin because boats were lost."]
    assert greedy_oracle(sentences, references) == [1, 2]
    assert greedy_oracle(sentences, ["Nothing else."]) == []
    assert greedy_oracle([], references) == []
    with pytest.raises(ValueError, match="references is empty"):
        greedy_oracle(sentences, [])
