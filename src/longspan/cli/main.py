"""The entry point of `longspan`.

Nothing heavy is imported here: `longspan --help` answers before torch would be loaded. Wrong
arguments end with one line on stderr and exit code 2.
"""

import sys
from collections.abc import Sequence
from importlib import metadata
from typing import NoReturn

from cyclopts import App, CycloptsError

from longspan.cli import bench, compact, data, doctor, generate, lengthen, plot, summarize, train
from longspan.cli.errors import UsageError

app = App(
    name="longspan",
    help="Transformers that read long documents, at linear cost.",
    version=lambda: metadata.version("longspan"),
)
app.command(lengthen.lengthen)
app.command(compact.compact)
app.command(train.train)
app.command(train.evaluate)
app.command(train.predict)
app.command(generate.generate)
app.command(summarize.summarize)
app.command(data.app)
app.command(bench.app)
app.command(plot.app)
app.command(doctor.doctor)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command in ``arguments``, by default those of the process."""
    try:
        app(arguments, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        _fail(" ".join(str(error).split()))
    except UsageError as error:
        _fail(str(error))
    except KeyboardInterrupt:
        print("longspan: interrupted", file=sys.stderr)
        sys.exit(130)


def _fail(message: str) -> NoReturn:
    print(f"longspan: {message}", file=sys.stderr)
    sys.exit(2)
