"""The configuration of the relatives: one switch for the kind of attention, one for memory, one for
positions.

What the chosen kind cannot do is refused here, with the kind's own reason.
"""

from typing import Any, cast, get_args

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig

from longspan.attention.attend import Implementation
from longspan.checks import at_least
from longspan.models.per_layer import of_layer
from longspan.nn.compression import LEARNED
from longspan.nn.kinds.kind import Ability, Kind, LayerShape, settings_of
from longspan.nn.kinds.registry import KINDS
from longspan.nn.memory import MemorySizes
from longspan.nn.pooling import Pooling

MEMORIES = ("none", "xl", "compressive")
POSITIONS = ("none", "absolute", "relative", "learned", "rotary", "infused")
_FUNCTIONS = ("mean", "max", "conv", "dilated", "most-used")
_OBJECTIVES = ("none", "attention", "auto-encoding", "bptt")
_LEAST = {
    "vocab_size": 1,
    "hidden_size": 1,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "intermediate_size": 1,
    "segment_length": 1,
    "memory_length": 0,
    "compressed_length": 0,
    "compression_ratio": 1,
    "max_position_embeddings": 1,
    "learned_distances": 1,
}
_AT_EVALUATION = ("segment_length", "memory_length", "compressed_length", "clamp_distance", "same_length")


@strict
class LongRangeConfig(PreTrainedConfig):
    """The shape of a `LongRangeModel`, and how its tokens see each other.

    Args:
        attention: the kind of attention, a name in `longspan.nn.kinds.registry`, or one for each layer.
        attention_settings: of that kind; or one mapping for each layer.
        memory: "none", "xl" (Transformer-XL) or "compressive" (Compressive Transformer), which make it a
            decoder.
        positions: "none", "absolute" (learned, in the embeddings), "relative" (Transformer-XL's), "learned"
            (one vector a distance), "rotary" or "infused" (Shortformer's).
        is_decoder: tokens see nothing after them. `LongRangeForCausalLM` sets it.
        norm: "pre" or "post": layer norm before each half of a layer, or after it.
        reversible: layers whose inputs are made again from their outputs in the backward pass (Reformer), so
            that memory does not grow with layers.
        block_sizes: layers of each block, of which every one has half the length of the one before
            (Funnel-Transformer); None for layers that all have the length of the input.
        decoder_layers: layers after the last block that have the length of the input again.
        separate_cls: the first token is not pooled with others.
        segment_length: tokens that are read at once where there is a memory.
        memory_length: hidden states that each layer keeps.
        compressed_length: compressed ones that it keeps besides.
        compression_ratio: hidden states that become one.
        compression: "mean", "max", "conv", "dilated" or "most-used".
        compression_loss: what "conv" and "dilated" learn from: "attention", "auto-encoding" or "bptt".
        same_length: every token sees ``memory_length`` tokens before it, wherever segments begin.
        clamp_distance: relative distances beyond it count as this one.
        evaluation_memory: other values of the fields above outside of training.
        max_position_embeddings: the most tokens of an input, for absolute positions and for kinds whose
            weights depend on it.
        learned_distances: how many distances learned positions know.
        scale_embeddings: multiply embeddings by the root of their size, as Transformer-XL does.
        pooling: what a classifier reads: the "first" token or the "mean" of all.
        attention_impl: the implementation of `longspan.attend`, for kinds that use it.
    """

    model_type = "longspan_long_range"
    keys_to_ignore_at_inference = ["past_key_values", "memory"]

    vocab_size: int = 256
    hidden_size: int = 512
    num_hidden_layers: int = 12
    num_attention_heads: int = 8
    intermediate_size: int = 2048
    hidden_act: str = "gelu"
    attention: str | list[str] = "window"
    attention_settings: dict[str, Any] | list[dict[str, Any]] | None = None
    attention_bias: bool = False
    memory: str = "none"
    positions: str = "absolute"
    is_decoder: bool = False
    norm: str = "pre"
    reversible: bool = False
    block_sizes: list[int] | None = None
    decoder_layers: int = 0
    separate_cls: bool = True
    segment_length: int = 512
    memory_length: int = 512
    compressed_length: int = 512
    compression_ratio: int = 4
    compression: str = "conv"
    compression_loss: str = "attention"
    same_length: bool = False
    clamp_distance: int | None = None
    evaluation_memory: dict[str, Any] | None = None
    max_position_embeddings: int = 4096
    learned_distances: int = 512
    rotary_base: float = 10000.0
    scale_embeddings: bool = False
    hidden_dropout_prob: float | int = 0.0
    attention_probs_dropout_prob: float | int = 0.0
    layer_norm_eps: float = 1e-5
    initializer_range: float = 0.02
    tie_word_embeddings: bool = True
    pooling: str = "first"
    use_cache: bool = True
    attention_impl: str = "auto"
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = None
    pad_token_id: int | None = None

    def __post_init__(self, **kwargs: Any) -> None:
        super().__post_init__(**kwargs)
        # A memory keeps what came before, so there is no encoder with one.
        self.is_decoder = self.is_decoder or self.memory in ("xl", "compressive")
        for name, least in _LEAST.items():
            at_least(least, **{name: getattr(self, name)})
        heads = self.num_attention_heads
        if self.hidden_size % heads:
            raise ValueError(
                f"hidden_size is {self.hidden_size}; it must be a multiple of num_attention_heads = {heads}"
            )
        for name, right in (
            ("memory", MEMORIES),
            ("positions", POSITIONS),
            ("norm", ("pre", "post")),
            ("pooling", ("first", "mean")),
            ("compression", _FUNCTIONS),
            ("compression_loss", _OBJECTIVES),
            ("attention_impl", get_args(Implementation)),
        ):
            _check_one_of(name, getattr(self, name), right)
        if self.rotary_base <= 0:
            raise ValueError(f"rotary_base is {self.rotary_base}; it must be above 0")
        if self.positions == "rotary" and self.hidden_size // heads % 2:
            raise ValueError(
                f"hidden_size is {self.hidden_size} with {heads} heads; rotary positions turn pairs, so "
                "hidden_size / num_attention_heads must be even"
            )
        for layer in range(self.num_hidden_layers):
            self._check_kind(layer)
        self._check_extra_states()
        self._check_memory()
        self._check_blocks()
        if self.reversible:
            self._check_reversible()

    def kind(self, layer: int) -> type[Kind]:
        """The kind of attention of a layer.

        Raises:
            ValueError: there is none of this name.
        """
        name = of_layer("attention", self.attention, layer, self.num_hidden_layers)
        _check_one_of("attention", name, KINDS)
        return KINDS[name]

    def kind_settings(self, layer: int) -> Any:
        """The settings of a layer's kind."""
        fields = of_layer("attention_settings", self.attention_settings, layer, self.num_hidden_layers)
        return settings_of(self.kind(layer), fields or {})

    def layer_shape(self, layer: int) -> LayerShape:
        """Where a layer's kind stands."""
        return LayerShape(
            heads=self.num_attention_heads,
            head_dim=self.hidden_size // self.num_attention_heads,
            causal=self.is_decoder,
            max_length=self.max_position_embeddings,
            layer=layer,
            layers=self.num_hidden_layers,
        )

    def refusal(self, ability: Ability) -> str | None:
        """Why this model cannot do something; None if it can."""
        for layer in range(self.num_hidden_layers):
            reasons = self.kind(layer).refusals(self.kind_settings(layer), causal=self.is_decoder)
            if ability in reasons:
                return f"attention {self.kind(layer).name!r} cannot: {reasons[ability]}"
        return None

    def require(self, ability: Ability, what: str) -> None:
        """Checks that the model can do something.

        Args:
            ability: to do it.
            what: the field and its value, for the error.

        Raises:
            ValueError: it cannot; with the reason.
        """
        reason = self.refusal(ability)
        if reason:
            raise ValueError(f"{what}, which {reason}")

    def memory_sizes(self, *, training: bool) -> MemorySizes:
        """How much each layer keeps."""
        compresses = self.memory == "compressive"
        return MemorySizes(
            recent=self._in(training, "memory_length"),
            compressed=self._in(training, "compressed_length") if compresses else 0,
            ratio=self.compression_ratio if compresses else 1,
        )

    def segment(self, *, training: bool) -> int:
        """Tokens that are read at once where there is a memory."""
        return self._in(training, "segment_length")

    def clamp(self, *, training: bool) -> int | None:
        """The farthest relative distance."""
        return self._in(training, "clamp_distance")

    def span(self, *, training: bool) -> int | None:
        """How far back a token sees, where all see as far."""
        return self._in(training, "memory_length") if self._in(training, "same_length") else None

    @property
    def has_globals(self) -> bool:
        """Whether any layer knows global tokens; a decoder has none, for nobody sees all of a text."""
        kinds = (self.kind(layer) for layer in range(self.num_hidden_layers))
        return not self.is_decoder and any(kind.has_globals for kind in kinds)

    @property
    def pooling_between(self) -> Pooling:
        """How sequences become shorter between blocks."""
        return Pooling(self.separate_cls)

    @property
    def shortens(self) -> bool:
        """Whether outputs are shorter than inputs: pooled, and without a decoder."""
        return self.block_sizes is not None and len(self.block_sizes) > 1 and not self.decoder_layers

    @property
    def implementation(self) -> Implementation:
        """``attention_impl``, which `attend` checks."""
        return cast(Implementation, self.attention_impl)

    def _in(self, training: bool, field: str) -> Any:
        changes = {} if training else self.evaluation_memory or {}
        return changes.get(field, getattr(self, field))

    def _check_kind(self, layer: int) -> None:
        self.kind_settings(layer)
        if self.is_decoder:
            self.require("causal", "is_decoder is True")
        else:
            self.require("encoder", "is_decoder is False")
        if self.positions != "none":
            self.require(cast(Ability, self.positions), f"positions is {self.positions!r}")
        if self.attention_probs_dropout_prob:
            value = self.attention_probs_dropout_prob
            self.require("dropout", f"attention_probs_dropout_prob is {value}")

    def _check_extra_states(self) -> None:
        kinds = {self.kind(layer) for layer in range(self.num_hidden_layers)}
        for kind in kinds:
            if kind.has_extra_states and len(kinds) > 1:
                raise ValueError(
                    f"attention is {self.attention}; {kind.name!r} keeps states beside the tokens through "
                    "all layers, so it must be the kind of every layer"
                )

    def _check_blocks(self) -> None:
        if self.decoder_layers < 0 or (self.decoder_layers and self.block_sizes is None):
            right = "0 without block_sizes" if self.decoder_layers > 0 else "at least 0"
            raise ValueError(f"decoder_layers is {self.decoder_layers}; it must be {right}")
        if self.block_sizes is None:
            return
        what = f"block_sizes is {self.block_sizes}"
        if not self.block_sizes or min(self.block_sizes) < 1:
            raise ValueError(f"{what}; it must hold at least one block, of at least one layer each")
        if sum(self.block_sizes) != self.num_hidden_layers:
            raise ValueError(f"{what}; it must add up to num_hidden_layers = {self.num_hidden_layers}")
        if self.is_decoder:
            raise ValueError(
                f"{what} with is_decoder True, where a pair would see its second token too early"
            )
        if self.reversible:
            raise ValueError(f"{what} with reversible True, which needs layers of one length")
        self.require("cross-length", what)

    def _check_reversible(self) -> None:
        if self.norm != "pre":
            raise ValueError(f"reversible is True with norm {self.norm!r}; it must be 'pre'")
        if self.memory != "none":
            raise ValueError(f"reversible is True with memory {self.memory!r}; it must be 'none'")
        for layer in range(self.num_hidden_layers):
            if self.kind(layer).has_losses:
                raise ValueError(
                    f"reversible is True with attention {self.kind(layer).name!r}, whose own loss "
                    "would be lost where nothing is stored"
                )

    def _check_memory(self) -> None:
        unknown = [name for name in self.evaluation_memory or {} if name not in _AT_EVALUATION]
        if unknown:
            raise ValueError(
                f"evaluation_memory.{unknown[0]} cannot be changed for evaluation; it may hold "
                f"{', '.join(_AT_EVALUATION)}"
            )
        for name, value in (self.evaluation_memory or {}).items():
            right = {"same_length": bool, "clamp_distance": int | None}.get(name, int)
            if not isinstance(value, right) or (right is not bool and isinstance(value, bool)):
                kind = "true or false" if right is bool else "an integer"
                raise ValueError(f"evaluation_memory.{name} is {value!r}; it must be {kind}")
            if name in _LEAST and value < _LEAST[name]:
                raise ValueError(f"evaluation_memory.{name} is {value}; it must be at least {_LEAST[name]}")
            if self.memory == "none" and name != "clamp_distance":
                raise ValueError(
                    f"evaluation_memory has {name}, which is about memories; memory must not be 'none'"
                )
        for clamp in (self.clamp(training=True), self.clamp(training=False)):
            if clamp is not None and clamp < 0:
                raise ValueError(f"clamp_distance is {clamp}; it must be at least 0")
            if clamp is not None and self.positions not in ("relative", "learned"):
                raise ValueError(
                    f"clamp_distance is {clamp} with positions {self.positions!r}; it is about relative and "
                    "learned ones, which know distances apart"
                )
        if self.positions == "learned" and not self.is_decoder:
            raise ValueError("positions is 'learned', which are distances back; they need a decoder")
        if self.memory == "none":
            if self.same_length:
                raise ValueError("same_length is True, which is about memories; memory must not be 'none'")
            return
        what = f"memory is {self.memory!r}"
        if self.positions == "absolute":
            raise ValueError(
                f"{what} with positions 'absolute', which would give a memory and a segment the same "
                "positions; use relative, learned, rotary or infused"
            )
        self.require("cross-length", what)
        for training in (True, False):
            if self.span(training=training) is not None:
                self.require("same length", "same_length is True")
        if self.memory == "compressive":
            learns = self.compression in LEARNED
            if learns == (self.compression_loss == "none"):
                right = "attention, auto-encoding or bptt" if learns else "none"
                raise ValueError(
                    f"compression_loss is {self.compression_loss!r} with compression {self.compression!r}; "
                    f"it must be {right}"
                )
            if self.compression == "most-used":
                self.require("usage", f"compression is {self.compression!r}")


def _check_one_of(name: str, value: object, right: Any) -> None:
    if value not in right:
        raise ValueError(f"{name} is {value!r}; it must be one of {', '.join(right)}")
