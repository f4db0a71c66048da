"""Learning-rate schedules: where they begin, how they go, where they end."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longspan.training.schedules import Kind, Schedule, factor, warmup_steps

DECAYING: tuple[Kind, ...] = ("linear", "cosine", "polynomial")
shares = st.floats(0, 1)


@st.composite
def schedules(draw: st.DrawFn) -> tuple[Schedule, int]:
    """Any schedule, and a number of steps that it can be used with."""
    total = draw(st.integers(2, 400))
    kind = draw(st.sampled_from((*DECAYING, "constant", "staged")))
    stages = draw(st.lists(st.tuples(st.integers(1, 200), shares), min_size=1, max_size=4))
    warmup = draw(st.integers(0, total - 1) | st.floats(0, (total - 1) / total * 0.999))
    schedule = Schedule(
        kind=kind,
        warmup=warmup,
        power=draw(st.floats(0.1, 9)),
        floor=draw(shares),
        stages=tuple(stages) if kind == "staged" else (),
    )
    return schedule, total


@given(schedules(), st.integers(0, 500))
def test_factor_is_always_from_0_to_1(case: tuple[Schedule, int], step: int) -> None:
    assert 0 <= factor(case[0], step, case[1]) <= 1


@given(schedules())
def test_warmup_is_a_straight_line_that_never_is_0(case: tuple[Schedule, int]) -> None:
    schedule, total = case
    warmup = warmup_steps(schedule, total)
    top = factor(schedule, warmup, total)
    line = [factor(schedule, step, total) for step in range(warmup)]
    assert line == pytest.approx([top * (step + 1) / warmup for step in range(warmup)])
    if schedule.kind != "staged":
        assert top == pytest.approx(1)


@given(schedules())
def test_after_warmup_it_goes_down_to_the_floor_and_stays(case: tuple[Schedule, int]) -> None:
    schedule, total = case
    if schedule.kind not in DECAYING:
        return
    way = [factor(schedule, step, total) for step in range(warmup_steps(schedule, total), total + 1)]
    assert all(later <= earlier + 1e-12 for earlier, later in zip(way, way[1:], strict=False))
    assert way[-1] == pytest.approx(schedule.floor, abs=1e-12)
    assert factor(schedule, total + 7, total) == way[-1]


def test_the_shapes_by_hand() -> None:
    """A quarter, half and three quarters of the way."""
    at = (25, 50, 75)

    def way(kind: Kind, **changes: Any) -> list[float]:
        return [factor(Schedule(kind=kind, **changes), step, 100) for step in at]

    assert way("linear") == pytest.approx([0.75, 0.5, 0.25])
    assert way("linear", floor=0.2) == pytest.approx([0.8, 0.6, 0.4])
    assert way("cosine") == pytest.approx([0.5 + math.sqrt(0.125), 0.5, 0.5 - math.sqrt(0.125)])
    assert way("polynomial") == pytest.approx([27 / 64, 1 / 8, 1 / 64])
    assert way("polynomial", power=1) == pytest.approx(way("linear"))
    assert way("constant", floor=0.5) == [1, 1, 1]


def test_warmup_by_hand() -> None:
    schedule = Schedule(warmup=4)
    way = [factor(schedule, step, 8) for step in range(9)]
    assert way == pytest.approx([0.25, 0.5, 0.75, 1, 1, 0.75, 0.5, 0.25, 0])


def test_a_share_of_the_steps_is_rounded_up() -> None:
    assert warmup_steps(Schedule(warmup=0.1), 95) == 10
    assert warmup_steps(Schedule(warmup=0.0), 95) == 0
    for step in range(95):
        assert factor(Schedule(warmup=0.1), step, 95) == factor(Schedule(warmup=10), step, 95)


def test_a_share_has_a_bound() -> None:
    schedule = Schedule(warmup=0.1, most_warmup=7)
    assert [warmup_steps(schedule, total) for total in (50, 70, 95, 10_000)] == [5, 7, 7, 7]


def test_stages_by_hand() -> None:
    schedule = Schedule(kind="staged", stages=((3, 1.0), (2, 0.5), (1, 0.25)), warmup=2)
    assert [factor(schedule, step, 8) for step in range(9)] == [0.5, 1, 1, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "steep"}, "schedule.kind is 'steep'; it must be one of linear, cosine"),
        ({"warmup": -1}, "schedule.warmup is -1"),
        ({"warmup": 0.1, "most_warmup": -1}, "schedule.most_warmup is -1"),
        ({"warmup": 3, "most_warmup": 5}, "with a warmup that is a share"),
        ({"warmup": 1.0}, "schedule.warmup is 1.0; it must be an integer"),
        ({"warmup": 500.0}, "schedule.warmup is 500.0"),
        ({"warmup": math.nan}, "schedule.warmup is nan"),
        ({"power": 0.0}, "schedule.power is 0.0"),
        ({"power": math.nan}, "schedule.power is nan"),
        ({"floor": 1.5}, "schedule.floor is 1.5"),
        ({"floor": -0.1}, "schedule.floor is -0.1"),
        ({"kind": "staged"}, r"schedule.stages is \(\)"),
        ({"stages": ((5, 1.0),)}, "schedule.stages is .* none elsewhere"),
        ({"kind": "staged", "stages": ((0, 1.0),)}, r"schedule.stages has \(0, 1.0\)"),
        ({"kind": "staged", "stages": ((5, 2.0),)}, r"schedule.stages has \(5, 2.0\)"),
    ],
)
def test_wrong_settings(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Schedule(**fields)


def test_steps_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="schedule.warmup is 10, which is 10 steps; .* all 10 steps"):
        factor(Schedule(warmup=10), 0, 10)
    with pytest.raises(ValueError, match="schedule.warmup is 0.99, which is 10 steps"):
        factor(Schedule(warmup=0.99), 0, 10)
    with pytest.raises(ValueError, match="total_steps is 0"):
        factor(Schedule(), 0, 0)
    with pytest.raises(ValueError, match="step is -1"):
        factor(Schedule(), -1, 10)
