"""`longspan search`: passages of documents, by what they mean."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from longspan.cli.documents import STANDARD_INPUT, Words, documents_and_words, say_left_out, standard_input
from longspan.cli.errors import FailedCheckError, user_mistakes
from longspan.cli.kept import place_of_index
from longspan.cli.options import AsJson, at_least_one
from longspan.cli.output import print_json
from longspan.cli.progress import bar

if TYPE_CHECKING:
    from longspan.apps.searcher import Passage, Searcher

EXAMPLES = """\
  longspan search letters/ "what the house cost"
  longspan search report.pdf notes.md "delays" --top 10 --json
  longspan search --query "a storm at sea" < story.txt"""
_CONTEXT = 160
"""Characters that are shown before a passage, and after it."""


def search(
    *files_and_query: Words,
    query: str | None = None,
    top: int = 5,
    model: str | None = None,
    index: Path | None = None,
    as_json: AsJson = False,
) -> None:
    """Find passages of documents by what they mean: text, Markdown, HTML, PDF, Word or EPUB.

    longspan search FILE... "what is looked for". Documents are read once, and what was read is kept; files
    that have changed are read again.

    Args:
        files_and_query: documents and folders, then the query; without documents, or with -, standard input
            is read.
        query: what is looked for, instead of the last argument.
        top: the most passages.
        model: folder of a model, or a name on the Hub; by default the one of longspan.
        index: the file that keeps what was read; by default one in the user's cache.
        as_json: print a JSON object.
    """
    with user_mistakes():
        at_least_one(top=top)
        paths, wanted = documents_and_words("search QUERY", files_and_query, query)
    from longspan.cli.models import starting

    with starting():
        from longspan.apps.searcher import Searcher
        from longspan.apps.vector_store import usual_place

        with user_mistakes():
            searcher = Searcher(model, store=place_of_index(index, usual_place))
    with searcher.store, user_mistakes():
        _index(searcher, paths)
        found = searcher.search(wanted, top=top)
    if as_json:
        print_json({"query": wanted, "passages": list(map(asdict, found))})
    else:
        _show(searcher, found)
    if not found:
        raise FailedCheckError(f"no document in {', '.join(map(str, paths))} has text")


def _index(searcher: "Searcher", paths: Sequence[Path]) -> None:
    with bar("reading") as progress:
        searcher.index(
            [standard_input() if str(path) == STANDARD_INPUT else path for path in paths],
            progress=progress,
            unreadable=say_left_out,
        )
    searcher.store.forget(searcher.store.missing())


def _show(searcher: "Searcher", found: "Sequence[Passage]") -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    for one in found:
        text = searcher.documents[one.document].text
        head = Text.assemble(
            (f"{one.score:.3f}", "bold green"),
            "  ",
            (one.name, "magenta"),
            f"  characters {one.start:,}-{one.end:,} of {len(text):,}",
        )
        before = _end_of(text[max(one.start - _CONTEXT, 0) : one.start])
        after = _begin_of(text[one.end : one.end + _CONTEXT])
        console.print(head, soft_wrap=True)
        console.print(
            Text.assemble((before, "dim"), one.text, (after, "dim")), soft_wrap=not console.is_terminal
        )
        console.print()


def _end_of(text: str) -> str:
    """The whole words before a passage, on its line or above."""
    words = text.partition(" ")[2] if len(text) == _CONTEXT else text
    return f"... {words}" if words.strip() and len(text) == _CONTEXT else words.lstrip()


def _begin_of(text: str) -> str:
    """The whole words after a passage."""
    words = text.rpartition(" ")[0] if len(text) == _CONTEXT else text
    return f"{words} ..." if words.strip() and len(text) == _CONTEXT else words.rstrip()
