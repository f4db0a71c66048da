"""Coreference: the CoNLL scorer's reference cases, and documents summed as it sums them."""

import json
from fractions import Fraction
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longspan.metrics.coreference import CoreferenceScores, score_coreference
from longspan.metrics.scores import Ratios

from .examples import examples

F = Fraction

# Name, gold clusters and predicted clusters (a letter is a mention), then recall and precision of MUC, B³ and
# entity CEAF. The cases and their MUC and B³ (of A also the CEAF of the first nine) are those of the CoNLL
# scorer's tests; what they leave out is worked out beside the case. CEAF divides the similarity of the best
# alignment, the sum of 2 |k & r| / (|k| + |r|), by the numbers of gold and of predicted clusters.
CASES = [
    ("A-1 perfect", "a bc def", "a bc def", (1, 1), (1, 1), (1, 1)),
    # MUC: of the links b-c, d-e, e-f only d-e. B³: (1 + 0 + 4/3) / 6. CEAF: 1 + 4/5.
    ("A-2 missing mentions", "a bc def", "a de", (F(1, 3), 1), (F(7, 18), 1), (F(3, 5), F(9, 10))),
    # MUC: 3 of the 2 + 3 predicted links. B³: (1 + 4/3 + 9/4) / 9. CEAF: 1 + 4/5 + 6/7 = 93/35.
    ("A-3 spurious", "a bc def", "a bcx defy z", (1, F(3, 5)), (1, F(55, 108)), (F(31, 35), F(93, 140))),
    # MUC: b-c of 3 and of 2 + 1. B³: (1 + 2 + 1/3) / 6 and (1 + 4/3 + 1/2) / 7. CEAF: 1 + 4/5 + 2/5 = 11/5.
    ("A-4", "a bc def", "a bcx dy z", (F(1, 3), F(1, 3)), (F(5, 9), F(17, 42)), (F(11, 15), F(11, 20))),
    # B, which overlaps b, is another mention. B³ precision: (1 + 1 + 1/2) / 8. CEAF: 1 + 4/6 + 2/5 = 31/15.
    ("A-5", "a bc def", "a bcxB dy z", (F(1, 3), F(1, 4)), (F(5, 9), F(5, 16)), (F(31, 45), F(31, 60))),
    ("A-6", "a bc def", "a bcx dy Bz", (F(1, 3), F(1, 4)), (F(5, 9), F(17, 48)), (F(11, 15), F(11, 20))),
    # Repeated mentions are taken out, which leaves A-4.
    ("A-7", "a bc def", "a bcxb dy z", (F(1, 3), F(1, 3)), (F(5, 9), F(17, 42)), (F(11, 15), F(11, 20))),
    ("A-8", "a bc def", "a bcx dy bz", (F(1, 3), F(1, 3)), (F(5, 9), F(17, 42)), (F(11, 15), F(11, 20))),
    ("A-9", "a bc def", "a bcx dy bbbbz", (F(1, 3), F(1, 3)), (F(5, 9), F(17, 42)), (F(11, 15), F(11, 20))),
    # CEAF: 1 + 2/3 + 2/4 = 13/6.
    ("A-10 singletons", "a bc def", "a b c d e f", (0, 0), (F(1, 2), 1), (F(13, 18), F(13, 36))),
    # B³ precision: (1 + 4 + 9) / 6 / 6. CEAF: def with all, 6/9.
    ("A-11 one cluster", "a bc def", "abcdef", (1, F(3, 5)), (1, F(7, 18)), (F(2, 9), F(2, 3))),
    # B³: (1 + 1/2 + 2/3) / 6 and 4/7. CEAF: 1 + 2/3 + 2/4 = 13/6.
    ("A-12", "a bc def", "a x y c d e z", (0, 0), (F(13, 36), F(4, 7)), (F(13, 18), F(13, 42))),
    # B³: (1 + 1/2 + 4/3) / 6 and (1 + 1 + 4) / 7 / 7. CEAF: def with all, 4/10.
    ("A-13", "a bc def", "axycdez", (F(1, 3), F(1, 6)), (F(17, 36), F(6, 49)), (F(2, 15), F(2, 5))),
    # MUC: d-e, of 1 + 2 and of 2 + 1. B³: (1/2 + 5/3) / 5 and (2/3 + 2) / 5. CEAF: 2/5 + 4/5.
    ("B-1", "ab cde", "bcx de", (F(1, 3), F(1, 3)), (F(13, 30), F(8, 15)), (F(3, 5), F(3, 5))),
    # B-1 and a perfect fg: MUC 2/4, B³ (13/6 + 2) / 7 and (8/3 + 2) / 7, CEAF (6/5 + 1) / 3.
    ("C-1", "ab cde fg", "bcx de fg", (F(1, 2), F(1, 2)), (F(25, 42), F(2, 3)), (F(11, 15), F(11, 15))),
    # B³: (5 + (4 + 25) / 7) / 12. CEAF: 1 + 10/12 = 11/6.
    ("D-1", "12345 67 89ABC", "12345 6789ABC", (1, F(9, 10)), (1, F(16, 21)), (F(11, 18), F(11, 12))),
    # B³: ((25 + 25) / 10 + 2) / 12. CEAF: 10/15 + 1 = 5/3.
    ("E-1", "12345 67 89ABC", "1234589ABC 67", (1, F(9, 10)), (1, F(7, 12)), (F(5, 9), F(5, 6))),
    # B³: (4 + 4) / 4 / 4. CEAF: 4/6.
    ("F-1", "abcd", "ab cd", (F(2, 3), 1), (F(1, 2), 1), (F(2, 3), F(1, 3))),
    ("G-1 reverse of F-1", "ab cd", "abcd", (1, F(2, 3)), (1, F(1, 2)), (F(1, 3), F(2, 3))),
    # B³: 4/3 / 3. CEAF: 4/5.
    ("J-1", "abc", "ac", (F(1, 2), 1), (F(4, 9), 1), (F(4, 5), F(4, 5))),
    # B³: (4 + 4 + 4) / 7 / 7 and 3 * 4/3 / 9. CEAF: 4/10.
    ("K-1", "bcdeghj", "abc def ghi", (F(1, 2), F(1, 2)), (F(12, 49), F(4, 9)), (F(2, 5), F(2, 15))),
    # B³: (5/3 + 5/4) / 7 and (2 + 1 + 4/3) / 7. CEAF: 4/5 + 4/7 = 48/35.
    ("L-1", "abc defg", "ab cd fgh", (F(2, 5), F(1, 2)), (F(5, 12), F(13, 21)), (F(24, 35), F(16, 35))),
    ("M-1", "abcdef", "abcdef", (1, 1), (1, 1), (1, 1)),
    # B³: 6 * 1/6 / 6. CEAF: 2/7.
    ("M-2", "abcdef", "a b c d e f", (0, 0), (F(1, 6), 1), (F(2, 7), F(1, 21))),
    # Singletons have no links: MUC is 0 though all is right.
    ("N-1", "a b c d e f", "a b c d e f", (0, 0), (1, 1), (1, 1)),
    ("nothing predicted", "a bc", "", (0, 0), (0, 0), (0, 0)),
    ("nothing to find", "", "a bc", (0, 0), (0, 0), (0, 0)),
    ("nothing at all", "", "", (0, 0), (0, 0), (0, 0)),
]


def score_one(gold: Any, predicted: Any) -> CoreferenceScores:
    return score_coreference({"d": predicted}, {"d": gold})


def pair(found: Ratios) -> tuple[float, float]:
    return found.recall, found.precision


@pytest.mark.parametrize(
    ("gold", "predicted", "muc", "b_cubed", "ceaf_e"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_reference_cases(gold: str, predicted: str, muc: Any, b_cubed: Any, ceaf_e: Any) -> None:
    found = score_one(gold.split(), predicted.split())
    f1s: list[float] = []
    for ratios, expected in ((found.muc, muc), (found.b_cubed, b_cubed), (found.ceaf_e, ceaf_e)):
        recall, precision = map(float, expected)
        assert pair(ratios) == pytest.approx((recall, precision))
        f1s.append(2 * precision * recall / (precision + recall) if precision + recall else 0.0)
        assert ratios.f1 == pytest.approx(f1s[-1])
    assert found.conll == pytest.approx(sum(f1s) / 3)


def test_detection_of_mentions_ignores_clusters() -> None:
    found = score_one(["a", "bc", "def"], ["axycdez"])
    assert pair(found.mentions) == (4 / 6, 4 / 7)


def test_documents_are_summed_before_the_division() -> None:
    # MUC: (1 + 3) / (3 + 3) and (1 + 3) / (1 + 5).
    # B³: (7/3 + 6) / (6 + 6) and (3 + 14/6) / (3 + 6).
    # CEAF: (9/5 + 2/3) / (3 + 3) and / (2 + 1). Mentions: (3 + 6) / (6 + 6) and / (3 + 6).
    gold = {"x": ["a", "bc", "def"], "y": ["a", "bc", "def"]}
    found = score_coreference({"x": ["a", "de"], "y": ["abcdef"]}, gold)
    assert pair(found.muc) == pytest.approx((4 / 6, 4 / 6))
    assert pair(found.b_cubed) == pytest.approx((25 / 3 / 12, 16 / 3 / 9))
    assert pair(found.ceaf_e) == pytest.approx((37 / 15 / 6, 37 / 15 / 3))
    assert pair(found.mentions) == pytest.approx((9 / 12, 1))
    # The same spans in two documents are different mentions.
    assert pair(score_coreference({"x": gold["x"], "y": []}, gold).mentions) == (1 / 2, 1)


def test_a_missing_document_counts_and_is_reported() -> None:
    gold = {"x": ["ab"], "y": ["cd"]}
    missing = score_coreference({"x": ["ab"], "unasked": ["efg"]}, gold)
    assert (missing.missing, missing.documents) == (("y",), 2)
    assert pair(missing.muc) == pair(missing.ceaf_e) == pair(missing.mentions) == (1 / 2, 1)
    assert json.loads(json.dumps(missing.record()))["muc"] == {"precision": 1, "recall": 0.5, "f1": 2 / 3}


def test_mentions_may_be_anything_hashable_and_clusters_any_iterable() -> None:
    gold = [[(1, 2), "x", None], ((3, 4), 5)]
    found = score_one((iter(cluster) for cluster in gold), [{(3, 4), 5}, {None, "x", (1, 2)}, []])
    assert found.conll == found.mentions.f1 == 1


def test_refuses() -> None:
    with pytest.raises(ValueError, match="golds is empty"):
        score_coreference({}, {})
    with pytest.raises(ValueError, match="document 'd' has the gold mention 'b' in two clusters"):
        score_one(["ab", "bc"], [])
    with pytest.raises(
        ValueError, match=r"document 'd' has the mention \[3, 4\]; a mention must be hashable"
    ):
        score_one([[[3, 4]]], [])


@st.composite
def clusterings(draw: st.DrawFn) -> list[list[int]]:
    """Some of the mentions 0 to 7, in up to four clusters."""
    places = draw(st.lists(st.sampled_from([None, 0, 1, 2, 3]), min_size=8, max_size=8))
    clusters = [[mention for mention, place in enumerate(places) if place == one] for one in range(4)]
    return [cluster for cluster in clusters if cluster]


@examples(150)
@given(st.lists(st.tuples(clusterings(), clusterings()), min_size=1, max_size=3))
def test_documents_score_like_one_document_with_all_their_clusters(
    documents: list[tuple[list[list[int]], list[list[int]]]],
) -> None:
    def named(side: int) -> dict[str, list[list[tuple[int, int]]]]:
        return {
            str(index): [[(index, mention) for mention in cluster] for cluster in document[side]]
            for index, document in enumerate(documents)
        }

    apart = score_coreference(named(1), named(0))
    joined = score_one(sum(named(0).values(), []), sum(named(1).values(), []))
    for name in ("muc", "b_cubed", "ceaf_e", "mentions"):
        assert pair(getattr(apart, name)) == pytest.approx(pair(getattr(joined, name)))


@examples(150)
@given(clusterings(), clusterings(), st.randoms())
def test_bounds_symmetry_and_order(gold: list[list[int]], predicted: list[list[int]], random: Random) -> None:
    found, turned = score_one(gold, predicted), score_one(predicted, gold)
    shuffled = score_one(
        random.sample(gold, len(gold)),
        [random.sample(cluster, len(cluster)) for cluster in random.sample(predicted, len(predicted))],
    )
    for name in ("muc", "b_cubed", "ceaf_e", "mentions"):
        ratios = getattr(found, name)
        assert pair(ratios) == pytest.approx(pair(getattr(turned, name))[::-1])
        assert pair(ratios) == pytest.approx(pair(getattr(shuffled, name)))
        assert 0 <= ratios.precision <= 1 and 0 <= ratios.recall <= 1 and 0 <= ratios.f1 <= 1
    assert 0 <= found.conll <= 1


@examples(100)
@given(clusterings())
def test_a_perfect_prediction(gold: list[list[int]]) -> None:
    found = score_one(gold, gold)
    if gold:
        assert found.b_cubed.f1 == found.ceaf_e.f1 == found.mentions.f1 == 1
    assert found.muc.f1 == any(len(cluster) > 1 for cluster in gold)


def test_clusters_without_a_common_mention_score_0() -> None:
    scores = score_coreference({"a": [[(5, 6), (7, 8)]]}, {"a": [[(0, 1), (2, 3)]]})
    assert (scores.conll, scores.mentions.f1) == (0, 0)
