"""Whole models that are compared, built from one shape, and what a measurement calls.

Models are imported when one is made: transformers takes seconds, and a mistake in the arguments of a
command should not wait for it.
"""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from longspan.attention.attend import Implementation
from longspan.benchmarks.model_shape import ModelShape

Who = Literal["stock", "ours", "speed_up"]
EVERYONE: tuple[Who, ...] = ("stock", "ours", "speed_up")

Call = Callable[[], Tensor]


def make_model(
    who: Who, shape: ModelShape, *, length: int, impl: Implementation = "auto", **fields: Any
) -> nn.Module:
    """A model with random weights.

    Args:
        who: Hugging Face's Longformer, ours, or Hugging Face's after `speed_up`.
        shape: its size.
        length: the most tokens that it must read.
        impl: of attention in ours; `speed_up` always chooses itself.
        fields: further ones of our configuration.
    """
    import transformers

    import longspan

    torch.manual_seed(0)
    if who == "ours":
        config = longspan.LongformerConfig(**shape.fields(length), attention_impl=impl, **fields)
        return longspan.LongformerModel(config)
    model = transformers.LongformerModel(transformers.LongformerConfig(**shape.fields(length)))
    return longspan.speed_up(model) if who == "speed_up" else model


def make_models(
    names: tuple[Who, ...], shape: ModelShape, *, length: int, impl: Implementation
) -> dict[str, nn.Module]:
    """Models with the same weights in the same memory; gradients are each one's own."""
    models = {who: make_model(who, shape, length=length, impl=impl) for who in names}
    first, *others = models.values()
    for other in others:
        other.load_state_dict(first.state_dict(), assign=True)
    return dict(models)


def hidden_states(model: nn.Module, batch: Mapping[str, Tensor]) -> Tensor:
    """[documents, length, hidden_size]: the last layer's output."""
    return model(**batch).last_hidden_state


def loss_against_noise(hidden: Tensor) -> Tensor:
    """Mean squared distance to fixed random numbers.

    The mean of squares itself will not do: behind a layer norm it is constant, its gradient rounding.
    """
    noise = torch.empty(hidden.shape, dtype=hidden.dtype).normal_(generator=torch.Generator().manual_seed(1))
    return functional.mse_loss(hidden, noise)


def model_both_ways(name: str, model: nn.Module, batch: Mapping[str, Tensor]) -> dict[str, Call]:
    """``model`` without gradients, and a training step: the two directions that are measured.

    A training step is forward with dropout, loss and backward; there is no optimizer.
    """

    def forward() -> Tensor:
        model.eval()
        with torch.no_grad():
            return hidden_states(model, batch)

    def training() -> Tensor:
        model.train()
        model.zero_grad(set_to_none=True)
        loss = loss_against_noise(hidden_states(model, batch))
        loss.backward()
        return loss.detach()

    return {f"{name} forward": forward, f"{name} training": training}


@contextmanager
def one_row_mask() -> Generator[None]:
    """Inside, Hugging Face's Longformer makes only the row of its mask that it uses.

    As shipped it makes [batch, 1, length, length] and cuts that to [batch, length].
    """
    from transformers.models.longformer import modeling_longformer

    module: Any = modeling_longformer
    shipped = module.create_bidirectional_mask
    module.create_bidirectional_mask = _one_row
    try:
        yield
    finally:
        module.create_bidirectional_mask = shipped


def _one_row(*, inputs_embeds: Tensor, attention_mask: Tensor, **_: Any) -> Tensor:
    """[batch, 1, 1, length]: 0 for tokens, the lowest number for padding."""
    mask = torch.zeros(attention_mask.shape, dtype=inputs_embeds.dtype)
    return mask.masked_fill(attention_mask == 0, torch.finfo(mask.dtype).min)[:, None, None]
