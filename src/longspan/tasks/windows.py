"""A long text as tokens that know their characters, and as windows of tokens that overlap.

No special tokens here: what stands around a window is the task's business.
"""

from typing import Any, NamedTuple

import numpy as np

LEAST_TOKENS = 8
"""A window of a language model with fewer says too little about them; training leaves it out."""


class TextTokens(NamedTuple):
    """The tokens of a text, without special tokens; a token's characters are without white space around."""

    ids: np.ndarray
    """[tokens] int32."""
    starts: np.ndarray
    """[tokens] int32: the first character of each."""
    ends: np.ndarray
    """[tokens] int32: the character after the last of each. It equals the start where a token stands for
    white space, or for no character."""

    def span(self, start: int, end: int) -> tuple[int, int] | None:
        """The first and the last token, both inclusive, that have any of the characters start..end - 1.

        None where the tokenizer made no token of them.
        """
        first = int(np.searchsorted(self.ends, start, side="right"))
        last = int(np.searchsorted(self.starts, end, side="left")) - 1
        return (first, last) if first <= last and start < end else None


def text_tokens(tokenizer: Any, text: str, *, plain: bool = False) -> TextTokens:
    """Tokenizes a whole text, however long.

    Args:
        tokenizer: a fast one.
        text: of any length.
        plain: whether all of it is text, so that a document that says "</s>" gets no separator from it.
            Otherwise names of special tokens, "<mask>" among them, become these tokens.
    """
    encoded = tokenizer(
        text,
        add_special_tokens=False,
        split_special_tokens=plain,
        return_offsets_mapping=True,
        return_attention_mask=False,
        return_token_type_ids=False,
        truncation=False,
        verbose=False,  # it would warn of texts longer than the model's inputs, which windows are for
    )
    offsets = np.array(encoded["offset_mapping"], dtype=np.int32).reshape(-1, 2)
    starts, ends = _without_space(text, offsets[:, 0], offsets[:, 1])
    return TextTokens(np.array(encoded["input_ids"], dtype=np.int32), starts, ends)


def windows(length: int, size: int, overlap: int) -> list[range]:
    """Cuts ``length`` tokens into windows that cover all of them.

    Args:
        length: tokens there are; 0 gives one empty window.
        size: the most tokens of a window. All but the last have so many.
        overlap: tokens that a window shares with the one before it.

    Raises:
        ValueError: ``overlap`` is negative or leaves no step forward.
    """
    if not 0 <= overlap < size:
        raise ValueError(f"windows of {size} tokens cannot overlap by {overlap}; 0 to {size - 1} would do")
    step = size - overlap
    return [range(at, min(at + size, length)) for at in range(0, max(length - overlap, 1), step)]


def _without_space(text: str, starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Tokenizers differ in whether a token has the space before it; here none has."""
    places = np.arange(len(text) + 1, dtype=np.int32)
    is_space = np.array([*map(str.isspace, text), False])
    # For every place, the next character that is no space, and the end of the last one before it.
    following = np.minimum.accumulate(np.where(is_space, len(text), places)[::-1])[::-1]
    preceding = np.maximum.accumulate(np.where(np.roll(is_space, 1), 0, places))
    starts = np.minimum(following[starts], ends)
    return starts, np.maximum(preceding[ends], starts)
