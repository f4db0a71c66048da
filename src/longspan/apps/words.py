"""Words by which passages are found, without accents and endings; and how well a passage has them.

The endings are those of English, few and by rules: "dogs" finds "dog", "lived" finds "live". Texts without
spaces between words are not found by words.
"""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence

VERSION = 1
"""Of what words a text has; another one where the same text has others."""
K1 = 1.2
B = 0.75
_WORD = re.compile(r"[^\W_]+")
_ASKING = "what which who whom whose when where why how many much"
_SMALL = (
    "a an the and or but if of at by for with about to from in on as is are was were be been being am do "
    "does did have has had it its he she his her they them their this that these those i you we my your our "
    "me him us not no so than then there can could will would shall should may might must s t"
)
_STOP = frozenset(f"{_ASKING} {_SMALL}".split())


def words(text: str) -> list[str]:
    """All words of a text, in order."""
    plain = unicodedata.normalize("NFKD", text.casefold())
    letters = "".join(letter for letter in plain if not unicodedata.combining(letter))
    return [_stem(word) for word in _WORD.findall(letters)]


def words_of_question(question: str) -> list[str]:
    """The words to look for, each once: without those that every text has, unless there are no others."""
    plain = [word for word in _WORD.findall(question.casefold()) if word not in _STOP]
    return list(dict.fromkeys(words(" ".join(plain) or question)))


def _stem(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return f"{word[:-3]}y"
    for ending in ("ing", "ed", "es", "s", "e"):
        if len(word) > len(ending) + 2 and word.endswith(ending) and not word.endswith("ss"):
            return word[: -len(ending)]
    return word


def bm25(texts: Sequence[Sequence[str]], wanted: Iterable[str]) -> list[float]:
    """How well each text has the wanted words; higher is better. The formula is that of SQLite's FTS5.

    Args:
        texts: the words of each.
        wanted: words, each once.
    """
    if not texts:
        return []
    mean = sum(map(len, texts)) / len(texts)
    counts = [Counter(text) for text in texts]
    scores = [0.0] * len(texts)
    for word in wanted:
        having = sum(word in one for one in counts)
        weight = max(math.log((len(texts) - having + 0.5) / (having + 0.5)), 1e-6)
        for at, (one, text) in enumerate(zip(counts, texts, strict=True)):
            many = one[word]
            if many:
                scores[at] += weight * many * (K1 + 1) / (many + K1 * (1 - B + B * len(text) / mean))
    return scores
