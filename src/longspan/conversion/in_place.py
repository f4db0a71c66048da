"""A short Hugging Face model made long without leaving its class.

`lengthen_in_place` gives a model positions for longer inputs and lets its self-attention look only at
a window, through transformers' own hook for attention functions. Its class, heads and parameters' names
stay what they were, and so does what can be done with it: `generate`, training, saving. Decoders of
encoder-decoder models keep seeing all of their own output and all of the encoder's.

transformers does not save which attention a model uses: a saved model comes back with
`load_in_place`. Loaded in another way it is a long model with full, quadratic attention, until
`restore_window` gives it the window that its configuration names.
"""

import os
from typing import Any, TypeVar, cast

import torch
import transformers
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel

from longspan.attention.pattern import Pattern
from longspan.conversion import window_attention
from longspan.conversion.architectures import CROSS_ATTENTION, Architecture, architecture_of
from longspan.conversion.position_tables import Method, extend
from longspan.models.compact_loading import load_pretrained
from longspan.nn.sinusoids import sinusoids

Model = TypeVar("Model", bound=PreTrainedModel)


def lengthen_in_place(
    model: Model, *, max_length: int, window: int, positions: Method = "copy", seed: int = 0
) -> Model:
    """Makes ``model`` read up to ``max_length`` tokens at linear cost.

    The model's ``forward`` then takes ``global_attention_mask`` [batch, length], 1 for tokens that see
    and are seen by all, with the same projections as all others. ``generate`` does not take it; there,
    give ``encoder_outputs`` that the encoder made with it. On inputs so short that every token's
    window holds them all, outputs are what they were (but for ``positions="interpolate"``).

    Make optimizers afterwards: position tables are new parameters.

    Args:
        model: of one of the architectures in `architectures.ARCHITECTURES`.
        max_length: the most tokens of an input.
        window: tokens that a token sees: window // 2 on each side in an encoder (Longformer's
            ``attention_window``), the last ``window`` tokens, itself included, in a causal model
            (Mistral's ``sliding_window``).
        positions: where new rows of learned position tables come from; see `position_tables.extend`.
        seed: of ``positions="random"``.

    Returns:
        ``model`` itself.

    Raises:
        ValueError: an argument is wrong, or the architecture cannot be lengthened. The model is then
            as it was.
    """
    architecture = architecture_of(model.config)
    sights = _sights(model, window)
    old_length = _length(model, architecture)
    if old_length is not None and max_length < old_length:
        raise ValueError(f"max_length is {max_length}; this model reads {old_length} tokens already")
    if old_length is not None:
        _lengthen_positions(model, architecture, max_length - old_length, positions, seed)
    _look_through_window(model, architecture, sights)
    model.config.longspan = {"window": window, "max_length": max_length, "source_length": old_length}
    return model


def load_in_place(path: str | os.PathLike[str], **kwargs: Any) -> PreTrainedModel:
    """Loads a model that `lengthen_in_place` made and ``save_pretrained`` saved.

    Args:
        path: a folder, or a name on the Hub.
        **kwargs: of ``from_pretrained``.
    """
    config, _ = PreTrainedConfig.get_config_dict(path, **kwargs)
    if "longspan" not in config:
        raise ValueError(
            f"the config of {os.fspath(path)!r} has no entry 'longspan'; "
            "load the model as usual and use lengthen_in_place"
        )
    class_name = (config.get("architectures") or [""])[0]
    model_class: type[PreTrainedModel] | None = getattr(transformers, class_name, None)
    if model_class is None:
        raise ValueError(
            f"the config of {os.fspath(path)!r} has {class_name!r} first in 'architectures'; "
            "it must be the name of a model class of transformers"
        )
    return restore_window(load_pretrained(model_class, path, **kwargs))


def restore_window(model: Model) -> Model:
    """Gives a model that was lengthened in place, saved and loaded the window that it had.

    Args:
        model: of any class that its checkpoint was loaded as; ``config.longspan`` names the window.

    Returns:
        ``model`` itself.
    """
    sights = _sights(model, model.config.longspan["window"])
    _look_through_window(model, architecture_of(model.config), sights)
    return model


def has_window(model: nn.Module) -> bool:
    """Whether a model is one that was lengthened in place, and looks through its window."""
    config = getattr(model, "config", None)
    return getattr(config, "_attn_implementation", None) == window_attention.NAME


def _sights(model: PreTrainedModel, window: int) -> list[tuple[nn.Module, Pattern | None]]:
    """What the queries of each attention module will see; None for cross-attention."""
    if window < 1:
        raise ValueError(f"window is {window}; it must be at least 1")
    sights: list[tuple[nn.Module, Pattern | None]] = []
    for name, module in model.named_modules():
        # Attention modules, and only they, say whether they are causal.
        if not hasattr(module, "is_causal"):
            continue
        if any(part in CROSS_ATTENTION for part in name.split(".")):
            pattern = None
        elif not module.is_causal:
            pattern = _both_sides(window)
        elif model.config.is_encoder_decoder:
            pattern = Pattern(left=None, right=0)
        else:
            pattern = Pattern(left=window - 1, right=0)
        sights.append((module, pattern))
    if not any(pattern is not None and pattern.left is not None for _, pattern in sights):
        raise ValueError(f"{type(model).__name__} has no self-attention that could look through a window")
    return sights


def _both_sides(window: int) -> Pattern:
    if window % 2:
        raise ValueError(f"window is {window}; it must be even, half of it on each side of a token")
    return Pattern(left=window // 2, right=window // 2)


def _look_through_window(
    model: PreTrainedModel, architecture: Architecture, sights: list[tuple[nn.Module, Pattern | None]]
) -> None:
    for module, pattern in sights:
        window_attention.set_sight(module, pattern)
    if architecture.positions == "relative":
        # T5 is the only one; its code is imported for none of the others.
        from longspan.conversion.t5_bias import use_offset_bias

        use_offset_bias(model)
    model.set_attn_implementation(window_attention.NAME)
    for module in model.modules():
        if (
            isinstance(module, PreTrainedModel)
            and _refuse_attentions not in module._forward_pre_hooks.values()
        ):
            module.register_forward_pre_hook(_refuse_attentions, with_kwargs=True)


def _refuse_attentions(module: PreTrainedModel, _: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """transformers would answer with an empty tuple; some models do not even tell the attention function."""
    if not has_window(module):
        return
    asked = kwargs.get("output_attentions")
    if getattr(module.config, "output_attentions", False) if asked is None else asked:
        raise ValueError(
            "output_attentions is True; a model lengthened in place makes no attention probabilities. "
            "For inspection use model.set_attn_implementation('eager'), with inputs that fit into the window"
        )


def _length(model: PreTrainedModel, architecture: Architecture) -> int | None:
    """The most tokens the model can read; None where there is no bound."""
    if architecture.table:
        table = _tables(model, architecture)[0]
        return table.num_embeddings - _reserved_rows(table)
    return None if architecture.positions == "relative" else model.config.max_position_embeddings


def _lengthen_positions(
    model: PreTrainedModel, architecture: Architecture, more: int, method: Method, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    rows = 0
    for table in _tables(model, architecture):
        rows = table.num_embeddings + more
        weight = table.weight.detach()
        if architecture.positions == "sinusoidal":
            # The old rows are kept: a model may have been trained further from the formula's.
            new = torch.arange(len(weight), rows, device=weight.device)
            formula = sinusoids(new, weight.shape[1], interleaved=architecture.interleaved)
            longer = torch.cat([weight, formula.to(weight)])
        else:
            longer = extend(weight, rows, offset=_reserved_rows(table), method=method, generator=generator)
        table.weight = nn.Parameter(longer, requires_grad=table.weight.requires_grad)
        table.num_embeddings = rows
    for module in model.modules():
        for name in ("position_ids", "token_type_ids"):
            buffer = dict(module.named_buffers(recurse=False)).get(name)
            if buffer is not None:
                longer = (
                    torch.arange(rows, device=buffer.device)
                    if name == "position_ids"
                    else buffer.new_zeros(rows)
                )
                module.register_buffer(name, longer.expand(1, -1), persistent=False)
    # RoBERTa counts its reserved rows in the config and BART does not; both grow by as many.
    model.config.max_position_embeddings += more


def _tables(model: PreTrainedModel, architecture: Architecture) -> list[nn.Embedding]:
    """The position tables: one, or one of the encoder and one of the decoder."""
    return [
        module
        for name, module in model.named_modules()
        if isinstance(module, nn.Embedding) and name.rpartition(".")[2] == architecture.table
    ]


def _reserved_rows(table: nn.Embedding) -> int:
    """Rows before the first position: BART's offset, and up to RoBERTa's padding row."""
    if hasattr(table, "offset"):
        return cast(int, table.offset)
    return 0 if table.padding_idx is None else table.padding_idx + 1
