"""text8 from Wikipedia's XML, by the rules that Matt Mahoney published with it in 2006.

What a reader of an article would see stays, tables and references left out, as lower-case letters and single
spaces; digits are spelled. The rules are his, in his order, odd ones included: text8 is what they make. The
first 10^8 bytes that they make of enwik9 are the published file.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from longspan.data.files import open_file, whole

TEXT8_SIZE = 100_000_000
_CHUNK = 1 << 20
_DIGITS = b"zero one two three four five six seven eight nine".split()
_LOWER = bytes.maketrans(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", b"abcdefghijklmnopqrstuvwxyz")


def _rules(*rules: tuple[bytes, bytes, bool]) -> list[tuple[re.Pattern[bytes], bytes]]:
    return [
        (re.compile(pattern, re.IGNORECASE if any_case else 0), by.replace(b"\\", b"\\\\"))
        for pattern, by, any_case in rules
    ]


# What is looked for, what takes its place, and whether case does not matter.
_MARKUP = _rules(
    (rb"<ref[^<]*</ref>", b"", False),
    (rb"<[^>]*>", b"", False),
    # A link to the web leaves its visible text, an image its caption.
    (rb"\[http:[^\] ]*", b"[", False),
    (rb"\|thumb", b"", True),
    (rb"\|left", b"", True),
    (rb"\|right", b"", True),
    (rb"\|\d+px", b"", True),
    (rb"\[\[image:[^\[\]]*\|", b"", True),
)
_CATEGORY = re.compile(rb"\[\[category:([^|\]]*)[^\]]*\]\]", re.IGNORECASE)
_LINKS = _rules(
    # To other languages: gone. Within Wikipedia: the visible text.
    (rb"\[\[[a-z\-]*:[^\]]*\]\]", b"", False),
    (rb"\[\[[^|\]]*\|", b"[[", False),
    (rb"\{\{[^}]*\}\}", b"", False),
    (rb"\{[^}]*\}", b"", False),
    (rb"[\[\]]", b"", False),
    (rb"&[^;]*;", b" ", False),
)
_TAG = re.compile(rb"<.*>")
_REDIRECT = re.compile(rb"#redirect", re.IGNORECASE)
_OTHER = re.compile(rb"[^a-z]+")


def clean(records: Iterable[bytes]) -> Iterator[bytes]:
    """The clean text of a dump, piece by piece: joined, the pieces are it.

    Args:
        records: of the XML, each up to and with the next ``>``, as `read_records` gives them.
    """
    in_text = False
    for record in records:
        if b"<text " in record:
            in_text = True
        if _REDIRECT.search(record):
            in_text = False
        if in_text:
            in_text = b"</text>" not in record
            yield _visible(record)


def _visible(record: bytes) -> bytes:
    text = _TAG.sub(b"", record, count=1)
    for escaped, plain in ((b"&amp;", b"&"), (b"&lt;", b"<"), (b"&gt;", b">")):
        text = text.replace(escaped, plain)
    for pattern, by in _MARKUP:
        text = pattern.sub(by, text)
    text = _CATEGORY.sub(rb"[[\1]]", text)
    for pattern, by in _LINKS:
        text = pattern.sub(by, text)
    text = text.translate(_LOWER)
    for digit, word in enumerate(_DIGITS):
        text = text.replace(b"%d" % digit, b" " + word + b" ")
    # A space before every record, and none after it.
    return _OTHER.sub(b" ", b" " + text + b" ")[:-1]


def read_records(path: Path) -> Iterator[bytes]:
    """The XML in pieces that end with ``>``; read as a stream, plain, .gz or .xz."""
    with open_file(path) as file, whole(file.name):
        rest = b""
        while chunk := file.stream.read(_CHUNK):
            *records, rest = (rest + chunk).split(b">")
            yield from (record + b">" for record in records)
        if rest:
            yield rest


def write_text8(source: Path, out: Path, *, size: int = TEXT8_SIZE) -> int:
    """Makes text8 of a dump.

    Args:
        source: Wikipedia's XML, such as enwik8 or enwik9.
        out: the file to write; it is there when it is complete.
        size: the most bytes.

    Returns:
        How many bytes were written; fewer than ``size`` where the dump has no more.

    Raises:
        ValueError: there is no article in the dump.
    """
    new = out.with_name(f".{out.name}.new")
    written = 0
    try:
        with new.open("wb") as file:
            for piece in clean(read_records(source)):
                written += file.write(piece[: size - written])
                if written == size:
                    break
        if not written:
            raise ValueError(f"{source} has no <text ...> with an article; it must be Wikipedia's XML")
        new.replace(out)
    finally:
        new.unlink(missing_ok=True)
    return written
