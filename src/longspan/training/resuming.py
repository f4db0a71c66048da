"""What a run that goes on may be told anew, and what would make it another run.

How long a run is, what it writes down and where its data lie may change in its middle. Whatever decides what
the next step computes may not: the steps before and after would be of two recipes, and its folder would name
one of them.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from longspan.training.recipe import Recipe, as_fields

MAY_CHANGE = frozenset(
    {
        # How long, and what is written down.
        "run.steps",
        "run.epochs",
        "run.minutes",
        "run.evaluate_every",
        "run.checkpoint_every",
        "run.keep_checkpoints",
        "run.log_every",
        # Where the same data are, and how they are made ready.
        "data.root",
        "data.cache",
        "data.workers",
        # What is done when memory is short.
        "batch.micro_tokens",
        "model.gradient_checkpointing",
    }
)


def check_same(wanted: Recipe, begun_with: Recipe, run: Path) -> None:
    """Refuses to go on with another recipe.

    Args:
        wanted: resolved.
        begun_with: what the run's folder says, resolved.
        run: the folder, for the message.

    Raises:
        ValueError: a field differs that may not; the message has all of them, with both values.
    """
    new, old = dict(_flat(as_fields(wanted))), dict(_flat(as_fields(begun_with)))
    names = [name for name in (new | old) if name not in MAY_CHANGE and new.get(name) != old.get(name)]
    if "task" in names:  # all settings differ then
        names = ["task"]
    if names:
        differences = ", ".join(f"{name} is {new.get(name)!r} and was {old.get(name)!r}" for name in names)
        raise ValueError(
            f"the run in {run} was begun with another recipe: {differences}; --resume goes on with the same "
            "one. Give what it was, or another --out; to leave the old way on purpose, go on with "
            "--resume-from CHECKPOINT"
        )


def _flat(fields: Any, where: str = "") -> Iterator[tuple[str, Any]]:
    """Every field under its full name, those of phases too."""
    if isinstance(fields, dict):
        for name, value in fields.items():
            yield from _flat(value, f"{where}.{name}" if where else str(name))
    elif isinstance(fields, list) and fields and isinstance(fields[0], dict):
        for at, value in enumerate(fields):
            yield from _flat(value, f"{where}[{at}]")
    else:
        yield where, fields
