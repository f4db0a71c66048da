"""Results on stdout: whatever characters documents have, and whatever encoding reads them."""

import io
import json
import sys
from dataclasses import asdict, is_dataclass
from typing import Any


def any_characters() -> None:
    """Lets stdout spell out characters that its encoding lacks, instead of failing."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def say(text: str) -> None:
    """Prints at once: who reads the output need not wait for the next document."""
    print(text, flush=True)


def print_json(said: Any) -> None:
    """Prints a dataclass or a dictionary as a JSON object in one line."""
    is_unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    # Halves of characters, which broken files have, are spelled out by stdout as JSON does it.
    say(json.dumps(asdict(said) if is_dataclass(said) else said, ensure_ascii=not is_unicode))  # pyright: ignore[reportArgumentType]
