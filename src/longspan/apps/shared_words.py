"""What words passages share with a query: BM25 as a share of the most that it could be.

Words are kept as hashes of 32 bits, four bytes a word: to find a word among millions is one comparison of an
array. Two words of a library and a query that have the same hash are too rare to matter.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Self
from zlib import crc32

import numpy as np

from longspan.apps.words import K1, B, words, words_of_question


class PassageWords(NamedTuple):
    """The words of passages."""

    lengths: np.ndarray
    """[passages] int64: how many words each has."""
    hashes: np.ndarray
    """[words of all passages] uint32: of each, in order."""

    @classmethod
    def of(cls, texts: Sequence[str]) -> Self:
        """The words of passages, from their texts."""
        found = [words(one) for one in texts]
        return cls(
            np.array([len(one) for one in found], np.int64), _hashes([word for one in found for word in one])
        )

    @classmethod
    def joined(cls, parts: "Sequence[PassageWords]") -> Self:
        """The passages of several documents, one document after the other."""
        if not parts:
            return cls.of([])
        return cls(
            np.concatenate([one.lengths for one in parts]), np.concatenate([one.hashes for one in parts])
        )

    def counts(self, query: str) -> Iterator[np.ndarray]:
        """How often each passage has a word of a query: [passages] int64 for one word after the other."""
        count, ends = len(self.lengths), self.lengths.cumsum()
        for word in _hashes(words_of_question(query)):
            places = np.searchsorted(ends, np.flatnonzero(self.hashes == word), side="right")
            yield np.bincount(places, minlength=count)

    def shares(self, query: str) -> np.ndarray:
        """How much of a query each passage has: [passages] fp32, from 0 to 1.

        Words that few passages have count more, and more in a short passage than in a long one. With all
        words of the query a share is near 1 only where each is there many times.
        """
        return shares(self.lengths, self.counts(query)).astype(np.float32)


def shares(lengths: np.ndarray, counts: Iterable[np.ndarray]) -> np.ndarray:
    """How much of what is looked for each passage has: [passages] fp64, from 0 to 1.

    Args:
        lengths: [passages], words that each has.
        counts: for every word that is looked for, [passages], how often each has it.
    """
    total, most = np.zeros(len(lengths)), 0.0
    damping = K1 * (1 - B + B * lengths / max(lengths.mean(), 1.0)) if len(lengths) else total
    for many in counts:
        having = np.count_nonzero(many)
        rarity = math.log(1 + (len(lengths) - having + 0.5) / (having + 0.5))
        total += rarity * many * (K1 + 1) / (many + damping)
        most += rarity * (K1 + 1)
    return total / most if most else total


def _hashes(several: Sequence[str]) -> np.ndarray:
    return np.array([crc32(one.encode("utf-8", "surrogatepass")) for one in several], np.uint32)
