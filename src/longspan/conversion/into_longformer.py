"""RoBERTa, BERT and what shares their shape, as a Longformer; a Longformer, as a longer one.

The weights are the source's, copied: a token's window takes the place of full attention, the
projections of global tokens begin as those of all others, and the position table grows. On inputs
so short that all tokens see each other the result computes what the source computed. Refused is what
Longformer cannot compute: decoders, relative positions, and heads that it does not have.
"""

from typing import cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel

from longspan.conversion.position_tables import Method, extend
from longspan.models.longformer import LongformerModel, LongformerPreTrainedModel
from longspan.models.longformer_config import STOCK_MODEL_TYPE, LongformerConfig
from longspan.models.longformer_heads import (
    LongformerForMaskedLM,
    LongformerForMultipleChoice,
    LongformerForQuestionAnswering,
    LongformerForSequenceClassification,
    LongformerForTokenClassification,
)

FAMILIES = {
    "bert": "Bert",
    "camembert": "Camembert",
    "data2vec-text": "Data2VecText",
    "roberta": "Roberta",
    "xlm-roberta": "XLMRoberta",
    STOCK_MODEL_TYPE: "Longformer",
    LongformerConfig.model_type: "Longformer",
}
"""The model types that become a Longformer, and how the names of their classes begin."""

CLASSES: dict[str, type[LongformerPreTrainedModel]] = {
    "Model": LongformerModel,
    "ForMaskedLM": LongformerForMaskedLM,
    "ForSequenceClassification": LongformerForSequenceClassification,
    "ForTokenClassification": LongformerForTokenClassification,
    "ForQuestionAnswering": LongformerForQuestionAnswering,
    "ForMultipleChoice": LongformerForMultipleChoice,
}
"""What a class becomes, by how its name ends."""

_CARRIED = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "hidden_act",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "type_vocab_size",
    "initializer_range",
    "layer_norm_eps",
    "pad_token_id",
    "bos_token_id",
    "eos_token_id",
    "id2label",
    "label2id",
    "problem_type",
)

# BERT's heads are Longformer's under other names; its classifier reads what the pooler makes.
_BERT_HEADS = {
    "ForMaskedLM": {
        "cls.predictions.transform.dense.": "lm_head.dense.",
        "cls.predictions.transform.LayerNorm.": "lm_head.layer_norm.",
        "cls.predictions.": "lm_head.",
    },
    "ForSequenceClassification": {
        "bert.pooler.dense.": "classifier.dense.",
        "classifier.": "classifier.out_proj.",
    },
}

_POSITIONS = "embeddings.position_embeddings.weight"


def obstacles(source: PreTrainedModel) -> list[str]:
    """Why ``source`` cannot become a Longformer; empty if it can."""
    config = source.config
    if config.model_type not in FAMILIES:
        return [f"its model_type is {config.model_type!r}, and must be one of {', '.join(FAMILIES)}"]
    reasons: list[str] = []
    beginning = FAMILIES[config.model_type]
    if _ending(source) not in CLASSES:
        known = ", ".join(beginning + ending for ending in CLASSES)
        reasons.append(f"its class is {type(source).__name__}, and must be one of {known}")
    for field in ("is_decoder", "add_cross_attention"):
        if getattr(config, field, False):
            reasons.append(f"config.{field} is True, and must be False")
    for field, wanted in (("position_embedding_type", "absolute"), ("position_kind", "learned")):
        kind = getattr(config, field, wanted)
        if kind != wanted:
            reasons.append(f"config.{field} is {kind!r}, and must be {wanted!r}")
    if config.model_type == "bert" and _ending(source) == "ForMaskedLM" and config.hidden_act != "gelu":
        reasons.append(f"config.hidden_act is {config.hidden_act!r} in its head, and must be 'gelu' there")
    return reasons


def into_longformer(
    source: PreTrainedModel, *, max_length: int, window: int, positions: Method = "copy", seed: int = 0
) -> LongformerPreTrainedModel:
    """A new Longformer with the weights and the head of ``source``, which is not changed.

    Args:
        source: a model of one of the `FAMILIES` and `CLASSES`.
        max_length: the most tokens of an input.
        window: tokens that a token sees, both sides together.
        positions: where new rows of the position table come from; see `position_tables.extend`.
        seed: of ``positions="random"``.

    Returns:
        The matching class of `CLASSES`, with the dtype, device and mode of ``source``.

    Raises:
        ValueError: an argument is wrong, or there are `obstacles`.
    """
    reasons = obstacles(source)
    if reasons:
        raise ValueError(f"{type(source).__name__} cannot become a Longformer: {'; '.join(reasons)}")
    old_length = _length(source)
    if max_length < old_length:
        raise ValueError(f"max_length is {max_length}; this model reads {old_length} tokens already")
    config = _config(source, max_length, window)
    weights = _renamed(source)
    name = next(name for name in weights if name.endswith(_POSITIONS))
    weights[name] = _longer(weights[name], source.config, max_length, positions, seed)
    for name in [name for name in weights if ".attention.self." in name and "_global." not in name]:
        module, kind = name.rsplit(".", 1)
        weights.setdefault(f"{module}_global.{kind}", weights[name].clone())
    # On the meta device nothing is drawn or stored only to be overwritten.
    with torch.device("meta"):
        model = _empty(source, config)
    model.load_state_dict(weights, assign=True)
    model.tie_weights()
    model.config.longspan = {"window": window, "max_length": max_length, "source_length": old_length}
    return model.train(source.training)


def _ending(source: PreTrainedModel) -> str:
    return type(source).__name__.removeprefix(FAMILIES[source.config.model_type])


def _empty(source: PreTrainedModel, config: LongformerConfig) -> LongformerPreTrainedModel:
    kind = CLASSES[_ending(source)]
    if issubclass(kind, LongformerModel):
        return kind(config, add_pooling_layer=getattr(source, "pooler", None) is not None)
    return kind(config)


def _config(source: PreTrainedModel, max_length: int, window: int) -> LongformerConfig:
    old = source.config
    if FAMILIES[old.model_type] == "Longformer":
        fields = old.to_dict()
        fields.pop("model_type")
    else:
        fields = {name: getattr(old, name) for name in _CARRIED}
        fields["sep_token_id"] = _separator(old)
    output = cast(nn.Linear | None, source.get_output_embeddings())
    words = cast(nn.Embedding, source.get_input_embeddings())
    fields |= {
        "attention_window": window,
        "max_position_embeddings": _first_row(old) + max_length,
        "tie_word_embeddings": old.tie_word_embeddings if output is None else output.weight is words.weight,
        "dtype": source.dtype,
    }
    return LongformerConfig(**fields)


def _separator(config: PreTrainedConfig) -> int | None:
    """The token between two texts, where a head looks for it; RoBERTa's is the one that ends them."""
    separator = getattr(config, "sep_token_id", None)
    if separator is None and config.model_type != "bert" and isinstance(config.eos_token_id, int):
        return config.eos_token_id
    return separator


def _first_row(config: PreTrainedConfig) -> int:
    """The row of a Longformer's first token; those before it belong to padding."""
    return (config.pad_token_id or 0) + 1


def _length(source: PreTrainedModel) -> int:
    """The most tokens that ``source`` reads."""
    table = cast(nn.Embedding, source.base_model.get_submodule(_POSITIONS.removesuffix(".weight")))
    return table.num_embeddings - (0 if source.config.model_type == "bert" else _first_row(source.config))


def _renamed(source: PreTrainedModel) -> dict[str, Tensor]:
    """Copies of the weights of ``source``, under Longformer's names."""
    new_name = {source.base_model_prefix + ".": "longformer."}
    if source.config.model_type == "bert":
        new_name = _BERT_HEADS.get(_ending(source), {}) | new_name
    weights: dict[str, Tensor] = {}
    for name, weight in source.state_dict().items():
        old = next((old for old in new_name if name.startswith(old)), "")
        weights[new_name.get(old, "") + name.removeprefix(old)] = weight.detach().clone()
    return weights


def _longer(table: Tensor, config: PreTrainedConfig, max_length: int, method: Method, seed: int) -> Tensor:
    """The position table in Longformer's numbering."""
    first = _first_row(config)
    generator = torch.Generator().manual_seed(seed)
    if config.model_type != "bert":
        return extend(table, first + max_length, offset=first, method=method, generator=generator)
    # BERT counts from row 0, padding included. The rows of padding, which it lacks, are never seen.
    longer = extend(table, max_length, offset=0, method=method, generator=generator)
    return torch.cat([longer.new_zeros(first, longer.shape[1]), longer])
