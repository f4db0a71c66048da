"""Packages that only some scores need: an import that fails says what to install."""

from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def needs(package: str) -> Generator[None]:
    """Around the import of an optional package.

    Args:
        package: its name on PyPI.

    Raises:
        ModuleNotFoundError: it, or something that it imports, is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        message = f"this score needs the package {package}; install it with: pip install 'longspan[tasks]'"
        raise ModuleNotFoundError(message, name=error.name) from error
