"""The entry point of `longspan`.

Nothing heavy is imported here: `longspan --help` answers before torch would be loaded. A command that cannot
do what was asked ends with one line on stderr and an exit code (`errors.py`); ``--debug``, or the variable
LONGSPAN_DEBUG, shows the traceback too.
"""

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from cyclopts import App, Parameter

from longspan.cli import (
    ask,
    bench,
    classify,
    compact,
    completion,
    data,
    demo,
    doctor,
    export,
    generate,
    lengthen,
    plot,
    search,
    serve,
    summarize,
    train,
)
from longspan.cli.errors import CLOSED_PIPE, INTERRUPTED, judged
from longspan.cli.interrupts import one_interrupt
from longspan.cli.output import any_characters
from longspan.cli.registering import DOCUMENTS, LOOKING, MODELS, OPTIONS, add

_DEBUG = "--debug"


def _version() -> str:
    from importlib import metadata

    return metadata.version("longspan")


app = App(
    name="longspan",
    help="Transformers that read long documents, at linear cost.",
    help_format="rich",
    help_epilogue="longspan COMMAND --help has the options of a command, and examples. "
    f"{_DEBUG}, anywhere, shows the traceback of an error.",
    version=_version,
    default_parameter=Parameter(negative=""),
    suppress_keyboard_interrupt=False,
)
app["--help"].group = app["--version"].group = OPTIONS
add(app, ask.ask, ask.EXAMPLES, DOCUMENTS)
add(app, search.search, search.EXAMPLES, DOCUMENTS)
add(app, classify.classify, classify.EXAMPLES, DOCUMENTS)
add(app, summarize.summarize, summarize.EXAMPLES, DOCUMENTS)
add(app, serve.serve, serve.EXAMPLES, DOCUMENTS)
add(app, demo.demo, demo.EXAMPLES, DOCUMENTS)
add(app, lengthen.lengthen, lengthen.EXAMPLES, MODELS)
add(app, compact.compact, compact.EXAMPLES, MODELS)
add(app, export.export, export.EXAMPLES, MODELS)
add(app, train.train, train.TRAIN_EXAMPLES, MODELS)
add(app, train.evaluate, train.EVALUATE_EXAMPLES, MODELS)
add(app, train.predict, train.PREDICT_EXAMPLES, MODELS)
add(app, generate.generate, generate.EXAMPLES, MODELS)
app.command(data.app)
app.command(bench.app)
app.command(plot.app)
add(app, doctor.doctor, doctor.EXAMPLES, LOOKING)
add(app, completion.completion, completion.EXAMPLES, LOOKING)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command in ``arguments``, by default those of the process."""
    words, debug = _without_debug(sys.argv[1:] if arguments is None else arguments)
    any_characters()
    with one_interrupt() as interrupts:
        try:
            try:
                app(words, exit_on_error=False, print_error=False)
            finally:
                sys.stdout.flush()
        except KeyboardInterrupt:
            _end(INTERRUPTED, "interrupted", debug=debug)
        except BrokenPipeError:
            # Who read our output has enough of it; what is left of it must not be flushed at the end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(CLOSED_PIPE)
        except SystemExit as end:
            # rich ends the process by itself then.
            sys.exit(CLOSED_PIPE if isinstance(end.__context__, BrokenPipeError) else end.code)
        except Exception as error:
            code, message = (INTERRUPTED, "interrupted") if interrupts.heard else judged(error)
            _end(code, message, debug=debug)


def _without_debug(arguments: Sequence[str]) -> tuple[list[str], bool]:
    """The arguments but for ``--debug``, and whether it, or the variable, was there."""
    words = list(arguments)
    known = words.index("--") if "--" in words else len(words)
    asked = _DEBUG in words[:known] or os.environ.get("LONGSPAN_DEBUG", "0") not in ("", "0")
    return [word for word in words[:known] if word != _DEBUG] + words[known:], asked


def _end(code: int, message: str, *, debug: bool) -> NoReturn:
    if debug:
        import traceback

        traceback.print_exc()
    print(f"longspan: {message}", file=sys.stderr)
    sys.exit(code)
