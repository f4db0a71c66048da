"""Words with a tag each: our JSONL, and the columns of CoNLL-2003 and its like."""

from collections.abc import Iterator
from pathlib import Path

from longspan.data.examples import TaggedSentence
from longspan.data.files import OpenFile, open_files
from longspan.data.records import read_jsonl, wrong

DOCUMENT_START = "-DOCSTART-"


def read_tagged(path: Path, *, targets: bool = True) -> Iterator[TaggedSentence]:
    """Our JSONL: ``{"id", "words", "tags"}``.

    Args:
        path: the file.
        targets: whether every sentence must have tags.
    """
    for record in read_jsonl(path, unique="id"):
        words = record.texts("words")
        has_tags = targets or record.has("tags")
        tags = record.texts("tags") if has_tags else ()
        if has_tags and len(words) != len(tags):
            raise record.error("tags", f"{len(words)} strings, one for each word")
        yield TaggedSentence(id=record.text_or_number("id"), words=words, tags=tags)


def read_conll_tags(
    path: Path, *, word: int = 0, tag: int = -1, whole_documents: bool = False, names: str = "*"
) -> Iterator[TaggedSentence]:
    """A word a line in columns between spaces or tabs, and a blank line after a sentence.

    Ids are the file's name and a number, from 1. Lines of ``-DOCSTART-`` are borders and no words.

    Args:
        path: a file, or a folder or an archive of them.
        word: the word's column, from 0.
        tag: the tag's; -1 is the last one.
        whole_documents: join the sentences between two ``-DOCSTART-``.
        names: which files of a folder or an archive.
    """
    for file in open_files(path, names):
        for number, group in enumerate(_groups(file, word, tag, whole_documents), 1):
            words, tags = zip(*group, strict=True)
            yield TaggedSentence(id=f"{file.stem}/{number}", words=words, tags=tags)


def _groups(file: OpenFile, word: int, tag: int, whole_documents: bool) -> Iterator[list[tuple[str, str]]]:
    """Words and tags up to a border each."""
    group: list[tuple[str, str]] = []
    width = 0
    for number, line in file.lines():
        where = f"{file.name}, line {number}"
        columns = line.split("\t") if "\t" in line and line.strip() else line.split()
        if columns[:1] == [DOCUMENT_START] or not (columns or whole_documents):
            if group:
                yield group
            group = []
        elif columns:
            if not width:
                width = len(columns)
                for name, column in (("word", word), ("tag", tag)):
                    if not -width <= column < width:
                        raise wrong(where, f"the column of the {name}", column, f"below {width}")
            if len(columns) != width:
                raise wrong(where, "the number of columns", len(columns), f"{width}, as in the lines before")
            if not (columns[word] and columns[tag]):
                raise wrong(where, "the line", line, "a word and a tag")
            group.append((columns[word], columns[tag]))
    if group:
        yield group
