"""AdamW over the weights that learn: heads may learn faster, norms and biases do not decay."""

from collections.abc import Collection

import torch
from torch import nn

from longspan.training.recipe import OptimizerSettings


def make_optimizer(
    model: nn.Module, settings: OptimizerSettings, *, heads: Collection[str], no_decay: Collection[str]
) -> torch.optim.AdamW:
    """AdamW with one group for each combination of learning rate and decay.

    Args:
        model: whose weights with ``requires_grad`` learn.
        settings: of the recipe.
        heads: names of parameters that learn with ``head_lr``.
        no_decay: names of parameters that never decay, beside vectors (norms and biases).

    Returns:
        Its groups have ``base_lr`` beside ``lr``: what a schedule multiplies.

    Raises:
        ValueError: nothing learns.
    """
    head_lr = settings.lr if settings.head_lr is None else settings.head_lr
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            decays = parameter.ndim > 1 and name not in no_decay
            key = (head_lr if name in heads else settings.lr, settings.weight_decay if decays else 0.0)
            groups.setdefault(key, []).append(parameter)
    if not groups:
        raise ValueError(f"optimizer.train_only is {settings.train_only!r}, which leaves nothing to learn")
    return torch.optim.AdamW(
        [
            {"params": members, "lr": lr, "base_lr": lr, "weight_decay": decay}
            for (lr, decay), members in groups.items()
        ],
        betas=(settings.beta1, settings.beta2),
        eps=settings.eps,
        fused=True,
    )
