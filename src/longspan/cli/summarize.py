"""`longspan summarize`: documents of any length, in one command."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from longspan.cli.errors import UsageError, user_mistakes

if TYPE_CHECKING:
    from longspan.data.examples import Document

_STANDARD_INPUT = "-"


def summarize(
    *files: Annotated[Path, Parameter(allow_leading_hyphen=True)],
    model: str | None = None,
    query: str = "",
    words: int | None = None,
    sentences: int | None = None,
    beams: int | None = None,
    max_tokens: int | None = None,
    as_json: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> None:
    """Summarise documents: text, Markdown, HTML or PDF.

    The model chooses sentences (task extractive-summarization) or writes (an LED, BART, T5 ...). The one that
    comes with longspan chooses.

    Args:
        files: documents; none, or -, reads standard input.
        model: folder of a run or of a model, or a name on the Hub; by default the one of longspan.
        query: what the summary is to say; by default it is one of the whole.
        words: about how long, where sentences are chosen.
        sentences: the most sentences, where they are chosen.
        beams: summaries that are written beside each other, where the model writes; the best counts.
        max_tokens: the most tokens that are written.
        as_json: print a JSON object a document.
    """
    with user_mistakes():
        _check(words=words, sentences=sentences, beams=beams, max_tokens=max_tokens)
        try:
            documents = _documents(files)
        except ModuleNotFoundError as error:
            raise UsageError(str(error)) from error
    import json

    from transformers.utils import logging

    from longspan.training.summarizer import Summarizer

    # What transformers says about new heads and unused weights is checked, or does not matter, here.
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    with user_mistakes():
        summarizer = Summarizer(model, words=words, sentences=sentences, beams=beams, max_tokens=max_tokens)
    for document in documents:
        with user_mistakes():
            summary = summarizer(document.id, document.text, query)
        if summary.tokens_read < summary.tokens:
            read = f"{summary.tokens_read:,} of {summary.tokens:,} tokens"
            print(f"longspan: {document.id}: the model read the first {read}", file=sys.stderr)
        if as_json:
            chosen = {} if summary.sentences is None else {"sentences": list(summary.sentences)}
            counts = {"tokens": summary.tokens, "tokens_read": summary.tokens_read}
            record = {"id": document.id, "summary": summary.text, **chosen, **counts}
            print(json.dumps(record, ensure_ascii=False))
        else:
            print(f"{document.id}\n\n{summary.text}\n" if len(documents) > 1 else summary.text)


def _check(**numbers: int | None) -> None:
    for name, value in numbers.items():
        if value is not None and value < 1:
            raise ValueError(f"--{name.replace('_', '-')} is {value}; it must be at least 1")


def _documents(files: Sequence[Path]) -> "list[Document]":
    from longspan.data.documents import document_of, read_document

    paths = files or (Path(_STANDARD_INPUT),)
    return [
        document_of(sys.stdin.buffer.read(), "standard input")
        if str(path) == _STANDARD_INPUT
        else read_document(path)
        for path in paths
    ]
