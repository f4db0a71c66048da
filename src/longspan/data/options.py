"""What readers can be told beside a path: which files, which columns."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

_TAKEN: Mapping[str, tuple[str, ...]] = {
    "text": ("names",),
    "conll-2012": ("names",),
    "conll-tags": ("names", "word", "tag", "whole_documents"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ReaderOptions:
    """Options of readers that have any; None is what the reader does by itself."""

    names: str | None = None
    """Which files of a folder or an archive, as in a shell (text, conll-2012, conll-tags)."""
    word: int | None = None
    """The column of the words, from 0; a negative one counts from the end (conll-tags)."""
    tag: int | None = None
    """The column of the tags (conll-tags)."""
    whole_documents: bool | None = None
    """Whether sentences are joined up to the next -DOCSTART- (conll-tags)."""

    def of_format(self, format: str) -> dict[str, Any]:
        """Those that are given, as arguments of the format's reader.

        Raises:
            ValueError: the reader does not take one of them.
        """
        taken = _TAKEN.get(format, ())
        given = {one.name: getattr(self, one.name) for one in fields(self)}
        given = {name: value for name, value in given.items() if value is not None}
        for name, value in given.items():
            if name not in taken:
                right = f"takes {', '.join(taken)}" if taken else "takes no options"
                raise ValueError(f"options.{name} is {value!r}; the format {format} {right}")
        return given


NO_OPTIONS = ReaderOptions()
"""All readers as they are by themselves."""
