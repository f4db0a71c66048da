"""Questions to a library of files: all of it is read, or where it is long, the passages that fit a question.

What is read depends on the question and the files alone, not on what was asked before: the same question
gives the same answer again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from longspan.apps.library import Library, StoredDocument, StoredPassage
from longspan.apps.reader import Answer, Reader

READ_TOKENS = 8192
"""That are read of a library for a question, unless something else is said."""
_BYTES_A_TOKEN = 4
_PASSAGES = 1000
"""The most that are looked at, best first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What was found in a library."""

    answers: tuple[Answer, ...]
    """Best first; empty when nothing answers. Documents are counted as the library lists them."""
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
        documents = library.documents()
        is_whole = read is None or sum(one.bytes for one in documents) <= read * _BYTES_A_TOKEN
        if is_whole:
            parts = [_Part(one.id, 0, library.text(one.id)) for one in documents]
        else:
            assert read is not None
            parts = _excerpts(library, question, read * _BYTES_A_TOKEN)
    found = reader.read([one.text for one in parts], question, top=top, progress=progress, anyway=anyway)
    return Asked(
        answers=tuple(_in_library(one, parts[one.document], documents) for one in found.answers),
        no_answer=found.no_answer,
        documents=len(documents),
        is_whole=is_whole,
        tokens=found.tokens,
        seconds=found.seconds,
    )


def _in_library(answer: Answer, part: _Part, documents: Sequence[StoredDocument]) -> Answer:
    """An answer of a part, told of the whole document."""
    number = next(at for at, one in enumerate(documents) if one.id == part.document)
    whole = documents[number]
    return replace(
        answer,
        document=number,
        name=whole.path,
        start=part.start + answer.start,
        end=part.start + answer.end,
        position=(part.start + answer.start) / whole.characters,
        sentence_start=part.start + answer.sentence_start,
        sentence_end=part.start + answer.sentence_end,
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
