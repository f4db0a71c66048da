"""An encoder as the reading half of an LED, whose writing half has to be learned.

RoBERTa's layers and those of LED's encoder compute the same, so the encoder comes along whole, made long. The
decoder has no source: its self-attention and feed-forward layers begin as layers of the encoder, evenly
chosen, as in Rothe et al. (2020), its attention to the document is drawn at random. Nothing sensible is
written before training.

Writing begins with the token that texts begin with, and not, as BART's does, with the one that ends them and
then this one: layers of an encoder make nearly the same of both, so that the decoder could not tell whether
it has begun.

LED's norms have an epsilon of 1e-5; where the source has another one, outputs differ by about as much.
"""

from collections.abc import Iterator
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from longspan.conversion.into_longformer import into_longformer
from longspan.conversion.position_tables import Method
from longspan.models.led_config import LEDConfig
from longspan.models.led_heads import LEDForConditionalGeneration

_ENCODER = {
    "attention.self.": "self_attn.longformer_self_attn.",
    "attention.output.dense.": "self_attn.output.",
    "attention.output.LayerNorm.": "self_attn_layer_norm.",
    "intermediate.dense.": "fc1.",
    "output.dense.": "fc2.",
    "output.LayerNorm.": "final_layer_norm.",
}
# A decoder has no global tokens, and no projections for them.
_DECODER = {name: new for name, new in _ENCODER.items() if name != "attention.self."} | {
    "attention.self.query.": "self_attn.q_proj.",
    "attention.self.key.": "self_attn.k_proj.",
    "attention.self.value.": "self_attn.v_proj.",
    "attention.output.dense.": "self_attn.out_proj.",
}


def encoder_into_led(
    source: PreTrainedModel,
    *,
    max_length: int,
    window: int,
    decoder_layers: int = 3,
    max_output: int = 1024,
    positions: Method = "copy",
    start: int | None = None,
    seed: int = 0,
) -> LEDForConditionalGeneration:
    """A new LED around the encoder of ``source``, which is not changed.

    Args:
        source: RoBERTa, BERT or what else can become a Longformer; a head is left away.
        max_length: the most tokens of a document.
        window: tokens that a token of the document sees, both sides together.
        decoder_layers: of the new decoder, at most as many as the encoder has.
        max_output: the most tokens that can be written.
        positions: where new rows of the encoder's position table come from; see `position_tables.extend`.
        start: the token that writing begins with; that of the source by default. BERT's configuration names
            none: take the ``cls_token_id`` of its tokenizer.
        seed: of what is drawn at random.

    Raises:
        ValueError: an argument is wrong, or the source cannot become a Longformer.
    """
    long = into_longformer(
        cast(PreTrainedModel, source.base_model),
        max_length=max_length,
        window=window,
        positions=positions,
        seed=seed,
    )
    layers = long.config.num_hidden_layers
    if not 1 <= decoder_layers <= layers:
        raise ValueError(f"decoder_layers is {decoder_layers}; it must be from 1 to the encoder's {layers}")
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        config = _config(long, max_length, window, decoder_layers, max_output, start)
        model = LEDForConditionalGeneration(config)
    weights = {name: x.detach() for name, x in long.state_dict().items()}
    copied = dict(_embeddings(weights, long, model))
    for layer in range(layers):
        copied |= _layer(weights, layer, f"led.encoder.layers.{layer}.", _ENCODER)
    for layer in range(decoder_layers):
        chosen = layer if decoder_layers == 1 else round(layer * (layers - 1) / (decoder_layers - 1))
        copied |= _layer(weights, chosen, f"led.decoder.layers.{layer}.", _DECODER)
    own = model.state_dict()
    with torch.no_grad():
        for name, weight in copied.items():
            own[name].copy_(weight)
        _even_odds(model)
    return model.train(source.training)


def _even_odds(model: LEDForConditionalGeneration) -> None:
    """Sets the last norm so that logits begin small.

    It came from a layer whose states no word was ever read off: the first losses would be far above those of
    a guess.
    """
    last = cast(Any, model.led.decoder).layers[-1]
    norm = cast(nn.LayerNorm, last.final_layer_norm)
    norm.weight.fill_(1 / float(model.led.shared.weight.norm(dim=1).mean()))
    norm.bias.zero_()


def _config(
    long: PreTrainedModel,
    max_length: int,
    window: int,
    decoder_layers: int,
    max_output: int,
    start: int | None,
) -> LEDConfig:
    old = long.config
    # BERT has no token that ends a text but its separator.
    end: int | None = old.sep_token_id if old.eos_token_id is None else old.eos_token_id
    if end is None:
        raise ValueError(
            "config.eos_token_id and sep_token_id are None; one of them must end what is written"
        )
    usual: int = end if old.bos_token_id is None else old.bos_token_id
    begin = usual if start is None else start
    return LEDConfig(
        vocab_size=old.vocab_size,
        d_model=old.hidden_size,
        encoder_layers=old.num_hidden_layers,
        encoder_attention_heads=old.num_attention_heads,
        encoder_ffn_dim=old.intermediate_size,
        decoder_layers=decoder_layers,
        decoder_attention_heads=old.num_attention_heads,
        decoder_ffn_dim=old.intermediate_size,
        activation_function=old.hidden_act,
        dropout=old.hidden_dropout_prob,
        init_std=old.initializer_range,
        attention_window=window,
        max_encoder_position_embeddings=max_length,
        max_decoder_position_embeddings=max_output,
        pad_token_id=old.pad_token_id,
        bos_token_id=begin,
        eos_token_id=end,
        decoder_start_token_id=begin,
    )


def _embeddings(
    weights: dict[str, Tensor], long: PreTrainedModel, model: LEDForConditionalGeneration
) -> Iterator[tuple[str, Tensor]]:
    yield "led.shared.weight", weights["embeddings.word_embeddings.weight"]
    # LED has no segments, and counts positions from 0: the first segment is added to every place.
    places = weights["embeddings.position_embeddings.weight"][long.config.pad_token_id + 1 :]
    places = places + weights["embeddings.token_type_embeddings.weight"][0]
    for side in ("encoder", "decoder"):
        table = cast(Any, model.led.get_submodule(side)).embed_positions
        rows = cast(nn.Embedding, table).num_embeddings
        yield f"led.{side}.embed_positions.weight", places[torch.arange(rows) % len(places)]
        for kind in ("weight", "bias"):
            yield f"led.{side}.layernorm_embedding.{kind}", weights[f"embeddings.LayerNorm.{kind}"]


def _layer(weights: dict[str, Tensor], layer: int, prefix: str, names: dict[str, str]) -> dict[str, Tensor]:
    """The weights of a layer under the names of another one; those that have no place there are left out."""
    out: dict[str, Tensor] = {}
    for name, weight in weights.items():
        here = name.removeprefix(f"encoder.layer.{layer}.")
        if here == name:
            continue
        old = next((one for one in names if here.startswith(one)), None)
        if old is not None:
            out[f"{prefix}{names[old]}{here.removeprefix(old)}"] = weight
    return out
