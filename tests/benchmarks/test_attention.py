"""The benchmark's own logic: limits, and what is left of a contestant that breaks them."""

import pytest

from longspan.benchmarks.attention import Plan, run, steps
from longspan.benchmarks.workload import Workload

SMALL = Workload(heads=1, head_dim=8, window=8)


def test_contestant_stops_at_the_memory_limit() -> None:
    # A dense mask of 4096 x 4096 booleans has 16 MB; one of 512 x 512 a quarter of one.
    plan = Plan(
        work=SMALL,
        lengths=(512, 4096, 8192),
        contestants=("sdpa-band",),
        directions=("forward",),
        repetitions=1,
        max_bytes=8e6,
    )
    told: list[str] = []
    report = run(plan, told.append)
    assert len(told) == steps(plan)
    first, second = report["records"]
    assert first["length"] == 512 and first["seconds"] > 0 and first["stopped"] is None
    assert second["length"] == 4096 and second["seconds"] is None and second["stopped"] == "over 0.008 GB"


def test_contestant_says_why_it_cannot_do_a_length() -> None:
    plan = Plan(work=SMALL, lengths=(60,), contestants=("hf",), directions=("forward",), repetitions=1)
    (record,) = run(plan)["records"]
    assert "multiple of the window" in record["stopped"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"contestants": ("magic",)}, "magic"),
        ({"lengths": ()}, "lengths"),
        ({"repetitions": 0}, "repetitions is 0"),
        ({"max_bytes": 0.0}, "above 0"),
    ],
)
def test_wrong_plan_is_refused(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Plan(**wrong)  # pyright: ignore[reportArgumentType]
