"""Classes: by hand, against scikit-learn, and what is refused."""

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longspan.metrics.classification import score_classes

from .examples import examples

PAIRS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=12)


def test_by_hand() -> None:
    golds = ["true", "true", "true", "false", "false"]
    found = score_classes(["true", "true", "false", "true", "false"], golds, positive="true")
    assert found.labels == ("false", "true")
    assert found.confusion == ((1, 1), (1, 2))
    assert found.accuracy == 3 / 5
    assert found.positive is not None
    assert found.positive.f1 == pytest.approx(2 / 3)
    assert found.macro_f1 == pytest.approx((1 / 2 + 2 / 3) / 2)
    record = json.loads(json.dumps(found.record()))
    assert (record["confusion"], record["positive"]["recall"]) == ([[1, 1], [1, 2]], found.positive.recall)


def test_a_class_that_nobody_has_counts_only_if_it_is_named() -> None:
    assert score_classes([0, 1], [0, 1]).macro_f1 == 1
    named = score_classes([0, 1], [0, 1], labels=[2, 1, 0])
    assert (named.accuracy, named.macro_f1) == (1, pytest.approx(2 / 3))
    assert named.confusion == ((0, 0, 0), (0, 1, 0), (0, 0, 1))
    # A class that is predicted and never right counts in any case.
    assert score_classes([0, 5], [0, 0]).macro_f1 == pytest.approx((2 / 3 + 0) / 2)


@pytest.mark.parametrize(
    ("predictions", "golds", "options", "message"),
    [
        ([1], [1, 2], {}, "predictions has 1 items and golds 2; they must be as many"),
        ([], [], {}, "golds is empty"),
        (
            [1, 3],
            [1, 2],
            {"labels": [1, 2]},
            r"predictions holds 3; every class must be one of labels \[1, 2\]",
        ),
        ([1], [2], {"labels": [1]}, "golds holds 2; every class"),
        ([1], [1], {"labels": [1, 1]}, r"labels is \[1, 1\]; each class must be there once"),
        ([1], [1], {"positive": 0}, r"positive is 0; it must be one of the classes \[1\]"),
    ],
)
def test_refuses(predictions: list[int], golds: list[int], options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        score_classes(predictions, golds, **options)


@examples(200)
@given(PAIRS, st.randoms())
def test_bounds_symmetry_and_order(pairs: list[tuple[int, int]], random: Random) -> None:
    golds, predictions = map(list, zip(*pairs, strict=True))
    found, turned = score_classes(predictions, golds), score_classes(golds, predictions)
    assert 0 <= found.accuracy <= 1 and 0 <= found.macro_f1 <= 1
    assert found.accuracy == turned.accuracy
    assert found.macro_f1 == pytest.approx(turned.macro_f1)
    assert found.confusion == tuple(zip(*turned.confusion, strict=True))
    shuffled_golds, shuffled = map(list, zip(*random.sample(pairs, len(pairs)), strict=True))
    assert score_classes(shuffled, shuffled_golds) == found
    perfect = score_classes(golds, golds)
    assert perfect.accuracy == perfect.macro_f1 == 1


@examples(60)
@given(PAIRS)
def test_agrees_with_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    golds, predictions = map(list, zip(*pairs, strict=True))
    found = score_classes(predictions, golds, positive=golds[0], labels=range(4))
    assert found.accuracy == pytest.approx(metrics.accuracy_score(golds, predictions))
    options = {"labels": [0, 1, 2, 3]}
    confusion = metrics.confusion_matrix(golds, predictions, **options)
    assert [list(row) for row in found.confusion] == confusion.tolist()
    precisions, recalls, f1s, _ = metrics.precision_recall_fscore_support(
        golds, predictions, zero_division=0, **options
    )
    assert [one.precision for one in found.by_class] == pytest.approx(precisions)
    assert [one.recall for one in found.by_class] == pytest.approx(recalls)
    assert [one.f1 for one in found.by_class] == pytest.approx(f1s)
    assert found.positive == found.by_class[golds[0]]
    # Of all classes, and of those that occur.
    for scores, named in ((found, options), (score_classes(predictions, golds), {})):
        macro = metrics.f1_score(golds, predictions, average="macro", zero_division=0, **named)
        assert scores.macro_f1 == pytest.approx(macro)
