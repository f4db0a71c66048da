"""LED with a head: texts written about documents, and answers found in them.

Signatures, parameter names and outputs are those of transformers. `generate` carries
``global_attention_mask`` along and gives all beams of a document the same encoded document.
"""

from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers.generation.utils import GenerationMixin
from transformers.models.led.modeling_led import (
    LEDSeq2SeqLMOutput,
    LEDSeq2SeqModelOutput,
    LEDSeq2SeqQuestionAnsweringModelOutput,
)

from longspan.models.encoding import wanted
from longspan.models.led import LEDModel, shift_right
from longspan.models.led_base import LEDPreTrainedModel
from longspan.models.led_cache import LEDCache
from longspan.models.led_config import LEDConfig
from longspan.models.windowed_generation import WindowedGeneration

_OF_DOCUMENTS = ("encoder_outputs", "attention_mask", "global_attention_mask")


class LEDForConditionalGeneration(LEDPreTrainedModel, WindowedGeneration, GenerationMixin):
    """Writes about documents: summaries, answers, translations.

    Args:
        config: its shape.
    """

    _keys_to_ignore_on_load_missing = ["final_logits_bias"]
    _tied_weights_keys = {"lm_head.weight": "led.shared.weight"}

    def __init__(self, config: LEDConfig) -> None:
        super().__init__(config)
        config = self.config
        self.led = LEDModel(config)
        self.register_buffer("final_logits_bias", torch.zeros(1, config.vocab_size))
        self.lm_head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        self.post_init()

    def resize_token_embeddings(
        self,
        new_num_tokens: int | None = None,
        pad_to_multiple_of: int | None = None,
        mean_resizing: bool = True,
    ) -> nn.Embedding:
        """As `transformers`' own; the bias of the logits goes along."""
        embeddings = super().resize_token_embeddings(new_num_tokens, pad_to_multiple_of, mean_resizing)
        bias = self.final_logits_bias
        self.final_logits_bias = F.pad(bias, (0, embeddings.num_embeddings - bias.shape[1]))
        return embeddings

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_outputs: Any = None,
        global_attention_mask: Tensor | None = None,
        past_key_values: LEDCache | None = None,
        inputs_embeds: Tensor | None = None,
        decoder_inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        **_: Any,
    ) -> tuple[Any, ...] | LEDSeq2SeqLMOutput:
        """As `LEDModel`, and:

        Args:
            labels: [rows, length], what is to be written, -100 where nothing is; without
                ``decoder_input_ids`` the decoder is given them, shifted by one.
        """
        if labels is not None:
            use_cache = False
            if decoder_input_ids is None and decoder_inputs_embeds is None:
                decoder_input_ids = shift_right(labels, self.config)
        decoded = cast(
            LEDSeq2SeqModelOutput,
            self.led(
                input_ids=input_ids,
                attention_mask=attention_mask,
                decoder_input_ids=decoder_input_ids,
                decoder_attention_mask=decoder_attention_mask,
                encoder_outputs=encoder_outputs,
                global_attention_mask=global_attention_mask,
                past_key_values=past_key_values,
                inputs_embeds=inputs_embeds,
                decoder_inputs_embeds=decoder_inputs_embeds,
                use_cache=use_cache,
                output_attentions=output_attentions,
                output_hidden_states=output_hidden_states,
                return_dict=True,
            ),
        )
        logits = self.lm_head(decoded.last_hidden_state) + self.final_logits_bias
        loss = (
            None
            if labels is None
            else F.cross_entropy(logits.flatten(0, 1), labels.flatten().to(logits.device))
        )
        outputs = LEDSeq2SeqLMOutput(loss=cast(Any, loss), logits=logits, **_all_but_last(decoded))
        return outputs if wanted(return_dict, self.config.return_dict) else outputs.to_tuple()

    def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Tensor:
        """What the decoder is given to say ``labels``, [rows, length]; transformers' collators ask for it."""
        return shift_right(labels, self.config)

    def _expand_inputs_for_generation(
        self,
        expand_size: int = 1,
        is_encoder_decoder: bool = False,
        input_ids: Tensor | None = None,
        **model_kwargs: Any,
    ) -> tuple[Any, dict[str, Any]]:
        # Only what is written is repeated for every beam: the decoder takes several rows for a document.
        documents = {name: model_kwargs.pop(name) for name in _OF_DOCUMENTS if name in model_kwargs}
        expand: Any = super()._expand_inputs_for_generation  # pyright: ignore[reportAttributeAccessIssue]
        input_ids, model_kwargs = expand(expand_size, False, input_ids, **model_kwargs)
        return input_ids, model_kwargs | documents


class LEDForQuestionAnswering(LEDPreTrainedModel):
    """Finds the answer to a question in a text that fits into the decoder.

    Args:
        config: its shape.
    """

    def __init__(self, config: LEDConfig) -> None:
        super().__init__(config)
        config = self.config
        config.num_labels = 2
        self.num_labels = config.num_labels
        self.led = LEDModel(config)
        self.qa_outputs = nn.Linear(config.d_model, 2)
        self.post_init()

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_outputs: Any = None,
        global_attention_mask: Tensor | None = None,
        start_positions: Tensor | None = None,
        end_positions: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        decoder_inputs_embeds: Tensor | None = None,
        use_cache: bool | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        **_: Any,
    ) -> tuple[Any, ...] | LEDSeq2SeqQuestionAnsweringModelOutput:
        """As `LEDModel`, and:

        Args:
            start_positions: [batch], places of the answers' first tokens; beyond the end: no answer.
            end_positions: [batch], places of their last ones.
        """
        has_answers = start_positions is not None and end_positions is not None
        decoded = cast(
            LEDSeq2SeqModelOutput,
            self.led(
                input_ids=input_ids,
                attention_mask=attention_mask,
                decoder_input_ids=decoder_input_ids,
                decoder_attention_mask=decoder_attention_mask,
                encoder_outputs=encoder_outputs,
                global_attention_mask=global_attention_mask,
                inputs_embeds=inputs_embeds,
                decoder_inputs_embeds=decoder_inputs_embeds,
                use_cache=False if has_answers else use_cache,
                output_attentions=output_attentions,
                output_hidden_states=output_hidden_states,
                return_dict=True,
            ),
        )
        start_logits, end_logits = self.qa_outputs(decoded.last_hidden_state).unbind(-1)
        loss = None
        if start_positions is not None and end_positions is not None:
            outside = start_logits.shape[1]
            of_start, of_end = (
                F.cross_entropy(logits, places.flatten().clamp(0, outside), ignore_index=outside)
                for logits, places in ((start_logits, start_positions), (end_logits, end_positions))
            )
            loss = (of_start + of_end) / 2
        outputs = LEDSeq2SeqQuestionAnsweringModelOutput(
            loss=cast(Any, loss),
            start_logits=start_logits.contiguous(),
            end_logits=end_logits.contiguous(),
            **_all_but_last(decoded),
        )
        return outputs if wanted(return_dict, self.config.return_dict) else outputs.to_tuple()


def _all_but_last(decoded: LEDSeq2SeqModelOutput) -> dict[str, Any]:
    """What a head hands on of the model's output: all but the hidden states that it has read."""
    return {name: value for name, value in decoded.items() if name != "last_hidden_state"}
