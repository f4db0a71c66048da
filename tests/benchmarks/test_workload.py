"""The arithmetic that speeds are divided by."""

import pytest
import torch

from longspan.attention.pattern import Pattern
from longspan.benchmarks.workload import Workload, local_pairs, make_inputs


@pytest.mark.parametrize("num_globals", [0, 1, 5])
@pytest.mark.parametrize("length", [1, 7, 40])
@pytest.mark.parametrize(
    "pattern",
    [
        Pattern(left=3, right=3),
        Pattern(left=2, right=5, dilation=3),
        Pattern(left=4, right=0),
        Pattern(left=None, right=None),
        Pattern(left=None, right=0),
        Pattern(left=0, right=0),
    ],
    ids=str,
)
def test_local_pairs_counts_every_pair_once(pattern: Pattern, length: int, num_globals: int) -> None:
    num_globals = min(num_globals, length)
    position = torch.arange(length)
    query, key = position[:, None], position
    through_global = (key < num_globals) & ((key <= query) | (not pattern.is_causal))
    expected = int((pattern.allows(query, key) | through_global).sum())
    assert local_pairs(pattern, length, num_globals) == expected


def test_flops_count_window_and_global_rows() -> None:
    work = Workload(batch=2, heads=3, length=10, head_dim=4, window=2, num_globals=1)
    # 28 pairs in the windows, 8 queries beyond the reach of key 0, 10 keys of the global row.
    assert work.flops() == 4 * 4 * 2 * 3 * (28 + 8 + 10)


def test_inputs_have_a_models_layout() -> None:
    inputs = make_inputs(Workload(heads=3, length=8, head_dim=4, window=2), training=True)
    assert inputs.q.shape == (1, 3, 8, 4)
    assert inputs.q.transpose(1, 2).is_contiguous()
    assert inputs.q.requires_grad and not inputs.grad.requires_grad
    assert not torch.equal(inputs.q, inputs.k)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"window": 5}, "window is 5"),
        ({"heads": 0}, "heads is 0"),
        ({"num_globals": 5000}, "between 0 and 4096"),
        ({"dtype": "int8"}, "float32, bfloat16"),
    ],
)
def test_wrong_workload_is_refused(wrong: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Workload(**wrong)  # pyright: ignore[reportArgumentType]
