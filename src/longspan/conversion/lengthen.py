"""`lengthen`: one call from a short pretrained model to a long one.

Where the short model can become a Longformer, or an LED, it becomes one, with projections of their own
for global tokens; other models keep their class and get windowed attention in place. How a model was
made stays written in ``model.config.longspan``.
"""

import os
from pathlib import Path
from typing import Any, Literal, get_args

from transformers import PreTrainedModel

import longspan
from longspan.checks import at_least
from longspan.conversion import into_led, into_longformer
from longspan.conversion.in_place import lengthen_in_place
from longspan.conversion.loading import load_source
from longspan.conversion.position_tables import Method

Into = Literal["auto", "longformer", "led", "same"]


def lengthen(
    model_or_path: PreTrainedModel | str | os.PathLike[str],
    max_length: int = 4096,
    window: int = 512,
    *,
    into: Into = "auto",
    positions: Method = "copy",
    seed: int = 0,
) -> PreTrainedModel:
    """Makes a long model of a short one.

    On inputs of up to ``window // 2 + 1`` tokens, which all see each other, the long model gives what
    the short one gave (but for ``positions="interpolate"``). To be good at longer ones it wants further
    pretraining.

    Args:
        model_or_path: a loaded model, or a folder or name on the Hub to load one from.
        max_length: the most tokens of an input; any number from the short model's on.
        window: tokens that a token sees, both sides together.
        into: "longformer", a new `longspan.LongformerModel` or the class with the same head; "led", a new
            `longspan.LEDModel` or the like; "same", the model itself, changed in place; "auto", the first
            of these that is possible.
        positions: where the embeddings of new positions come from: "copy" repeats the learned ones,
            "random" draws new ones, "interpolate" stretches the learned ones over all positions.
        seed: of ``positions="random"``.

    Returns:
        A new Longformer or LED, ``model_or_path`` not changed; or ``model_or_path`` itself, in place.

    Raises:
        ValueError: an argument is wrong, or the model cannot be lengthened so; the message says why.
    """
    for name, value, known in (("into", into, get_args(Into)), ("positions", positions, get_args(Method))):
        if value not in known:
            raise ValueError(f"{name} is {value!r}; it must be one of {', '.join(known)}")
    at_least(1, max_length=max_length)
    at_least(2, window=window)
    source = model_or_path if isinstance(model_or_path, PreTrainedModel) else load_source(model_or_path)
    made_from = {"source": _name(model_or_path), "source_class": type(source).__name__}
    how: dict[str, Any] = {"max_length": max_length, "window": window, "positions": positions, "seed": seed}
    reasons: list[str] = []
    if into == "auto":
        into, reasons = _best(source)
    if into == "longformer":
        model = into_longformer.into_longformer(source, **how)
    elif into == "led":
        model = into_led.into_led(source, **how)
    else:
        try:
            model = lengthen_in_place(source, **how)
        except ValueError as error:
            if not reasons:
                raise
            raise ValueError(f"{error}; and {type(source).__name__} {'; '.join(reasons)}") from error
    model.config.longspan = {
        **made_from,
        **model.config.longspan,
        "positions": positions,
        "seed": seed,
        "version": longspan.__version__,
    }
    return model


def _best(source: PreTrainedModel) -> tuple[Into, list[str]]:
    """What "auto" is for a model, and why it is nothing better."""
    longformer, led = into_longformer.obstacles(source), into_led.obstacles(source)
    if not longformer:
        return "longformer", []
    if not led:
        return "led", []
    return "same", [
        f"cannot become a Longformer: {', '.join(longformer)}",
        f"cannot become an LED: {', '.join(led)}",
    ]


def _name(model_or_path: PreTrainedModel | str | os.PathLike[str]) -> str | None:
    """A folder's own name, without the way to it, or a name on the Hub."""
    if isinstance(model_or_path, PreTrainedModel):
        path = model_or_path.name_or_path
    else:
        path = os.fspath(model_or_path)
    return Path(path).resolve().name if path and Path(path).is_dir() else path or None
