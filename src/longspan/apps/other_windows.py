"""A Longformer that reads with another window for a while: its weights do not depend on it."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import cast

from longspan.models.longformer import LongformerLayer, LongformerModel


def window_of(encoder: LongformerModel) -> int | None:
    """Tokens that a token sees on both sides together; None where layers differ, or look only back."""
    windows = encoder.config.attention_window
    found = set(windows) if isinstance(windows, list) else {windows}
    return found.pop() if len(found) == 1 and not encoder.config.causal else None


@contextmanager
def with_window(encoder: LongformerModel, window: int) -> Generator[None]:
    """Every head of every layer sees ``window`` tokens, as the configuration counts them, until this ends."""
    layers = [cast(LongformerLayer, layer).attention.self for layer in encoder.encoder.layer]
    own = [layer.patterns for layer in layers]
    side = window // 2
    try:
        for layer, patterns in zip(layers, own, strict=True):
            layer.patterns = tuple(replace(pattern, left=side, right=side) for pattern in patterns)
        yield
    finally:
        for layer, patterns in zip(layers, own, strict=True):
            layer.patterns = patterns
