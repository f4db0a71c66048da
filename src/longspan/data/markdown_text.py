"""The text of a Markdown file: a paragraph a line, without its marks.

Code, pictures and links' addresses are left out. The common marks are known, not every dialect's; what is not
known stays as it is written.
"""

import re

_FRONT_MATTER = re.compile(r"\A---\n.*?\n(---|\.\.\.)\n", re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_FENCE = re.compile(r" {0,3}(```|~~~)")
_HEADING = re.compile(r" {0,3}#{1,6}\s+(.*?)\s*#*$")
_RULE = re.compile(r" {0,3}([-*_=]\s*){3,}$")
_QUOTE = re.compile(r"\A( {0,3}>\s?)+")
_ITEM = re.compile(r"\s*([-*+]|\d{1,9}[.)])\s+(\[[ xX]\]\s+)?")
_DEFINITION = re.compile(r" {0,3}\[[^\]]+\]:\s")
_TABLE_RULE = re.compile(r"\s*\|?(\s*:?-+:?\s*\|)+\s*:?-*:?\s*$")
_INLINE = (
    (re.compile(r"!\[[^\]]*\](\([^)]*\)|\[[^\]]*\])"), ""),
    (re.compile(r"\[([^\]]+)\](\([^)]*\)|\[[^\]]*\])"), r"\1"),
    (re.compile(r"<(https?://[^>\s]+)>"), r"\1"),
    (re.compile(r"</?[a-zA-Z][^>]*>"), ""),
    (re.compile(r"(`+)(.+?)\1"), r"\2"),
    (re.compile(r"(?<![\w\\])(\*{1,3}|_{1,3})(?=\S)(.+?)(?<=[^\s\\])\1(?!\w)"), r"\2"),
    (re.compile(r"~~(.+?)~~"), r"\1"),
    (re.compile(r"\\([\\`*_{}\[\]()#+.!|>~-])"), r"\1"),
)


def markdown_text(source: str) -> str:
    """The text of a file.

    Args:
        source: Markdown.
    """
    source = source.replace("\r\n", "\n").replace("\r", "\n")
    source = _COMMENT.sub("", _FRONT_MATTER.sub("", source))
    out: list[str] = []
    paragraph: list[str] = []

    def end_paragraph() -> None:
        if line := _plain(" ".join(paragraph)):
            out.append(line)
        paragraph.clear()

    fence = ""
    for line in source.split("\n"):
        if mark := _FENCE.match(line):
            end_paragraph()
            fence = "" if fence == mark[1] else fence or mark[1]
            continue
        if fence:
            continue
        line = _QUOTE.sub("", line)
        if heading := _HEADING.match(line):
            end_paragraph()
            paragraph.append(heading[1])
            end_paragraph()
        elif not line.strip() or _RULE.match(line) or _TABLE_RULE.match(line) or _DEFINITION.match(line):
            end_paragraph()
        elif line.lstrip().startswith("|"):
            end_paragraph()
            paragraph += [cell.strip() for cell in line.strip().strip("|").split("|")]
            end_paragraph()
        else:
            if item := _ITEM.match(line):
                end_paragraph()
                line = line[item.end() :]
            paragraph.append(line.strip())
    end_paragraph()
    return "\n".join(out)


def _plain(line: str) -> str:
    for pattern, instead in _INLINE:
        line = pattern.sub(instead, line)
    return " ".join(line.split())
