"""LED, Longformer's encoder-decoder (paper, section 7), as a Hugging Face model.

Parameters have the names of `transformers.LEDModel`, so checkpoints go both ways. The encoder reads a long
document within windows, the decoder writes a short text and sees all of both.
"""

from typing import Any, cast

from torch import Tensor, nn
from transformers.modeling_outputs import BaseModelOutputWithPastAndCrossAttentions
from transformers.models.led.modeling_led import LEDEncoderBaseModelOutput, LEDSeq2SeqModelOutput

from longspan.models.encoding import wanted
from longspan.models.led_base import LEDPreTrainedModel
from longspan.models.led_cache import LEDCache
from longspan.models.led_config import LEDConfig
from longspan.models.led_decoder import LEDDecoder
from longspan.models.led_encoder import LEDEncoder


class LEDModel(LEDPreTrainedModel):
    """LED without a task's head.

    Args:
        config: its shape.
    """

    _tied_weights_keys = {
        "encoder.embed_tokens.weight": "shared.weight",
        "decoder.embed_tokens.weight": "shared.weight",
    }

    def __init__(self, config: LEDConfig) -> None:
        super().__init__(config)
        config = self.config
        self.shared = nn.Embedding(config.vocab_size, config.d_model, config.pad_token_id)
        self.encoder = LEDEncoder(config)
        self.decoder = LEDDecoder(config)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        """The token embeddings of both sides."""
        return self.shared

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Takes other token embeddings."""
        self.shared = self.encoder.embed_tokens = self.decoder.embed_tokens = cast(nn.Embedding, value)

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
        use_cache: bool | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        **_: Any,
    ) -> tuple[Any, ...] | LEDSeq2SeqModelOutput:
        """Reads documents and writes about them.

        Args:
            input_ids: [documents, length] tokens of the documents.
            attention_mask: [documents, length], 0 for padding.
            decoder_input_ids: [rows, length] tokens of the outputs, as many rows for every document; by
                default the documents, shifted by one, as BART does.
            decoder_attention_mask: [rows, length so far], 0 for padding.
            encoder_outputs: of the encoder, for the same documents.
            global_attention_mask: [documents, length], 1 for global tokens; the first one by default.
            past_key_values: what was written before.
            inputs_embeds: [documents, length, d_model] instead of ``input_ids``.
            decoder_inputs_embeds: [rows, length, d_model] instead of ``decoder_input_ids``.
            use_cache: return a cache to go on with; by default where no gradients are wanted.
            output_attentions: also return probabilities, of encoder and decoder.
            output_hidden_states: also return what stands between the layers.
            return_dict: an output object (default) rather than a tuple.
        """
        asked = {
            "output_attentions": wanted(output_attentions, self.config.output_attentions),
            "output_hidden_states": wanted(output_hidden_states, self.config.output_hidden_states),
            "return_dict": True,
        }
        if decoder_input_ids is None and decoder_inputs_embeds is None:
            if input_ids is None:
                raise ValueError(
                    "decoder_input_ids and decoder_inputs_embeds are both None, and so is input_ids, which "
                    "would take their place; give one of them"
                )
            decoder_input_ids = shift_right(input_ids, self.config)
        if encoder_outputs is None:
            encoder_outputs = self.encoder(
                input_ids=input_ids,
                attention_mask=attention_mask,
                global_attention_mask=global_attention_mask,
                inputs_embeds=inputs_embeds,
                **asked,
            )
        elif not isinstance(encoder_outputs, LEDEncoderBaseModelOutput):
            encoder_outputs = LEDEncoderBaseModelOutput(*tuple(encoder_outputs))
        encoded = cast(LEDEncoderBaseModelOutput, encoder_outputs)
        decoded = cast(
            BaseModelOutputWithPastAndCrossAttentions,
            self.decoder(
                input_ids=decoder_input_ids,
                attention_mask=decoder_attention_mask,
                encoder_hidden_states=encoded.last_hidden_state,
                encoder_attention_mask=attention_mask,
                past_key_values=past_key_values,
                inputs_embeds=decoder_inputs_embeds,
                use_cache=use_cache,
                **asked,
            ),
        )
        outputs = LEDSeq2SeqModelOutput(
            last_hidden_state=cast(Any, decoded.last_hidden_state),
            past_key_values=decoded.past_key_values,
            decoder_hidden_states=decoded.hidden_states,
            decoder_attentions=decoded.attentions,
            cross_attentions=decoded.cross_attentions,
            encoder_last_hidden_state=encoded.last_hidden_state,
            encoder_hidden_states=encoded.hidden_states,
            encoder_attentions=encoded.attentions,
            encoder_global_attentions=encoded.global_attentions,
        )
        return outputs if wanted(return_dict, self.config.return_dict) else outputs.to_tuple()


def shift_right(tokens: Tensor, config: LEDConfig) -> Tensor:
    """What a decoder is given to say ``tokens``: the start token, and all of them but the last.

    Args:
        tokens: [rows, length]; -100, where nothing is to be said, becomes padding.
        config: which tokens start and pad.

    Raises:
        ValueError: there is no padding token.
    """
    if config.pad_token_id is None:
        raise ValueError("config.pad_token_id is None; set it, or give decoder_input_ids")
    shifted = tokens.roll(1, 1)
    shifted[:, 0] = config.decoder_start_token_id
    return shifted.masked_fill(shifted == -100, config.pad_token_id)
