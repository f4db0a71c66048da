"""Where the passages of a document are: what a search finds, by words or by meaning.

A passage is made of whole sentences of one paragraph (a line of the text). A long paragraph is cut into
passages of about equal length, a short one is joined with those that follow: headings with what they head,
items of a list with each other. A sentence longer than a passage may be is cut between words, or anywhere in
a text without any.
"""

import math
from collections.abc import Iterator
from itertools import pairwise

from longspan.metrics.sentences import sentence_spans

MOST = 800
"""Characters of a passage: about 130 words of English."""
VERSION = 1
"""Of how texts are cut; another one where the same text is cut elsewhere."""
_LEAST = 0.25
"""The share of the most characters below which a paragraph is joined with the next."""


def cut(text: str, most: int = MOST) -> list[tuple[int, int]]:
    """The passages of a text.

    Args:
        text: paragraphs, one a line.
        most: characters of a passage, at least 1.

    Returns:
        The first character of each passage and the one after its last, in order. They do not overlap, and no
        character but white space is outside of them.
    """
    if most < 1:
        raise ValueError(f"most is {most}; a passage must have at least 1 character")
    found: list[tuple[int, int]] = []
    begin = end = None
    for start, stop in _pieces(text, most):
        if begin is None or end is None:
            begin, end = start, stop
        elif stop - begin <= most and end - begin < _LEAST * most:
            end = stop
        else:
            found.append((begin, end))
            begin, end = start, stop
    if begin is not None and end is not None:
        found.append((begin, end))
    return found


def cover(text: str, most: int = MOST) -> list[tuple[int, int]]:
    """The passages of a text, each with the white space behind it: joined they are the text.

    Args:
        text: paragraphs, one a line.
        most: characters of a passage, at least 1.
    """
    starts = [start for start, _ in cut(text, most)]
    edges = [0, *starts[1:], len(text)]
    return [(start, end) for start, end in pairwise(edges) if start < end]


def _pieces(text: str, most: int) -> Iterator[tuple[int, int]]:
    """Paragraphs, and parts of those that are too long."""
    begin = 0
    for line in text.splitlines(keepends=True):
        sentences = [
            (begin + start, begin + end)
            for sentence in sentence_spans(line)
            for start, end in _words(line, *sentence, most)
        ]
        if sentences:
            yield from _parts(sentences, most)
        begin += len(line)


def _words(line: str, start: int, end: int, most: int) -> Iterator[tuple[int, int]]:
    """A sentence, or pieces of one that is too long."""
    while end - start > most:
        space = line.rfind(" ", start + 1, start + most + 1)
        stop = space if space > 0 else start + most
        yield start, stop
        start = stop + len(line[stop:end]) - len(line[stop:end].lstrip())
    yield start, end


def _parts(sentences: list[tuple[int, int]], most: int) -> Iterator[tuple[int, int]]:
    """A paragraph as few parts of about equal length."""
    last = sentences[-1][1]
    begin, end = sentences[0]
    for start, stop in sentences[1:]:
        left = last - begin
        wanted = left / math.ceil(left / most)
        # A sentence belongs to the part that its middle lies in.
        if stop - begin > most or (start + stop) / 2 > begin + wanted:
            yield begin, end
            begin = start
        end = stop
    yield begin, end
