"""Whether models had better compute in half precision."""

import torch

from longspan.attention.library import status


def bf16_is_faster(device: torch.device) -> bool:
    """Whether products of bf16 are the processor's own."""
    return device.type == "cuda" or "bf16" in (status().instruction_set or "")
