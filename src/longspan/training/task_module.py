"""A task and its model as one module: what is wrapped for several processes.

Everything runs inside its forward pass, so that the hooks that gather weights and gradients see all of it.
"""

from typing import Any

from torch import nn

from longspan.tasks.task import Batch, Loss, Task


class TaskModule(nn.Module):
    """Computes a loss while it trains, outputs for predictions while it does not.

    Args:
        task: whose loss and outputs they are.
        model: that the task built or loaded.
    """

    def __init__(self, task: Task[Any, Any], model: nn.Module) -> None:
        super().__init__()
        self.task = task
        self.model = model

    def forward(self, batch: Batch) -> Loss | list[Any]:
        """A `Loss`, or an output for each input of the batch."""
        return self.task.loss(self.model, batch) if self.training else self.task.outputs(self.model, batch)
