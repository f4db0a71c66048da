"""Tags: the spans that they spell, strictly and not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longspan.metrics.tagging import TaggingScores, score_tags

from .examples import examples

SEQUENCES = st.lists(st.sampled_from(["O", "B-A", "I-A", "B-B", "I-B"]), min_size=5, max_size=5)


def score_one(predicted: str, gold: str, *, strict: bool = False) -> TaggingScores:
    return score_tags([predicted.split()], [gold.split()], strict=strict)


@pytest.mark.parametrize(
    ("predicted", "gold", "precision", "recall"),
    [
        ("B-A I-A O B-B", "B-A I-A O B-B", 1, 1),
        # A span with a wrong end or a wrong type is wrong as a whole.
        ("B-A O O B-B", "B-A I-A O B-B", 1 / 2, 1 / 2),
        ("B-B I-B O B-B", "B-A I-A O B-B", 1 / 2, 1 / 2),
        # Two spans side by side are not one.
        ("B-A I-A", "B-A B-A", 0, 0),
        ("B-A B-A O", "B-A O O", 1 / 2, 1),
        ("O O", "B-A O", 0, 0),
        ("O O", "O O", 0, 0),
        # A type may have a hyphen.
        ("B-A-1 I-A-1", "B-A-1 I-A-1", 1, 1),
    ],
)
@pytest.mark.parametrize("strict", [False, True])
def test_spans(strict: bool, predicted: str, gold: str, precision: float, recall: float) -> None:
    found = score_one(predicted, gold, strict=strict)
    assert (found.precision, found.recall) == (precision, recall)
    assert found.f1 == pytest.approx(2 * precision * recall / (precision + recall) if precision else 0)
    assert found.spans == gold.count("B-")


@pytest.mark.parametrize(
    ("predicted", "gold", "lenient", "strict"),
    [
        ("I-A I-A O", "B-A I-A O", 1, 0),
        # I-B after A begins a span leniently, and is nothing strictly.
        ("B-A I-B O", "B-A O O", 2 / 3, 1),
        ("I-A O", "O O", 0, 0),
    ],
)
def test_an_i_that_continues_nothing(predicted: str, gold: str, lenient: float, strict: float) -> None:
    assert score_one(predicted, gold).f1 == pytest.approx(lenient)
    assert score_one(predicted, gold, strict=True).f1 == pytest.approx(strict)


@pytest.mark.parametrize("strict", [False, True])
def test_spans_of_all_sequences_count_together_and_end_with_theirs(strict: bool) -> None:
    found = score_tags([["B-A"], ["I-A", "O"], ()], [("B-A",), ("O", "O"), []], strict=strict)
    assert (found.precision, found.recall) == ((1, 1) if strict else (1 / 2, 1))
    assert found.record() == {
        "precision": found.precision,
        "recall": 1,
        "f1": found.f1,
        "spans": 1,
    }


@pytest.mark.parametrize(
    ("predictions", "golds", "message"),
    [
        ([], [], "golds is empty"),
        ([["O"]], [["O"], ["O"]], "predictions has 1 sequences and golds 2"),
        ([["O"], ["O"]], [["O"], ["O", "O"]], r"predictions\[1\] has 1 tags and golds\[1\] has 2"),
        (
            [["PER"]],
            [["O"]],
            r"predictions\[0\] holds the tag 'PER'; a tag must be 'O', 'B-type' or 'I-type'",
        ),
        ([["O"]], [["S-A"]], r"golds\[0\] holds the tag 'S-A'"),
        ([["B-"]], [["O"]], "holds the tag 'B-'"),
        ([[""]], [["O"]], "holds the tag ''"),
    ],
)
def test_refuses(predictions: list[list[str]], golds: list[list[str]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        score_tags(predictions, golds)


@examples(150)
@given(st.lists(st.tuples(SEQUENCES, SEQUENCES), min_size=1, max_size=3), st.booleans())
def test_bounds_symmetry_and_order(pairs: list[tuple[list[str], list[str]]], strict: bool) -> None:
    predictions, golds = map(list, zip(*pairs, strict=True))
    found, turned = (
        score_tags(predictions, golds, strict=strict),
        score_tags(golds, predictions, strict=strict),
    )
    assert (found.precision, found.recall) == (turned.recall, turned.precision)
    assert 0 <= found.precision <= 1 and 0 <= found.recall <= 1 and 0 <= found.f1 <= 1
    assert score_tags(predictions[::-1], golds[::-1], strict=strict) == found
    perfect = score_tags(golds, golds, strict=strict)
    assert perfect.f1 == (perfect.spans > 0)
