"""Which Hugging Face architectures can be lengthened in place, and what each needs for it.

An architecture is in the list when its attention goes through transformers' `AttentionInterface`
and a test shows that it gives the same output before and after. All others are refused: those that
ignore the interface would stay quadratic, or get wrong masks, without a word.
"""

from dataclasses import dataclass
from typing import Literal

from transformers import PreTrainedConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class Architecture:
    """How a model knows where a token is."""

    positions: Literal["learned", "sinusoidal", "rotary", "relative"]
    """Tables of either kind have rows for each position; rotary and relative positions have no end."""
    table: str = ""
    """Name of the `nn.Embedding` modules with the rows, where there are any."""
    interleaved: bool = False
    """Of sinusoids: sines and cosines take turns, rather than all sines first."""


_BERT = Architecture(positions="learned", table="position_embeddings")
_BART = Architecture(positions="learned", table="embed_positions")
_MARIAN = Architecture(positions="sinusoidal", table="embed_positions")
_SINUSOIDAL_DISTILBERT = Architecture(positions="sinusoidal", table="position_embeddings", interleaved=True)
_ROTARY = Architecture(positions="rotary")

ARCHITECTURES = {
    "albert": _BERT,
    "bart": _BART,
    "bert": _BERT,
    "camembert": _BERT,
    "distilbert": _BERT,
    "electra": _BERT,
    "gpt2": Architecture(positions="learned", table="wpe"),
    "llama": _ROTARY,
    "marian": _MARIAN,
    "mbart": _BART,
    "modernbert": _ROTARY,
    "pegasus": _MARIAN,
    "roberta": _BERT,
    "t5": Architecture(positions="relative"),
    "xlm-roberta": _BERT,
}

_OWN_ATTENTION = "computes its attention itself, without transformers' AttentionInterface"
_LONG_ALREADY = "has sparse attention of its own"

REFUSED = {
    "big_bird": _LONG_ALREADY,
    "bigbird_pegasus": _LONG_ALREADY,
    "canine": _OWN_ATTENTION,
    "convbert": _OWN_ATTENTION,
    "deberta": _OWN_ATTENTION,
    "deberta-v2": _OWN_ATTENTION,
    "flaubert": _OWN_ATTENTION,
    "fnet": "has no attention",
    "funnel": _OWN_ATTENTION,
    "led": _LONG_ALREADY,
    "longformer": _LONG_ALREADY,
    "longt5": _LONG_ALREADY,
    "luke": _OWN_ATTENTION,
    "mpnet": _OWN_ATTENTION,
    "nystromformer": _OWN_ATTENTION,
    "prophetnet": _OWN_ATTENTION,
    "reformer": _LONG_ALREADY,
    "roformer": _OWN_ATTENTION,
    "squeezebert": _OWN_ATTENTION,
    "xlm": _OWN_ATTENTION,
    "xlnet": _OWN_ATTENTION,
}

CROSS_ATTENTION = ("crossattention", "encoder_attn", "EncDecAttention")
"""Names of the modules that attend from a decoder to an encoder's output, in all architectures."""

ROPE_WITHOUT_LENGTH = ("default", "linear", "llama3")
"""Kinds of rotary positions that do not change with config.max_position_embeddings."""


def architecture_of(config: PreTrainedConfig) -> Architecture:
    """The entry of ``config.model_type``.

    Raises:
        ValueError: it is refused, or not known.
    """
    name = config.model_type
    if name in REFUSED:
        raise ValueError(f"model_type is {name!r}, which cannot be lengthened in place: it {REFUSED[name]}")
    if name not in ARCHITECTURES:
        raise ValueError(
            f"model_type is {name!r}, which is not known to honour transformers' AttentionInterface; "
            f"these do: {', '.join(ARCHITECTURES)}"
        )
    if getattr(config, "sinusoidal_pos_embds", False):
        return _SINUSOIDAL_DISTILBERT
    architecture = ARCHITECTURES[name]
    if architecture.positions == "rotary":
        _check_rope(config)
    return architecture


def _check_rope(config: PreTrainedConfig) -> None:
    parameters = config.rope_parameters
    # ModernBERT has one set of parameters for each kind of layer.
    each = [parameters] if "rope_type" in parameters else parameters.values()
    for kind in (item["rope_type"] for item in each):
        if kind not in ROPE_WITHOUT_LENGTH:
            raise ValueError(
                f"config.rope_parameters has rope_type {kind!r}, which depends on max_position_embeddings: "
                f"a longer model would differ on short inputs; it must be {', '.join(ROPE_WITHOUT_LENGTH)}"
            )
