"""Fields of a configuration that may differ from layer to layer, and from head to head."""

from typing import Any


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
