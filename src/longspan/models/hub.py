"""What a model's configuration says, in a folder or on the Hub, and why there is none.

What is no model is refused by one rule, in one line. Where the Hub cannot be reached, huggingface_hub asks
again and again for half a minute, file by file; here it is asked once a minute, and what was loaded before is
all there is.
"""

import os
import socket
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from huggingface_hub import constants, is_offline_mode
from transformers import PreTrainedConfig

_PATIENCE = 5.0
"""Seconds in which the Hub's machine is found and takes a connection, if there is a network."""
_VALID = 60.0
"""Seconds for which that is believed."""
_RIGHT = "it must be a folder of a model, or a name on the Hub"


def model_fields(
    source: str | os.PathLike[str], *, named: str = "no model can be loaded from"
) -> dict[str, Any]:
    """The configuration of a model.

    Args:
        source: its folder, or its name on the Hub.
        named: what an error says before the source.

    Raises:
        ValueError: there is no model.
    """
    name = os.fspath(source)
    path = Path(name)
    subject = f"{named} {name!r}"
    if not name.strip() or path.is_file():
        raise ValueError(f"{subject}, which is {'a file' if name.strip() else 'empty'}; {_RIGHT}")
    if path.is_dir() and (path / "config.yaml").exists() and not (path / "config.json").exists():
        raise ValueError(f"{subject}, which is the folder of a run; what it learned is in best or last there")
    if not path.is_dir() and _is_path(name):
        raise ValueError(f"{subject}: there is no such folder; {_RIGHT}")
    with without_waiting(name) as offline:
        try:
            fields: Any = PreTrainedConfig.get_config_dict(name)[0]
        # What can be no name on the Hub is a ValueError of theirs, and JSON that is no object a TypeError.
        except (OSError, ValueError, TypeError) as error:
            if path.is_dir():
                reason = " ".join(str(error).split())
            elif offline:
                reason = "there is no such folder, and the Hub cannot be reached"
            else:
                reason = f"there is no such folder, and the Hub says: {' '.join(str(error).split())}"
            raise ValueError(f"{subject}: {reason}; {_RIGHT}") from error
    if not isinstance(fields, dict) or not fields.keys() & {"model_type", "architectures"}:
        raise ValueError(f"{subject}, which has no config.json of a model; {_RIGHT}")
    return fields


def class_of(fields: Mapping[str, Any]) -> str:
    """What a configuration says that its model is: the name of a class."""
    return (fields.get("architectures") or ["a model without a head"])[0]


@contextmanager
def without_waiting(source: str | os.PathLike[str] | None) -> Generator[bool]:
    """Within the block nothing is asked of a Hub that cannot be reached.

    Args:
        source: of a model; a folder needs no Hub, nor does None, weights that are in memory.

    Returns:
        Whether it is so.
    """
    is_local = source is None or os.path.isdir(source) or _is_path(os.fspath(source))
    if is_local or is_offline_mode() or _is_reached():
        yield is_offline_mode()
        return
    constants.HF_HUB_OFFLINE = True
    try:
        yield True
    finally:
        constants.HF_HUB_OFFLINE = False


def _is_path(name: str) -> bool:
    """Whether it can be no name on the Hub."""
    return name.count("/") > 1 or name.startswith((".", "/", "~"))


def _is_reached() -> bool:
    """Whether the Hub's machine takes connections; a proxy is trusted to."""
    proxies = getproxies()
    return "https" in proxies or "all" in proxies or _answers(constants.ENDPOINT, time.monotonic() // _VALID)


@lru_cache(maxsize=1)
def _answers(endpoint: str, _when: float) -> bool:
    """Whether an address takes a connection. What is dropped on the way is waited for, address by address,
    and so may be the name: a thread does that, and is left alone when patience ends."""
    answered = threading.Event()

    def knock() -> None:
        place = urlsplit(endpoint)
        port = place.port or (80 if place.scheme == "http" else 443)
        with suppress(OSError):
            socket.create_connection((place.hostname or "", port), _PATIENCE).close()
            answered.set()

    knocking = threading.Thread(target=knock, daemon=True)
    knocking.start()
    knocking.join(_PATIENCE)
    return answered.is_set()
