"""Parts of data sets, written as ``path#part``: the official split where there is one, else a seeded one.

``reviews.jsonl`` is the whole file, ``reviews.jsonl#train`` its training part. Examples come in the order of
the file, one at a time: for a seeded part it is read twice, and only ids are held.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from longspan.data import (
    byte_texts,
    classification,
    coreference,
    extractive_qa,
    formats,
    hotpotqa,
    imdb,
    peerread,
    summarization,
    triviaqa,
)
from longspan.data.examples import Example
from longspan.data.format_names import FormatName
from longspan.data.options import NO_OPTIONS, ReaderOptions
from longspan.data.splits import FRACTIONS, Splits, places

# Files that hold several official parts, and what those are called. IMDB has no official dev part: "dev" and
# "fit" are a seeded split of "train".
_OFFICIAL: Mapping[FormatName, tuple[str, ...]] = {
    "imdb": ("train", "test", "fit", "dev"),
    "peerread": ("train", "dev", "test"),
    "ontogum": ("train", "dev", "test", "test2"),
    "qmsum": ("train", "dev", "test"),
    "squality": ("train", "dev", "test"),
}
_IMDB_SEEDED = ("fit", "dev")
_IMDB_FRACTIONS = (0.9, 0.1)
# What the parts of a seeded split have the same share of, and what no two of them have.
_STRATA: Mapping[FormatName, Callable[[Any], str]] = {
    "imdb": imdb.label_of,
    "hyperpartisan": classification.label_of,
    "hotpotqa": hotpotqa.type_of,
}
_GROUPS: Mapping[FormatName, Callable[[Any], str]] = {
    "imdb": imdb.text_of,
    "hyperpartisan": classification.longest_paragraph,
    "qa": extractive_qa.source_of,
    "squad": extractive_qa.article_of,
    "triviaqa": triviaqa.wording_of,
    "quac": extractive_qa.source_of,
    "summarization": summarization.text_of,
}


def read_part(
    where: str,
    format: FormatName,
    dropped: Counter[str] | None = None,
    *,
    root: Path = Path(),
    seed: int = 0,
    targets: bool = True,
    options: ReaderOptions = NO_OPTIONS,
) -> Iterator[Example]:
    """The examples of a part of a data set.

    Args:
        where: a path, or ``path#part``; parts are train, dev and test, or what is official.
        format: how it is written.
        dropped: see `longspan.data.formats.read`.
        root: what the path is relative to.
        seed: of a split of 80, 10 and 10 percent, where none is official.
        targets: see `longspan.data.formats.read`.
        options: of the format's reader.

    Raises:
        ValueError: the path does not exist, there is no such part, or the reader does not take an option.
    """
    name, _, part = where.partition("#")
    path = root / name
    if not path.exists():
        raise ValueError(
            f"{path.absolute()} does not exist; it must be a file or a folder in the format {format}"
        )
    if not part:
        return formats.read(path, format, dropped, targets=targets, options=options)
    parts = _OFFICIAL.get(format, Splits._fields)
    if part not in parts:
        raise ValueError(f"{where}: the part is {part!r}; it must be one of {', '.join(parts)}")
    split = cast(Any, part)
    match format:
        case "imdb" if part in _IMDB_SEEDED:
            at = _IMDB_SEEDED.index(part)
            return _seeded_part(
                lambda left_out: imdb.read_imdb(path, split="train", dropped=left_out),
                *(format, _IMDB_FRACTIONS, at, seed, dropped),
            )
        case "imdb":
            return imdb.read_imdb(path, split=split)
        case "peerread":
            return peerread.read_peerread(path, split=split)
        case "ontogum":
            return coreference.read_ontogum(path, split=split, dropped=dropped)
        case "qmsum":
            return summarization.read_qmsum(path, split=split)
        case "squality":
            return summarization.read_squality(path, split=split)
        case "enwik8":
            return byte_texts.read_enwik8_bytes(path, split)
        case "text8":
            return byte_texts.read_text8(path, split)
        case "bytes" if byte_texts.is_one_text(path):
            return byte_texts.read_bytes_part(path, split)
        case _:
            return _seeded_part(
                lambda left_out: formats.read(path, format, left_out, targets=targets, options=options),
                *(format, FRACTIONS, Splits._fields.index(part), seed, dropped),
            )


def _seeded_part(
    read: Callable[[Counter[str] | None], Iterator[Example]],
    format: FormatName,
    fractions: Sequence[float],
    part: int,
    seed: int,
    dropped: Counter[str] | None,
) -> Iterator[Example]:
    """One part, by its number.

    Args:
        read: begins to read all examples; takes a counter of what is left out.
        format: says what parts have the same share of, and what no two of them have.
        fractions: the parts' sizes.
        part: which one.
        seed: of the split.
        dropped: counts what is left out.
    """
    # What readers leave out is told by the second reading alone.
    place = places(
        read(Counter()), fractions, seed=seed, stratum=_STRATA.get(format), group=_GROUPS.get(format)
    )
    for example in read(dropped):
        if place[example.id] == part:
            yield example
