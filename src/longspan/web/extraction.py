"""The text of a file that somebody uploaded, read in a process of its own.

Whatever a file does to its reader, it does to a process that may use so much memory and time and then ends:
the server goes on. This module is that process too: `python -m longspan.web.extraction`, which imports
readers of documents and no model.
"""

import asyncio
import contextlib
import json
import logging
import resource
import sys
from pathlib import PurePosixPath, PureWindowsPath

from longspan.data.documents import document_of
from longspan.data.sizes import Limits

_LOG = logging.getLogger(__name__)
_LONGEST_NAME = 120


def clean_name(name: str) -> str:
    """The name of a file without folders and without what cannot be shown."""
    last = PureWindowsPath(PurePosixPath(name).name).name
    shown = "".join(letter if letter.isprintable() else " " for letter in last)
    shown = " ".join(shown.split())
    if len(shown) > _LONGEST_NAME:
        ending = PurePosixPath(shown).suffix[:10]
        shown = shown[: _LONGEST_NAME - len(ending) - 1] + "…" + ending
    return shown or "document"


async def extract(content: bytes, name: str, limits: Limits, *, seconds: int, memory: int) -> str:
    """The text of a file's bytes; a caller that is cancelled ends the reading.

    Args:
        content: of the file.
        name: of the file, whose ending says what it is.
        limits: of its size.
        seconds: that reading may take.
        memory: bytes that reading may take.

    Raises:
        ValueError: it cannot be read, or not within the limits.
    """
    given = {
        "name": name,
        "file_bytes": limits.file_bytes,
        "unpacked_bytes": limits.unpacked_bytes,
        "characters": limits.characters,
        "seconds": seconds,
        "memory": memory,
    }
    pipe = asyncio.subprocess.PIPE
    # -P: a file in the folder where the server was started must not pass for a module.
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", __name__, json.dumps(given)), stdin=pipe, stdout=pipe, stderr=pipe
    )
    try:
        async with asyncio.timeout(seconds):
            said, complaint = await process.communicate(content)
    except TimeoutError:
        raise ValueError(f"{name} took longer than {seconds} seconds to read; it must be simpler") from None
    finally:
        if process.returncode is None:
            process.kill()
            # Closes its pipes, and leaves no zombie.
            await process.communicate()
    try:
        answer = json.loads(said)
    except ValueError:
        last = complaint.decode(errors="replace").strip().rpartition("\n")[2]
        _LOG.warning("reading %r ended with %s: %s", name, process.returncode, last)
        raise ValueError(f"{name} could not be read: it is damaged, or too much for this server") from None
    if "error" in answer:
        raise ValueError(answer["error"])
    return answer["text"]


def _extract_here() -> dict[str, str]:
    given = json.loads(sys.argv[1])
    name, seconds, memory = given.pop("name"), given.pop("seconds"), given.pop("memory")
    # Not every system lets a process be limited in this way; time limits it everywhere.
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # A damaged PDF makes its reader warn without end, and the server would keep it all.
    logging.disable()
    content = sys.stdin.buffer.read()
    try:
        ending = PurePosixPath(name).suffix.lower() or None
        return {"text": document_of(content, name, ending, Limits(**given)).text}
    except (ValueError, ModuleNotFoundError) as error:
        return {"error": str(error)}
    except (MemoryError, RecursionError):
        return {"error": f"{name} needs more memory to be read than this server gives; it must be simpler"}


if __name__ == "__main__":
    # ASCII: a text may hold half of a surrogate pair, which no encoding takes.
    print(json.dumps(_extract_here()))
