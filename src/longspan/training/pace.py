"""How long a run will still take, from how long its steps and evaluations took so far.

Steps are weighed by the tokens that are planned for them, since phases have batches of different sizes.
Evaluations are known only when there was one.
"""

import math
from collections.abc import Sequence

from longspan.training.stages import Stage, stage_at

# Steps after which the speed is known well enough.
SETTLED = 5


class Pace:
    """The speed of a run.

    Args:
        stages: of the run.
        total: its steps.
        epoch_tokens: of all inputs of an epoch.
        evaluate_every: see `RunSettings`; None is once an epoch, and at the end of a stage.
        evaluates: whether there is anything to score.
        seconds: after which training stops, finished or not.
    """

    def __init__(
        self,
        stages: Sequence[Stage],
        total: int,
        *,
        epoch_tokens: int,
        evaluate_every: int | None,
        evaluates: bool,
        seconds: float = math.inf,
    ) -> None:
        self._stages, self._total = stages, total
        self._epoch_tokens, self._every, self._evaluates = epoch_tokens, evaluate_every, evaluates
        self._stage, self._most = stages[0], seconds
        self._steps = self._seconds = 0.0
        self._per_token: float | None = None
        self._evaluations: list[float] = []

    @property
    def knows_evaluations(self) -> bool:
        """Whether one was measured, or none is to come."""
        return bool(self._evaluations) or not self._evaluates

    def step(self, number: int, seconds: float) -> None:
        """A step was made.

        Args:
            number: of it, from 0.
            seconds: that it took.
        """
        stage = stage_at(self._stages, number)
        if stage is not self._stage:  # longer inputs and wider windows have a speed of their own
            self._stage, self._steps, self._seconds = stage, 0, 0.0
        self._steps += 1
        self._most -= seconds
        self._seconds += seconds
        if self._steps >= SETTLED or self._per_token is None:
            self._per_token = self._seconds / (self._steps * stage.recipe.batch.tokens)

    def evaluation(self, seconds: float) -> None:
        """The dev data were scored."""
        self._evaluations.append(seconds)
        self._most -= seconds

    def left(self, done: int) -> float:
        """Seconds that are left after so many steps, at least one of them measured."""
        assert self._per_token is not None
        tokens = sum(self._steps_left(stage, done) * stage.recipe.batch.tokens for stage in self._stages)
        each = self._evaluations[-1] if self._evaluations else 0.0
        return max(0.0, min(tokens * self._per_token + self.evaluations_left(done) * each, self._most))

    def evaluations_left(self, done: int) -> int:
        """How many are still to come after so many steps, by and large where epochs decide."""
        if not self._evaluates or done >= self._total:
            return 0
        if self._every:
            return self._total // self._every - done // self._every + (self._total % self._every > 0)
        count = 0
        for stage in self._stages:
            an_epoch = max(1, round(self._epoch_tokens / stage.recipe.batch.tokens))
            count += -(-self._steps_left(stage, done) // an_epoch)
        return count

    def _steps_left(self, stage: Stage, done: int) -> int:
        end = self._total if stage.steps is None else min(stage.begin + stage.steps, self._total)
        return max(0, end - max(done, stage.begin))
