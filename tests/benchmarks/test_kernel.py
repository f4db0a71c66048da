"""The bars: every measurement has one, in both directions."""

import pytest

from longspan.benchmarks.bars import BOUNDS, DIRECTIONS, Bound, result
from longspan.benchmarks.kernel import GROUPS, Setting, check_core
from longspan.benchmarks.workload import Workload

TINY = Setting(
    work=Workload(heads=1, length=16, head_dim=8, window=8),
    impl="reference",
    repetitions=1,
    product_size=32,
)
IN_THIS_PROCESS = [name for name in GROUPS if name not in ("hugging-face", "memory")]


def test_every_group_measures_what_has_a_bar() -> None:
    check_core(TINY)
    found = [(r.name, r.direction) for name in IN_THIS_PROCESS for r in GROUPS[name](TINY)]
    elsewhere = ("Hugging Face", "extra memory")
    expected = {(name, way) for name in BOUNDS for way in DIRECTIONS if not any(e in name for e in elsewhere)}
    assert len(found) == len(set(found))
    assert set(found) == expected


@pytest.mark.parametrize("group", ["memory", pytest.param("hugging-face", marks=pytest.mark.slow)])
def test_groups_in_fresh_processes(group: str) -> None:
    results = list(GROUPS[group](TINY))
    assert results and all(r.value > 0 for r in results)
    assert {r.name for r in results} <= set(BOUNDS)


def test_bound_says_which_side_is_right() -> None:
    assert Bound(2.0, at_least=True).holds(2.0) and not Bound(2.0, at_least=True).holds(1.9)
    assert Bound(2.0, at_least=False).holds(2.0) and not Bound(2.0, at_least=False).holds(2.1)
    assert str(Bound(0.85, at_least=True)) == ">= 0.85"


def test_unjudged_result_neither_passes_nor_fails() -> None:
    shown = result("fp32, share of torch.mm", "forward", 0.1, judged=False)
    assert shown.passed is None
    assert shown.record()["bar"] is None
