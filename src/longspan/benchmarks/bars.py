"""The bars of the native kernel and of models: what each measured ratio must be.

The measurements are in `kernel.py`, `model.py`, `char_lm.py`, `led.py` and `kinds.py`. A bar that cannot be
judged on a machine is shown without one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

DIRECTIONS = ("forward", "training")


@dataclass(frozen=True, slots=True)
class Bound:
    """What a measured value must be."""

    limit: float
    at_least: bool

    def holds(self, value: float) -> bool:
        """Whether ``value`` is on the right side."""
        return value >= self.limit if self.at_least else value <= self.limit

    def __str__(self) -> str:
        return f"{'>=' if self.at_least else '<='} {self.limit:g}"


def _least(forward: float, training: float) -> dict[str, Bound]:
    return {"forward": Bound(forward, True), "training": Bound(training, True)}


def _most(forward: float, training: float) -> dict[str, Bound]:
    return {"forward": Bound(forward, False), "training": Bound(training, False)}


BOUNDS: dict[str, dict[str, Bound]] = {
    "fp32, share of torch.mm": _least(0.85, 0.80),
    "bf16, share of torch.mm": _least(0.65, 0.60),
    "window 64, share of torch.mm": _least(0.45, 0.45),
    "head_dim 32, share of torch.mm": _least(0.70, 0.65),
    "fp32, times as fast as Hugging Face": _least(11.0, 13.0),
    "fp32, times as fast as Hugging Face, both with huge pages": _least(6.0, 7.5),
    "64 globals, rate against 1 global": _least(0.80, 0.80),
    "dilation 2, time against 1": _most(1.15, 1.15),
    "dilation 4, time against 1": _most(1.15, 1.15),
    "attend: extra memory, in tensors like q": _most(1.2, 4.5),
    "time per token, longest against shortest": _most(1.15, 1.15),
    "dropout 0.1, time against none": _most(1.25, 1.25),
    "padded tail, time per pair against none": _most(1.1, 1.1),
    "8 documents packed, time per pair against one": _most(1.1, 1.1),
    "8 ragged documents, padded time against packed": _least(1.0, 1.0),
    # Shown, not judged.
    "bf16, times as fast as fp32": {},
    "bf16, times as fast as Hugging Face": {},
    "bf16, times as fast as Hugging Face, both with huge pages": {},
    "extra memory, in tensors like q": {},
    "attend: time per token, longest against shortest": {},
}

MODEL_BOUNDS: dict[str, dict[str, Bound]] = {
    "model, times as fast as Hugging Face": _least(2.2, 2.5),
    "model, time against its products at the rate of torch.mm": {"forward": Bound(1.2, False)},
    "speed_up, times as fast as Hugging Face": _least(2.0, 2.2),
    "model, bf16, times as fast as fp32": _least(1.7, 1.5),
    "model, memory, times less than Hugging Face without its mask": {"training": Bound(3.0, True)},
    "8 reviews, times as fast as Hugging Face": {"forward": Bound(5.0, True)},
    "long document, tokens per second against a short one": {"forward": Bound(0.85, True)},
    # Shown, not judged.
    "model, times as fast as Hugging Face, with huge pages": {},
    "model, time against its products at the rate of torch.mm, with huge pages": {},
    "speed_up, times as fast as Hugging Face, with huge pages": {},
    "8 reviews, times as fast as Hugging Face, with huge pages": {},
    "long document, extra memory in GB": {},
}

CHAR_LM_BOUNDS: dict[str, dict[str, Bound]] = {
    "relative positions, time against none": _most(1.8, 1.8),
    "training, time per token, slowest length against fastest": {"training": Bound(1.15, False)},
    "generation, time per token, slowest context against fastest": {"forward": Bound(1.15, False)},
    # Shown, not judged.
    "generation, times as fast as a GPT-2 of the same size": {},
    "rotary positions, time against none": {},
    "rotary model, time against the relative one": {},
    "rotary model, time of a new token against the relative one": {},
    "generation, tokens per second": {},
}

LED_BOUNDS: dict[str, dict[str, Bound]] = {
    "encoder, times as fast as Hugging Face": {"forward": Bound(2.0, True)},
    "writing, memory, times less than Hugging Face": {"forward": Bound(5.0, True)},
    "memory a token of the document, last step against first": {"training": Bound(1.25, False)},
    "memory a token of the output, last step against first": {"training": Bound(1.25, False)},
    "memory a token of the output, window in the decoder, last step against first": {
        "training": Bound(1.25, False)
    },
    # Shown, not judged.
    "encoder, tokens per second": {},
    "first token, times as fast as Hugging Face": {},
    "writing, times as fast as Hugging Face": {},
    "writing with beams, times as fast as Hugging Face": {},
    "memory of a pair of tokens, document and output, in bytes": {},
    "window in the decoder, times as fast as none": {},
}


KINDS_BOUNDS: dict[str, dict[str, Bound]] = {
    "window, times as fast as linformer": _least(1.0, 1.0),
    "linformer, times as fast as the package": _least(1.0, 1.0),
    "performer, times as fast as the package": _least(1.0, 1.0),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """One measured value beside its bar."""

    name: str
    direction: str
    value: float
    bound: Bound | None
    """None: shown, not judged."""
    detail: str = ""
    series: Mapping[str, float] | None = None
    """What the value was made of, where a picture could show it: numbers against a length."""

    @property
    def passed(self) -> bool | None:
        """None when it is not judged."""
        return None if self.bound is None else self.bound.holds(self.value)

    def record(self) -> dict[str, Any]:
        """As JSON."""
        limits = {"bar": str(self.bound) if self.bound else None, "passed": self.passed}
        return {
            "name": self.name,
            "direction": self.direction,
            "value": self.value,
            **limits,
            "detail": self.detail,
            **({} if self.series is None else {"series": dict(self.series)}),
        }


def result(
    name: str,
    direction: str,
    value: float,
    detail: str = "",
    *,
    judged: bool = True,
    series: Mapping[str, float] | None = None,
) -> Result:
    """A measured value with its bar."""
    bounds = (BOUNDS | MODEL_BOUNDS | CHAR_LM_BOUNDS | LED_BOUNDS | KINDS_BOUNDS)[name]
    bound = bounds.get(direction) if judged else None
    return Result(name=name, direction=direction, value=value, bound=bound, detail=detail, series=series)
