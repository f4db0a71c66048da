"""The models of the task `causal-lm`: a `LongformerForCausalLM` or a relative, new or trained, and how they
read.

A relative may be without a cache, since what it looks at depends on the whole input. Then it cannot read a
text as a stream, and is refused so; windows that slide are read one by one.
"""

from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from transformers.utils import logging

from longspan.models.causal_lm import LongformerForCausalLM
from longspan.models.causal_lm_cache import LongformerCache
from longspan.models.causal_lm_config import NAMED, LongformerCausalLMConfig
from longspan.models.hub import model_fields
from longspan.models.long_range_cache import LongRangeCache
from longspan.models.long_range_config import LongRangeConfig
from longspan.models.long_range_heads import LongRangeForCausalLM

CausalModel = LongformerForCausalLM | LongRangeForCausalLM
_CLASSES: dict[str, tuple[Any, Any]] = {
    LongformerCausalLMConfig.model_type: (LongformerCausalLMConfig, LongformerForCausalLM),
    LongRangeConfig.model_type: (LongRangeConfig, LongRangeForCausalLM),
}


class States(NamedTuple):
    """What a model makes of a batch."""

    hidden: Tensor
    """[batch, length, hidden_size]."""
    losses: dict[str, Tensor]
    """Of attention and memory themselves, [] each."""


def causal_model(source: str, changes: dict[str, Any]) -> CausalModel:
    """A new model, of a name in `NAMED` or of a configuration in a ``.json`` file, or a trained one.

    Args:
        source: that says which.
        changes: of the configuration.

    Raises:
        ValueError: there is no such model, or it is of another type.
    """
    logging.disable_progress_bar()  # of weights, which a run saves often
    if source in NAMED:
        return LongformerForCausalLM(LongformerCausalLMConfig.named(source, **changes))
    if source.endswith(".json"):
        try:
            fields = LongformerCausalLMConfig._dict_from_json_file(source)
        except OSError as error:
            raise ValueError(f"model.source is {source!r}: {' '.join(str(error).split())}") from error
    else:
        fields = model_fields(source, named="model.source is")
    kind = fields.get("model_type", LongformerCausalLMConfig.model_type)
    if kind not in _CLASSES:
        raise ValueError(
            f"model.source is {source!r}, a model of type {kind!r}; causal-lm takes a "
            f"LongformerForCausalLM, a LongRangeForCausalLM, a configuration of one (.json), or one of "
            f"{', '.join(NAMED)}"
        )
    config_class, model_class = _CLASSES[kind]
    if source.endswith(".json"):
        # Said at once: some kinds have no other form, and a configuration is checked when it is made.
        looks_back = {"is_decoder": True} if config_class is LongRangeConfig else {}
        return model_class(config_class.from_dict(fields | looks_back | changes))
    return model_class.from_pretrained(source, dtype=torch.float32, **changes)


def is_new(source: str) -> bool:
    """Whether a source is a configuration alone, whose weights are still to be drawn."""
    return source.endswith(".json") and Path(source).is_file()


def training_states(model: nn.Module, ids: Tensor) -> States:
    """Reads a batch of windows, [batch, length], to learn from it.

    No mask: what is padded comes last, where nobody sees it.
    """
    said = cast(CausalModel, model).model(ids, use_cache=False)
    return States(said.last_hidden_state, getattr(said, "losses", None) or {})


def cache_of(model: nn.Module) -> LongformerCache | LongRangeCache | None:
    """What a model reads on with; None where it has to read all at once."""
    if isinstance(model, LongRangeForCausalLM):
        has_none = model.config.memory == "none" and model.config.refusal("cache")
        return None if has_none else model.model.new_cache()
    return LongformerCache(cast(LongformerForCausalLM, model).config)


def check_streams(model: CausalModel) -> None:
    """Checks that a model can read a text of any length as a stream.

    Raises:
        ValueError: it cannot, with the reason.
    """
    if not isinstance(model, LongRangeForCausalLM):
        return
    reason = None if model.config.memory != "none" else model.config.refusal("cache")
    if reason is None and model.config.positions == "absolute":
        reason = f"positions 'absolute' do not beyond {model.config.max_position_embeddings} tokens"
    if reason:
        raise ValueError(
            f"settings.evaluation is 'streaming', which {reason}; it must be 'sliding', with an "
            "evaluation_length that the model reads at once"
        )
