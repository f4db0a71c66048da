"""Which words mean the same: our JSONL, and the CoNLL-2012 columns of OntoNotes, LitBank and OntoGUM.

Mentions are ``(start, end)`` in words of the whole document, the end exclusive.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from longspan.data.conll import in_order, read_documents
from longspan.data.examples import CoreferenceDocument, Mention
from longspan.data.files import counted, has_file, open_files
from longspan.data.records import Record, read_jsonl, wrong

GOLD = "*gold_conll"
"""How the files of OntoNotes are named that people annotated."""
BLANKED = "documents with blanked words"


def read_coreference(path: Path, *, targets: bool = True) -> Iterator[CoreferenceDocument]:
    """Our JSONL: ``{"id", "sentences", "clusters", "speakers"}``; the speakers may be left out.

    Args:
        path: the file.
        targets: whether every document must have clusters.
    """
    for record in read_jsonl(path, unique="id"):
        sentences = _nested_texts(record, "sentences")
        has_clusters = targets or record.has("clusters")
        clusters = _given_clusters(record, sum(map(len, sentences))) if has_clusters else []
        speakers = _nested_texts(record, "speakers") if record.has("speakers") else None
        if speakers is not None and list(map(len, speakers)) != list(map(len, sentences)):
            raise record.error("speakers", "shaped as the sentences")
        yield CoreferenceDocument(
            id=record.text_or_number("id"),
            sentences=sentences,
            clusters=in_order(clusters, record.where),
            speakers=speakers,
        )


def read_conll_2012(
    path: Path, *, names: str | None = None, dropped: Counter[str] | None = None
) -> Iterator[CoreferenceDocument]:
    """Files of columns: OntoNotes' and LitBank's, or OntoGUM's three.

    A part of an OntoNotes document is a document, with the part's number at the end of its id. Words stay
    as they are written, so "/." and "-LRB-" too. OntoGUM's files have no sentences: a document is one.

    Args:
        path: a file, or a folder or an archive of them.
        names: which files of a folder or an archive, such as "*auto_conll". None is "*gold_conll" where there
            is any, for OntoNotes has every document a second time, with automatic layers, and "*conll" else.
        dropped: counts documents that are left out: those with words blanked by underscores.
    """
    if names is None:
        names = GOLD if has_file(path, GOLD) else "*conll"
    with counted(path, dropped) as drop:
        for file in open_files(path, names):
            yield from _unblanked(read_documents(file), drop)


def read_ontogum(
    path: Path,
    *,
    split: Literal["train", "dev", "test", "test2"] | None = None,
    dropped: Counter[str] | None = None,
) -> Iterator[CoreferenceDocument]:
    """OntoGUM with its official splits.

    Args:
        path: a folder or an archive with the ``.conll`` files and, for a split, ``splits.md``.
        split: only this one; test2 has other genres.
        dropped: counts what is left out: documents with words blanked by underscores; brackets without
            their partners and empty words, of which the published files have some.
    """
    wanted = None if split is None else _names_of_split(path, split)
    with counted(path, dropped) as drop:
        for file in open_files(path, "*.conll"):
            if wanted is None or file.stem in wanted:
                yield from _unblanked(read_documents(file, drop), drop)


def _unblanked(
    documents: Iterable[CoreferenceDocument], dropped: Counter[str]
) -> Iterator[CoreferenceDocument]:
    for document in documents:
        words = document.words
        blank = sum(not word.strip("_") for word in words)
        # A lone underscore is a word; where most words are nothing else, the text was taken out.
        if 2 * blank > len(words):
            dropped[BLANKED] += 1
        else:
            yield document


def _names_of_split(path: Path, split: str) -> set[str]:
    names: set[str] = set()
    for file in open_files(path, "splits.md"):
        inside = False
        for _, line in file.lines():
            if line.startswith("#"):
                inside = line.strip("# ") == split
            elif inside and line.strip():
                names.add(line.strip(" *"))
    if not names:
        raise ValueError(f"{path}: splits.md names no document of {split!r}; it must have such a heading")
    return names


def _nested_texts(record: Record, name: str) -> tuple[tuple[str, ...], ...]:
    lists = {
        f"{name}[{at}]": item for at, item in enumerate(record.items(name, "a list of lists of strings"))
    }
    inside = Record(record.where, lists)
    return tuple(inside.texts(each) for each in lists)


def _given_clusters(record: Record, num_words: int) -> list[list[Mention]]:
    lists = {
        f"clusters[{at}]": item for at, item in enumerate(record.items("clusters", "a list of clusters"))
    }
    inside = Record(record.where, lists)
    clusters: list[list[Mention]] = []
    for name in lists:
        cluster: list[Mention] = []
        for at, item in enumerate(inside.items(name, "a list of [start, end]")):
            match item:
                case [int(start), int(end)] if 0 <= start < end <= num_words:
                    cluster.append((start, end))
                case _:
                    right = f"[start, end] with 0 <= start < end <= {num_words}, the number of words"
                    raise wrong(record.where, f"{name}[{at}]", item, right)
        clusters.append(cluster)
    return clusters
