"""What a run shows: a bar with loss, speed and the time left; plain lines where there is no terminal."""

import time
from collections.abc import Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from longspan.training.pace import SETTLED, Pace

_SECONDS_BETWEEN_LINES = 30.0


class Report:
    """Shows a run to its user.

    Args:
        is_main: whether this process talks at all.
    """

    def __init__(self, *, is_main: bool = True) -> None:
        self._console = Console(stderr=True, quiet=not is_main, highlight=False, soft_wrap=True)
        self._progress = Progress(
            TextColumn("[progress.description]{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[numbers]}"),
            console=self._console,
            disable=not (is_main and self._console.is_terminal),
        )
        self._announced = 0

    @contextmanager
    def shown(self, done: int, total: int, pace: Pace) -> Generator[None]:
        """Shows the bar of the run, which has ``done`` of ``total`` steps behind it."""
        self._total, self._first, self._pace = total, done, pace
        self._bar = self._progress.add_task("training", total=total, completed=done, numbers="")
        self._last_line = time.monotonic()
        with self._progress:
            yield

    def say(self, text: str) -> None:
        """A line."""
        self._console.print(text, markup=False)

    def step(self, done: int, loss: float, tokens_per_second: float) -> None:
        """After every step."""
        left = _duration(self._pace.left(done))
        numbers = f"loss {loss:.4f}  {tokens_per_second:,.0f} tokens/s  {left} left"
        self._progress.update(self._bar, completed=done, numbers=numbers)
        # The first estimate may be made without knowing how long an evaluation takes; then there is another.
        is_settled = not self._announced and done - self._first >= SETTLED
        if is_settled or (self._announced == 1 and self._pace.knows_evaluations):
            self._announce(done)
        if not self._console.is_terminal and time.monotonic() - self._last_line >= _SECONDS_BETWEEN_LINES:
            self._last_line = time.monotonic()
            self.say(f"step {done:,} of {self._total:,}  {numbers}")

    def scores(self, step: int, scores: dict[str, float]) -> None:
        """After every evaluation."""
        self.say(f"step {step:,}  " + "  ".join(f"{name} {value:.4f}" for name, value in scores.items()))

    def _announce(self, done: int) -> None:
        knows = self._pace.knows_evaluations
        self._announced = 2 if knows else 1
        count = self._pace.evaluations_left(done)
        scoring = f" and {count:,} evaluation{'s' if count > 1 else ''}" if count and knows else ""
        unknown = f", without {count:,} evaluation{'s' if count > 1 else ''}" if count and not knows else ""
        steps = f"the {self._total - done:,} steps{scoring} that are left{unknown}"
        self.say(f"About {_duration(self._pace.left(done))} for {steps}.")


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    if seconds < 5400:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:.1f} hours"
