"""`longspan demo`: the model that comes with longspan reads a whole book and answers questions about it."""

from typing import TYPE_CHECKING

from longspan.cli.ask import highlighted
from longspan.cli.errors import UsageError
from longspan.cli.options import AsJson
from longspan.cli.output import print_json

if TYPE_CHECKING:
    from rich.console import Console

    from longspan.apps.asking import Asked
    from longspan.apps.reader import Answer

EXAMPLES = """\
  longspan demo
  longspan demo --json"""
QUESTIONS = (
    "In which valley did Buck live?",
    "Who was Buck's father?",
    "How much did Buck weigh?",
    "From the deck of which ship did Buck look at Seattle?",
    "How many dollars did Buck earn for John Thornton in five minutes?",
)


def demo(*, as_json: AsJson = False) -> None:
    """Read a whole book in one pass, and answer five questions about it.

    The book is The Call of the Wild, which comes with longspan. Each answer is shown in its sentence, with
    its place.

    Args:
        as_json: print a JSON object.
    """
    from longspan.embedded import BOOK, READER

    if not READER.exists():
        raise UsageError(
            f"the demonstration needs the reader that comes with longspan, and {READER} is not there; "
            "install longspan again, or ask a model of your own: longspan ask --model"
        )
    from dataclasses import asdict
    from time import perf_counter

    from rich.console import Console

    from longspan.cli.models import starting

    console = Console(highlight=False, soft_wrap=True, quiet=as_json)
    begun = perf_counter()
    with starting():
        from longspan.apps.asking import ask
        from longspan.apps.library import Library
        from longspan.apps.reader import Reader
        from longspan.benchmarks.measure import peak_bytes
        from longspan.data.documents import read_document

        reader = Reader()
    text = read_document(BOOK).text
    words = f"{len(text.split()):,} words"
    console.print(f"The Call of the Wild, by Jack London: {words}, read in one pass for each question")
    asked: dict[str, Asked] = {}
    with Library() as library:
        library.add(BOOK.name, text)
        for question in QUESTIONS:
            found = asked[question] = ask(reader, library, question, top=1, read=None, anyway=True)
            console.print(f"\n[bold]{question}[/bold]")
            for one in found.answers:
                _show(console, one, text)
            console.print(f"{found.tokens:,} tokens in {found.seconds:.1f} s", style="dim")
    seconds, memory = perf_counter() - begun, peak_bytes()
    tokens = max(found.tokens for found in asked.values())
    console.print(
        f"\n{len(QUESTIONS)} questions, {tokens:,} tokens read for each; "
        f"{seconds:.1f} s in all, at most {memory / 2**20:,.0f} MB of memory"
    )
    if as_json:
        said = [{"question": question, **asdict(found)} for question, found in asked.items()]
        print_json({"questions": said, "seconds": seconds, "peak_bytes": memory})


def _show(console: "Console", one: "Answer", text: str) -> None:
    from rich.text import Text

    chapters = [line for line in text[: one.start].splitlines() if line.startswith("Chapter ")]
    chapter = f"{chapters[-1]}, " if chapters else ""
    console.print(Text.assemble((one.text, "bold green"), f"  {one.confidence:.0%}"))
    console.print(highlighted(one))
    console.print(f"{chapter}character {one.start:,}, {one.position:.0%} through the book", style="dim")
