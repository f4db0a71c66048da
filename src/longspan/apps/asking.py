"""Questions to a library of files: all of it is read, or where it is long, the passages that fit a question.

What is read depends on the question and the files alone, not on what was asked before: the same question
gives the same answer again.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from longspan.apps.library import Library, StoredPassage
from longspan.apps.reader import Reader

READ_TOKENS = 8192
"""That are read of a library for a question, unless something else is said."""
_BYTES_A_TOKEN = 4
_PASSAGES = 1000
"""The most that are looked at, best first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundAnswer:
    """An answer, and where it is written."""

    text: str
    confidence: float
    """The probability that it is right, 0..1."""
    name: str
    """Of the document: the file's path, or what it was called."""
    start: int
    """Its first character in the file's text, as longspan reads it: a paragraph a line."""
    end: int
    position: float
    """How far through the document it begins, 0..1."""
    sentence: str
    """The sentence or sentences that it is in."""
    sentence_start: int
    sentence_end: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What was found in a library."""

    answers: tuple[FoundAnswer, ...]
    """Best first; empty when nothing answers."""
    no_answer: float
    """The probability that what was read does not answer."""
    documents: int
    """In the library."""
    is_whole: bool
    """Whether all of them were read; otherwise the passages that fit the question best."""
    tokens: int
    """That were read."""
    seconds: float
    """That reading took."""


class _Part(NamedTuple):
    """A part of a document that is read."""

    document: int
    start: int
    text: str


def ask(
    reader: Reader,
    library: Library,
    question: str,
    *,
    top: int = 3,
    read: int | None = READ_TOKENS,
    anyway: bool = False,
    progress: Callable[[float], None] | None = None,
) -> Asked:
    """Looks for answers in a library.

    Args:
        reader: that answers.
        library: up to date.
        question: in words.
        top: the most answers.
        read: about how many tokens are read at most (four bytes of text count as one); None reads everything.
        anyway: whether the best answers are given even where it is likelier that there is none.
        progress: called with what is done of the reading, 0 to 1; what it raises ends it.

    Raises:
        ValueError: an argument is wrong, or the question is too long.
    """
    if read is not None and read < 1:
        raise ValueError(f"read is {read}; it must be at least 1, or None")
    with library.as_it_is():
        documents = {one.id: one for one in library.documents()}
        is_whole = read is None or sum(one.bytes for one in documents.values()) <= read * _BYTES_A_TOKEN
        if is_whole:
            parts = [_Part(one, 0, library.text(one)) for one in documents]
        else:
            assert read is not None
            parts = _excerpts(library, question, read * _BYTES_A_TOKEN)
    found = reader.read([one.text for one in parts], question, top=top, progress=progress, anyway=anyway)
    answers: list[FoundAnswer] = []
    for one in found.answers:
        part = parts[one.document]
        answers.append(
            FoundAnswer(
                text=one.text,
                confidence=one.confidence,
                name=documents[part.document].path,
                start=part.start + one.start,
                end=part.start + one.end,
                position=(part.start + one.start) / max(documents[part.document].characters, 1),
                sentence=part.text[one.sentence_start : one.sentence_end],
                sentence_start=part.start + one.sentence_start,
                sentence_end=part.start + one.sentence_end,
            )
        )
    return Asked(
        answers=tuple(answers),
        no_answer=found.no_answer,
        documents=len(documents),
        is_whole=is_whole,
        tokens=found.tokens,
        seconds=found.seconds,
    )


def _excerpts(library: Library, question: str, most: int) -> list[_Part]:
    """The best passages, each with those before and after it, as long as all together have ``most`` bytes.

    Neighbours are read as one text. Where no passage has a word of the question, the first ones are read.
    """
    chosen: dict[tuple[int, int], StoredPassage] = {}
    size = 0
    for best in library.find(question, _PASSAGES) or library.passages()[:_PASSAGES]:
        around = {(one.document, one.number): one for one in library.around(best)}
        new = {place: one for place, one in around.items() if place not in chosen}
        size += sum(len(one.text.encode("utf-8", "replace")) for one in new.values())
        if chosen and size > most:
            break
        chosen |= new
    parts: list[_Part] = []
    before = None
    for (document, number), one in sorted(chosen.items()):
        if before == (document, number - 1):
            parts[-1] = parts[-1]._replace(text=parts[-1].text + one.text)
        else:
            parts.append(_Part(document, one.start, one.text))
        before = (document, number)
    return parts
