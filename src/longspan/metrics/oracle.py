"""The sentences of a document that a reference summary would choose: what extractive models learn.

Greedy, as in Nallapati et al. (2017): the sentence that raises ROUGE-1 + ROUGE-2 most is added, until none
raises it. The words are those of rouge-score, stems included. Pairs of words are counted inside of sentences,
not across. Not the best of all extracts, which nobody can search for, but near it.
"""

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from longspan.metrics.optional import needs

_LEAST_GAIN = 1e-9
"""Below it is rounding."""


def greedy_oracle(sentences: Sequence[str], references: Sequence[str]) -> list[int]:
    """Numbers of the sentences, in their order; none where no sentence has a word of a reference.

    Args:
        sentences: of a document.
        references: summaries of it; of several, the mean of their scores is raised.

    Raises:
        ModuleNotFoundError: rouge-score is not installed.
        ValueError: there is no reference.
    """
    if not references:
        raise ValueError("references is empty; an oracle needs at least one")
    of_sentences = [rouge_words(sentence) for sentence in sentences]
    of_references = [rouge_words(reference) for reference in references]
    tables = [
        _Table([_grams(words, size) for words in of_sentences], _grams(reference, size))
        for size in (1, 2)
        for reference in of_references
    ]
    chosen: list[int] = []
    left = np.ones(len(sentences), dtype=bool)
    score = 0.0
    while left.any():
        scores = np.where(left, np.mean([table.f1_with_each() for table in tables], axis=0), -1.0)
        best = int(scores.argmax())
        if scores[best] <= score + _LEAST_GAIN:
            break
        score = float(scores[best])
        left[best] = False
        chosen.append(best)
        for table in tables:
            table.add(best)
    return sorted(chosen)


def rouge_words(text: str) -> list[str]:
    """The words of a text as rouge-score has them, stemmed; a word's stem is looked for once."""
    return [_stem(word) for word in _tokenizer().tokenize(text)]


def _grams(words: Sequence[str], size: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(words[at:] for at in range(size)), strict=False))


class _Table:
    """Counts of one kind of n-grams: those of one reference, in every sentence.

    Args:
        sentences: the n-grams of each.
        reference: the n-grams that count.
    """

    def __init__(self, sentences: Sequence[Counter[tuple[str, ...]]], reference: Counter[Any]) -> None:
        grams = {gram: at for at, gram in enumerate(reference)}
        self.wanted = np.array(list(reference.values()), dtype=np.int32)
        self.counts = np.zeros((len(sentences), len(grams)), dtype=np.int32)
        for row, counts in zip(self.counts, sentences, strict=True):
            for gram in counts.keys() & grams.keys():
                row[grams[gram]] = counts[gram]
        self.sizes = np.array([counts.total() for counts in sentences], dtype=np.int64)
        self.have = np.zeros(len(grams), dtype=np.int32)
        self.size = 0

    def f1_with_each(self) -> np.ndarray:
        """[sentences]: the F1 of what was added, with each sentence beside it."""
        common = np.minimum(self.counts + self.have, self.wanted).sum(1)
        # 2 common / (predicted + gold) is the harmonic mean of precision and recall.
        return 2 * common / np.maximum(self.sizes + self.size + self.wanted.sum(), 1)

    def add(self, sentence: int) -> None:
        self.have = self.have + self.counts[sentence]
        self.size += int(self.sizes[sentence])


@lru_cache(maxsize=1)
def _tokenizer() -> Any:
    with needs("rouge-score"):
        from rouge_score.tokenizers import DefaultTokenizer
    return DefaultTokenizer(use_stemmer=False)


@lru_cache(maxsize=1 << 16)
def _stem(word: str) -> str:
    # rouge-score leaves short words alone.
    return _stemmer().stem(word) if len(word) > 3 else word


@lru_cache(maxsize=1)
def _stemmer() -> Any:
    with needs("rouge-score"):
        from nltk.stem.porter import PorterStemmer
    return PorterStemmer()
