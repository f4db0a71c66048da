"""A run as a row of stages: one for each phase of the recipe, or one where there are no phases.

A stage is the recipe as it is within a phase, and the steps that it is for. Which stage a step belongs to is
a pure function of the step, so that a run that goes on after a stop needs no state of it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from longspan.training.recipe import Recipe


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """Steps of a run that are alike."""

    begin: int
    """The first step."""
    steps: int | None
    """How many; None where only the data say, in the only stage of a run."""
    recipe: Recipe
    """With what the phase changes."""
    windows: tuple[int, ...] = ()
    """Of the model's layers; none in any stage leaves the model's own."""

    @property
    def end(self) -> float:
        """The step after the last one."""
        return math.inf if self.steps is None else self.begin + self.steps


def stages_of(recipe: Recipe) -> tuple[Stage, ...]:
    """The stages of a run, at least one."""
    if not recipe.phases:
        return (Stage(begin=0, steps=recipe.run.steps, recipe=recipe),)
    stages: list[Stage] = []
    begin = 0
    for phase in recipe.phases:
        tokens = phase.examples * phase.max_length
        within = replace(
            recipe,
            settings=replace(recipe.settings, max_length=phase.max_length),
            batch=replace(recipe.batch, tokens=tokens, examples=phase.examples),
            optimizer=replace(recipe.optimizer, lr=phase.lr),
        )
        stages.append(Stage(begin=begin, steps=phase.steps, recipe=within, windows=phase.windows))
        begin += phase.steps
    return tuple(stages)


def stage_at(stages: Sequence[Stage], step: int) -> Stage:
    """The stage of a step; the last one, after the end."""
    return next((stage for stage in stages if step < stage.end), stages[-1])
