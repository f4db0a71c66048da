"""The text of a Word document (.docx): a paragraph a line, a row of a table a line.

Footnotes and endnotes follow the text. Headers, comments, and what tracked changes took away are left out;
pictures have no text.
"""

from collections.abc import Mapping

from longspan.data.sizes import Limits
from longspan.data.xml_events import read_xml
from longspan.data.zipped_parts import ZippedParts

_USUAL = "word/document.xml"
_RELATIONS = "_rels/.rels"
_NOTES = ("footnotes.xml", "endnotes.xml")
_LEFT_OUT = frozenset(("del", "moveFrom", "Fallback", "instrText", "delText", "pPr", "rPr"))
"""What was taken away, the second form of what has two, and settings: tabs are settings too."""
_SPACES = frozenset(("tab", "br", "cr", "ptab"))


def docx_text(content: bytes, where: str, limits: Limits) -> str:
    """The text of a document.

    Args:
        content: of the file.
        where: what errors call it.
        limits: of its parts.

    Raises:
        ValueError: it is no Word document, is locked, cut short, or too large.
    """
    parts = ZippedParts(content, where, "a Word document", limits.unpacked_bytes)
    main = _main_part(parts)
    folder = main.rpartition("/")[0]
    notes = [f"{folder}/{name}".lstrip("/") for name in _NOTES]
    lines: list[str] = []
    for name in (main, *(note for note in notes if note in parts)):
        reader = _Reader()
        place = f"{where}, {name}"
        read_xml(parts.read(name), place, start=reader.start, end=reader.end, text=reader.text)
        lines += reader.lines
    return "\n".join(lines)


def _main_part(parts: ZippedParts) -> str:
    """Where the text is; most programs put it in the same place."""
    found: list[str] = []

    def relation(name: str, attributes: Mapping[str, str]) -> None:
        if name == "Relationship" and attributes.get("Type", "").endswith("/officeDocument"):
            found.append(attributes.get("Target", "").lstrip("/"))

    if _RELATIONS in parts:
        read_xml(parts.read(_RELATIONS), f"{parts.where}, {_RELATIONS}", start=relation)
    return next((name for name in found if name in parts), _USUAL)


class _Reader:
    """Gathers lines. A paragraph in a text box is inside of another one, and comes before it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._paragraphs: list[list[str]] = []
        """Pieces of those that are open, the innermost last."""
        self._row: list[str] = []
        self._rows = 0
        self._left_out = 0
        self._in_text = False

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        if self._left_out or name in _LEFT_OUT:
            self._left_out += 1
        elif name == "p":
            self._paragraphs.append([])
        elif name == "tr":
            self._rows += 1
        elif name == "t":
            self._in_text = True
        elif self._paragraphs and name in _SPACES:
            self._paragraphs[-1].append(" ")
        elif self._paragraphs and name == "noBreakHyphen":
            self._paragraphs[-1].append("-")

    def end(self, name: str) -> None:
        if self._left_out:
            self._left_out -= 1
        elif name == "p" and self._paragraphs:
            line = " ".join("".join(self._paragraphs.pop()).split())
            if line:
                (self._row if self._rows else self.lines).append(line)
        elif name == "tr" and self._rows:
            self._rows -= 1
            if not self._rows and self._row:
                self.lines.append(" ".join(self._row))
                self._row = []
        elif name == "t":
            self._in_text = False

    def text(self, piece: str) -> None:
        if self._in_text and not self._left_out and self._paragraphs:
            self._paragraphs[-1].append(piece)
