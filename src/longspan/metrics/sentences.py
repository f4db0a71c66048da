"""Where sentences end: rules for scores that compare sentence by sentence, without NLTK's data.

A sentence ends at . ! or ? (and closing quotes or brackets), where white space and something that can begin
a sentence follow, but not after an abbreviation or an initial. So "et al. We" is one sentence and "in 1999.
We" two. Rules such as these err now and then; both sides of a score are cut by the same ones.
"""

import re

_END = re.compile(r"[.!?]+[\"'”’)\]]*\s+(?=[\"'“‘(\[]*[A-Z0-9])")
_LAST_WORD = re.compile(r"(\S+)$")
_TITLES = ("mr.", "mrs.", "ms.", "dr.", "prof.", "st.", "sr.", "jr.", "gen.", "col.", "lt.", "sgt.", "capt.")
_OFFICES = ("rev.", "hon.", "sen.", "rep.", "gov.", "inc.", "ltd.", "co.", "corp.", "u.s.", "u.k.")
_MONTHS = ("jan.", "feb.", "mar.", "apr.", "jun.", "jul.", "aug.", "sept.", "sep.", "oct.", "nov.", "dec.")
_OF_PAPERS = (
    "vs.",
    "etc.",
    "e.g.",
    "i.e.",
    "cf.",
    "al.",
    "fig.",
    "figs.",
    "eq.",
    "eqs.",
    "sec.",
    "no.",
    "vol.",
)
_ABBREVIATIONS = frozenset((*_TITLES, *_OFFICES, *_MONTHS, *_OF_PAPERS, "pp."))


def sentences(text: str) -> list[str]:
    """The sentences of a text, without white space around them; a line's end ends one too."""
    return [text[start:end] for start, end in sentence_spans(text)]


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Where the sentences of a text are: the first character of each, and the one after its last."""
    found: list[tuple[int, int]] = []
    line_start = 0
    for line in text.splitlines(keepends=True):
        begins = [0]
        for end in _END.finditer(line):
            if not _goes_on(line[begins[-1] : end.end()].rstrip()):
                begins.append(end.end())
        for begin, end in zip(begins, [*begins[1:], len(line)], strict=True):
            part = line[begin:end]
            start = line_start + begin + len(part) - len(part.lstrip())
            if part.strip():
                found.append((start, start + len(part.strip())))
        line_start += len(line)
    return found


def _goes_on(part: str) -> bool:
    """Whether what looks like an end is the point of an abbreviation, or of an initial."""
    last = _LAST_WORD.search(part)
    word = "" if last is None else last[1].lstrip("\"'“‘([")
    is_initial = len(word) == 2 and word[0].isalpha() and word[0].isupper() and word[1] == "."
    return is_initial or word.lower() in _ABBREVIATIONS
