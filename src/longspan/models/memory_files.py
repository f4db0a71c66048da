"""Memories as files, so that reading a long text can go on in another process, or with a checkpoint.

A memory is a safetensors file beside the model's weights. Training needs none: every input of a run begins
with an empty memory, so a run that was cut off has nothing in it to lose.
"""

import os
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from longspan.nn.memory import LayerMemory, Memory

FILE = "memory.safetensors"
_PARTS = ("recent", "compressed", "usage")


def save_memory(memory: Memory, folder: Path) -> Path:
    """Writes a memory into the folder of a model.

    Returns:
        The file.
    """
    tensors = {
        f"{at}.{part}": x.detach().contiguous()
        for at, layer in enumerate(memory.layers)
        for part in _PARTS
        if (x := getattr(layer, part)) is not None
    }
    path = folder / FILE
    new = path.with_name(f".{path.name}.new")
    save_file(tensors, new, metadata={"seen": str(memory.seen), "layers": str(len(memory.layers))})
    os.replace(new, path)  # there whole or not at all
    return path


def load_memory(folder: Path, device: torch.device | str = "cpu") -> Memory:
    """Reads what `save_memory` wrote.

    Raises:
        ValueError: there is none, or the file is no memory.
    """
    path = folder / FILE
    if not path.exists():
        raise ValueError(f"{path} does not exist; save_memory writes it")
    try:
        return _read(path, device)
    except SafetensorError as error:
        raise ValueError(f"{path} is no memory, or not whole: {error}") from error


def _read(path: Path, device: torch.device | str) -> Memory:
    with safe_open(path, framework="pt", device=str(device)) as file:
        said = file.metadata() or {}
        if not {"seen", "layers"} <= said.keys():
            raise ValueError(f"{path} is no memory; it lacks seen and layers in its metadata")
        names = set(file.keys())
        layers = [
            LayerMemory(
                recent=file.get_tensor(f"{at}.recent"),
                compressed=file.get_tensor(f"{at}.compressed"),
                usage=file.get_tensor(f"{at}.usage") if f"{at}.usage" in names else None,
            )
            for at in range(int(said["layers"]))
        ]
    return Memory(layers=tuple(layers), seen=int(said["seen"]))
