"""The relatives with a head: the next token, masked tokens, classes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers.generation.utils import GenerationMixin
from transformers.modeling_outputs import CausalLMOutputWithPast, MaskedLMOutput, SequenceClassifierOutput

from longspan.models.encoding import first_real, wanted
from longspan.models.funnel import shortened
from longspan.models.long_range import LongRangeModel, LongRangeOutput, LongRangePreTrainedModel
from longspan.models.long_range_cache import LongRangeCache
from longspan.models.long_range_config import LongRangeConfig
from longspan.nn.dropout import Dropout
from longspan.nn.memory import Memory


@dataclass
class LongRangeCausalLMOutput(CausalLMOutputWithPast):
    """With the losses of attention and memory themselves, which ``loss`` includes, and the memory."""

    losses: dict[str, Tensor] | None = None
    memory: Memory | None = None
    """After the last segment, where the model has one."""


@dataclass
class LongRangeMaskedLMOutput(MaskedLMOutput):
    """With the losses of attention itself, which ``loss`` includes."""

    losses: dict[str, Tensor] | None = None


@dataclass
class LongRangeClassifierOutput(SequenceClassifierOutput):
    """With the losses of attention itself, which ``loss`` includes."""

    losses: dict[str, Tensor] | None = None


class LongRangeForCausalLM(LongRangePreTrainedModel, GenerationMixin):
    """Says which token comes next.

    Args:
        config: its shape; ``is_decoder`` is set.

    Raises:
        ValueError: the kind of attention cannot look only back, with the reason.
    """

    _tied_weights_keys = {"lm_head.weight": "model.embeddings.weight"}

    def __init__(self, config: LongRangeConfig) -> None:
        if not config.is_decoder:
            config = LongRangeConfig.from_dict(config.to_dict() | {"is_decoder": True})
        super().__init__(config)
        self.model = LongRangeModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()
        if config.memory == "none" and config.refusal("cache"):
            cast(Any, self).generation_config.use_cache = False  # it reads all again for every new token

    def get_output_embeddings(self) -> nn.Module:
        """The projection to the vocabulary."""
        return self.lm_head

    def set_output_embeddings(self, new_embeddings: nn.Module) -> None:
        """Takes another projection to the vocabulary."""
        self.lm_head = cast(nn.Linear, new_embeddings)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        global_attention_mask: Tensor | None = None,
        past_key_values: LongRangeCache | None = None,
        memory: Memory | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        **_: Any,
    ) -> tuple[Any, ...] | LongRangeCausalLMOutput:
        """As `LongRangeModel`, and:

        Args:
            labels: [batch, length], the tokens themselves, -100 where nothing is to be said; the model
                compares what it says at a token with the label of the next one. Losses of attention and
                memory themselves are added.
            logits_to_keep: only those of so many last tokens; 0 is all.
        """
        decoded = cast(
            LongRangeOutput,
            self.model(
                input_ids=input_ids,
                attention_mask=attention_mask,
                global_attention_mask=global_attention_mask,
                past_key_values=past_key_values,
                memory=memory,
                inputs_embeds=inputs_embeds,
                use_cache=use_cache,
                output_hidden_states=output_hidden_states,
                return_dict=True,
            ),
        )
        hidden = cast(Tensor, decoded.last_hidden_state)
        kept = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        logits: Tensor = self.lm_head(hidden[:, kept])
        loss = None
        if labels is not None:
            wanted_next = F.pad(labels, (0, 1), value=-100)[:, 1:][:, kept].to(logits.device)
            loss = F.cross_entropy(_exact(logits.flatten(0, 1)), wanted_next.flatten())
            loss = loss + sum(cast(Mapping[str, Tensor], decoded.losses or {}).values())
        outputs = LongRangeCausalLMOutput(
            loss=cast(Any, loss),
            logits=cast(Any, logits),
            past_key_values=cast(Any, decoded.past_key_values),
            hidden_states=cast(Any, decoded.hidden_states),
            losses=decoded.losses,
            memory=decoded.memory,
        )
        return outputs if wanted(return_dict, self.config.return_dict) else outputs.to_tuple()


class _EncoderWithHead(LongRangePreTrainedModel):
    """An encoder called ``model``, and something on top.

    Args:
        config: its shape.
        decodes: see `LongRangeModel`.

    Raises:
        ValueError: the configuration is a decoder's.
    """

    def __init__(self, config: LongRangeConfig, *, decodes: bool = True) -> None:
        if config.is_decoder:
            raise ValueError(f"is_decoder is True; {type(self).__name__} needs an encoder (is_decoder=False)")
        super().__init__(config)
        self.model = LongRangeModel(config, decodes=decodes)

    def encode(self, **inputs: Any) -> LongRangeOutput:
        """Runs the encoder."""
        return cast(LongRangeOutput, self.model(**inputs, return_dict=True))


class LongRangeLMHead(nn.Module):
    """From hidden states to a score for every token."""

    def __init__(self, config: LongRangeConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.decoder = nn.Linear(config.hidden_size, config.vocab_size)

    def forward(self, x: Tensor) -> Tensor:
        """[..., hidden_size] -> [..., vocab_size]."""
        return self.decoder(self.norm(F.gelu(self.dense(x))))


class LongRangeForMaskedLM(_EncoderWithHead):
    """Says which tokens were masked."""

    _tied_weights_keys = {"lm_head.decoder.weight": "model.embeddings.weight"}

    def __init__(self, config: LongRangeConfig) -> None:
        if config.shortens:
            raise ValueError(
                f"block_sizes is {config.block_sizes} with decoder_layers 0; LongRangeForMaskedLM says "
                "something at every token and needs decoder_layers of at least 1"
            )
        super().__init__(config)
        self.lm_head = LongRangeLMHead(config)
        self.post_init()

    def get_output_embeddings(self) -> nn.Module:
        """The projection to the vocabulary."""
        return self.lm_head.decoder

    def set_output_embeddings(self, new_embeddings: nn.Module) -> None:
        """Takes another projection to the vocabulary."""
        self.lm_head.decoder = cast(nn.Linear, new_embeddings)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        global_attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        **_: Any,
    ) -> tuple[Any, ...] | LongRangeMaskedLMOutput:
        """``labels``: [batch, length] tokens, -100 where nothing was masked."""
        encoded = self.encode(
            input_ids=input_ids,
            attention_mask=attention_mask,
            global_attention_mask=global_attention_mask,
            inputs_embeds=inputs_embeds,
            output_hidden_states=output_hidden_states,
        )
        logits = self.lm_head(cast(Tensor, encoded.last_hidden_state))
        loss = None
        if labels is not None:
            loss = F.cross_entropy(_exact(logits.flatten(0, 1)), labels.flatten())
            loss = loss + sum(cast(Mapping[str, Tensor], encoded.losses or {}).values())
        outputs = LongRangeMaskedLMOutput(
            loss=cast(Any, loss),
            logits=logits,
            hidden_states=cast(Any, encoded.hidden_states),
            losses=encoded.losses,
        )
        return outputs if wanted(return_dict, self.config.return_dict) else outputs.to_tuple()


class LongRangeForSequenceClassification(_EncoderWithHead):
    """Says which class a text belongs to; by the states of the last block, where there are blocks."""

    # Of a model that was pretrained with a decoder.
    _keys_to_ignore_on_load_unexpected = [r"model\.decoder\."]

    def __init__(self, config: LongRangeConfig) -> None:
        super().__init__(config, decodes=False)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.dropout = Dropout(config.hidden_dropout_prob)
        self.classifier = nn.Linear(config.hidden_size, cast(int, config.num_labels))
        self.post_init()

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        global_attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        **_: Any,
    ) -> tuple[Any, ...] | LongRangeClassifierOutput:
        """``labels``: [batch] classes. Where the kind has global tokens, the one that is read is one by
        default."""
        given = input_ids if input_ids is not None else inputs_embeds
        first_is_global = self.config.has_globals and self.config.pooling == "first"
        if global_attention_mask is None and given is not None and first_is_global:
            global_attention_mask = torch.zeros(given.shape[:2], dtype=torch.long, device=given.device)
            first = 0 if attention_mask is None else (attention_mask != 0).to(torch.uint8).argmax(1)
            global_attention_mask[torch.arange(len(given)), first] = 1
        encoded = self.encode(
            input_ids=input_ids,
            attention_mask=attention_mask,
            global_attention_mask=global_attention_mask,
            inputs_embeds=inputs_embeds,
            output_hidden_states=output_hidden_states,
        )
        pooled = self._pooled(cast(Tensor, encoded.last_hidden_state), attention_mask)
        logits = self.classifier(self.dropout(torch.tanh(self.dense(self.dropout(pooled)))))
        loss = None
        if labels is not None:
            loss = F.cross_entropy(_exact(logits), labels)
            loss = loss + sum(cast(Mapping[str, Tensor], encoded.losses or {}).values())
        outputs = LongRangeClassifierOutput(
            loss=cast(Any, loss),
            logits=logits,
            hidden_states=cast(Any, encoded.hidden_states),
            losses=encoded.losses,
        )
        return outputs if wanted(return_dict, self.config.return_dict) else outputs.to_tuple()

    def _pooled(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        """[batch, length, hidden_size] -> [batch, hidden_size]."""
        is_padding = None if attention_mask is None else attention_mask == 0
        if is_padding is not None and self.config.block_sizes is not None:
            is_padding = shortened(is_padding, self.config.block_sizes, self.config.pooling_between)
        if self.config.pooling == "first":
            return first_real(x, is_padding)
        if is_padding is None:
            return x.mean(1)
        kept = (~is_padding)[..., None].to(x.dtype)
        return (x * kept).sum(1) / kept.sum(1).clamp_min(1)


def _exact(logits: Tensor) -> Tensor:
    return logits.to(torch.promote_types(logits.dtype, torch.float32))
