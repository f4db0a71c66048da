"""The text of a web page: a paragraph a line, by the standard library.

Scripts, styles, forms and navigation are left out. Where a page says what its main part is, the rest is left
out too. Layout that only a browser knows is not known here: what CSS hides is read.
"""

import re
from html.parser import HTMLParser

_LEFT_OUT = frozenset(
    (
        *("script", "style", "noscript", "template", "title", "svg", "math", "iframe", "object", "canvas"),
        *("nav", "form", "button", "select", "textarea", "dialog"),
    )
)
_MAIN = frozenset(("main", "article"))
_INSIDE_LINES = frozenset(
    (
        *("a", "abbr", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em", "font", "i"),
        *("ins", "kbd", "label", "mark", "q", "rp", "rt", "ruby", "s", "samp", "small", "span", "strike"),
        *("strong", "sub", "sup", "time", "tt", "u", "var", "wbr", "img"),
    )
)
_CELLS = frozenset(("td", "th"))
_CHARSET = re.compile(rb"""<meta[^>]+charset\s*=\s*["']?([\w-]+)""", re.IGNORECASE)
_FIRST_BYTES = 2048
"""Where a page says how it is encoded, if it does."""


def html_text(page: str) -> str:
    """The text of a page.

    Args:
        page: HTML, however broken.
    """
    reader = _Reader()
    reader.feed(page)
    reader.close()
    reader.end_line()
    main = [line for line, is_main in reader.lines if is_main]
    return "\n".join(main or [line for line, _ in reader.lines])


def charset_of(content: bytes) -> str | None:
    """The encoding that a page names, in lower case."""
    found = _CHARSET.search(content[:_FIRST_BYTES])
    return found[1].decode("ascii", "replace").lower() if found else None


class _Reader(HTMLParser):
    """Gathers lines; tags that are not inside of lines end them."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.lines: list[tuple[str, bool]] = []
        """And whether each is of the main part."""
        self._pieces: list[str] = []
        self._left_out: list[str] = []
        """Tags that are open and left out; the outermost first."""
        self._main = 0

    def end_line(self) -> None:
        line = " ".join("".join(self._pieces).split())
        if line:
            self.lines.append((line, self._main > 0))
        self._pieces = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _LEFT_OUT:
            self._left_out.append(tag)
        self._border(tag)
        self._main += tag in _MAIN

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._border(tag)

    def handle_endtag(self, tag: str) -> None:
        self._border(tag)
        if tag in _MAIN:
            self._main = max(self._main - 1, 0)
        if tag in self._left_out:
            # What was opened inside of it and never closed ends with it.
            del self._left_out[self._left_out.index(tag) :]

    def handle_data(self, data: str) -> None:
        if not self._left_out:
            self._pieces.append(data)

    def _border(self, tag: str) -> None:
        if tag in _CELLS:
            self._pieces.append(" ")
        elif tag not in _INSIDE_LINES:
            self.end_line()
