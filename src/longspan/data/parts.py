"""Parts of data sets, written as ``path#part``: the official split where there is one, else a seeded one.

``reviews.jsonl`` is the whole file, ``reviews.jsonl#train`` its training part. Examples come in the order of
the file, one at a time: for a seeded part it is read twice, and only ids are held.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from longspan.data import (
    byte_texts,
    classification,
    coreference,
    extractive_qa,
    formats,
    hotpotqa,
    summarization,
)
from longspan.data.examples import Example
from longspan.data.formats import FormatName
from longspan.data.splits import FRACTIONS, Splits, places

# Files that hold several official parts, and what those are called.
_OFFICIAL: Mapping[FormatName, tuple[str, ...]] = {
    "imdb": ("train", "test"),
    "peerread": ("train", "dev", "test"),
    "ontogum": ("train", "dev", "test", "test2"),
    "qmsum": ("train", "dev", "test"),
    "squality": ("train", "dev", "test"),
}
# What the parts of a seeded split have the same share of, and what no two of them have.
_STRATA: Mapping[FormatName, Callable[[Any], str]] = {
    "hyperpartisan": classification.label_of,
    "hotpotqa": hotpotqa.type_of,
}
_GROUPS: Mapping[FormatName, Callable[[Any], str]] = {
    "hyperpartisan": classification.longest_paragraph,
    "qa": extractive_qa.dialogue_of,
    "quac": extractive_qa.dialogue_of,
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
) -> Iterator[Example]:
    """The examples of a part of a data set.

    Args:
        where: a path, or ``path#part``; parts are train, dev and test, or what is official.
        format: how it is written.
        dropped: see `longspan.data.formats.read`.
        root: what the path is relative to.
        seed: of a split of 80, 10 and 10 percent, where none is official.
        targets: see `longspan.data.formats.read`.

    Raises:
        ValueError: the path does not exist, or there is no such part.
    """
    name, _, part = where.partition("#")
    path = root / name
    if not path.exists():
        raise ValueError(
            f"{path.absolute()} does not exist; it must be a file or a folder in the format {format}"
        )
    if not part:
        return formats.read(path, format, dropped, targets=targets)
    parts = _OFFICIAL.get(format, Splits._fields)
    if part not in parts:
        raise ValueError(f"{where}: the part is {part!r}; it must be one of {', '.join(parts)}")
    split = cast(Any, part)
    match format:
        case "imdb":
            return classification.read_imdb(path, split=split)
        case "peerread":
            return classification.read_peerread(path, split=split)
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
            return _seeded_part(path, format, Splits._fields.index(part), seed, targets, dropped)


def _seeded_part(
    path: Path, format: FormatName, part: int, seed: int, targets: bool, dropped: Counter[str] | None
) -> Iterator[Example]:
    # What readers leave out is told by the second reading alone.
    place = places(
        formats.read(path, format, Counter(), targets=targets),
        FRACTIONS,
        seed=seed,
        stratum=_STRATA.get(format),
        group=_GROUPS.get(format),
    )
    for example in formats.read(path, format, dropped, targets=targets):
        if place[example.id] == part:
            yield example
