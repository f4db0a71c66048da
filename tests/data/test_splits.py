"""Splits: disjoint, complete, stratified, and the same in any order."""

import random
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longspan.data.examples import LabelledDocument
from longspan.data.splits import Splits, places, sample, split, train_dev_test


def documents(labels: list[str]) -> list[LabelledDocument]:
    return [LabelledDocument(id=f"d{at}", text="", label=label) for at, label in enumerate(labels)]


@settings(max_examples=150)
@given(
    labels=st.lists(st.sampled_from("abcde"), max_size=80),
    weights=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    seed=st.integers(),
    shuffle=st.randoms(use_true_random=False),
)
def test_parts_are_a_partition_that_the_order_does_not_change(
    labels: list[str], weights: list[int], seed: int, shuffle: random.Random
) -> None:
    examples = documents(labels)
    fractions = [weight / sum(weights) for weight in weights]
    parts = split(examples, fractions, seed=seed, stratum=lambda example: example.label)
    assert sorted(example.id for part in parts for example in part) == sorted(e.id for e in examples)
    shuffled = shuffle.sample(examples, len(examples))
    assert split(shuffled, fractions, seed=seed, stratum=lambda example: example.label) == parts
    for label, count in Counter(labels).items():
        for fraction, part in zip(fractions, parts, strict=True):
            assert abs(sum(example.label == label for example in part) - fraction * count) < 1 + 1e-9
    for fraction, part in zip(fractions, parts, strict=True):
        assert abs(len(part) - fraction * len(examples)) < len(fractions)


@settings(max_examples=100)
@given(
    groups=st.lists(st.sampled_from("abcdefgh"), max_size=60),
    seed=st.integers(),
    shuffle=st.randoms(use_true_random=False),
)
def test_groups_stay_together(groups: list[str], seed: int, shuffle: random.Random) -> None:
    examples = documents(groups)

    def parts(examples: list[LabelledDocument]) -> Splits[LabelledDocument]:
        return train_dev_test(
            examples, seed=seed, group=lambda example: example.label, stratum=lambda example: example.id[-1]
        )

    found = parts(examples)
    assert sorted(example.id for part in found for example in part) == sorted(e.id for e in examples)
    places = {(example.label, at) for at, part in enumerate(found) for example in part}
    assert len(places) == len(set(groups))
    assert parts(shuffle.sample(examples, len(examples))) == found


def test_the_split_of_a_seed_never_changes() -> None:
    parts = train_dev_test(documents(["x"] * 20), seed=7)
    assert [example.id for example in parts.dev] == ["d12", "d18"]
    assert [example.id for example in parts.test] == ["d19", "d14"]
    assert len(parts.train) == 16


def test_seeds_differ() -> None:
    examples = documents(["x"] * 100)
    assert set(train_dev_test(examples, seed=0).test) != set(train_dev_test(examples, seed=1).test)


def test_a_part_of_the_examples_keeps_most_places() -> None:
    """What is hashed is the id: an example that is left out moves only those at the borders."""
    examples = documents(["x"] * 1000)
    before = set(train_dev_test(examples, seed=0).train)
    after = set(train_dev_test(examples[:-10], seed=0).train)
    assert len(before - after) <= 20


def test_many_small_strata_still_give_the_sizes() -> None:
    examples = documents([f"label {at}" for at in range(100)])
    parts = train_dev_test(examples, seed=3, stratum=lambda example: example.label)
    assert tuple(map(len, parts)) == (80, 10, 10)


def test_refuses() -> None:
    twice = [*documents(["x"]), *documents(["x"])]
    with pytest.raises(ValueError, match="id 'd0' is there twice"):
        train_dev_test(twice, seed=0)
    for fractions in ((0.5, 0.6), (1.0, 0.0), (1.5, -0.5)):
        with pytest.raises(ValueError, match=r"fractions is .* above 0 and 1 together"):
            split(documents(["x"]), fractions, seed=0)


def test_places_hold_no_examples() -> None:
    """Each example is gone before the next is read."""
    alive = 0

    class Counted:
        def __init__(self, at: int) -> None:
            nonlocal alive
            self.id = f"d{at}"
            alive += 1

        def __del__(self) -> None:
            nonlocal alive
            alive -= 1

    def read() -> Iterator[Counted]:
        for at in range(50):
            assert alive <= 2
            yield Counted(at)

    place = places(read(), (0.8, 0.1, 0.1), seed=7, group=lambda one: one.id * 1000)
    assert Counter(place.values()) == {0: 40, 1: 5, 2: 5}
    assert sum(1 for _ in sample(read, 20, seed=0)) == 20


def test_a_sample_is_mixed_and_the_same_in_any_order() -> None:
    sorted_by_label = documents(["a"] * 500 + ["b"] * 500)

    def drawn(examples: list[LabelledDocument], count: int, seed: int) -> list[LabelledDocument]:
        return list(sample(lambda: examples, count, seed=seed))

    chosen = drawn(sorted_by_label, 100, 3)
    assert len({one.id for one in chosen}) == 100
    assert chosen == [one for one in sorted_by_label if one in chosen]
    assert 30 < Counter(one.label for one in chosen)["a"] < 70
    assert drawn(sorted_by_label[::-1], 100, 3) == chosen[::-1] != drawn(sorted_by_label[::-1], 100, 4)
    assert len(drawn(sorted_by_label, 5000, 0)) == 1000
    assert len(drawn(sorted_by_label * 2, 100, 3)) == 100  # published data may have an id twice
    with pytest.raises(ValueError, match="count is 0; it must be at least 1"):
        drawn(sorted_by_label, 0, 0)
