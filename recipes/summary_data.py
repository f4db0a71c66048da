"""Writes papers, stories and news, each with summaries, into one file to learn from, and one to choose by.

python recipes/summary_data.py --data data --out runs/summary-data

The parts are those of the data sets: official, or split by seed. What is tested on is not written; it is read
from the data sets themselves, each by itself.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from longspan.data.examples import SummarizedDocument
from longspan.data.formats import FormatName
from longspan.data.parts import read_part
from longspan.data.splits import sample
from longspan.training.run_folder import write_whole


class Source(NamedTuple):
    """A data set."""

    format: FormatName
    path: str
    train: int | None = None
    """The most documents to learn from, drawn by lot; None for all."""
    test: int = 100
    """The most documents that are scored."""


SOURCES = {
    "papers": Source("scisummnet", "scisummnet/scisummnet_task2.tar.xz"),
    "stories": Source("squality", "squality/squality.tar.xz"),
    # Of 8,000, lest nine of ten tokens be news where documents are cut at 1,024; and cheap to score.
    "news": Source("cnn-dailymail", "cnndm10k/cnndm10k.jsonl.xz", train=3000, test=400),
}
DEV = 20
"""Documents of each data set that choose the best model."""


def documents(name: str, part: str, data: Path, limit: int | None = None) -> Iterator[SummarizedDocument]:
    """A part of a data set, or so many of it, drawn by lot."""
    source = SOURCES[name]

    def read() -> Iterator[SummarizedDocument]:
        examples = read_part(f"{source.path}#{part}", source.format, root=data)
        return (one for one in examples if isinstance(one, SummarizedDocument))

    return read() if limit is None else sample(read, limit, seed=0)


def write(data: Path, out: Path, limit: int | None = None) -> None:
    """Writes ``train.jsonl`` and ``dev.jsonl``, unless they are there."""
    out.mkdir(parents=True, exist_ok=True)
    for part in ("train", "dev"):
        if (out / f"{part}.jsonl").exists():
            continue
        lines: list[str] = []
        for name, source in SOURCES.items():
            sizes = (limit, source.train if part == "train" else DEV)
            most = min((size for size in sizes if size is not None), default=None)
            for one in documents(name, part, data, most):
                record = {"id": f"{name}/{one.id}", "text": one.text, "summaries": one.summaries}
                lines.append(json.dumps(record | ({"query": one.query} if one.query else {})) + "\n")
        write_whole(out / f"{part}.jsonl", "".join(lines))
        print(f"{out / f'{part}.jsonl'}: {len(lines)} documents", flush=True)


def main() -> None:
    """Writes both files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--out", type=Path, default=Path("runs/summary-data"))
    parser.add_argument("--limit", type=int, default=None, help="only so many documents of each data set")
    where = parser.parse_args()
    write(where.data, where.out, where.limit)


if __name__ == "__main__":
    main()
