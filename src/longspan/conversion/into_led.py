"""BART as an LED; an LED, as a longer one.

The weights are the source's, copied: in the encoder a token's window takes the place of full attention, the
projections of global tokens begin as those of all others, and the position table grows. The decoder stays
what it is. On inputs so short that all tokens see each other the result computes what the source computed.
Refused is what LED cannot compute: scaled embeddings, and heads that it does not have. mBART, Pegasus and
Marian normalise elsewhere and stay themselves: see `in_place.py`.
"""

import copy
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from longspan.conversion.position_tables import Method, extend
from longspan.models.led import LEDModel
from longspan.models.led_base import LEDPreTrainedModel
from longspan.models.led_config import STOCK_MODEL_TYPE, LEDConfig
from longspan.models.led_heads import LEDForConditionalGeneration, LEDForQuestionAnswering

FAMILIES = {"bart": "Bart", STOCK_MODEL_TYPE: "LED", LEDConfig.model_type: "LED"}
"""The model types that become an LED, and how the names of their classes begin."""

CLASSES: dict[str, type[LEDPreTrainedModel]] = {
    "Model": LEDModel,
    "ForConditionalGeneration": LEDForConditionalGeneration,
    "ForQuestionAnswering": LEDForQuestionAnswering,
}
"""What a class becomes, by how its name ends."""

_CARRIED = (
    "vocab_size",
    "d_model",
    "encoder_layers",
    "encoder_ffn_dim",
    "encoder_attention_heads",
    "decoder_layers",
    "decoder_ffn_dim",
    "decoder_attention_heads",
    "encoder_layerdrop",
    "decoder_layerdrop",
    "activation_function",
    "dropout",
    "attention_dropout",
    "activation_dropout",
    "classifier_dropout",
    "init_std",
    "use_cache",
    "decoder_start_token_id",
    "pad_token_id",
    "bos_token_id",
    "eos_token_id",
)
_PROJECTIONS = {"q_proj": "query", "k_proj": "key", "v_proj": "value"}
# Rows of BART's position tables before the first position.
_OFFSET = {"bart": 2}


def obstacles(source: PreTrainedModel) -> list[str]:
    """Why ``source`` cannot become an LED; empty if it can."""
    config = source.config
    if config.model_type not in FAMILIES:
        return [f"its model_type is {config.model_type!r}, and must be one of {', '.join(FAMILIES)}"]
    reasons: list[str] = []
    if _ending(source) not in CLASSES:
        known = ", ".join(FAMILIES[config.model_type] + ending for ending in CLASSES)
        reasons.append(f"its class is {type(source).__name__}, and must be one of {known}")
    if getattr(config, "scale_embedding", False):
        reasons.append("config.scale_embedding is True, and must be False")
    return reasons


def into_led(
    source: PreTrainedModel, *, max_length: int, window: int, positions: Method = "copy", seed: int = 0
) -> LEDPreTrainedModel:
    """A new LED with the weights and the head of ``source``, which is not changed.

    Args:
        source: a model of one of the `FAMILIES` and `CLASSES`.
        max_length: the most tokens of a document; what can be written stays as long as it was.
        window: tokens that a token of the document sees, both sides together.
        positions: where new rows of the encoder's position table come from; see `position_tables.extend`.
        seed: of ``positions="random"``.

    Returns:
        The matching class of `CLASSES`, with the dtype, device, mode and generation settings of ``source``.

    Raises:
        ValueError: an argument is wrong, or there are `obstacles`.
    """
    reasons = obstacles(source)
    if reasons:
        raise ValueError(f"{type(source).__name__} cannot become an LED: {'; '.join(reasons)}")
    offset = _OFFSET.get(source.config.model_type, 0)
    old_length = _rows(source, "encoder") - offset
    if max_length < old_length:
        raise ValueError(f"max_length is {max_length}; this model reads {old_length} tokens already")
    config = _config(source, max_length, window)
    generator = torch.Generator().manual_seed(seed)
    weights: dict[str, Tensor] = {}
    for name, weight in source.state_dict().items():
        new = _renamed(name, source)
        weight = weight.detach().clone()
        if name.endswith("embed_positions.weight"):
            weight = weight[offset:]
            if "encoder." in name:
                weight = extend(weight, max_length, offset=0, method=positions, generator=generator)
        weights[new] = weight
    for name in [name for name in weights if ".longformer_self_attn." in name and "_global." not in name]:
        module, kind = name.rsplit(".", 1)
        weights.setdefault(f"{module}_global.{kind}", weights[name].clone())
    # On the meta device nothing is drawn or stored only to be overwritten.
    with torch.device("meta"):
        model = CLASSES[_ending(source)](config)
    model.load_state_dict(weights, assign=True)
    model.tie_weights()
    if isinstance(model, LEDForConditionalGeneration):
        model.generation_config = copy.deepcopy(source.generation_config)
    model.config.longspan = {"window": window, "max_length": max_length, "source_length": old_length}
    return model.train(source.training)


def _ending(source: PreTrainedModel) -> str:
    return type(source).__name__.removeprefix(FAMILIES[source.config.model_type])


def _rows(source: PreTrainedModel, side: str) -> int:
    table = source.base_model.get_submodule(f"{side}.embed_positions")
    return cast(nn.Embedding, table).num_embeddings


def _config(source: PreTrainedModel, max_length: int, window: int) -> LEDConfig:
    old = source.config
    fields: dict[str, Any]
    if FAMILIES[old.model_type] == "LED":
        fields = old.to_dict()
        fields.pop("model_type")
    else:
        fields = {name: getattr(old, name) for name in _CARRIED}
        fields["max_decoder_position_embeddings"] = _rows(source, "decoder") - _OFFSET[old.model_type]
    output = cast(nn.Linear | None, source.get_output_embeddings())
    words = cast(nn.Embedding, source.get_input_embeddings())
    fields |= {
        "attention_window": window,
        "max_encoder_position_embeddings": max_length,
        "tie_word_embeddings": old.tie_word_embeddings if output is None else output.weight is words.weight,
        "dtype": source.dtype,
    }
    return LEDConfig(**fields)


def _renamed(name: str, source: PreTrainedModel) -> str:
    """A parameter's name in LED."""
    if FAMILIES[source.config.model_type] == "LED":
        return name
    name = f"led.{name.removeprefix('model.')}" if name.startswith("model.") else name
    before, attention, last = name.partition(".self_attn.")
    if not attention or "encoder.layers." not in before:
        return name
    module, _, kind = last.partition(".")
    new = f"longformer_self_attn.{_PROJECTIONS[module]}" if module in _PROJECTIONS else "output"
    return f"{before}{attention}{new}.{kind}"
