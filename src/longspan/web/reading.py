"""What the page needs of a reader, and what it is told of a reading.

Browsers count characters in units of UTF-16, Python in code points: places are converted here, once.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from longspan.apps.reader import Reading
from longspan.data.examples import Document
from longspan.web.sessions import Text

_TOP = 5
_BINS = 240
"""Parts of the strip that shows where a question looks."""
_SMALLEST_WINDOW = 32
_NO_MEMORY = ("allocate memory", "out of memory")
"""What torch says where Python would raise a MemoryError."""


class Reads(Protocol):
    """A `longspan.apps.reader.Reader`, or what does the same."""

    @property
    def window(self) -> int | None:
        """Tokens that a token sees on both sides together; None where no window can be chosen."""
        ...

    def count_tokens(self, text: str) -> int:
        """Tokens of a text; called while another thread reads."""
        ...

    def read(
        self,
        documents: Sequence[Document],
        question: str,
        *,
        top: int,
        bins: int,
        progress: Callable[[float], None] | None,
        window: int | None,
    ) -> Reading:
        """Looks for answers, with another window if one is given."""
        ...


def windows_of(reader: Reads) -> list[int]:
    """Windows that may be compared: the model's, and its halves down to a small one."""
    window = reader.window
    if window is None:
        return []
    sizes = [window]
    while sizes[-1] // 2 >= _SMALLEST_WINDOW:
        sizes.append(sizes[-1] // 2)
    return sizes


def read(
    reader: Reads, texts: Sequence[Text], question: str, window: int | None, progress: Callable[[float], None]
) -> dict[str, Any]:
    """A reading for the page.

    Raises:
        ValueError: the question cannot be asked.
        MemoryError: the documents are too long for this machine.
    """
    documents = [text.text for text in texts]
    # As documents: readers look whether a plain text names a file, and a client must not learn that.
    given = [Document(id=text.id, text=text.text) for text in texts]
    try:
        found = reader.read(given, question, top=_TOP, bins=_BINS, progress=progress, window=window)
    except RuntimeError as error:
        if any(sign in str(error) for sign in _NO_MEMORY):
            raise MemoryError(str(error)) from error
        raise
    answers = [
        {
            "text": answer.text,
            "confidence": answer.confidence,
            "document": texts[answer.document].id,
            **{
                name: utf16_place(documents[answer.document], getattr(answer, name))
                for name in ("start", "end", "sentence_start", "sentence_end")
            },
        }
        for answer in found.answers
    ]
    return {
        "question": question,
        "window": window or reader.window,
        "documents": [text.id for text in texts],
        "answers": answers,
        "no_answer": found.no_answer,
        "tokens": found.tokens,
        "seconds": found.seconds,
        "attention": list(found.attention),
    }


def utf16_place(text: str, place: int) -> int:
    """Where the character at ``place`` is for a browser."""
    return len(text[:place].encode("utf-16-le", "surrogatepass")) // 2
