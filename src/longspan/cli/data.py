"""`longspan data`: what a data set is like, before a model sees it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from longspan.cli.errors import user_mistakes
from longspan.cli.options import AsJson, at_least_one
from longspan.cli.registering import LOOKING, add
from longspan.data.format_names import FormatName
from longspan.data.options import NO_OPTIONS, ReaderOptions

if TYPE_CHECKING:
    from rich.table import Table

    from longspan.data.statistics import Count, Lengths

STATS_EXAMPLES = """\
  longspan data stats reviews.jsonl --format classification --tokenizer roberta-long
  longspan data stats data/imdb.jsonl#test --format imdb --json"""
TEXT8_EXAMPLES = """\
  longspan data text8 data/enwik8/enwik8.xz data/text8"""
LISTOPS_EXAMPLES = """\
  longspan data listops data/listops
  longspan data listops small --train 100 --dev 10 --test 10 --seed 1 --json"""

app = App(name="data", group=LOOKING, help="Look at data sets, and make some.")


def stats(
    path: str,
    *,
    format: FormatName,
    tokenizer: str | None = None,
    split_seed: int = 0,
    options: Annotated[ReaderOptions, Parameter(name="*")] = NO_OPTIONS,
    as_json: AsJson = False,
) -> None:
    """Show how long the examples of a data set are, as table 6 of the Longformer paper does.

    An example's length is that of all its texts: a question counts with its documents.

    Args:
        path: a file, plain, .gz or .xz; for some formats, a folder or an archive. As path#part, a part of it.
        format: how it is written; docs/data.md describes each.
        tokenizer: a tokenizer.json, the folder of a model, or a name on the Hub; without it, words are
            counted.
        split_seed: of parts that are not official, as data.split_seed of a recipe.
        options: of the format's reader, where it takes any.
        as_json: print one JSON object instead of a table.
    """
    import json
    from collections import Counter
    from dataclasses import asdict

    from rich.console import Console

    from longspan.data import statistics
    from longspan.data.parts import read_part

    unit = "words" if tokenizer is None else "tokens"
    dropped: Counter[str] = Counter()
    with user_mistakes(), Console(stderr=True).status(f"reading {path}"):
        examples = read_part(path, format, dropped, seed=split_seed, options=options)
        count = statistics.words if tokenizer is None else _counter(tokenizer)
        try:
            lengths = statistics.measure(examples, count)
        except OSError as error:
            raise ValueError(f"{error.filename} cannot be read: {error.strerror}") from error
    if as_json:
        print(json.dumps({"unit": unit, **asdict(lengths), "dropped": dict(dropped)}))
        return
    console = Console(soft_wrap=True, highlight=False)
    console.print(_table(lengths, unit))
    for reason, number in dropped.items():
        console.print(f"Left out: {number} {reason}", markup=False)


def text8(source: Path, out: Path, *, size: int = 100_000_000, as_json: AsJson = False) -> None:
    """Make text8 of Wikipedia's XML, by the published rules.

    Args:
        source: a dump such as enwik8 or enwik9, plain, .gz or .xz.
        out: the file to write.
        size: the most bytes of it.
        as_json: print one JSON object.
    """
    import json

    from rich.console import Console

    from longspan.data.text8 import write_text8

    with user_mistakes(), Console(stderr=True).status(f"cleaning {source}"):
        at_least_one(size=size)
        try:
            written = write_text8(source, out, size=size)
        except OSError as error:
            raise ValueError(f"{error.filename}: {error.strerror}") from error
    print(json.dumps({"out": str(out), "bytes": written}) if as_json else f"{written:,} bytes in {out}")


def listops(
    out: Path,
    *,
    train: int = 96_000,
    dev: int = 2_000,
    test: int = 2_000,
    seed: int = 0,
    as_json: AsJson = False,
) -> None:
    """Draw the Long Range Arena's ListOps, by its published rules.

    Args:
        out: the folder to write train.tsv, dev.tsv and test.tsv into.
        train: expressions to learn from.
        dev: to choose by.
        test: to score.
        seed: of the drawing.
        as_json: print one JSON object.
    """
    import json
    from itertools import islice

    from rich.console import Console

    from longspan.data.listops import generate, write_listops

    sizes = {"train": train, "dev": dev, "test": test}
    with user_mistakes(), Console(stderr=True).status(f"drawing into {out}"):
        at_least_one(**sizes)
        # One stream for all parts: no two of them share an expression.
        drawn = generate(sum(sizes.values()), seed=seed)
        try:
            out.mkdir(parents=True, exist_ok=True)
            for name, size in sizes.items():
                write_listops(out / f"{name}.tsv", islice(drawn, size))
        except OSError as error:
            raise ValueError(f"{error.filename}: {error.strerror}") from error
    if as_json:
        print(json.dumps({"out": str(out), **sizes}))
    else:
        print(", ".join(f"{size:,} in {out / name}.tsv" for name, size in sizes.items()))


def _counter(tokenizer: str) -> "Count":
    """A file is read without transformers, which takes long to import; the rest is left to it."""
    from longspan.data import statistics

    path = Path(tokenizer)
    if path.is_file() or (path / "tokenizer.json").is_file():
        return statistics.tokens(path)
    from longspan.conversion.loading import load_tokenizer

    loaded = load_tokenizer(tokenizer)
    inner = getattr(loaded, "backend_tokenizer", None)
    if inner is None:
        raise ValueError(
            f"--tokenizer is {tokenizer}, which has no tokenizer that can be loaded; it must be a "
            "tokenizer.json, the folder of a model, or a name on the Hub"
        )
    return statistics.tokens_of(inner)


def _table(lengths: "Lengths", unit: str) -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    cells = {
        "examples": f"{lengths.examples:,}",
        f"mean {unit}": f"{lengths.mean:,.0f}",
        "median": f"{lengths.median:,.0f}",
        "95 %": f"{lengths.percentile_95:,.0f}",
        "maximum": f"{lengths.maximum:,}",
        "over 512": f"{lengths.over_512:.1%}",
        "over 4,096": f"{lengths.over_4096:.1%}",
    }
    for name in cells:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_row(*cells.values())
    return table


add(app, stats, STATS_EXAMPLES)
add(app, text8, TEXT8_EXAMPLES)
add(app, listops, LISTOPS_EXAMPLES)
