"""Questions made of plain text: a sentence asks for what another one says too, a name, a number or a phrase.

Who can point at the place where "who was born in Bonn" is said again has learned to read for an answer, and
text for that costs nothing (compare arXiv 1906.04980 and 2101.00438, which found that it teaches much).
"""

import random
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from longspan.metrics.sentences import sentences

_WORD = r"[\w'’-]"
_NAME = re.compile(rf"[A-Z]{_WORD}+(?: (?:(?:of|the|de|van|von) )?[A-Z]{_WORD}+){{0,3}}")
_NUMBER = re.compile(r"\d[\d,.]*\d|\d")
_PHRASE = re.compile(rf"(?<!{_WORD})[a-z]{{4,}}(?: [a-z]{{4,}}){{1,2}}(?!{_WORD})")
# Words that begin sentences, or say too little to be asked for.
_COMMON = """
    the this that these those they their there then when where which while with what were have been from into
    also after before however although because during since some many most other his her its our your she he
    it in on at as an and but for not we you who how why both each under over between only such one two three
    first all more than about would could will
"""
_MOST_PLACES = 3
_FEWEST_WORDS = 6
_YEAR = re.compile(r"1\d{3}|20\d{2}")


class Cloze(NamedTuple):
    """A question, and a text that answers it."""

    question: str
    text: str
    answer: str
    spans: list[tuple[int, int]]
    """Where the text says the answer; empty where what said it was left out."""


def clozes(text: str, most: int, lot: random.Random, *, unanswered: float = 0.0) -> Iterator[Cloze]:
    """Questions about a text, each about the rest of it.

    Args:
        text: some paragraphs.
        most: how many questions there shall be, if the text has so many.
        lot: chooses among them.
        unanswered: the share of questions whose answers are taken out of the text.
    """
    said = sentences(text)
    places = _places(said)
    asked = [(answer, at) for answer, where in sorted(places.items()) for at in sorted(where)]
    asked = [(answer, at) for answer, at in asked if len(said[at].split()) >= _FEWEST_WORDS]
    lot.shuffle(asked)
    used: set[str] = set()
    for answer, at in asked:
        if len(used) == most:
            return
        if answer in used:
            continue
        used.add(answer)
        leaves_out = places[answer] if lot.random() < unanswered else {at}
        rest = [sentence for number, sentence in enumerate(said) if number not in leaves_out]
        if rest:
            yield _cloze(_question(said[at], answer, lot), answer, rest)


def _places(said: Sequence[str]) -> dict[str, set[int]]:
    """What several sentences say, but not many, and which they are."""
    common = frozenset(_COMMON.split())
    found: dict[str, set[int]] = defaultdict(set)
    for at, sentence in enumerate(said):
        for kind in (_NAME, _NUMBER, _PHRASE):
            for match in kind.finditer(sentence):
                words = [word.lower() for word in match[0].split()]
                if words[0] not in common and words[-1] not in common:
                    found[match[0]].add(at)
    return {answer: places for answer, places in found.items() if 2 <= len(places) <= _MOST_PLACES}


def _question(sentence: str, answer: str, lot: random.Random) -> str:
    """The sentence, or a part of it around the answer, with a question word instead of it."""
    before, _, after = sentence.partition(answer)
    left, right = before.split(), after.split()
    reach = lot.randint(6, 14)
    left, right = left[max(0, len(left) - reach) :], right[:reach]
    rest = " ".join((*left, *right) if lot.random() < 0.5 else (*right, *left)).strip(" .,;:!?")
    asks = f"{_asking(answer, lot)} {rest}?"
    return asks[0].upper() + asks[1:]


def _asking(answer: str, lot: random.Random) -> str:
    if _YEAR.fullmatch(answer):
        return lot.choice(("when", "what year", "in what year"))
    if answer[0].isdigit():
        return lot.choice(("how many", "how much", "what number"))
    if answer[0].isupper():
        return lot.choice(("who", "what", "which", "where", "what is the name of"))
    return lot.choice(("what", "which", "how"))


def _cloze(question: str, answer: str, rest: Sequence[str]) -> Cloze:
    text = " ".join(rest)
    whole = re.compile(rf"(?<!\w){re.escape(answer)}(?!\w)")
    return Cloze(question, text, answer, [match.span() for match in whole.finditer(text)])
