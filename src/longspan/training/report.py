"""What a run shows: a bar with loss, speed and the time left; plain lines where there is no terminal."""

import time
from collections.abc import Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

# Steps after which the speed is known well enough to say how long the run will take.
_SETTLED = 5
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
            TimeRemainingColumn(),
            console=self._console,
            disable=not (is_main and self._console.is_terminal),
        )
        self._last_line = 0.0
        self._steps = 0
        self._announced = False

    @contextmanager
    def shown(self, done: int, total: int) -> Generator[None]:
        """Shows the bar of the run, which has ``done`` of ``total`` steps behind it."""
        self._total, self._first = total, done
        self._bar = self._progress.add_task("training", total=total, completed=done, numbers="")
        self._begun = time.monotonic()
        with self._progress:
            yield

    def say(self, text: str) -> None:
        """A line."""
        self._console.print(text, markup=False)

    def step(self, done: int, loss: float, tokens_per_second: float) -> None:
        """After every step."""
        numbers = f"loss {loss:.4f}  {tokens_per_second:,.0f} tokens/s"
        self._progress.update(self._bar, completed=done, numbers=numbers)
        made = done - self._first
        spent = time.monotonic() - self._begun
        if not self._announced and made >= _SETTLED:
            self._announced = True
            left = spent / made * (self._total - done)
            self.say(f"About {_duration(left)} for the {self._total - done:,} steps that are left.")
        if not self._console.is_terminal and spent - self._last_line >= _SECONDS_BETWEEN_LINES:
            self._last_line = spent
            left = spent / made * (self._total - done)
            self.say(f"step {done:,} of {self._total:,}  {numbers}  {_duration(left)} left")

    def scores(self, step: int, scores: dict[str, float]) -> None:
        """After every evaluation."""
        self.say(f"step {step:,}  " + "  ".join(f"{name} {value:.4f}" for name, value in scores.items()))


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    if seconds < 5400:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:.1f} hours"
