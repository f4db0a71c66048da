"""A reader without a model, of the same contract: finds the sentences that share most words with a question.

Quick and the same on every machine, so that what is tested is the page and its server. It can be held while
it reads, and says what was done to it.
"""

import re
import threading
import time
from collections.abc import Callable, Sequence

import torch

from longspan.apps.reader import Answer, Reading
from longspan.data.examples import Document

_SENTENCE = re.compile(r"[^.!?\n]+[.!?]?")
_WORD = re.compile(r"\w+")
_MOST_WORDS = 3
"""Of an answer."""


class PlainReader:
    """Answers with a few words of a sentence that the question lacks: names if there are some."""

    window: int | None = 512

    def __init__(self) -> None:
        self.go = threading.Event()
        """Readings wait for it."""
        self.go.set()
        self.begun = threading.Event()
        self.ended = threading.Event()
        """Set when a reading is over, however it ended."""
        self.finished = 0
        self.most_at_once = 0
        self.windows: list[int | None] = []
        self._at_once = 0

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    def read(
        self,
        documents: Sequence[Document],
        question: str,
        *,
        top: int = 3,
        bins: int = 0,
        progress: Callable[[float], None] | None = None,
        window: int | None = None,
    ) -> Reading:
        if "fail" in question:
            raise RuntimeError("as it was asked to")
        if "wrong" in question:
            raise ValueError("question is wrong; it must be right")
        if "huge" in question:
            torch.empty(2**55, dtype=torch.uint8)
        self.windows.append(window)
        self.begun.set()
        self.ended.clear()
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            begun = time.perf_counter()
            self._watch(progress)
            reading = self._found(documents, question, top, bins, begun)
            self.finished += 1
            return reading
        finally:
            self._at_once -= 1
            self.ended.set()

    def _watch(self, progress: Callable[[float], None] | None) -> None:
        for step in (0.25, 0.5, 0.75, 1.0):
            while True:
                if progress is not None:
                    progress(step)
                if self.go.wait(0.005):
                    break

    def _found(
        self, documents: Sequence[Document], question: str, top: int, bins: int, begun: float
    ) -> Reading:
        asked = {word.lower() for word in _WORD.findall(question) if len(word) > 3}
        scored: list[tuple[int, Answer]] = []
        places: list[int] = []
        begin = 0
        for number, document in enumerate(documents):
            text = document.text
            for sentence in _SENTENCE.finditer(text):
                words = list(_WORD.finditer(sentence[0]))
                known = [word[0].lower() in asked for word in words]
                places += [
                    begin + sentence.start() + w.start() for w, k in zip(words, known, strict=True) if k
                ]
                if any(known) and not all(known):
                    dull = [
                        k or w.start() == 0 or not w[0][0].isupper()
                        for w, k in zip(words, known, strict=True)
                    ]
                    run = _longest_run(words, known if all(dull) else dull)
                    start, end = (sentence.start() + place for place in run)
                    shared = len({word[0].lower() for word in words} & asked)
                    answer = Answer(
                        text=text[start:end],
                        confidence=shared / (len(asked) + 0.5),
                        document=number,
                        name=document.id,
                        start=start,
                        end=end,
                        position=start / len(text),
                        sentence=sentence[0],
                        sentence_start=sentence.start(),
                        sentence_end=sentence.end(),
                    )
                    scored.append((shared, answer))
            begin += len(text)
        scored.sort(key=lambda pair: -pair[0])
        parts = [0.0] * bins
        for place in places if bins else ():
            parts[place * bins // begin] += 1 / len(places)
        return Reading(
            answers=tuple(answer for _, answer in scored[:top]),
            no_answer=0.1 if scored else 0.9,
            tokens=sum(self.count_tokens(one.text) for one in documents),
            seconds=time.perf_counter() - begun,
            attention=tuple(parts) if places else (),
        )


def _longest_run(words: Sequence[re.Match[str]], known: Sequence[bool]) -> tuple[int, int]:
    """The first character and the end of the longest run of words that are not known."""
    best, start = (0, 0), 0
    for at, is_known in enumerate([*known, True]):
        if is_known:
            last = min(at, start + _MOST_WORDS) - 1
            if at > start and words[last].end() - words[start].start() > best[1] - best[0]:
                best = (words[start].start(), words[last].end())
            start = at + 1
    return best
