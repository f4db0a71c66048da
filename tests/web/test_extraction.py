"""Files read in a process of their own, whatever they do to it."""

import asyncio
import contextlib
from pathlib import Path

import pytest

from longspan.data.sizes import Limits
from longspan.web.extraction import clean_name, extract
from tests.data.small_archives import small_docx
from tests.data.small_pdf import small_pdf

GB = 2**30
LONG = small_pdf([["a"] * 400_000])
"""A page of so many lines that reading them takes long."""


def extracted(content: bytes, name: str, *, seconds: int = 20, memory: int = GB) -> str:
    return asyncio.run(extract(content, name, Limits(), seconds=seconds, memory=memory))


def test_text_comes_back_as_it_is() -> None:
    assert extracted("Grüße, 😀 and \x00.".encode(), "a.txt") == "Grüße, 😀 and \x00."


def test_too_much_memory_is_an_error() -> None:
    bomb = small_docx(["a " * 12_000_000])
    with pytest.raises(ValueError, match=r"bomb\.docx (needs more memory|could not be read)"):
        extracted(bomb, "bomb.docx", memory=GB // 8)


def test_too_much_time_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"slow\.pdf (took longer than 1 seconds|could not be read)"):
        extracted(LONG, "slow.pdf", seconds=1)


def test_who_is_cancelled_leaves_no_process() -> None:
    async def begun_and_cancelled() -> None:
        work = extract(LONG, "slow.pdf", Limits(), seconds=60, memory=GB)
        task = asyncio.ensure_future(work)
        while not children():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(begun_and_cancelled())
    assert not children()


def children() -> list[str]:
    """Processes of this one that read a file, whichever thread began them."""
    lines: list[str] = []
    for thread in Path("/proc/self/task").iterdir():
        # Threads and processes may end while they are looked at.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for child in (thread / "children").read_text().split():
                lines.append(Path(f"/proc/{child}/cmdline").read_text())
    return [line for line in lines if "longspan.web.extraction" in line]


@pytest.mark.parametrize(
    ("given", "cleaned"),
    [
        ("a.txt", "a.txt"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\me\\My book.pdf", "My book.pdf"),
        ("a\x00b\n\u202ec.txt", "a b c.txt"),
        ("<img src=x onerror=alert(1)>.txt", "<img src=x onerror=alert(1)>.txt"),
        ("", "document"),
        ("/", "document"),
        ("a" * 300 + ".pdf", "a" * 115 + "….pdf"),
    ],
)
def test_names_are_cleaned(given: str, cleaned: str) -> None:
    assert clean_name(given) == cleaned
