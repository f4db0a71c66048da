"""The text of an EPUB: its chapters in the order of reading, each as a web page is.

Books that a shop has locked (DRM) are refused. Fonts may be scrambled: nobody reads them here.
"""

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

from longspan.data.encodings import decoded
from longspan.data.html_text import charset_of, html_text
from longspan.data.sizes import Limits
from longspan.data.xml_events import read_xml
from longspan.data.zipped_parts import ZippedParts

_CONTAINER = "META-INF/container.xml"
_LOCKS = "META-INF/encryption.xml"
_PAGES = frozenset(("application/xhtml+xml", "text/html", "application/html+xml", "text/x-oeb1-document"))


@dataclass
class _Package:
    """What the package file says."""

    items: dict[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    """Attributes of the parts, by id."""
    spine: list[str] = field(default_factory=list[str])
    """Ids in the order of reading."""

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        if name == "item" and "id" in attributes and "href" in attributes:
            self.items[attributes["id"]] = attributes
        elif name == "itemref" and "idref" in attributes:
            self.spine.append(attributes["idref"])


def epub_text(content: bytes, where: str, limits: Limits) -> str:
    """The text of a book.

    Args:
        content: of the file.
        where: what errors call it.
        limits: of its parts.

    Raises:
        ValueError: it is no EPUB, is locked, cut short, or too large.
    """
    parts = ZippedParts(content, where, "an EPUB", limits.unpacked_bytes)
    path = _package_path(parts)
    package = _Package()
    read_xml(parts.read(path), f"{where}, {path}", start=package.start)
    locked = _locked(parts)
    pages: list[str] = []
    seen: set[str] = set()
    for name in package.spine:
        item = package.items.get(name)
        if (
            item is None
            or item.get("media-type") not in _PAGES
            or "nav" in item.get("properties", "").split()
        ):
            continue
        part = posixpath.normpath(posixpath.join(posixpath.dirname(path), unquote(item["href"])))
        if part in locked:
            raise ValueError(f"{where} is locked by its shop (DRM); it must be open")
        # A spine may name a page twice; a million times, in a file that means harm.
        if part not in seen:
            seen.add(part)
            page = parts.read(part)
            pages.append(html_text(decoded(page, f"{where}, {part}", charset_of(page))))
    return "\n".join(page for page in pages if page)


def _package_path(parts: ZippedParts) -> str:
    found: list[str] = []

    def rootfile(name: str, attributes: Mapping[str, str]) -> None:
        if name == "rootfile" and "full-path" in attributes:
            found.append(attributes["full-path"])

    read_xml(parts.read(_CONTAINER), f"{parts.where}, {_CONTAINER}", start=rootfile)
    if not found:
        raise ValueError(f"{parts.where}, {_CONTAINER} names no rootfile; an EPUB must name one")
    return found[0]


def _locked(parts: ZippedParts) -> set[str]:
    found: set[str] = set()

    def reference(name: str, attributes: Mapping[str, str]) -> None:
        if name == "CipherReference":
            found.add(posixpath.normpath(unquote(attributes.get("URI", ""))))

    if _LOCKS in parts:
        read_xml(parts.read(_LOCKS), f"{parts.where}, {_LOCKS}", start=reference)
    return found
