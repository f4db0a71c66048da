"""IMDB's film reviews: the folders of the published archive, and JSONL with a review a line."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Literal

from longspan.data.examples import LabelledDocument
from longspan.data.files import ARCHIVES, counted, open_files
from longspan.data.records import read_jsonl, wrong

UNLABELLED = "reviews without a label"
LABELS = ("neg", "pos")
_PARTS = ("train", "test")
_NAME = re.compile(r"\d+_\d+\.txt")

Split = Literal["train", "test"]


def read_imdb(
    path: Path, *, split: Split | None = None, dropped: Counter[str] | None = None
) -> Iterator[LabelledDocument]:
    """IMDB reviews.

    Args:
        path: the folder ``aclImdb`` with ``train/pos/0_9.txt`` and the like, or an archive of it; or JSONL,
            ``{"split", "id", "rating", "label", "text"}``, labels 1 and 0. Both hold both splits.
        split: only this one.
        dropped: counts the reviews of ``train/unsup``, which have no label.

    Returns:
        Reviews labelled "pos" and "neg", with the names of the original files as their ids.
    """
    if path.is_dir() or path.name.endswith(ARCHIVES):
        return _read_folders(path, split, dropped)
    return _read_lines(path, split)


def label_of(review: LabelledDocument) -> str:
    """What the parts of a split have the same share of."""
    return review.label


def text_of(review: LabelledDocument) -> str:
    """What no two parts of a split share: some reviews are there twice."""
    return review.text


def _read_lines(path: Path, split: Split | None) -> Iterator[LabelledDocument]:
    for record in read_jsonl(path):
        part = record.one_of("split", _PARTS)
        number = record.integer("label")
        if number > 1:
            raise record.error("label", "0 or 1")
        if split in (None, part):
            label = LABELS[number]
            name = f"{record.integer('id')}_{record.integer('rating')}"
            yield LabelledDocument(id=f"{part}/{label}/{name}", text=record.text("text"), label=label)


def _read_folders(
    path: Path, split: Split | None, dropped: Counter[str] | None
) -> Iterator[LabelledDocument]:
    found = False
    with counted(path, dropped) as drop:
        for file in open_files(path, "*.txt"):
            part, label, name = ("", "", *PurePosixPath(file.name).parts)[-3:]
            if part not in _PARTS:  # lists of addresses stand beside the folders
                continue
            if label == "unsup":
                if split in (None, part):
                    drop[UNLABELLED] += 1
                continue
            if label not in LABELS or not _NAME.fullmatch(name):
                right = "pos or neg with a file such as 0_9.txt, a number and a rating"
                raise wrong(file.name, "the review", f"{label}/{name}", right)
            found = True
            if split in (None, part):
                id = f"{part}/{label}/{name.removesuffix('.txt')}"
                yield LabelledDocument(id=id, text=file.text(), label=label)
    if not found:
        raise ValueError(f"{path} has no train/pos/*.txt and the like; it must be the folder aclImdb")
