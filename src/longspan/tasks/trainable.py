"""Which parameters are trained: all, all but the embeddings, the head alone, or new positions alone.

The last two are comparisons of the paper: a frozen encoder, and table 5's and 10's "only the new position
embeddings". Embeddings that stay leave copied positions copies of each other, so that a model that learns
from short texts still reads long ones; they are also most of a small model, and a step without them is
quicker. What stays frozen stays bit for bit what it was.
"""

from typing import Literal, get_args

import torch
from torch import Tensor, nn

from longspan.tasks.models import head_parameters

Part = Literal["all", "all_but_embeddings", "head", "new_positions"]

_TABLES = ("position_embeddings", "embed_positions", "wpe")
"""Names of the modules that hold position embeddings, in all models that can be lengthened."""
_ASKED = "optimizer.train_only is 'new_positions'"


def train_only(model: nn.Module, part: Part) -> set[str]:
    """Freezes all but a part of a model; call it once, before the optimizer is made.

    Args:
        model: as a task built it.
        part: "all" leaves it as it is. "all_but_embeddings" freezes words, positions and segments, and what
            is tied to them. "head" is what is not the pretrained encoder's, the decoder of a model that
            writes among it; where the projection to the vocabulary is tied to the embeddings, it is frozen
            with them. "new_positions" is the rows of the position table that lengthening added.

    Returns:
        Names of parameters of which only some rows are trained: their gradients are 0 elsewhere. Weight
        decay would change the other rows all the same, so these must have none.

    Raises:
        ValueError: ``part`` is not known, or the model has no such part.
    """
    if part not in get_args(Part):
        raise ValueError(f"optimizer.train_only is {part!r}; it must be one of {', '.join(get_args(Part))}")
    if part == "all":
        return set()
    if part == "all_but_embeddings":
        _freeze_embeddings(model)
        return set()
    if part == "head":
        _freeze_all_but(model, head_parameters(model))
        return set()
    tables = _position_tables(model)
    added = _added_positions(model)
    # Of an LED only the encoder grew; a decoder's shorter table has no new rows.
    longest = max(table.num_embeddings for table in tables.values())
    tables = {name: table for name, table in tables.items() if table.num_embeddings == longest}
    _freeze_all_but(model, {f"{name}.weight" for name in tables})
    for table in tables.values():
        _keep_rows(table.weight, table.num_embeddings - added)
    return {f"{name}.weight" for name in tables}


def _freeze_embeddings(model: nn.Module) -> None:
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            module.weight.requires_grad_(False)


def _freeze_all_but(model: nn.Module, chosen: set[str]) -> None:
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in chosen)


def _keep_rows(weight: Tensor, rows: int) -> None:
    """Makes the gradient of the first ``rows`` rows 0."""
    is_new = torch.arange(len(weight)) >= rows

    def only_new(gradient: Tensor) -> Tensor:
        # Not a product: 0 times a gradient that is not finite is not 0.
        return gradient.masked_fill(~is_new.to(gradient.device)[:, None], 0)

    weight.register_hook(only_new)


def _position_tables(model: nn.Module) -> dict[str, nn.Embedding]:
    tables = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, nn.Embedding) and name.rpartition(".")[2] in _TABLES
    }
    if not tables:
        raise ValueError(f"{_ASKED}, and {type(model).__name__} has no table of learned positions")
    return tables


def _added_positions(model: nn.Module) -> int:
    """How many positions lengthening added, from what it wrote into the configuration."""
    # With a head of ours the encoder has the configuration.
    config = getattr(model, "config", None) or getattr(getattr(model, "encoder", None), "config", None)
    made = getattr(config, "longspan", None)
    if not isinstance(made, dict) or "source_length" not in made:
        raise ValueError(
            f"{_ASKED}, and model.config.longspan does not say how many positions are "
            "old ('source_length'); give model.max_length, so that the model is lengthened"
        )
    if made["positions"] == "interpolate":
        raise ValueError(
            f"{_ASKED}, and model.positions is 'interpolate', which leaves no position "
            "as it was; it must be copy or random"
        )
    added = int(made["max_length"]) - int(made["source_length"])
    if added < 1:
        raise ValueError(
            f"{_ASKED}, and there are none: model.max_length is {made['max_length']}, "
            f"of which the model that was lengthened had {made['source_length']}"
        )
    return added
