"""Steps hold every input once, within their budget, and do not depend on the number of processes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longspan.training.batches import feature_seed, plan_epoch, share_of

lengths_of_inputs = st.lists(st.integers(1, 300), min_size=1, max_size=200).map(np.array)


@given(lengths_of_inputs, st.integers(1, 1000), st.none() | st.integers(1, 9), st.integers(0, 3))
def test_an_epoch_holds_every_input_once_within_the_budget(
    lengths: np.ndarray, tokens: int, examples: int | None, epoch: int
) -> None:
    steps = plan_epoch(lengths, tokens=tokens, examples=examples, seed=5, epoch=epoch)
    assert sorted(at for step in steps for at in step) == list(range(len(lengths)))
    for step in steps:
        assert len(step) == 1 or lengths[step].sum() <= tokens
        assert examples is None or len(step) <= examples
    assert steps == plan_epoch(lengths, tokens=tokens, examples=examples, seed=5, epoch=epoch)


def test_another_epoch_or_seed_gives_another_order() -> None:
    lengths = np.arange(1, 100)
    plans = [
        plan_epoch(lengths, tokens=200, examples=None, seed=s, epoch=e) for s, e in ((0, 0), (0, 1), (1, 0))
    ]
    assert plans[0] != plans[1] and plans[0] != plans[2]


def test_inputs_of_a_step_are_of_like_length() -> None:
    lengths = np.random.default_rng(0).integers(10, 1000, size=2000)
    steps = plan_epoch(lengths, tokens=4096, examples=None, seed=0, epoch=0)
    padded = sum(len(step) * lengths[step].max() for step in steps)
    assert padded < 1.1 * lengths.sum()


@given(lengths_of_inputs, st.integers(1, 4), st.integers(1, 500))
def test_processes_share_a_step_and_stay_in_time(lengths: np.ndarray, processes: int, tokens: int) -> None:
    step = list(range(len(lengths)))
    shares = [
        share_of(step, lengths, rank=rank, processes=processes, micro_tokens=tokens)
        for rank in range(processes)
    ]
    assert len({len(share) for share in shares}) == 1
    computed = sorted(at for share in shares for piece in share if piece.counts for at in piece.indices)
    assert computed == step
    for piece in (piece for share in shares for piece in share):
        assert len(piece.indices) == 1 or len(piece.indices) * lengths[piece.indices].max() <= tokens


@pytest.mark.parametrize("other", [(1, 0, 0), (0, 1, 0), (0, 0, 1)])
def test_every_input_has_a_seed_of_its_own(other: tuple[int, int, int]) -> None:
    assert feature_seed(0, 0, 0) == feature_seed(0, 0, 0) != feature_seed(*other)
    assert 0 <= feature_seed(*other) < 2**63
