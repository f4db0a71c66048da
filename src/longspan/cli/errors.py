"""How commands end: what is the user's to mend, what failed a check, and what is a fault of ours.

Every end but a good one is one line on stderr and an exit code that says which kind it is.
"""

import importlib.util
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cyclopts import CycloptsError

FAILED_CHECK = 1
USER_MISTAKE = 2
FAULT = 70
INTERRUPTED = 130
CLOSED_PIPE = 141

# Where a process has no room left, torch says so with a plain RuntimeError.
_NO_MEMORY = ("not enough memory", "out of memory", "can't allocate memory")

_NUMBERS = {int: "a whole number", float: "a number"}


class UsageError(Exception):
    """What was asked cannot be done; the message says what would be right."""


class FailedCheckError(Exception):
    """All was done as asked, and the answer is no."""


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


def judged(error: Exception) -> tuple[int, str]:
    """The exit code of an error, and what is said about it."""
    from cyclopts import CycloptsError

    if isinstance(error, FailedCheckError):
        return FAILED_CHECK, _one_line(error)
    if isinstance(error, CycloptsError):
        return USER_MISTAKE, _of_words(error)
    if isinstance(error, UsageError):
        return USER_MISTAKE, _one_line(error)
    surroundings = _of_surroundings(error)
    if surroundings is not None:
        return USER_MISTAKE, surroundings
    return FAULT, (
        f"unexpected {type(error).__name__}: {_one_line(error) or 'without a message'}; "
        "this is a fault of longspan: --debug shows where"
    )


def _of_words(error: "CycloptsError") -> str:
    """What is wrong with the words of a command, in our words where cyclopts speaks to programmers."""
    from cyclopts import CoercionError, MissingArgumentError, UnusedCliTokensError

    if isinstance(error, UnusedCliTokensError):
        command = " ".join(("longspan", *(error.command_chain or ())))
        return f"{' '.join(error.unused_tokens or ())} is more than {command} takes; see {command} --help"
    argument = error.argument
    if argument is None:
        return _one_line(error)
    if isinstance(error, MissingArgumentError):
        if error.keyword is not None or argument.tokens:
            return f"{error.keyword or argument.name} is named without a value; it must have one"
        name = argument.name.lstrip("-").upper() if argument.field_info.is_positional else argument.name
        command = " ".join(("longspan", *(error.command_chain or ())))
        return f"{name} is missing: {command} needs it; {command} --help has examples"
    if isinstance(error, CoercionError) and error.token is not None and error.target_type in _NUMBERS:
        name = error.token.keyword or argument.name.lstrip("-").upper()
        return f"{name} is {error.token.value!r}; it must be {_NUMBERS[error.target_type]}"
    return _one_line(error)


def _of_surroundings(error: Exception) -> str | None:
    """What a disk, a network, a file, a package or memory refused; None for anything else."""
    if isinstance(error, MemoryError) or any(words in str(error).lower() for words in _NO_MEMORY):
        return "there is not enough memory for this; shorter documents, or fewer at once, need less"
    if isinstance(error, OSError):
        if error.strerror is None:
            return _one_line(error)
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, ModuleNotFoundError):
        return _one_line(error)
    safetensors = sys.modules.get("safetensors")
    if safetensors is not None and isinstance(error, safetensors.SafetensorError):
        return f"the weights cannot be read: {_one_line(error)}"
    return None


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
