"""Paragraphs of plain text: lines that were broken to fit a page are joined again.

Sentences end at lines' ends (`longspan.metrics.sentences`), so a text that was wrapped at 70 characters would
fall into pieces. What is wrapped is seen by the width of the lines; a short line ends a paragraph, a heading
or an item of a list.
"""

import re

_BLANK = re.compile(r"\n\s*\n")
_ITEM = re.compile(r"([-*•–]|\d{1,3}[.)]|\([a-z0-9]{1,3}\))\s")
_BROKEN_WORD = re.compile(r"[a-z]-$")
_WIDEST = 200
"""Lines of more characters are paragraphs: nothing is wrapped so late."""
_FULL = 0.6
"""The share of the widest line from which on a line counts as full."""


def paragraphs(text: str, *, join_words: bool = False) -> str:
    """The text with a paragraph a line.

    Args:
        text: lines, wrapped or not; blank ones end a paragraph.
        join_words: whether a word that a hyphen breaks at a line's end becomes one again. "well-known" may
            become "wellknown" then, so it is for what is known to be typeset.
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n").replace("\f", "\n\n")
    return "\n".join(line for block in _BLANK.split(lines) for line in _joined(block, join_words))


def _joined(block: str, join_words: bool) -> list[str]:
    lines = [" ".join(line.split()) for line in block.split("\n")]
    lines = [line for line in lines if line]
    widest = max(map(len, lines), default=0)
    out: list[str] = []
    goes_on = False
    for line in lines:
        if goes_on and not _ITEM.match(line):
            if join_words and _BROKEN_WORD.search(out[-1]) and line[0].islower():
                out[-1] = out[-1][:-1] + line
            else:
                out[-1] = f"{out[-1]} {line}"
        else:
            out.append(line)
        goes_on = widest <= _WIDEST and len(line) >= _FULL * widest
    return out
