"""How long examples are: what table 6 of the Longformer paper says about its data sets.

Lengths are in tokens of a tokenizer file, without special tokens, or in words between spaces.
"""

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from longspan.data.examples import (
    ByteDocument,
    CandidateQuestion,
    CoreferenceDocument,
    Document,
    Example,
    LabelledDocument,
    MultiHopQuestion,
    Question,
    SummarizedDocument,
    TaggedSentence,
)

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Count = Callable[[Sequence[str]], list[int]]
"""From texts to their lengths."""

_AT_ONCE = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """A data set's lengths, summed up."""

    examples: int
    mean: float
    median: float
    percentile_95: float
    maximum: int
    over_512: float
    """The share of examples that are longer, from 0 to 1."""
    over_4096: float


def measure(examples: Iterable[Example], count: Count) -> Lengths:
    """Sums up how long examples are: all their texts together.

    Args:
        examples: at least one.
        count: of words or tokens.
    """
    lengths: list[int] = []
    stream = iter(examples)
    while chunk := list(islice(stream, _AT_ONCE)):
        # A paragraph with many questions is counted once.
        pieces = [tuple(texts_of(example)) for example in chunk]
        different = list(dict.fromkeys(text for texts in pieces for text in texts))
        known = dict(zip(different, count(different), strict=True))
        lengths += [sum(known[text] for text in texts) for texts in pieces]
    return summed_up(lengths)


def summed_up(lengths: Sequence[int]) -> Lengths:
    """The figures of the table. The percentile lies between two lengths where it falls between them."""
    if not lengths:
        raise ValueError("there are no examples; the data must have at least one")
    cuts = statistics.quantiles(lengths, n=20, method="inclusive") if len(lengths) > 1 else [lengths[0]]
    return Lengths(
        examples=len(lengths),
        mean=statistics.fmean(lengths),
        median=float(statistics.median(lengths)),
        percentile_95=float(cuts[-1]),
        maximum=max(lengths),
        over_512=sum(length > 512 for length in lengths) / len(lengths),
        over_4096=sum(length > 4096 for length in lengths) / len(lengths),
    )


def texts_of(example: Example) -> Iterator[str]:
    """All that a model reads of an example, answers and labels left out."""
    match example:
        case Document() | LabelledDocument():
            yield example.text
        case ByteDocument():
            yield str(example.content, "utf-8", errors="replace")
        case Question():
            yield example.question
            yield from (document.text for document in example.documents)
        case SummarizedDocument():
            yield example.query
            yield example.text
        case CandidateQuestion():
            yield example.query
            yield from example.candidates
            yield from example.supports
        case MultiHopQuestion():
            yield example.question
            for paragraph in example.paragraphs:
                yield paragraph.title
                yield paragraph.text
        case CoreferenceDocument() | TaggedSentence():
            yield " ".join(example.words)


def words(texts: Sequence[str]) -> list[int]:
    """Counts words between spaces."""
    return [len(text.split()) for text in texts]


def tokens(path: Path) -> Count:
    """A counter of tokens.

    Args:
        path: a ``tokenizer.json``, or a folder with one.
    """
    from tokenizers import Tokenizer

    file = path / "tokenizer.json" if path.is_dir() else path
    if not file.is_file():
        raise ValueError(f"{path} has no tokenizer.json; it must be such a file, or a folder with one")
    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # tokenizers raises nothing more specific
        raise ValueError(f"{file} cannot be read, {error}; it must be a tokenizer.json") from error
    return tokens_of(tokenizer)


def tokens_of(tokenizer: "Tokenizer") -> Count:
    """A counter of a tokenizer's tokens."""
    # A tokenizer that was saved with them would hide how long texts are.
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def count(texts: Sequence[str]) -> list[int]:
        encoded = tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [len(encoding) for encoding in encoded]

    return count
