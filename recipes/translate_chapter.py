"""Translates a chapter in one input: a Marian translator made long, paragraph after paragraph.

python recipes/translate_chapter.py --model models/opus-mt-en-fr --text alice.txt --compare \\
    --begin "Alice was beginning" --end "CHAPTER II"

Writes the paragraphs with their translations, and says how many tokens were one input. ``--compare`` also
translates every paragraph with the short model, by itself, and counts those that differ. ``--as-one`` shows
what the long model makes of the chapter as one text, before any training on long ones: it stammers.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import torch
from transformers import MarianMTModel, MarianTokenizer
from transformers.utils import logging

import longspan
from longspan import encode_packed, generate_packed
from longspan.data.documents import read_document


def chapter(where: argparse.Namespace) -> list[str]:
    """The paragraphs from a line with ``--begin`` to before one with ``--end``."""
    lines = read_document(where.text).text.split("\n")
    first = next((at for at, line in enumerate(lines) if where.begin in line), None)
    if first is None:
        raise SystemExit(f"--begin is {where.begin!r}; {where.text} does not say that")
    last = next(
        (at for at in range(first + 1, len(lines)) if where.end and where.end in lines[at]), len(lines)
    )
    # Rows of stars and the like have nothing to translate.
    return [line for line in lines[first:last] if any(letter.isalpha() for letter in line)]


def main() -> None:
    """Translates, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True, help="folder of a Marian translator")
    parser.add_argument("--text", type=Path, required=True, help="a book: .txt, .md, .html or .pdf")
    parser.add_argument("--begin", default="", help="words of the chapter's first paragraph")
    parser.add_argument("--end", default="", help="words of the paragraph after its last one")
    parser.add_argument("--max-length", type=int, default=16384)
    parser.add_argument("--window", type=int, default=1024)
    parser.add_argument("--beams", type=int, default=1)
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("--as-one", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("chapter.md"))
    where = parser.parse_args()
    logging.set_verbosity_error()
    logging.disable_progress_bar()

    tokenizer: Any = MarianTokenizer.from_pretrained(where.model)
    long: Any = longspan.lengthen(where.model, where.max_length, where.window).eval()
    paragraphs = chapter(where)
    tokens = [torch.tensor(tokenizer(text)["input_ids"]) for text in paragraphs]
    # The checkpoint's own bound of 512 on what is written would be told about beside ours.
    settings = {"num_beams": where.beams, "do_sample": False, "max_length": None, "max_new_tokens": 500}

    with torch.inference_mode():
        begin = time.perf_counter()
        encode_packed(long, tokens)
        read = time.perf_counter() - begin
        rows = generate_packed(long, tokens, **settings)
        written = tokenizer.batch_decode(rows, skip_special_tokens=True)
        took = time.perf_counter() - begin - read
    print(f"{len(paragraphs)} paragraphs, {sum(map(len, tokens))} tokens in one input: read in {read:.1f} s")
    print(f"written in {took:.1f} s")
    pairs = zip(paragraphs, written, strict=True)
    where.out.write_text("".join(f"{one}\n\n> {other}\n\n" for one, other in pairs), encoding="utf-8")
    print(f"The page is {where.out}.")

    if where.compare:
        short: Any = MarianMTModel.from_pretrained(where.model).eval()
        with torch.inference_mode():
            alone = [short.generate(one[None], **settings)[0] for one in tokens]
        differ = [
            at
            for at, row in enumerate(alone)
            if tokenizer.decode(row, skip_special_tokens=True) != written[at]
        ]
        print(f"{len(differ)} of {len(alone)} paragraphs differ from the short model's translation: {differ}")
    if where.as_one:
        with torch.inference_mode():
            row = long.generate(torch.cat(tokens)[None], **(settings | {"max_new_tokens": 100}))[0]
        print(f"As one text it begins: {tokenizer.decode(row, skip_special_tokens=True)}")


if __name__ == "__main__":
    main()
