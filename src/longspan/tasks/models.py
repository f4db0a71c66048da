"""The model under a task: loaded, lengthened if a recipe says so, with the head that the task needs."""

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.utils import logging

import longspan
from longspan.conversion.in_place import has_window, restore_window
from longspan.conversion.lengthen import lengthen
from longspan.conversion.position_tables import Method
from longspan.models.compact_loading import load_pretrained
from longspan.models.hub import model_fields
from longspan.models.led_base import LEDPreTrainedModel
from longspan.models.led_config import STOCK_MODEL_TYPE as STOCK_LED
from longspan.models.led_config import LEDConfig
from longspan.models.long_range import LongRangePreTrainedModel
from longspan.models.long_range_config import LongRangeConfig
from longspan.models.longformer import LongformerPreTrainedModel
from longspan.models.longformer_config import STOCK_MODEL_TYPE, LongformerConfig

Head = Literal["MaskedLM", "SequenceClassification", "QuestionAnswering", "TokenClassification", "Seq2SeqLM"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelSettings:
    """Where a model comes from, and what is changed before it is trained."""

    source: str
    """A folder, or a name on the Hub."""
    layers: int | None = None
    """Only so many layers of an encoder, the lowest; None keeps all. The highest layers of one that was
    trained to embed whole texts make all tokens alike: tasks on tokens learn faster without them."""
    max_length: int | None = None
    """Lengthen it to so many tokens first; None takes it as it is."""
    window: int = 512
    """Tokens that a token sees, both sides together, where it is lengthened."""
    positions: Method = "copy"
    """Where the embeddings of new positions come from, where it is lengthened."""
    separate_global_projections: bool = True
    """Whether global tokens keep projections of their own; False is the paper's ablation."""
    dropout: float | None = None
    """Of hidden states and attention; None leaves what the model has."""
    gradient_checkpointing: bool = False
    """Compute activations again in the backward pass, to save memory."""


def load_model(
    settings: ModelSettings, head: Head | None, *, global_tokens: bool = True, **config: Any
) -> PreTrainedModel:
    """A pretrained model of the class with ``head``, or the bare encoder without a pooler.

    A head that the checkpoint lacks is drawn from torch's generator; anything else that it lacks is an
    error.

    Args:
        settings: of the model.
        head: as in the names of transformers' classes, ``RobertaFor<head>``; None for the encoder.
        global_tokens: whether the task has any. Without, projections for them are frozen: nothing could
            train them, and weight decay must not change them.
        config: fields of the configuration to set, such as ``num_labels``.

    Raises:
        ValueError: the source cannot be loaded, lacks weights, or cannot be lengthened so.
    """
    model = _pretrained(settings, head, config)
    if head is None and getattr(model.config, "shortens", False):
        raise ValueError(
            f"model.source is {settings.source!r}, whose outputs are shorter than its inputs; this task "
            "needs decoder_layers of at least 1"
        )
    if settings.max_length is not None:
        model = lengthen(model, settings.max_length, settings.window, positions=settings.positions)
    if not settings.separate_global_projections:
        share_global_projections(model)
    if not global_tokens:
        freeze_global_projections(model)
    if settings.gradient_checkpointing:
        model.gradient_checkpointing_enable()
    return model


def grow_embeddings(encoder: PreTrainedModel, tokens: int) -> None:
    """Gives tokens that a task added an embedding, drawn as the model's own were."""
    if cast(nn.Embedding, encoder.get_input_embeddings()).num_embeddings < tokens:
        # transformers' default takes the covariance of all others.
        encoder.resize_token_embeddings(tokens, mean_resizing=False)


def share_global_projections(model: nn.Module) -> None:
    """Lets global tokens use the projections of all others: one set of weights, trained as one."""
    for module in model.modules():
        if hasattr(module, "query_global"):
            for name in ("query", "key", "value"):
                setattr(module, f"{name}_global", getattr(module, name))


def freeze_global_projections(model: nn.Module) -> None:
    """Keeps projections that are for global tokens alone from being trained."""
    for module in model.modules():
        if hasattr(module, "query_global"):
            for name in ("query", "key", "value"):
                own = getattr(module, f"{name}_global")
                if own is not getattr(module, name):
                    own.requires_grad_(False)


def copy_global_projections(model: nn.Module) -> None:
    """Copies the local projections over the global ones, which masked language modelling, without a
    global token, does not train."""
    for module in model.modules():
        if hasattr(module, "query_global"):
            for name in ("query", "key", "value"):
                getattr(module, f"{name}_global").load_state_dict(getattr(module, name).state_dict())


def call(model: nn.Module, batch: dict[str, Tensor], **more: Tensor) -> Any:
    """Runs a Hugging Face model, base or with a head, on the common fields of a batch, and on ``more``."""
    return model(**inputs_of(model, batch), **more, return_dict=True)


def inputs_of(model: nn.Module, batch: dict[str, Tensor]) -> dict[str, Tensor]:
    """The common fields of a batch, as arguments of a Hugging Face model: global tokens where it has any."""
    inputs = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}
    ours = (LongformerPreTrainedModel, LEDPreTrainedModel, LongRangePreTrainedModel)
    if isinstance(model, ours) or has_window(model):
        # Given even where no token is global: some heads would choose their own otherwise.
        is_global = batch.get("is_global")
        if isinstance(model, LongRangePreTrainedModel) and not model.config.has_globals:
            is_global = None
        inputs["global_attention_mask"] = (
            inputs["attention_mask"] * 0 if is_global is None else is_global.long()
        )
    return inputs


class EncoderWithHead(nn.Module):
    """A pretrained encoder, and a head that transformers has no class for.

    Args:
        encoder: a base model.
        head: called by the task on the hidden states.
    """

    def __init__(self, encoder: PreTrainedModel, head: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head

    def forward(self, batch: dict[str, Tensor]) -> Any:
        """``head(hidden, batch)``: hidden states [batch, length, hidden_size] and what came with them."""
        return self.head(call(self.encoder, batch).last_hidden_state, batch)

    def save(self, folder: Path) -> None:
        """The encoder as transformers does it, the head beside it."""
        save_pretrained(self.encoder, folder)
        save_file(
            {name: x.contiguous() for name, x in self.head.state_dict().items()}, folder / "head.safetensors"
        )

    def restore(self, folder: Path) -> None:
        """Reads the head that `save` wrote; the encoder is loaded before."""
        self.head.load_state_dict(load_file(folder / "head.safetensors"))


def save_pretrained(model: PreTrainedModel, folder: Path) -> None:
    """As transformers does it; shared global projections are written as the copies that others read."""
    shared = {name: x.clone() for name, x in model.state_dict().items() if "_global." in name}
    model.save_pretrained(folder, state_dict=model.state_dict() | shared)


def head_parameters(model: nn.Module) -> set[str]:
    """Names of the parameters that are not the pretrained encoder's.

    Of a model that writes this is its decoder too, without the embeddings that both sides share: it is new
    where the model was made of an encoder alone.
    """
    if not isinstance(model, PreTrainedModel):
        return {name for name, _ in model.named_parameters() if not name.startswith("encoder.")}
    if model.config.is_encoder_decoder and model.can_generate():
        reads = [*model.get_encoder().parameters(), *model.get_input_embeddings().parameters()]
        pretrained = {id(weight) for weight in reads}
        return {name for name, weight in model.named_parameters() if id(weight) not in pretrained}
    prefix = f"{model.base_model_prefix}."
    return {name for name, _ in model.named_parameters() if not name.startswith(prefix)}


def _pretrained(settings: ModelSettings, head: Head | None, config: dict[str, Any]) -> PreTrainedModel:
    source = settings.source
    try:
        if source.endswith(".json"):
            return _new(settings, head, config)
    except OSError as error:
        raise ValueError(f"model.source is {source!r}: {' '.join(str(error).split())}") from error
    fields = model_fields(source, named="model.source is")
    if settings.dropout is not None:
        config = config | dict.fromkeys(_dropouts(fields), settings.dropout)
    if settings.layers is not None:
        config = config | _lowest_layers(fields, settings.layers)
    is_led = fields.get("model_type") in (STOCK_LED, LEDConfig.model_type)
    ours = is_led or fields.get("model_type") in (STOCK_MODEL_TYPE, LongformerConfig.model_type)
    suffix = "Model" if head is None else f"For{head}"
    stock = f"Auto{suffix}" if head is None else f"AutoModel{suffix}"
    if is_led:
        kind: Any = longspan.LEDModel if head is None else _led(source, head)
    else:
        kind = getattr(longspan, f"Longformer{suffix}", None) if ours else getattr(transformers, stock)
    if kind is None:
        raise ValueError(f"model.source is {source!r}, a Longformer, which has no decoder; lengthen BART")
    if head is None and not is_led and (ours or _may_have_pooler(fields)):
        config = config | {"add_pooling_layer": False}
    logging.disable_progress_bar()
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()  # the new head is expected, what else is missing is checked below
    try:
        model, info = load_pretrained(kind, source, dtype=torch.float32, **config, output_loading_info=True)
    except OSError as error:
        raise ValueError(f"model.source is {source!r}: {' '.join(str(error).split())}") from error
    finally:
        logging.set_verbosity(verbosity)
    # The head of a seq2seq model is the embeddings: there is nothing new to draw.
    base = "" if head in (None, "Seq2SeqLM") else f"{model.base_model_prefix}."
    missing = sorted(name for name in info["missing_keys"] if name.startswith(base))
    if missing:
        lacks = f"which lacks weights of {type(model).__name__}: {', '.join(missing[:4])}"
        raise ValueError(f"model.source is {source!r}, {lacks}")
    # One that was lengthened and kept its class forgets its window when it is saved.
    return model if ours or "longspan" not in fields else restore_window(model)


def _new(settings: ModelSettings, head: Head | None, config: dict[str, Any]) -> PreTrainedModel:
    """A relative of a configuration alone, with new weights."""
    source = settings.source
    fields = LongRangeConfig._dict_from_json_file(source)
    if fields.get("model_type") != LongRangeConfig.model_type:
        raise ValueError(
            f"model.source is {source!r}, a configuration of type {fields.get('model_type')!r}; only one of "
            f"type {LongRangeConfig.model_type!r} is trained from new weights"
        )
    kind = getattr(longspan, "LongRangeModel" if head is None else f"LongRangeFor{head}", None)
    if kind is None:
        raise ValueError(f"model.source is {source!r}, a relative, which has no head for {head}")
    if settings.layers is not None:
        raise ValueError(
            f"model.layers is {settings.layers}; {source} has no weights to keep: set num_hidden_layers there"
        )
    if settings.dropout is not None:
        config = config | dict.fromkeys(_dropouts(fields), settings.dropout)
    return kind(LongRangeConfig.from_dict(fields | config))


def _may_have_pooler(fields: dict[str, Any]) -> bool:
    """Whether the encoder of a configuration can be told to have no pooler; DistilBERT's never has one."""
    kind: Any = transformers.MODEL_MAPPING[transformers.CONFIG_MAPPING[fields["model_type"]]]
    return "add_pooling_layer" in inspect.signature(kind.__init__).parameters


def _led(source: str, head: Head) -> Any:
    if head == "Seq2SeqLM":
        return longspan.LEDForConditionalGeneration
    if head == "QuestionAnswering":
        return longspan.LEDForQuestionAnswering
    raise ValueError(f"model.source is {source!r}, an LED, which has no head for {head}")


def _lowest_layers(fields: dict[str, Any], layers: int) -> dict[str, Any]:
    """The fields of a configuration of the same encoder with fewer layers."""
    there = fields.get("num_hidden_layers")
    if there is None or fields.get("is_encoder_decoder"):
        raise ValueError(f"model.layers is {layers}; only encoders and decoders that stand alone can be cut")
    if not 1 <= layers <= there:
        raise ValueError(f"model.layers is {layers}; the model has {there}, so it must be 1 to {there}")
    per_layer = ("attention_window", "attention_dilation", "layer_types")
    lists = {name: fields[name][:layers] for name in per_layer if isinstance(fields.get(name), list)}
    return {"num_hidden_layers": layers, **lists}


def _dropouts(fields: dict[str, Any]) -> tuple[str, ...]:
    """The fields of a configuration that say how much of hidden states and attention is dropped."""
    if "dropout_rate" in fields:
        return ("dropout_rate",)
    if fields.get("is_encoder_decoder"):
        return ("dropout", "attention_dropout")
    return ("hidden_dropout_prob", "attention_probs_dropout_prob")
