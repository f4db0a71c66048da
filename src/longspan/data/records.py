"""JSON records one at a time, from lines or from a long array, with checked fields.

A field that is missing or of another type is a ValueError that names the file, the record, the field
and what would be right. Blank lines and text after the array are refused too.
"""

import json
import re
import reprlib
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import Any, cast

from longspan.data.files import OpenFile, open_file, whole

_SPACE = re.compile(r"[ \t\n\r]*")
_CHUNK = 1 << 20
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Record:
    """The fields of a JSON object, and where it stands."""

    where: str
    fields: Mapping[str, Any]

    def has(self, name: str) -> bool:
        """Whether the field is there, and not null."""
        return self.fields.get(name) is not None

    def text(self, name: str) -> str:
        """A string, with no half of a surrogate pair in it."""
        return self._checked_text(name, self.fields.get(name))

    def text_or_number(self, name: str) -> str:
        """A string, or an integer as a string."""
        value = self.fields.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if not isinstance(value, str):
            raise self.error(name, "a string or an integer")
        return self._checked_text(name, value)

    def integer(self, name: str) -> int:
        """An integer, at least 0."""
        value = self.fields.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self.error(name, "an integer, at least 0")
        return value

    def flag(self, name: str, default: bool | None = None) -> bool:
        """True or false; ``default`` where the field is missing, if there is one."""
        value = self.fields.get(name, default)
        if not isinstance(value, bool):
            raise self.error(name, "true or false")
        return value

    def one_of(self, name: str, allowed: tuple[str, ...]) -> str:
        """One of the strings that are allowed."""
        value = self.fields.get(name)
        if value not in allowed:
            raise self.error(name, " or ".join(map(repr, allowed)))
        return value

    def items(self, name: str, right: str = "a list") -> list[Any]:
        """A list of anything."""
        value = self.fields.get(name)
        if not isinstance(value, list):
            raise self.error(name, right)
        return cast("list[Any]", value)

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of strings."""
        items = self.items(name, "a list of strings")
        return tuple(self._checked_text(f"{name}[{at}]", item) for at, item in enumerate(items))

    def records(self, name: str) -> Iterator["Record"]:
        """A list of objects."""
        for at, item in enumerate(self.items(name, "a list of objects")):
            yield as_record(item, f"{self.where}, {name}[{at}]")

    def record(self, name: str) -> "Record":
        """An object."""
        value = self.fields.get(name)
        if not isinstance(value, dict):
            raise self.error(name, "an object")
        return Record(f"{self.where}, {name}", cast("dict[str, Any]", value))

    def error(self, name: str, right: str) -> ValueError:
        """That the field ``name`` is not what is right."""
        if name not in self.fields:
            return ValueError(f"{self.where}: {name} is missing; it must be {right}")
        return wrong(self.where, name, self.fields[name], right)

    def _checked_text(self, name: str, value: object) -> str:
        if not isinstance(value, str):
            if name in self.fields or "[" in name:
                raise wrong(self.where, name, value, "a string")
            raise self.error(name, "a string")
        try:
            value.encode()
        except UnicodeEncodeError as error:
            right = "text without half surrogate pairs"
            raise wrong(self.where, name, value[error.start : error.end], right) from error
        return value


def wrong(where: str, name: str, value: object, right: str) -> ValueError:
    """An error that names the place, the field, its value and what would be right."""
    return ValueError(f"{where}: {name} is {reprlib.repr(value)}; it must be {right}")


def as_record(value: object, where: str) -> Record:
    """Checks that a JSON value is an object."""
    if not isinstance(value, dict):
        raise ValueError(f"{where} is {reprlib.repr(value)}; it must be an object")
    return Record(where, cast("dict[str, Any]", value))


def read_jsonl(path: Path, *, unique: str | None = None) -> Iterator[Record]:
    """One object a line.

    Args:
        path: plain, .gz or .xz.
        unique: a field, a string or an integer, that no two records may share.
    """
    with open_file(path) as file:
        yield from records_of(file, unique=unique)


def records_of(file: OpenFile, *, unique: str | None = None) -> Iterator[Record]:
    """One object a line, of a file that is open; see `read_jsonl`."""
    seen: dict[str, int] = {}
    for number, line in file.lines():
        where = f"{file.name}, line {number}"
        try:
            record = as_record(json.loads(line), where)
        except json.JSONDecodeError as error:
            right = "it must be one JSON object"
            raise ValueError(f"{where}, column {error.colno}: {error.msg}; {right}") from error
        if unique is not None:
            key = record.text_or_number(unique)
            if seen.setdefault(key, number) != number:
                raise record.error(unique, f"unique, but line {seen[key]} has it too")
        yield record


def read_json_object(file: OpenFile) -> Record:
    """The one object that an open file is."""
    try:
        return as_record(json.loads(file.text()), file.name)
    except json.JSONDecodeError as error:
        raise ValueError(f"{file.name}, line {error.lineno}: {error.msg}; it must be JSON") from error


def read_json_items(path: Path, key: str | None = None) -> Iterator[Record]:
    """The objects of a JSON array, each parsed when it is asked for.

    Args:
        path: plain, .gz or .xz; the whole file is the array, unless there is a key.
        key: the file is an object, and the array stands under this key.
    """
    with _opened(path) as values:
        yield from values.array() if key is None else values.array_under(key)
        values.end()


def read_json_text(path: Path, key: str) -> str:
    """A string of the object that a file is, wherever it stands; lists of objects are not held."""
    with _opened(path) as values:
        return Record(str(path), values.fields_but_arrays()).text(key)


@contextmanager
def _opened(path: Path) -> Generator["_Values"]:
    with open_file(path) as file, whole(str(path)):
        text = TextIOWrapper(cast("Any", file.stream), encoding="utf-8-sig", newline="")
        values = _Values(text, str(path))
        try:
            yield values
        except UnicodeDecodeError as error:
            raise ValueError(f"{values.where}: {error.reason}; the file must be UTF-8") from error


class _Values:
    """JSON values parsed from the front of a text of which only a part is in memory."""

    def __init__(self, text: TextIOWrapper, name: str) -> None:
        self.where = name
        self._name = name
        self._text = text
        self._buffer = ""
        self._at = 0

    def array(self) -> Iterator[Record]:
        """The objects of the array that comes next."""
        self._take("[", "a list of objects")
        number = 0
        while self._peek() != "]":
            if number:
                self._take(",", "a comma, or the end of the list")
            number += 1
            self.where = f"{self._name}, record {number}"
            yield as_record(self._value(), self.where)
        self._at += 1

    def array_under(self, key: str) -> Iterator[Record]:
        """The objects of the array under a key of the object that comes next."""
        found = False
        for name in self._names(f"an object with the field {key}"):
            if name == key:
                found = True
                yield from self.array()
                self.where = self._name
            else:
                self._value()
        if not found:
            raise ValueError(f"{self._name}: {key} is missing; it must be a list of objects")

    def fields_but_arrays(self) -> dict[str, Any]:
        """The fields of the object that comes next, but for those that are lists of objects."""
        fields: dict[str, Any] = {}
        for name in self._names("an object"):
            if self._peek() == "[":
                for _ in self.array():
                    pass
                self.where = self._name
            else:
                fields[name] = self._value()
        return fields

    def end(self) -> None:
        """Nothing comes next."""
        if self._peek():
            raise self._unexpected("the end of the file")

    def _names(self, right: str) -> Iterator[str]:
        """The names of the fields of the object that comes next; who asks for the next one took the value."""
        self._take("{", right)
        first = True
        while self._peek() != "}":
            if not first:
                self._take(",", "a comma, or the end of the object")
            first = False
            name = self._value()
            self._take(":", "a colon")
            yield name
        self._at += 1

    def _peek(self) -> str:
        """The next character that is no space; "" at the end."""
        while True:
            space = _SPACE.match(self._buffer, self._at)
            assert space is not None
            self._at = space.end()
            if self._at < len(self._buffer):
                return self._buffer[self._at]
            if not self._more():
                return ""

    def _take(self, character: str, right: str) -> None:
        if self._peek() != character:
            raise self._unexpected(right)
        self._at += 1

    def _value(self) -> Any:
        self._peek()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._buffer, self._at)
            except json.JSONDecodeError as error:
                # A value cut by the buffer's end fails there, unless it is a string, which fails where
                # it began. Anything else is a mistake in the file.
                cut = error.pos + 16 > len(self._buffer) or error.msg.startswith("Unterminated string")
                if cut and self._more():
                    continue
                raise ValueError(f"{self.where}: {error.msg}; it must be JSON") from error
            # A number may go on after the buffer's end, and "1e+" looks like a 1 that something follows.
            if end + 3 > len(self._buffer) and self._more():
                continue
            self._at = end
            return value

    def _more(self) -> bool:
        """Reads on. As much as is left at least, so that a long value is parsed only a few times."""
        left = self._buffer[self._at :]
        chunk = self._text.read(max(_CHUNK, len(left)))
        if not chunk:
            return False
        self._buffer = left + chunk
        self._at = 0
        return True

    def _unexpected(self, right: str) -> ValueError:
        found = self._buffer[self._at : self._at + 20]
        said = f"there is {found!r}" if found else "the file ends"
        return ValueError(f"{self.where}: {said}; it must be {right}")
