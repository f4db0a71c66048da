"""How the learning rate changes while training: a factor of it, as a pure function of the step.

Nothing is remembered from step to step, so that a run that goes on after a stop needs no state of it.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal, TypeAlias, get_args

Kind: TypeAlias = Literal["linear", "cosine", "polynomial", "constant", "staged"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """Warm-up, then a way down, or none."""

    kind: Kind = "linear"
    """The way from 1 down to ``floor`` at the last step; "constant" stays at 1, "staged" obeys ``stages``."""
    warmup: int | float = 0
    """Steps in which the factor grows evenly to where it then begins; a float is a share of all steps."""
    most_warmup: int | None = None
    """The most steps of a warm-up that is a share."""
    power: float = 3.0
    """Of the polynomial: 1 is a straight line, 3 is what the paper's pretraining has."""
    floor: float = 0.0
    """The factor that "linear", "cosine" and "polynomial" go down to."""
    stages: tuple[tuple[int, float], ...] = ()
    """Of "staged": for how many steps which factor. The last one stays, if there are more steps."""

    def __post_init__(self) -> None:
        problem = next(_problems(self), None)
        if problem is not None:
            raise ValueError(f"schedule.{problem}")


def factor(schedule: Schedule, step: int, total_steps: int) -> float:
    """What the learning rate is multiplied by at a step.

    No step is wasted on a rate of 0 at the start: with a warm-up of w steps, they have the factors 1/w, 2/w
    and so on up to 1, each times what the schedule has right after it.

    Args:
        schedule: how it changes.
        step: from 0. From ``total_steps`` on, the factor is the one at the end.
        total_steps: steps of the whole training.

    Returns:
        A number from 0 to 1.

    Raises:
        ValueError: a step that does not exist, or a warm-up that leaves no step after it.
    """
    if total_steps < 1:
        raise ValueError(f"total_steps is {total_steps}; it must be at least 1")
    if step < 0:
        raise ValueError(f"step is {step}; it must be at least 0")
    warmup = warmup_steps(schedule, total_steps)
    if step < warmup:
        return (step + 1) / warmup * _after_warmup(schedule, warmup, warmup, total_steps)
    return _after_warmup(schedule, min(step, total_steps), warmup, total_steps)


def warmup_steps(schedule: Schedule, total_steps: int) -> int:
    """How many steps the warm-up has; a share is rounded up.

    Raises:
        ValueError: there would be no step after it.
    """
    warmup = schedule.warmup
    steps = math.ceil(warmup * total_steps) if isinstance(warmup, float) else warmup
    if isinstance(warmup, float) and schedule.most_warmup is not None:
        steps = min(steps, schedule.most_warmup)
    if steps and steps >= total_steps:
        raise ValueError(
            f"schedule.warmup is {warmup}, which is {steps} steps; "
            f"it must be less than all {total_steps} steps"
        )
    return steps


def _after_warmup(schedule: Schedule, step: int, warmup: int, total_steps: int) -> float:
    match schedule.kind:
        case "constant":
            return 1.0
        case "staged":
            ends = accumulate(steps for steps, _ in schedule.stages)
            factors = (value for _, value in schedule.stages)
            now = (value for end, value in zip(ends, factors, strict=True) if step < end)
            return next(now, schedule.stages[-1][1])
        case kind:
            left = 1 - (step - warmup) / (total_steps - warmup)
            shape = {
                "linear": left,
                "cosine": 0.5 - 0.5 * math.cos(math.pi * left),
                "polynomial": left**schedule.power,
            }[kind]
            return schedule.floor + (1 - schedule.floor) * shape


def _problems(schedule: Schedule) -> Iterator[str]:
    if schedule.kind not in get_args(Kind):
        yield f"kind is {schedule.kind!r}; it must be one of {', '.join(get_args(Kind))}"
    warmup = schedule.warmup
    if warmup < 0 or (isinstance(warmup, float) and not warmup < 1):
        yield f"warmup is {warmup}; it must be an integer, steps, or a float below 1, a share of all steps"
    if schedule.most_warmup is not None and not (schedule.most_warmup >= 0 and isinstance(warmup, float)):
        yield f"most_warmup is {schedule.most_warmup}; it must be at least 0, with a warmup that is a share"
    if not 0 < schedule.power < math.inf:
        yield f"power is {schedule.power}; it must be above 0"
    if not 0 <= schedule.floor <= 1:
        yield f"floor is {schedule.floor}; it must be from 0 to 1"
    if (schedule.kind == "staged") != bool(schedule.stages):
        yield f"stages is {schedule.stages}; it must have stages where kind is 'staged', and none elsewhere"
    for steps, value in schedule.stages:
        if steps < 1 or not 0 <= value <= 1:
            yield f"stages has ({steps}, {value}); it must be at least 1 step, and a factor from 0 to 1"
