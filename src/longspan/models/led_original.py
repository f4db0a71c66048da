"""LED checkpoints of the original repository: BART's names, and two more rows in each position table.

BART keeps two rows before its first position. The original code carried them along (16,386 rows for 16,384
tokens); Hugging Face's LED does not. Only folders are read: those checkpoints were published as archives.
"""

import json
import os
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from longspan.models.led_config import LEDConfig

_POSITIONS = "embed_positions.weight"


def is_original(path: str | os.PathLike[str] | None) -> bool:
    """Whether a folder holds a configuration of the original repository."""
    config = None if path is None else Path(path) / "config.json"
    return config is not None and config.is_file() and "attention_mode" in json.loads(config.read_text())


def original_weights(path: str | os.PathLike[str], config: LEDConfig) -> dict[str, Tensor]:
    """The weights of an original checkpoint under Hugging Face's names.

    Args:
        path: its folder.
        config: of the model.

    Raises:
        ValueError: there are none, or a position table has another number of rows.
    """
    weights: dict[str, Tensor] = {}
    for name, weight in _stored(Path(path)).items():
        if name.endswith(_POSITIONS):
            weight = _without_offset(name, weight, config)
        weights["led." + name.removeprefix("model.") if name.startswith("model.") else name] = weight
    return weights


def _stored(folder: Path) -> dict[str, Tensor]:
    safe, pickled = folder / "model.safetensors", folder / "pytorch_model.bin"
    if safe.is_file():
        return load_file(safe)
    if pickled.is_file():
        return torch.load(pickled, map_location="cpu", weights_only=True)
    raise ValueError(f"{folder} holds no weights; it must have {safe.name} or {pickled.name}")


def _without_offset(name: str, table: Tensor, config: LEDConfig) -> Tensor:
    side = "encoder" if ".encoder." in name else "decoder"
    field = f"max_{side}_position_embeddings"
    positions = getattr(config, field)
    offset = len(table) - positions
    if offset not in (0, 2):
        raise ValueError(
            f"{name} has {len(table)} rows, and {field} is {positions}; it must have as many, or two more"
        )
    return table[offset:].clone()
