"""Word documents and EPUBs of a few lines, written by hand."""

import zipfile
from collections.abc import Mapping, Sequence
from io import BytesIO
from xml.sax.saxutils import escape

_WORD = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"


def zipped(parts: Mapping[str, str | bytes]) -> bytes:
    """An archive of parts by name."""
    out = BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in parts.items():
            kind = zipfile.ZIP_STORED if name == "mimetype" else zipfile.ZIP_DEFLATED
            archive.writestr(name, content, kind)
    return out.getvalue()


def word_xml(body: str) -> str:
    """The part of a Word document that has its text."""
    return f"<?xml version='1.0' encoding='UTF-8'?><w:document {_WORD}><w:body>{body}</w:body></w:document>"


def small_docx(paragraphs: Sequence[str], main: str = "word/document.xml", **more: str) -> bytes:
    """A Word document; ``more`` are parts beside the text, by name without folder and ending."""
    body = "".join(f"<w:p><w:r><w:t>{escape(line)}</w:t></w:r></w:p>" for line in paragraphs)
    relation = f'<Relationships><Relationship Type="{_OFFICE}" Target="{main}"/></Relationships>'
    others = {f"word/{name}.xml": content for name, content in more.items()}
    return zipped({"_rels/.rels": relation, main: word_xml(body), **others})


def small_epub(chapters: Sequence[str], **more: str | bytes) -> bytes:
    """An EPUB of chapters in HTML; ``more`` are parts of META-INF, by name without ending."""
    items = "".join(
        f'<item id="c{at}" href="text/chapter%20{at}.xhtml" media-type="application/xhtml+xml"/>'
        for at in range(len(chapters))
    )
    spine = "".join(f'<itemref idref="c{at}"/>' for at in reversed(range(len(chapters))))
    pictures = '<item id="p" href="p.png" media-type="image/png"/>'
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf" version="3.0">'
        f'<manifest>{items}{pictures}</manifest><spine>{spine}<itemref idref="p"/></spine></package>'
    )
    container = '<container><rootfiles><rootfile full-path="OPS/book.opf"/></rootfiles></container>'
    return zipped(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": container,
            "OPS/book.opf": package,
            **{f"OPS/text/chapter {at}.xhtml": text for at, text in enumerate(chapters)},
            **{f"META-INF/{name}.xml": content for name, content in more.items()},
        }
    )
