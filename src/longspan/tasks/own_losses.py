"""Losses of a model's own: what attention and memory of the relatives add to a task's loss."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from longspan.tasks.task import Loss


def with_own_losses(total: Tensor, targets: Tensor, losses: Mapping[str, Tensor] | None) -> Loss:
    """A task's loss and those of the model itself, which are means and count once for each target.

    Args:
        total: [], the sum over all targets.
        targets: [], how many there are.
        losses: [] each, by name; None for none.
    """
    if not losses:
        return Loss(total, targets)
    weighted = {name: one * targets for name, one in losses.items()}
    parts = {name: one.detach() for name, one in weighted.items()}
    return Loss(total + sum(weighted.values()), targets, parts)


def own_losses(outputs: Any) -> Mapping[str, Tensor] | None:
    """Those that a model handed up with its outputs."""
    return getattr(outputs, "losses", None)
