"""Longformer with a task's head: masked words, classes, answers, tags, choices.

Signatures, parameter names, outputs and default global tokens are those of transformers.
"""

from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers.models.longformer.modeling_longformer import (
    LongformerBaseModelOutputWithPooling,
    LongformerMaskedLMOutput,
    LongformerMultipleChoiceModelOutput,
    LongformerQuestionAnsweringModelOutput,
    LongformerSequenceClassifierOutput,
    LongformerTokenClassifierOutput,
)
from transformers.utils.generic import ModelOutput

from longspan.models.default_globals import choice_globals, classification_globals, question_globals
from longspan.models.encoding import first_real, wanted
from longspan.models.longformer import LongformerModel, LongformerPreTrainedModel, WithOwnBias
from longspan.models.longformer_config import LongformerConfig
from longspan.nn.dropout import Dropout

Output = TypeVar("Output", bound=ModelOutput)


class _WithHead(LongformerPreTrainedModel):
    """A `LongformerModel` called ``longformer``, and something on top."""

    longformer: LongformerModel

    def encode(self, **inputs: Any) -> LongformerBaseModelOutputWithPooling:
        """Runs the encoder."""
        return cast(LongformerBaseModelOutputWithPooling, self.longformer(**inputs, return_dict=True))

    def answer(
        self,
        kind: type[Output],
        encoded: LongformerBaseModelOutputWithPooling,
        return_dict: bool | None,
        **fields: Tensor | None,
    ) -> Output | tuple[Any, ...]:
        """The output object of a head, or its tuple."""
        outputs = kind(
            **fields,
            hidden_states=encoded.hidden_states,
            attentions=encoded.attentions,
            global_attentions=encoded.global_attentions,
        )
        return outputs if wanted(return_dict, self.config.return_dict) else outputs.to_tuple()


class LongformerLMHead(WithOwnBias):
    """From hidden states to a score for every word."""

    def __init__(self, config: LongformerConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.layer_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.decoder = nn.Linear(config.hidden_size, config.vocab_size)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def forward(self, x: Tensor) -> Tensor:
        """[..., hidden_size] -> [..., vocab_size]."""
        return self.decoder(self.layer_norm(F.gelu(self.dense(x))))


class LongformerForMaskedLM(_WithHead):
    """Says which words were masked."""

    _tied_weights_keys = {
        "lm_head.decoder.weight": "longformer.embeddings.word_embeddings.weight",
        "lm_head.decoder.bias": "lm_head.bias",
    }

    def __init__(self, config: LongformerConfig) -> None:
        super().__init__(config)
        config = self.config
        self.longformer = LongformerModel(config, add_pooling_layer=False)
        self.lm_head = LongformerLMHead(config)
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
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        **_: Any,
    ) -> tuple[Any, ...] | LongformerMaskedLMOutput:
        """``labels``: [batch, length] words, -100 where nothing was masked."""
        encoded = self.encode(
            input_ids=input_ids,
            attention_mask=attention_mask,
            global_attention_mask=global_attention_mask,
            token_type_ids=token_type_ids,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
            output_attentions=output_attentions,
            output_hidden_states=output_hidden_states,
        )
        logits = self.lm_head(encoded.last_hidden_state)
        loss = (
            None
            if labels is None
            else F.cross_entropy(logits.flatten(0, 1), labels.flatten().to(logits.device))
        )
        return self.answer(LongformerMaskedLMOutput, encoded, return_dict, loss=loss, logits=logits)


class LongformerClassificationHead(nn.Module):
    """From the first token to a score for every class."""

    def __init__(self, config: LongformerConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.dropout = Dropout(config.hidden_dropout_prob)
        self.out_proj = nn.Linear(config.hidden_size, cast(int, config.num_labels))

    def forward(self, first: Tensor) -> Tensor:
        """[batch, hidden_size] -> [batch, num_labels]."""
        return self.out_proj(self.dropout(torch.tanh(self.dense(self.dropout(first)))))


class LongformerForSequenceClassification(_WithHead):
    """Classifies a document, or rates it; the first token is global by default."""

    def __init__(self, config: LongformerConfig) -> None:
        super().__init__(config)
        config = self.config
        self.num_labels = config.num_labels
        self.longformer = LongformerModel(config, add_pooling_layer=False)
        self.classifier = LongformerClassificationHead(config)
        self.post_init()

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        global_attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        **_: Any,
    ) -> tuple[Any, ...] | LongformerSequenceClassifierOutput:
        """``labels``: [batch] classes, [batch] numbers, or [batch, num_labels] of 0 and 1."""
        given = input_ids if input_ids is not None else inputs_embeds
        if global_attention_mask is None and given is not None:
            shape = (given.shape[0], given.shape[1])
            global_attention_mask = classification_globals(attention_mask, shape, given.device)
        encoded = self.encode(
            input_ids=input_ids,
            attention_mask=attention_mask,
            global_attention_mask=global_attention_mask,
            token_type_ids=token_type_ids,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
            output_attentions=output_attentions,
            output_hidden_states=output_hidden_states,
        )
        is_padding = None if attention_mask is None else attention_mask == 0
        logits = self.classifier(first_real(cast(Tensor, encoded.last_hidden_state), is_padding))
        loss = None if labels is None else self._loss(logits, labels.to(logits.device))
        return self.answer(LongformerSequenceClassifierOutput, encoded, return_dict, loss=loss, logits=logits)

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        if self.config.problem_type is None:  # remembered, as transformers does
            if self.num_labels == 1:
                self.config.problem_type = "regression"
            elif labels.dtype in (torch.long, torch.int):
                self.config.problem_type = "single_label_classification"
            else:
                self.config.problem_type = "multi_label_classification"
        if self.config.problem_type == "regression":
            return F.mse_loss(logits.view_as(labels), labels)
        if self.config.problem_type == "single_label_classification":
            return F.cross_entropy(logits, labels.flatten())
        return F.binary_cross_entropy_with_logits(logits, labels)


class LongformerForQuestionAnswering(_WithHead):
    """Finds where an answer begins and ends; the question is global by default."""

    def __init__(self, config: LongformerConfig) -> None:
        super().__init__(config)
        config = self.config
        self.num_labels = config.num_labels
        self.longformer = LongformerModel(config, add_pooling_layer=False)
        self.qa_outputs = nn.Linear(config.hidden_size, cast(int, config.num_labels))
        self.post_init()

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        global_attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        start_positions: Tensor | None = None,
        end_positions: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        **_: Any,
    ) -> tuple[Any, ...] | LongformerQuestionAnsweringModelOutput:
        """``start_positions``, ``end_positions``: [batch]; places beyond the input are ignored."""
        if global_attention_mask is None:
            if input_ids is None:
                raise ValueError(
                    "global_attention_mask is None and so is input_ids, so the question cannot be found; "
                    "give global_attention_mask, 1 at the question's tokens"
                )
            global_attention_mask = question_globals(input_ids, self.config.sep_token_id)
        encoded = self.encode(
            input_ids=input_ids,
            attention_mask=attention_mask,
            global_attention_mask=global_attention_mask,
            token_type_ids=token_type_ids,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
            output_attentions=output_attentions,
            output_hidden_states=output_hidden_states,
        )
        start_logits, end_logits = self.qa_outputs(encoded.last_hidden_state).unbind(-1)
        loss = None
        if start_positions is not None and end_positions is not None:
            beyond = start_logits.shape[1]
            losses = [
                F.cross_entropy(
                    logits, places.flatten().clamp(0, beyond).to(logits.device), ignore_index=beyond
                )
                for logits, places in ((start_logits, start_positions), (end_logits, end_positions))
            ]
            loss = (losses[0] + losses[1]) / 2
        return self.answer(
            LongformerQuestionAnsweringModelOutput,
            encoded,
            return_dict,
            loss=loss,
            start_logits=start_logits.contiguous(),
            end_logits=end_logits.contiguous(),
        )


class LongformerForTokenClassification(_WithHead):
    """Tags every token."""

    def __init__(self, config: LongformerConfig) -> None:
        super().__init__(config)
        config = self.config
        self.num_labels = config.num_labels
        self.longformer = LongformerModel(config, add_pooling_layer=False)
        self.dropout = Dropout(config.hidden_dropout_prob)
        self.classifier = nn.Linear(config.hidden_size, cast(int, config.num_labels))
        self.post_init()

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        global_attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        **_: Any,
    ) -> tuple[Any, ...] | LongformerTokenClassifierOutput:
        """``labels``: [batch, length] tags, -100 for tokens without one."""
        encoded = self.encode(
            input_ids=input_ids,
            attention_mask=attention_mask,
            global_attention_mask=global_attention_mask,
            token_type_ids=token_type_ids,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
            output_attentions=output_attentions,
            output_hidden_states=output_hidden_states,
        )
        logits = self.classifier(self.dropout(encoded.last_hidden_state))
        loss = (
            None
            if labels is None
            else F.cross_entropy(logits.flatten(0, 1), labels.flatten().to(logits.device))
        )
        return self.answer(LongformerTokenClassifierOutput, encoded, return_dict, loss=loss, logits=logits)


class LongformerForMultipleChoice(_WithHead):
    """Chooses one of several continuations; the choice is global by default."""

    def __init__(self, config: LongformerConfig) -> None:
        super().__init__(config)
        config = self.config
        self.longformer = LongformerModel(config)
        self.dropout = Dropout(config.hidden_dropout_prob)
        self.classifier = nn.Linear(config.hidden_size, 1)
        self.post_init()

    def forward(
        self,
        input_ids: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        global_attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        **_: Any,
    ) -> tuple[Any, ...] | LongformerMultipleChoiceModelOutput:
        """All inputs are [batch, choices, length]; ``labels``: [batch] right choices."""
        given = input_ids if input_ids is not None else inputs_embeds
        if given is None:
            raise ValueError("input_ids and inputs_embeds are both None; give one of them")
        choices = given.shape[1]

        def flat(x: Tensor | None) -> Tensor | None:
            return None if x is None else x.flatten(0, 1)

        if global_attention_mask is None and input_ids is not None:
            global_attention_mask = choice_globals(
                input_ids.flatten(0, 1), self.config.sep_token_id, self.config.pad_token_id
            ).view_as(input_ids)
        encoded = self.encode(
            input_ids=flat(input_ids),
            attention_mask=flat(attention_mask),
            global_attention_mask=flat(global_attention_mask),
            token_type_ids=flat(token_type_ids),
            position_ids=flat(position_ids),
            inputs_embeds=flat(inputs_embeds),
            output_attentions=output_attentions,
            output_hidden_states=output_hidden_states,
        )
        logits = self.classifier(self.dropout(encoded.pooler_output)).view(-1, choices)
        loss = None if labels is None else F.cross_entropy(logits, labels.to(logits.device))
        return self.answer(
            LongformerMultipleChoiceModelOutput, encoded, return_dict, loss=loss, logits=logits
        )
