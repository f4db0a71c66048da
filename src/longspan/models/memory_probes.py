"""What the memories of a model hold: how much each is looked at, and how far back a change is still felt.

For looking, not for training: attention is computed densely, and a text is read once for every probe. Refused
are models without a memory.
"""

from typing import NamedTuple, cast

import torch
from torch import Tensor

from longspan.models.long_range import LongRangeModel
from longspan.models.long_range_layer import LongRangeLayer
from longspan.nn.memory import Memory, segments


class Shares(NamedTuple):
    """Of the attention of the last segment, the share that goes to each; they add up to 1."""

    compressed: list[float]
    """For each layer."""
    recent: list[float]
    segment: list[float]


class Influence(NamedTuple):
    """How much tokens at some distance matter."""

    distance: list[int]
    """From the tokens changed to the end of the text, farthest first."""
    change: list[float]
    """The relative change of the last segment's states when they are replaced."""


@torch.no_grad()
def attention_shares(model: LongRangeModel, input_ids: Tensor) -> Shares:
    """Where the last segment of a text looks: at compressed states, at recent ones, at itself.

    Args:
        model: with a memory, and a kind of attention that tells how much it looks at keys.
        input_ids: [batch, length], more than one segment.
    """
    _check(model)
    model.config.require("usage", "attention_shares asks where tokens look")
    states, memory = _before_last(model, input_ids)
    shares = Shares([], [], [])
    reading = model._reading(seen=0, is_padding=None, is_global=None, losses={})
    for layer, kept, x in zip(model.layers, memory.layers, states, strict=False):
        one = cast(LongRangeLayer, layer)
        usage = one.attention.usage(one._normed(x), reading, earlier=one._normed(kept.states)).sum(0)
        usage = usage / usage.sum()
        compressed, recent = kept.compressed.shape[1], kept.recent.shape[1]
        shares.compressed.append(float(usage[:compressed].sum()))
        shares.recent.append(float(usage[compressed : compressed + recent].sum()))
        shares.segment.append(float(usage[compressed + recent :].sum()))
    return shares


@torch.no_grad()
def influence(model: LongRangeModel, input_ids: Tensor) -> Influence:
    """How much each earlier segment of a text matters to the last one: it is replaced, and the change
    measured.

    Memories carry no gradient, so this is what shows their reach.

    Args:
        model: with a memory.
        input_ids: [batch, length].
    """
    _check(model)
    size = model.config.segment(training=False)
    cuts = segments(input_ids.shape[1], size)
    base = _last(model, input_ids, cuts[-1])
    said = Influence([], [])
    for part in cuts[:-1]:
        other = input_ids.clone()
        # Another token everywhere, the same one in every call.
        other[:, part] = (other[:, part] + model.config.vocab_size // 2) % model.config.vocab_size
        changed = _last(model, other, cuts[-1])
        said.distance.append(input_ids.shape[1] - part.stop)
        said.change.append(float((changed - base).norm() / base.norm()))
    return said


def _last(model: LongRangeModel, ids: Tensor, part: slice) -> Tensor:
    return model(ids, use_cache=False).last_hidden_state[:, part]


def _before_last(model: LongRangeModel, ids: Tensor) -> tuple[list[Tensor], Memory]:
    """The inputs of the layers in the last segment, and the memory that it was read with."""
    last = segments(ids.shape[1], model.config.segment(training=False))[-1]
    if not last.start:
        raise ValueError(
            f"input_ids has {ids.shape[1]} tokens; there must be more than segment_length = {last.stop}"
        )
    memory = model(ids[:, : last.start], use_cache=False).memory
    read = model(ids[:, last], memory=memory, use_cache=False, output_hidden_states=True)
    return list(read.hidden_states), memory


def _check(model: LongRangeModel) -> None:
    if model.config.memory == "none":
        raise ValueError("memory is 'none'; probes need a model with memory 'xl' or 'compressive'")
    if model.training:
        raise ValueError("the model is in training; call model.eval() first")
