"""Mistakes of the user, which end a command with one line and not with a traceback."""

import importlib.util
from collections.abc import Generator
from contextlib import contextmanager


class UsageError(Exception):
    """What was asked cannot be done; the message says what would be right."""


@contextmanager
def user_mistakes() -> Generator[None]:
    """A ValueError in this block is the user's; put only the reading of arguments in it."""
    try:
        yield
    except ValueError as error:
        raise UsageError(str(error)) from error


def require(package: str, *, extra: str) -> None:
    """Says which extra to install when an optional package is missing."""
    if importlib.util.find_spec(package) is None:
        raise UsageError(
            f"this needs the package {package}; install it with: pip install 'longspan[{extra}]'"
        )
