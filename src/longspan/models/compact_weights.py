"""Weights in about a byte a number: a safetensors file that cannot be mistaken for a plain one.

A matrix becomes whole numbers from -127 to 127. Each run of 64 or of 32 columns in a row has a scale of its
own, whichever gives the smaller error; scales are fp16 beside one power of two for the whole matrix, and the
numbers are rounded with the scale that is stored. Rows that repeat, as in a position table that was made
longer by copying, are stored once. Vectors and small matrices stay what they are, to the bit.

Refused are numbers that are not finite, and files that are something else.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional

FILE = "model.compact.safetensors"
FORMAT = "longspan-compact-1"
LARGEST_ERROR = 0.025
"""Of a matrix, relative to its norm, whatever is in it: beside one large number in a run of 32 the others err
by up to half of its 127th part. Weights of trained models err by about 0.006."""

_RUNS = (64, 32)
_SMALL = 8192
"""Numbers of a tensor below which it is kept: a head with few classes is small, and every answer needs it."""
_LARGEST = 127
_FLOATS = {name: getattr(torch, name) for name in ("float64", "float32", "float16", "bfloat16")}


def write_compact(weights: Mapping[str, Tensor], path: Path) -> None:
    """Writes a state dict.

    Args:
        weights: tensors by name.
        path: the file.

    Raises:
        ValueError: a matrix has a number that is not finite.
    """
    parts: dict[str, Tensor] = {}
    described: dict[str, dict[str, Any]] = {}
    for name, tensor in weights.items():
        if tensor.dim() < 2 or tensor.numel() < _SMALL or not tensor.is_floating_point():
            parts[f"{name}@kept"] = tensor.contiguous()
            continue
        if not tensor.isfinite().all():
            raise ValueError(f"{name} has numbers that are not finite; a compact file cannot keep them")
        packed, described[name] = _packed(tensor)
        parts |= {f"{name}@{part}": x.contiguous() for part, x in packed.items()}
    save_file(parts, path, metadata={"format": FORMAT, "matrices": json.dumps(described)})


def read_compact(path: Path) -> dict[str, Tensor]:
    """Reads what `write_compact` wrote: tensors with the names, shapes and types that they had.

    Raises:
        ValueError: the file is damaged, or something else.
    """
    try:
        with safe_open(path, framework="pt") as file:
            said = file.metadata() or {}
            parts = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (it is no mapping)
    except SafetensorError as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    if said.get("format") != FORMAT:
        raise ValueError(f"{path} has the format {said.get('format')!r}; it must be {FORMAT!r}")
    weights = {name.removesuffix("@kept"): x for name, x in parts.items() if name.endswith("@kept")}
    for name, how in json.loads(said["matrices"]).items():
        weights[name] = _unpacked(
            {part: parts.get(f"{name}@{part}") for part in ("codes", "scales", "rows")}, how
        )
    return weights


def _packed(tensor: Tensor) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The parts of a matrix, and what is needed to put them together."""
    rows = tensor.detach().flatten(0, -2)
    distinct, places = _distinct_rows(rows)
    candidates = [(_rounded(distinct.float(), run), run) for run in _RUNS]
    (codes, scales, exponent), run = min(
        candidates, key=lambda one: _distance(distinct, _product(*one[0], one[1]))
    )
    parts = {"codes": codes, "scales": scales}
    if places is not None:
        parts["rows"] = places
    how = {
        "shape": list(tensor.shape),
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "run": run,
        "exponent": exponent,
    }
    return parts, how


def _unpacked(parts: Mapping[str, Tensor | None], how: Mapping[str, Any]) -> Tensor:
    codes, scales, places = parts["codes"], parts["scales"], parts["rows"]
    assert codes is not None and scales is not None
    rows = _product(codes, scales, how["exponent"], how["run"])
    if places is not None:
        rows = rows[places.long()]
    return rows.view(how["shape"]).to(_FLOATS[how["dtype"]])


def _rounded(matrix: Tensor, run: int) -> tuple[Tensor, Tensor, int]:
    """Codes [rows, columns] int8, scales [rows, runs] fp16, and the exponent of what all scales share.

    Args:
        matrix: [rows, columns] fp32.
        run: columns that share a scale; the last run of a row may be shorter.
    """
    columns = matrix.shape[1]
    padded = functional.pad(matrix, (0, -columns % run)).unflatten(1, (-1, run))
    wanted = padded.abs().amax(-1) / _LARGEST
    # A power of two, which changes no digit: fp16 then reaches from the largest scale to far below it.
    exponent = int(wanted.max().log2().ceil()) if wanted.any() else 0
    scaled = wanted * 2.0**-exponent
    scales = scaled.half()
    # Never too small: the largest number must not be beyond the last code.
    scales = torch.where(scales < scaled, torch.nextafter(scales, scales.new_full((), 2.0)), scales)
    steps = scales.float()[..., None] * 2.0**exponent
    codes = torch.where(steps > 0, padded / steps, 0).round().to(torch.int8)
    return codes.flatten(1)[:, :columns], scales, exponent


def _product(codes: Tensor, scales: Tensor, exponent: int, run: int) -> Tensor:
    """[rows, columns] fp32 of what `_rounded` made."""
    columns = codes.shape[1]
    padded = functional.pad(codes, (0, -columns % run)).unflatten(1, (-1, run))
    # Without a copy of either in full precision: whoever asks one question waits for this.
    return (padded * (scales.float() * 2.0**exponent)[..., None]).flatten(1)[:, :columns]


def _distance(matrix: Tensor, other: Tensor) -> float:
    return float((matrix.float() - other).norm())


def _distinct_rows(matrix: Tensor) -> tuple[Tensor, Tensor | None]:
    """The rows that differ, in their order, and for each row which it is; None where few repeat."""
    places: dict[bytes, int] = {}
    index: list[int] = []
    first: list[int] = []
    for at, row in enumerate(matrix.contiguous().view(torch.uint8).numpy()):
        place = places.setdefault(row.tobytes(), len(places))
        index.append(place)
        if place == len(first):
            first.append(at)
    if 2 * len(first) > len(matrix):
        return matrix, None
    return matrix[torch.tensor(first)], torch.tensor(index, dtype=torch.int32)
