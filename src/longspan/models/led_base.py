"""What the parts of LED share: configuration, names, first weights, position tables."""

from typing import Any, Self

import torch
from torch import Tensor, nn
from transformers import initialization
from transformers.modeling_utils import PreTrainedModel

from longspan.models.compact_loading import ReadsCompact
from longspan.models.led_config import LEDConfig
from longspan.models.led_original import is_original, original_weights


class LEDPositions(nn.Embedding):
    """One embedding for each position, counted from 0."""

    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, shape: tuple[int, ...], seen: int = 0
    ) -> Tensor:
        """[length, d_model]: what is added to a batch of ``shape`` (batch, length) behind ``seen`` tokens."""
        return super().forward(torch.arange(seen, seen + shape[1], device=self.weight.device))


class LEDPreTrainedModel(ReadsCompact, PreTrainedModel):
    """What all LED models share."""

    config_class = LEDConfig
    config: LEDConfig
    base_model_prefix = "led"
    supports_gradient_checkpointing = True
    # The losses are means over a batch and take no num_items_in_batch: Trainer must not scale them.
    accepts_loss_kwargs = False
    _no_split_modules = ["LEDEncoderLayer", "LEDDecoderLayer"]

    def __init__(self, config: LEDConfig) -> None:
        # A configuration that transformers' Auto classes made is taken as well.
        super().__init__(LEDConfig.of(config))

    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        bias = getattr(module, "final_logits_bias", None)
        if isinstance(bias, Tensor):
            initialization.zeros_(bias)

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        # transformers' own would repeat the document for every beam; the first forward pass makes ours.
        return False

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: Any, *args: Any, **kwargs: Any) -> Self:
        """As `transformers`' own; reads folders of the original repository's checkpoints too."""
        path = pretrained_model_name_or_path
        if is_original(path):
            config = kwargs.pop("config", None) or LEDConfig.from_pretrained(path)
            weights = original_weights(path, config)
            return super().from_pretrained(None, *args, config=config, state_dict=weights, **kwargs)
        return super().from_pretrained(path, *args, **kwargs)
