"""`export_onnx`: a Longformer as an ONNX file, checked against what torch computes.

Taken are the encoder and its heads for masked words, classes, tags and answers; batch and length stay free.
The file holds attention in plain operations, exact as everywhere. Refused is what would lose something on the
way: models of other kinds, and runs with a head of our own beside the encoder.
"""

import logging
import os
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedTokenizerBase

import longspan
from longspan.conversion.loading import load_source, load_tokenizer
from longspan.conversion.whole_directory import check_target, written_whole
from longspan.models.hub import class_of, model_fields
from longspan.models.longformer import LongformerPreTrainedModel
from longspan.nn.longformer import LongformerSelfAttention

FILE = "model.onnx"
TOLERANCE = 1e-3
"""The largest difference to torch's output, in units of its largest number (of 1, where that is less)."""
_INPUTS = ("input_ids", "attention_mask", "global_attention_mask")
_OUTPUTS = {
    "LongformerModel": ("last_hidden_state",),
    "LongformerForMaskedLM": ("logits",),
    "LongformerForSequenceClassification": ("logits",),
    "LongformerForTokenClassification": ("logits",),
    "LongformerForQuestionAnswering": ("start_logits", "end_logits"),
}
_MOST_BYTES_OF_A_FILE = 1_800_000_000
"""Of a protobuf message it is 2 GiB; larger weights go into a file beside it."""
_CARD = """\
# {title}

`{kind}` of {source} in ONNX, made by longspan {version}: `{file}`, any batch, 2 to {longest} tokens.

| input, int64 [batch, length] | |
|---|---|
| `input_ids` | tokens |
| `attention_mask` | 1 for tokens, 0 for padding |
| `global_attention_mask` | 1 for tokens that see, and are seen by, all others: {globals} |

Outputs, float32: {outputs}. The files of the tokenizer and the configuration lie beside it.

```python
import onnxruntime

session = onnxruntime.InferenceSession("{file}")
outputs = session.run(None, {{"input_ids": ..., "attention_mask": ..., "global_attention_mask": ...}})
```

Checked with onnxruntime against torch: {checks}.
"""
_GLOBALS = {
    "LongformerForSequenceClassification": "the first token",
    "LongformerForQuestionAnswering": "the tokens of the question",
}


class WrongExportError(Exception):
    """The file computes something else than the model."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Exported:
    """What was written."""

    kind: str
    """The model's class."""
    outputs: tuple[str, ...]
    longest: int
    """Tokens that an input may have."""
    bytes: int
    """Of graph and weights."""
    errors: dict[int, float]
    """By length of the check: the largest difference to torch, in units of its largest number."""


class _Plain(nn.Module):
    """A model with plain tensors in and out.

    Attention cuts its input into blocks, and the graph keeps the way that it was made with. Padding of a
    block, which no token sees, follows each input, so that there is never less than one.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.outputs = len(_OUTPUTS[type(model).__name__])
        self.block = _widest(model) // 2 + 1
        self.padding = model.config.pad_token_id or 0

    def forward(self, input_ids: Tensor, attention_mask: Tensor, global_attention_mask: Tensor) -> Any:
        length = input_ids.shape[1]
        ids = F.pad(input_ids, (0, self.block), value=self.padding)
        masks = (F.pad(mask, (0, self.block)) for mask in (attention_mask, global_attention_mask))
        said = self.model(ids, *masks, return_dict=False)[: self.outputs]
        # The classes of a document have no length.
        has_length = not type(self.model).__name__.endswith("SequenceClassification")
        return tuple(x[:, :length] if has_length else x for x in said)


def export_onnx(
    source: str | os.PathLike[str], out: str | os.PathLike[str], *, overwrite: bool = False
) -> Exported:
    """Writes a model as ONNX, with tokenizer, configuration and card; ``out`` appears whole or not at all.

    Args:
        source: folder of a model, or its name on the Hub.
        out: the folder to write.
        overwrite: whether what is in ``out`` may be replaced.

    Raises:
        ValueError: there is no model, it cannot be exported, or ``out`` cannot be written.
        WrongExportError: onnxruntime gives another result than torch; nothing is left of the file.
    """
    check_target(Path(out), source=Path(source), overwrite=overwrite)
    model = _load(source)
    tokenizer = load_tokenizer(source)
    longest = model.config.max_position_embeddings - (model.config.pad_token_id or 0) - 1
    at, *checks = _lengths(_widest(model), longest)
    with written_whole(Path(out)) as new:
        _export(model, new / FILE, at, longest)
        errors = {length: _error(model, new / FILE, length) for length in checks}
        wrong = {length: error for length, error in errors.items() if not error <= TOLERANCE}
        if wrong:
            length, error = max(wrong.items(), key=lambda pair: pair[1])
            raise WrongExportError(
                f"at {length} tokens onnxruntime differs from torch by {error:.2g}; the most that is "
                f"allowed is {TOLERANCE:g}"
            )
        made = Exported(
            kind=type(model).__name__,
            outputs=_OUTPUTS[type(model).__name__],
            longest=longest,
            bytes=sum(path.stat().st_size for path in new.iterdir()),
            errors=errors,
        )
        _describe(model, tokenizer, made, new, title=Path(out).resolve().name)
    return made


def _load(source: str | os.PathLike[str]) -> Any:
    """A model that can be exported, with attention in operations that ONNX has."""
    if (Path(source) / "head.safetensors").exists():
        raise ValueError(
            f"{source} has an encoder and a head of its task, which ONNX would lose; models that can be "
            f"exported are {', '.join(_OUTPUTS)}"
        )
    fields = model_fields(source)
    kind = class_of(fields)
    if kind not in _OUTPUTS:
        raise ValueError(
            f"{os.fspath(source)!r} is {kind}; models that can be exported are {', '.join(_OUTPUTS)}"
        )
    model = load_source(source).float().eval()
    assert isinstance(model, LongformerPreTrainedModel)
    for module in model.modules():
        if isinstance(module, LongformerSelfAttention):
            module.impl = "blocked"
    return model


def _widest(model: Any) -> int:
    """The widest window of its layers."""
    windows = model.config.attention_window
    return windows if isinstance(windows, int) else max(windows)


def _lengths(window: int, longest: int) -> tuple[int, int, int]:
    """The length of the export, and two of the check: far less than a window, and more than it."""
    if longest < 4:
        raise ValueError(f"the model reads {longest} tokens; to be checked it must read at least 4")
    chosen: list[int] = []
    for wanted in (window + 3, window // 4 + 1, 2 * window + 7):
        nearest = max(2, min(wanted, longest))
        below = [length for length in range(nearest, 1, -1) if length not in chosen]
        chosen.append(below[0] if below else nearest + 1)
    return chosen[0], chosen[1], chosen[2]


def _export(model: Any, path: Path, length: int, longest: int) -> None:
    outputs = _OUTPUTS[type(model).__name__]
    free = {0: torch.export.Dim("batch", min=1), 1: torch.export.Dim("length", min=2, max=longest)}
    size = sum(weight.numel() * weight.element_size() for weight in model.parameters())
    with _quiet(), torch.no_grad():
        torch.onnx.export(
            _Plain(model).eval(),
            tuple(_inputs(model, length).values()),
            path,
            input_names=list(_INPUTS),
            output_names=list(outputs),
            dynamic_shapes=(free,) * len(_INPUTS),
            dynamo=True,
            external_data=size > _MOST_BYTES_OF_A_FILE,
            verbose=False,
        )


@contextmanager
def _quiet() -> Generator[None]:
    """Without what torch's exporters say to each other."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            logger.setLevel(level)


def _inputs(model: Any, length: int) -> dict[str, Tensor]:
    """Two documents, one of them shorter, with two global tokens."""
    draw = torch.Generator().manual_seed(length)
    padding = model.config.pad_token_id or 0
    ids = torch.randint(padding + 1, model.config.vocab_size, (2, length), generator=draw)
    mask = torch.ones_like(ids)
    mask[1, max(1, length - 3) :] = 0
    is_global = torch.zeros_like(ids)
    is_global[:, 0] = is_global[0, length // 2] = 1
    return dict(zip(_INPUTS, (ids.masked_fill(mask == 0, padding), mask, is_global), strict=True))


def _error(model: Any, path: Path, length: int) -> float:
    """How far onnxruntime is from torch on tokens that are not padding."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    given = _inputs(model, length)
    found = session.run(None, {name: x.numpy() for name, x in given.items()})
    with torch.inference_mode():
        expected = model(**given, return_dict=False)[: len(found)]
    errors = [0.0]
    for actual, wanted in zip(found, expected, strict=True):
        is_real = given["attention_mask"].bool() if wanted.shape[:2] == given["input_ids"].shape else ...
        difference = (torch.from_numpy(actual) - wanted)[is_real].abs().max()
        errors.append(float(difference / wanted[is_real].abs().max().clamp(min=1.0)))
    return max(errors)


def _describe(
    model: Any, tokenizer: PreTrainedTokenizerBase | None, made: Exported, new: Path, *, title: str
) -> None:
    model.config.save_pretrained(new)
    if tokenizer is not None:
        tokenizer.save_pretrained(new)
    checks = (f"{length} tokens, difference {error:.1e}" for length, error in made.errors.items())
    card = _CARD.format(
        title=title,
        kind=made.kind,
        source=f"`{Path(model.name_or_path).name}`",
        version=longspan.__version__,
        file=FILE,
        longest=made.longest,
        globals=_GLOBALS.get(made.kind, "those that matter to all"),
        outputs=", ".join(f"`{name}`" for name in made.outputs),
        checks="; ".join(checks),
    )
    (new / "README.md").write_text(card, encoding="utf-8")
