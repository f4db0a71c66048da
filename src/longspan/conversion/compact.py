"""`compact`: a folder of a model with weights of about a byte a number, a quarter of what fp32 takes.

All other files are copied: configuration, tokenizer (without its indentation), heads of ours. The model card
says how to load it. A model of type "longformer" or "led" gets our type, so that stock transformers says at
once that it does not know it. Refused are folders without safetensors; nothing is left of a folder that could
not be made.
"""

import json
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor
from transformers.tokenization_utils_base import FULL_TOKENIZER_FILE
from transformers.utils import CONFIG_NAME, SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME

from longspan.conversion.whole_directory import check_target, written_whole
from longspan.models import led_config, longformer_config
from longspan.models.compact_weights import FILE, LARGEST_ERROR, read_compact, write_compact

_TYPES = {
    longformer_config.STOCK_MODEL_TYPE: longformer_config.LongformerConfig.model_type,
    led_config.STOCK_MODEL_TYPE: led_config.LEDConfig.model_type,
}
_RECIPE = "config.yaml"
_CARD = """
## Compact weights

The matrices are stored as whole numbers of 8 bits, with a scale for every 64 or 32 of them: {after:.1f} MB
instead of {before:.1f} MB. In memory they are plain again, and differ from the original ones by {error:.2%}
of their norm, in the mean over all matrices. `from_pretrained` of longspan's classes reads them; stock
transformers does not.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Compacted:
    """What became of the weights of a model."""

    bytes_before: int
    bytes_after: int
    errors: dict[str, float]
    """Of each matrix that is not what it was: the norm of the difference to the norm of what it was."""

    @property
    def mean_error(self) -> float:
        """Over the matrices."""
        return sum(self.errors.values()) / max(len(self.errors), 1)


def compact(
    source: str | os.PathLike[str], out: str | os.PathLike[str], *, overwrite: bool = False
) -> Compacted:
    """Copies a model, with compact weights; ``out`` appears whole or not at all.

    Args:
        source: folder of a model; or of a run, whose best model is taken, and whose recipe goes with it.
        out: the folder to write: a model, or a run.
        overwrite: whether what is in ``out`` may be replaced.

    Raises:
        ValueError: there is no model in ``source``, or ``out`` cannot be written.
    """
    whole, target = Path(source), Path(out)
    is_run = (whole / _RECIPE).is_file()
    folder = whole
    if is_run:
        folder = next((whole / name for name in ("best", "last") if (whole / name).is_dir()), whole / "best")
    weights = _weights(folder)
    check_target(target, source=whole, overwrite=overwrite)
    with written_whole(target) as new:
        if is_run:
            shutil.copyfile(whole / _RECIPE, new / _RECIPE)
            new = new / "best"
            new.mkdir()
        return _write(folder, weights, new)


def _write(folder: Path, weights: dict[str, Tensor], new: Path) -> Compacted:
    plain = list(_files_of(folder))
    others = {folder / SAFE_WEIGHTS_INDEX_NAME, *plain}
    for path in folder.iterdir():
        if path.is_file() and path not in others and not path.name.startswith("."):
            shutil.copyfile(path, new / path.name)
    tokenizer = new / FULL_TOKENIZER_FILE
    if tokenizer.exists():
        vocabulary = json.loads(tokenizer.read_text(encoding="utf-8"))
        on_one_line = json.dumps(vocabulary, ensure_ascii=False, separators=(",", ":"))
        tokenizer.write_text(f"{on_one_line}\n", encoding="utf-8")
    write_compact(weights, new / FILE)
    made = Compacted(
        bytes_before=sum(path.stat().st_size for path in plain),
        bytes_after=(new / FILE).stat().st_size,
        errors=_errors(weights, read_compact(new / FILE)),
    )
    config = json.loads((new / CONFIG_NAME).read_text(encoding="utf-8"))
    config["model_type"] = _TYPES.get(config["model_type"], config["model_type"])
    (new / CONFIG_NAME).write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    said = _CARD.format(before=made.bytes_before / 1e6, after=made.bytes_after / 1e6, error=made.mean_error)
    with (new / "README.md").open("a", encoding="utf-8") as card:
        card.write(said)
    return made


def _weights(folder: Path) -> dict[str, Tensor]:
    if (folder / FILE).is_file() and not (folder / SAFE_WEIGHTS_NAME).exists():
        raise ValueError(f"{folder} is compact already: its weights are in {FILE}")
    if not (folder / CONFIG_NAME).is_file():
        raise ValueError(f"{folder} is no folder of a model: it has no {CONFIG_NAME}")
    weights: dict[str, Tensor] = {}
    for path in _files_of(folder):
        try:
            weights |= load_file(path)
        except (OSError, SafetensorError) as error:
            raise ValueError(f"{path} cannot be read: {error}") from error
    if not weights:
        raise ValueError(f"{folder} has no {SAFE_WEIGHTS_NAME}; load the model and save it again to have one")
    return weights


def _files_of(folder: Path) -> Iterable[Path]:
    """The files that hold a model's plain weights: one, or many and their list."""
    index = folder / SAFE_WEIGHTS_INDEX_NAME
    if index.is_file():
        named = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
        return [folder / name for name in sorted(set(named))]
    return [path for path in (folder / SAFE_WEIGHTS_NAME,) if path.is_file()]


def _errors(weights: dict[str, Tensor], again: dict[str, Tensor]) -> dict[str, float]:
    assert weights.keys() == again.keys()
    errors: dict[str, float] = {}
    for name, x in weights.items():
        if x.equal(again[name]):
            continue
        difference = (x.double() - again[name].double()).norm()
        errors[name] = float(difference / x.double().norm())
        assert errors[name] <= LARGEST_ERROR, f"{name} came back with an error of {errors[name]:.1%}"
    return errors
