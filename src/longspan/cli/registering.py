"""How a function becomes a command: what its help says, and where it is listed."""

import inspect
from collections.abc import Callable
from typing import Any

from cyclopts import App, Group

DOCUMENTS = Group("Read documents", sort_key=1)
MODELS = Group("Make models", sort_key=2)
LOOKING = Group("Look and measure", sort_key=3)
OPTIONS = Group("Options", sort_key=4)


def add(app: App, function: Callable[..., Any], examples: str, group: Group | None = None) -> None:
    """Makes a command of a function.

    Args:
        app: that gets it.
        function: with a docstring, whose paragraphs are printed as wide as the terminal is.
        examples: that its help ends with, a line each.
        group: the heading it is listed under.
    """
    place: dict[str, Any] = {} if group is None else {"group": group}
    app.command(function, help=_description(function), help_epilogue=f"Examples:\n{examples}", **place)


def _description(function: Callable[..., Any]) -> str:
    """The docstring above the arguments, a line a paragraph."""
    said = (inspect.getdoc(function) or "").partition("\nArgs:\n")[0]
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in said.strip().split("\n\n"))
