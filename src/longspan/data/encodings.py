"""Bytes of a user's document as text: UTF-8, or what a byte order mark or a web page says."""

import codecs

from longspan.data.files import decode

_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


def decoded(content: bytes, where: str, charset: str | None = None) -> str:
    """The text of a file's bytes.

    Args:
        content: of the file.
        where: what errors call it.
        charset: that the file names, in lower case.

    Raises:
        ValueError: it is not UTF-8, or names an encoding that nobody knows.
    """
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            return content[len(mark) :].decode(encoding, "replace")
    if charset in (None, "utf-8", "utf8"):
        return decode(content, where)
    try:
        # What a page says about itself is often nearly right.
        return content.decode(charset, "replace")
    except LookupError as error:
        raise ValueError(f"{where} says that it is encoded as {charset!r}, which nobody knows") from error
