"""Fields of a configuration that may differ from layer to layer, and from head to head."""

from typing import Any

from longspan.attention.pattern import Pattern


def of_layer(name: str, value: object, layer: int, layers: int) -> Any:
    """What a field holds for a layer: the same for all, or an item of a list with one for each.

    Raises:
        ValueError: the list has another length.
    """
    if not isinstance(value, list):
        return value
    if len(value) != layers:
        raise ValueError(
            f"{name} has {len(value)} items; it must be one value or have one for each of {layers} layers"
        )
    return value[layer]


def dilations_of_layer(value: object, layer: int, layers: int, heads: int) -> list[int]:
    """``attention_dilation`` of each head of a layer; checked for its length only.

    Raises:
        ValueError: there are not as many as layers, or as heads.
    """
    dilations = of_layer("attention_dilation", value, layer, layers)
    if not isinstance(dilations, list):
        return [dilations] * heads
    if len(dilations) != heads:
        raise ValueError(
            f"attention_dilation has {len(dilations)} items in layer {layer}; "
            f"it must have one for each of {heads} heads"
        )
    return dilations


def patterns_of_layer(
    window: object, dilation: object, layer: int, layers: int, heads: int, *, causal: bool = False
) -> tuple[Pattern, ...]:
    """The window of each head of a layer, in Hugging Face's units.

    Args:
        window: ``attention_window``, both sides together, one number or one per layer.
        dilation: ``attention_dilation``, one number, or for each layer one number or one per head.
        layer: the layer.
        layers: of the model.
        heads: of a layer.
        causal: leave the right side out.

    Raises:
        ValueError: the fields do not describe a window.
    """
    width = of_layer("attention_window", window, layer, layers)
    least = 1 if causal else 2
    if not isinstance(width, int) or width < least:
        raise ValueError(f"attention_window is {width!r} in layer {layer}; it must be an integer >= {least}")
    side = width // 2
    return tuple(
        Pattern(left=side, right=0 if causal else side, dilation=one)
        for one in dilations_of_layer(dilation, layer, layers, heads)
    )


def stock_computes(window: int | list[int]) -> bool:
    """Whether transformers' Longformer and LED run with these windows: even, above 2, dividing the widest."""
    windows = window if isinstance(window, list) else [window]
    # Stock pads to the widest window and cuts that into every layer's.
    return all(one % 2 == 0 and one > 2 and max(windows) % one == 0 for one in windows)


def both_sides(fields: dict[str, Any]) -> dict[str, Any]:
    """The windows of the original repository's configuration, which are one-sided, in Hugging Face's units.

    Raises:
        ValueError: its ``attention_mode`` is one without sliding windows.
    """
    fields = dict(fields)
    mode = fields.pop("attention_mode")
    if mode == "sliding_chunks_no_overlap":
        raise ValueError(
            f"attention_mode is {mode!r}, whose windows are not sliding; it must be sliding_chunks or tvm"
        )
    fields["attention_window"] = [2 * one_sided for one_sided in fields["attention_window"]]
    fields.setdefault("attention_dilation", 1)
    return fields
