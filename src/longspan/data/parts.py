"""Parts of data sets, written as ``path#part``: the official split where there is one, else a seeded one.

``reviews.jsonl`` is the whole file, ``reviews.jsonl#train`` its training part.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from longspan.data import byte_texts, classification, coreference, formats, hotpotqa
from longspan.data.examples import Example
from longspan.data.formats import FormatName
from longspan.data.splits import Splits, train_dev_test

# Files that hold several official parts, and what those are called.
_OFFICIAL: Mapping[FormatName, tuple[str, ...]] = {
    "imdb": ("train", "test"),
    "peerread": ("train", "dev", "test"),
    "ontogum": ("train", "dev", "test", "test2"),
}


def read_part(
    where: str, format: FormatName, *, root: Path = Path(), seed: int = 0, targets: bool = True
) -> Iterator[Example]:
    """The examples of a part of a data set.

    Args:
        where: a path, or ``path#part``; parts are train, dev and test, or what is official.
        format: how it is written.
        root: what the path is relative to.
        seed: of a split of 80, 10 and 10 percent, where none is official.
        targets: see `longspan.data.formats.read`.

    Raises:
        ValueError: the path does not exist, or there is no such part.
    """
    name, _, part = where.partition("#")
    path = root / name
    if not path.exists():
        raise ValueError(f"{path} does not exist; it must be a file or a folder in the format {format}")
    if not part:
        return formats.read(path, format, targets=targets)
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
            return coreference.read_ontogum(path, split=split)
        case "enwik8":
            return byte_texts.read_enwik8_bytes(path, split)
        case "text8":
            return byte_texts.read_text8(path, split)
        case "bytes" if byte_texts.is_one_text(path):
            return byte_texts.read_bytes_part(path, split)
        case "hyperpartisan":
            return _part(classification.split_hyperpartisan(path, seed=seed), part)
        case "hotpotqa":
            return _part(hotpotqa.split_hotpotqa(path, seed=seed), part)
        case _:
            return _part(train_dev_test(formats.read(path, format, targets=targets), seed=seed), part)


def _part(splits: Splits[Any], part: str) -> Iterator[Example]:
    parts: Iterable[Example] = getattr(splits, part)
    return iter(parts)
