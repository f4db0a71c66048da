"""What stands in for the models, data and hours that the documents' commands would need.

Commands are run as they are written, in a folder where the names that they mention are small things: tiny
models under the names of those on the Hub, data sets of a few lines, finished runs. What would still take
long is made smaller by options that are added behind it, as `SMALLER` says. What cannot run here is in
`ONLY_PARSED`, with the reason.
"""

import json
import lzma
import re
import shutil
from pathlib import Path

from tests.apps.tiny_reader import tiny_reader
from tests.data.small_archives import small_docx, small_epub
from tests.data.small_pdf import small_pdf
from tests.docs.pages import ROOT
from tests.tasks.tiny import tiny_bart, tiny_led, tiny_longformer, tiny_roberta
from tests.training.runs import BAD, GOOD, write_reviews

_FEW_STEPS = "--run.epochs null --run.steps 2 --run.checkpoint_every 1"
_TINY_BENCH = "--threads 1 --repetitions 1"
_TINY_SHAPE = "--heads 1 --head-dim 8 --window 16"
_TINY_MODEL = (
    "--layers 2 --hidden-size 16 --heads 2 --intermediate-size 24 --window 8 --vocabulary 50 --length 16"
)
_PHASES = ", ".join(f"{{steps: 1, max_length: {length}, examples: 1, lr: 1.0e-3}}" for length in (16, 32))

SMALLER = {
    "longspan train": f"{_FEW_STEPS} --schedule.warmup 0",
    "longspan train recipes/cpu/char-lm.yaml": "--model.source tiny-bytes.json --data.format bytes "
    f"--run.checkpoint_every 1 --schedule.warmup 0 --phases '[{_PHASES}]'",
    "longspan ask": "--model runs/reader --anyway",
    "longspan data listops": "--train 3 --dev 2 --test 2",
    "longspan bench attention": f"{_TINY_BENCH} {_TINY_SHAPE} --lengths 64 --only native",
    "longspan bench kernel": f"{_TINY_BENCH} {_TINY_SHAPE} --length 64 --only dilation",
    "longspan bench model": f"{_TINY_BENCH} {_TINY_MODEL} --product-size 64 --only bf16",
    "longspan bench training": f"{_TINY_BENCH} --source tiny-short --documents 1 --length 80 "
    "--product-size 64 --only bf16",
    "longspan bench char-lm": f"{_TINY_BENCH} --quick --only positions",
    "longspan bench led": f"{_TINY_BENCH} --quick --only encoder",
    "longspan bench kinds": f"{_TINY_BENCH} --quick --only full",
}
"""Options that are added to commands that begin so; of several beginnings the longest counts."""

ONLY_PARSED = {
    "longspan demo": "takes half a minute; tests/cli/test_ask.py runs it",
    "longspan serve": "runs until it is interrupted; tests/cli/test_serve.py does",
    "longspan bench": "starts many processes; test_measurement_runs, which is slow, runs them at tiny sizes",
    "make": "installs and runs everything; its targets are looked up in the Makefile",
    "pip install": "would change the environment; the extras are looked up in pyproject.toml",
    ".venv/bin/pytest": "these tests, within themselves",
    "torchrun": "several processes; tests/training runs two, and what torchrun starts is parsed",
}
"""Commands that are not run, by their beginnings, and why not."""

REVIEW = f"{BAD} {GOOD} It was long. Nobody knew what it cost. The river flows to the sea, past a small town."


def furnish(folder: Path) -> Path:
    """Fills a folder with what commands name; runs of `RUNS` are still to be made. Gives the folder."""
    for name in ("samples", "recipes"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "docs/images").mkdir(parents=True)
    for name in ("roberta-base", "models/granite-30m-english", "my-model"):
        tiny_roberta(folder / name, max_position_embeddings=514)
    tiny_roberta(folder / "tiny-short")
    for name in ("roberta-long", "allenai/longformer-base-4096"):
        tiny_longformer(folder / name, max_position_embeddings=4098)
    tiny_bart(folder / "facebook/bart-base")
    tiny_led(folder / "allenai/led-base-16384", max_decoder_position_embeddings=256)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    tiny = {"model_type": "longspan_causal_lm", **sizes, "attention_window": 8}
    (folder / "tiny-bytes.json").write_text(json.dumps(tiny))
    _write_data(folder / "data")
    write_reviews(folder / "documents.jsonl", 3)
    write_reviews(folder / "reviews.jsonl", 10)
    tiny_reader(folder / "runs/reader")
    for name in ("book.txt", "letters/one.txt", "letters/two.html", "papers/one.pdf", "papers/two.md"):
        write_document(folder / name)
    return folder


RUNS = {
    "runs/imdb": "longspan train recipes/cpu/imdb.yaml --out runs/imdb",
    "runs/char-lm": "longspan train recipes/cpu/char-lm.yaml --out runs/char-lm",
    "runs/first": "longspan train samples/classification.yaml --out runs/first",
    "runs/extract": "longspan train samples/extractive-summarization.yaml --out runs/extract",
}
"""Runs that pages take for given, and the commands that make them."""
COPIES = {"runs/imdb-long": "runs/imdb", "runs/imdb-short": "runs/imdb"}


def write_document(path: Path) -> None:
    """A document in the format that the name asks for."""
    path.parent.mkdir(parents=True, exist_ok=True)
    sentences: list[str] = [*REVIEW.split(". ")]
    if path.suffix == ".pdf":
        path.write_bytes(small_pdf([sentences]))
    elif path.suffix == ".docx":
        path.write_bytes(small_docx(sentences))
    elif path.suffix == ".epub":
        path.write_bytes(small_epub([f"<html><body><p>{REVIEW}</p></body></html>"]))
    elif path.suffix == ".html":
        path.write_text(f"<html><body><p>{REVIEW}</p></body></html>", encoding="utf-8")
    else:
        path.write_text("\n\n".join(sentences), encoding="utf-8")


DOCUMENTS = (".txt", ".md", ".html", ".docx", ".epub", ".pdf")
"""Files of these kinds that a command names, and which are not there, are written first."""


def options_for(command: str) -> str:
    """What `SMALLER` adds to a command, without the options that it has already."""
    beginnings = [beginning for beginning in SMALLER if command.startswith(beginning)]
    added = SMALLER[max(beginnings, key=len)] if beginnings else ""
    options = re.findall(r"--\S+(?: (?!--)(?:'[^']*'|\S+))*", added)
    return " ".join(option for option in options if f" {option.split()[0]} " not in f"{command} ")


def copied(folder: Path, to: Path) -> Path:
    """A copy that a page may change."""
    shutil.copytree(folder, to, symlinks=True, dirs_exist_ok=True)
    return to


def _write_data(folder: Path) -> None:
    reviews = [
        {"split": part, "id": at, "rating": rating, "label": label, "text": text}
        for part in ("train", "test")
        for at, (rating, label, text) in enumerate([(9, 1, GOOD), (2, 0, BAD)] * 10)
    ]
    lines = "".join(json.dumps(review) + "\n" for review in reviews)
    for name in ("imdb", "enwik8"):
        (folder / name).mkdir(parents=True)
    (folder / "imdb.jsonl").write_text(lines)
    (folder / "imdb/imdb_labeled.jsonl.xz").write_bytes(lzma.compress(lines.encode()))
    dump = f'<page><title>River</title><text xml:space="preserve">{REVIEW * 10}</text></page>'
    (folder / "enwik8/enwik8.xz").write_bytes(lzma.compress(dump.encode()))
