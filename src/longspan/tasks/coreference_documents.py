"""Documents of words as tokens in segments, and back: which tokens a word has, and what a segment holds.

The encoder reads segments of at most so many tokens, each on its own, as a row of its batch. Mentions and
their antecedents range over the whole document, whose hidden states are put together again. A word is
never in two segments; where a sentence fits into one, it is not either.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from longspan.data.examples import CoreferenceDocument

NO_ONE = -1
"""The speaker of words that nobody is known to say."""
PADDING = -1
"""What fills up the fields of shorter documents of a batch."""


class TokenDocument(NamedTuple):
    """One document, as tensors."""

    tokens: Tensor
    """[tokens]: those of all segments, special tokens included."""
    is_global: Tensor
    """[tokens] bool."""
    segments: Tensor
    """[segments]: how many tokens each has."""
    first: Tensor
    """[words]: a word's first token, its place in ``tokens``."""
    last: Tensor
    """[words]: its last one."""
    sentence: Tensor
    """[words]: the number of its sentence."""
    speaker: Tensor
    """[words]: the number of who says it, `NO_ONE` where nobody knows."""
    starts: Tensor
    """[mentions]: the first words of the gold mentions."""
    ends: Tensor
    """[mentions]: the words after them."""
    clusters: Tensor
    """[mentions]: the numbers of their clusters."""


def segment_borders(sizes: Sequence[int], sentence: Sequence[int], room: int) -> Iterator[tuple[int, int]]:
    """The words, from the first to before the second, of each segment; one empty segment if there are none.

    Segments are filled one after the other, up to the last end of a sentence that fits, or where a
    sentence is longer than a segment, up to the last word that fits.

    Args:
        sizes: how many tokens each word has, at most ``room``.
        sentence: the number of each word's sentence.
        room: the most tokens of a segment.
    """
    begin, words = 0, len(sizes)
    if not words:
        yield 0, 0
    while begin < words:
        end, tokens = begin, 0
        while end < words and tokens + sizes[end] <= room:
            tokens += sizes[end]
            end += 1
        cut = end
        while begin < cut < words and sentence[cut] == sentence[cut - 1]:
            cut -= 1
        end = cut if cut > begin else end
        yield begin, end
        begin = end


def speaker_numbers(document: CoreferenceDocument) -> list[int]:
    """One for each word: the same for the same name, `NO_ONE` for none."""
    if document.speakers is None:
        return [NO_ONE] * len(document.words)
    numbers: dict[str, int] = {"": NO_ONE}
    names = (name for sentence in document.speakers for name in sentence)
    return [numbers.setdefault(name, len(numbers) - 1) for name in names]


def documents_of(batch: Mapping[str, Tensor]) -> Iterator[TokenDocument]:
    """The documents of a batch, without its padding."""
    counts = batch["attention_mask"].sum(1).tolist()
    for at, tokens in enumerate(counts):
        words = int((batch["first"][at] != PADDING).sum())
        mentions = int((batch["starts"][at] != PADDING).sum())
        segments = batch["segments"][at]
        yield TokenDocument(
            tokens=batch["input_ids"][at, :tokens],
            is_global=batch["is_global"][at, :tokens],
            segments=segments[segments != PADDING],
            **{name: batch[name][at, :words] for name in ("first", "last", "sentence", "speaker")},
            **{name: batch[name][at, :mentions] for name in ("starts", "ends", "clusters")},
        )


def random_part(document: TokenDocument, most_segments: int, seed: int) -> TokenDocument:
    """Consecutive segments of a document, at most so many, each place as likely as the others.

    Mentions that are not wholly inside are left out.
    """
    surplus = len(document.segments) - most_segments
    if surplus <= 0:
        return document
    begin = int(np.random.default_rng(seed).integers(surplus + 1))
    borders = [0, *document.segments.cumsum(0).tolist()]
    low, high = borders[begin], borders[begin + most_segments]
    words = (document.first >= low) & (document.first < high)
    first_word = int((document.first < low).sum())
    past_word = first_word + int(words.sum())
    mentions = (document.starts >= first_word) & (document.ends <= past_word)
    return TokenDocument(
        tokens=document.tokens[low:high],
        is_global=document.is_global[low:high],
        segments=document.segments[begin : begin + most_segments],
        first=document.first[words] - low,
        last=document.last[words] - low,
        sentence=document.sentence[words],
        speaker=document.speaker[words],
        starts=document.starts[mentions] - first_word,
        ends=document.ends[mentions] - first_word,
        clusters=document.clusters[mentions],
    )


def encoder_batch(documents: Sequence[TokenDocument], padding: int) -> dict[str, Tensor]:
    """The segments of all documents, a row each: "input_ids", "attention_mask" and "is_global"."""
    rows = [row for one in documents for row in one.tokens.split(one.segments.tolist())]
    marks = [row for one in documents for row in one.is_global.split(one.segments.tolist())]
    return {
        "input_ids": pad_sequence(rows, batch_first=True, padding_value=padding),
        "attention_mask": pad_sequence([torch.ones_like(row) for row in rows], batch_first=True),
        "is_global": pad_sequence(marks, batch_first=True),
    }


def hidden_of_documents(
    hidden: Tensor, attention_mask: Tensor, documents: Sequence[TokenDocument]
) -> Sequence[Tensor]:
    """The hidden states of each document's tokens.

    Args:
        hidden: [rows, length, hidden_size], of `encoder_batch`.
        attention_mask: [rows, length], of it too.
        documents: the same.

    Returns:
        [tokens, hidden_size] for each document.
    """
    return hidden[attention_mask.bool()].split([len(one.tokens) for one in documents])
