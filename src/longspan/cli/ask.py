"""`longspan ask`: questions to documents, a folder of them, or standard input."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longspan.cli.documents import STANDARD_INPUT, Words, documents_and_words, say_left_out, standard_input
from longspan.cli.errors import FailedCheckError, user_mistakes
from longspan.cli.kept import place_of_index
from longspan.cli.options import AsJson, Flag, at_least_one
from longspan.cli.output import print_json
from longspan.cli.progress import bar

if TYPE_CHECKING:
    from longspan.apps.asking import Asked
    from longspan.apps.library import Library
    from longspan.apps.reader import Answer

EXAMPLES = """\
  longspan ask contract.pdf "When does it end?" --model runs/reader
  longspan ask letters/ notes.md "Who paid?" --read 20000 --json
  longspan ask --question "Who came?" < story.txt"""


def ask(
    *files_and_question: Words,
    question: str | None = None,
    model: str | None = None,
    top: int = 3,
    read: int = 8192,
    whole: Flag = False,
    anyway: Flag = False,
    index: Path | None = None,
    as_json: AsJson = False,
) -> None:
    """Answer a question from documents: text, Markdown, HTML, PDF, Word or EPUB.

    longspan ask FILE... "QUESTION". The exit code is 1 when nothing answers.

    Args:
        files_and_question: documents and folders, then the question; without documents, or with -, standard
            input is read.
        question: the question, instead of the last argument.
        model: folder of a run or of a model, or a name on the Hub; by default the one of longspan.
        top: the most answers.
        read: about how many tokens are read at most: where the documents have more, the passages that fit the
            question best.
        whole: read everything, however long, in one pass.
        anyway: show the best answers even where it is likelier that there is none.
        index: file to keep texts and words in; by default in the user's cache. Standard input is not kept.
        as_json: print a JSON object.
    """
    with user_mistakes():
        at_least_one(top=top, read=read)
        paths, asked = documents_and_words("ask QUESTION", files_and_question, question)
    with _library(paths, index) as library:
        from longspan.cli.models import starting

        with starting():
            from longspan.apps import asking
            from longspan.apps.reader import Reader

            with user_mistakes():
                reader = Reader(model)
        with user_mistakes(), bar("reading") as progress:
            limit = None if whole else read
            found = asking.ask(reader, library, asked, top=top, read=limit, anyway=anyway, progress=progress)
    if as_json:
        print_json({"question": asked, **asdict(found)})
    else:
        _print(found)
    if not found.answers:
        raise FailedCheckError(f"no answer (that there is none is {found.no_answer:.0%} probable)")


@contextmanager
def _library(paths: Sequence[Path], index: Path | None) -> "Generator[Library]":
    """The texts of all documents, as they are now."""
    from longspan.apps.library import Library, usual_place
    from longspan.data.documents import find_files

    files = [path for path in paths if str(path) != STANDARD_INPUT]
    with user_mistakes():
        reads_input = len(files) < len(paths)
        library = Library(None if reads_input else place_of_index(index, lambda: usual_place(files)))
    with library:
        with user_mistakes(), bar("looking at files") as progress:
            named = [path for path in files if not path.is_dir()]
            inside = [one for path in files if path.is_dir() for one in find_files(path).files]
            done = library.update(
                [*named, *inside],
                strict=named,
                progress=lambda at, of: progress(at / of) if progress and of else None,
            )
            if reads_input:
                library.add("standard input", standard_input().text)
        for reason in done.failed:
            say_left_out(reason)
        yield library


def _print(found: "Asked") -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    for number, one in enumerate(found.answers):
        if number:
            console.print()
        console.print(Text.assemble((one.text, "bold"), f"  {one.confidence:.0%}"))
        console.print(highlighted(one))
        console.print(Text(f"{one.name}, character {one.start:,}, {one.position:.0%} through", "dim"))


def highlighted(one: "Answer") -> Any:
    """The sentence of an answer, for a terminal, with the answer in it."""
    from rich.text import Text

    begin, end = one.start - one.sentence_start, one.end - one.sentence_start
    return Text.assemble(one.sentence[:begin], (one.sentence[begin:end], "bold green"), one.sentence[end:])
