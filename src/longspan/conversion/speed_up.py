"""Makes loaded Hugging Face Longformers and LEDs fast, in place, and back.

The modules keep their parameters and their names; only their classes change, to ones that compute
the same on longspan's attention. So any head, any checkpoint and any state dict stays what it was,
before and after fine-tuning.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from torch import nn
from transformers.models.led import modeling_led as led
from transformers.models.longformer import modeling_longformer as stock

from longspan.attention.pattern import Pattern
from longspan.conversion.fast_led import FastLEDEncoder
from longspan.models import longformer as ours
from longspan.models.led_encoder import LEDEncoderLayer
from longspan.nn.dropout import Dropout
from longspan.nn.longformer import LongformerSelfAttention

AnyModule = TypeVar("AnyModule", bound=nn.Module)

_FAST: dict[type[nn.Module], type[nn.Module]] = {
    stock.LongformerModel: ours.LongformerModel,
    stock.LongformerEmbeddings: ours.LongformerEmbeddings,
    stock.LongformerEncoder: ours.LongformerEncoder,
    stock.LongformerLayer: ours.LongformerLayer,
    stock.LongformerAttention: ours.LongformerAttention,
    stock.LongformerSelfAttention: LongformerSelfAttention,
    stock.LongformerSelfOutput: ours.LongformerResidual,
    stock.LongformerIntermediate: ours.LongformerIntermediate,
    stock.LongformerOutput: ours.LongformerResidual,
    stock.LongformerPooler: ours.LongformerPooler,
    led.LEDEncoder: FastLEDEncoder,
    led.LEDEncoderLayer: LEDEncoderLayer,
    led.LEDEncoderSelfAttention: LongformerSelfAttention,
    nn.Dropout: Dropout,
}
_BODIES = (stock.LongformerModel, led.LEDEncoder)
# Where a changed module keeps its former class, and the attributes that it did not have.
_FORMER, _ADDED = "_longspan_former_class", "_longspan_added"


def speed_up(model: AnyModule) -> AnyModule:
    """Swaps the attention of a Hugging Face Longformer or LED for longspan's, in place.

    Outputs are the same to rounding at every real token (padded positions come out as 0). Parameters
    and state dict do not change. `restore` undoes it.

    Args:
        model: a model of transformers' ``longformer`` or ``led`` families, or one that contains such;
            one that was sped up already stays as it is.

    Returns:
        ``model``.

    Raises:
        ValueError: there is nothing in it to speed up, or hooks of accelerate are on it.
    """
    bodies = [module for module in model.modules() if type(module) in _BODIES]
    if not bodies and any(_FORMER in vars(module) for module in model.modules()):
        return model
    if not bodies:
        raise ValueError(
            f"model is a {type(model).__name__} without anything to speed up; "
            "it must be or contain a Longformer or an LED of transformers"
        )
    hooked = [name for name, module in model.named_modules() if "_old_forward" in vars(module)]
    if hooked:
        raise ValueError(
            f"model has hooks of accelerate (device_map or offloading) on {hooked[0] or 'itself'!r}; "
            "speed it up before they are put on"
        )
    for body in bodies:
        for module in list(body.modules()):
            fast = _FAST.get(type(module))
            if fast is not None:
                lacking = _LACKING.get(fast)
                _change(module, fast, lacking(module, body) if lacking else {})
    return model


def restore(model: AnyModule) -> AnyModule:
    """Undoes `speed_up`, in place; a model that was not sped up stays as it is."""
    for module in model.modules():
        former = module.__dict__.get(_FORMER)
        if former is not None:
            for name in (*module.__dict__[_ADDED], _FORMER, _ADDED):
                delattr(module, name)
            module.__class__ = former
    return model


def _change(module: nn.Module, fast: type[nn.Module], added: dict[str, Any]) -> None:
    for name, value in {_FORMER: type(module), _ADDED: tuple(added), **added}.items():
        setattr(module, name, value)
    module.__class__ = fast


def _window(module: Any, body: Any) -> dict[str, Any]:
    side = module.one_sided_attn_window_size
    return {"patterns": (Pattern(left=side, right=side),) * module.num_heads, "impl": "auto"}


def _config(module: Any, body: Any) -> dict[str, Any]:
    return {"config": body.config}


# What a module of ours has that transformers' lacks.
_LACKING: dict[type[nn.Module], Callable[[Any, Any], dict[str, Any]]] = {
    LongformerSelfAttention: _window,
    ours.LongformerEmbeddings: _config,
}
