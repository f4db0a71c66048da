"""QuAC: questions in dialogues about a passage; the official JSON, and JSONL with a passage a line.

The official files have every annotator's answers, with their places. In the JSONL a passage's questions are
numbered in one string and their answers in another, and several annotators' answers to one question stand
side by side with nothing between them. They are taken apart again: into the fewest parts that the passage
has, with ends at punctuation where there is a choice.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path

from longspan.data.examples import Document, Question, Span, Turn
from longspan.data.extractive_qa import NO_ANSWER, annotated_span
from longspan.data.files import counted, plain_name
from longspan.data.records import Record, read_json_items, read_jsonl

_QUESTION = re.compile(r"question(\d+): (.*?)\n answer : \?(?:\n|$)", re.DOTALL)
_ANSWERS = re.compile(
    r"possible answers for question(\d+):\n(.*?)(?:\n(?=possible answers for)|$)", re.DOTALL
)


def read_quac(path: Path, *, dropped: Counter[str] | None = None) -> Iterator[Question]:
    """QuAC, one example a question.

    A question may refer to those before it. They are its history, each with what was answered in the
    dialogue, which who asks knows; in the JSONL, with the first of its answers.

    A question counts as impossible if half of its annotators or more say so, as in the official scores;
    otherwise their word is left out. The passage's last word, which stands for that, is cut off.

    Args:
        path: the official JSON, such as ``val_v0.2.json``; or, if its name ends with ``.jsonl``, lines
            ``{"passage", "question", "answer"}``. There ids are the passage's and the question's number, as
            in "12/3"; the passage's names the dialogue.
        dropped: counts questions of the JSONL that are left out: those whose answers the passage does not
            have.
    """
    if plain_name(path.name).endswith(".jsonl"):
        yield from _read_lines(path, dropped)
        return
    for article in read_json_items(path, "data"):
        for paragraph in article.records("paragraphs"):
            yield from _dialogue(paragraph)


def _dialogue(paragraph: Record) -> Iterator[Question]:
    """The questions of an official record, ``{"id", "context", "qas"}``."""
    context = _passage(paragraph, "context")
    document = Document(id=paragraph.text("id"), text=context.removesuffix(NO_ANSWER).rstrip())
    history: list[Turn] = []
    for record in paragraph.records("qas"):
        spans = [annotated_span(answer, context) for answer in record.records("answers")]
        if not spans:
            raise record.error("answers", "a list of answers, at least one")
        places = tuple(span for span in spans if context[span.start : span.end] != NO_ANSWER)
        if 2 * len(places) <= len(spans):
            places = ()
        question = record.text("question")
        yield Question(
            id=record.text("id"),
            question=question,
            documents=(document,),
            answers=tuple(context[span.start : span.end] for span in places),
            spans=tuple(span for span in places if span.end <= len(document.text)),
            is_impossible=not places,
            dialogue=document.id,
            history=tuple(history),
            scored_by="quac",
        )
        given = record.record("orig_answer") if record.has("orig_answer") else next(record.records("answers"))
        answer = given.text("text")
        history.append(Turn(question, "" if answer == NO_ANSWER else answer))


def _passage(record: Record, name: str) -> str:
    text = record.text(name)
    if not text.endswith(NO_ANSWER):
        raise record.error(name, f"a text that ends with {NO_ANSWER}")
    return text


def _read_lines(path: Path, dropped: Counter[str] | None) -> Iterator[Question]:
    with counted(path, dropped) as drop:
        for number, record in enumerate(read_jsonl(path), 1):
            passage = _passage(record, "passage")
            document = Document(id=str(number), text=passage.removesuffix(NO_ANSWER).rstrip())
            questions = _numbered(record, "question", _QUESTION)
            answers = _numbered(record, "answer", _ANSWERS)
            if len(answers) != len(questions):
                raise record.error("answer", f"answers to {len(questions)} questions")
            history: list[Turn] = []
            for question, said in zip(questions, answers, strict=True):
                given = taken_apart(said, passage)
                if given is None:
                    drop["questions whose answers the passage does not have"] += 1
                else:
                    yield _question(question, document, given, history)
                answer = said if given is None else given[0]
                history.append(Turn(question, "" if answer == NO_ANSWER else answer))


def taken_apart(joined: str, passage: str) -> list[str] | None:
    """Parts of a passage, joined by spaces, as a list again; None if it cannot be.

    Of all ways, one with the fewest parts; of those, one in which the fewest end without punctuation.
    """
    if joined in passage:
        return [joined]
    words = joined.split(" ")
    starts = [0, *accumulate(len(word) + 1 for word in words)]
    # reach[i]: the parts that begin at word i end at words up to this one; it never decreases.
    reach: list[int] = []
    end = 0
    for begin in range(len(words)):
        end = max(end, begin)
        while end < len(words) and joined[starts[begin] : starts[end + 1] - 1] in passage:
            end += 1
        reach.append(end)
    # best[j]: the cost of the words before j, and where their last part begins.
    best: list[tuple[tuple[int, int], int] | None] = [((0, 0), 0)]
    first = 0
    for stop in range(1, len(words) + 1):
        while first < stop and reach[first] < stop:
            first += 1
        ways = [(way[0], at) for at in range(first, stop) if (way := best[at]) is not None]
        if not ways:
            best.append(None)
            continue
        (parts, bare), begin = min(ways)
        best.append(((parts + 1, bare + (not _ends_well(words[stop - 1]))), begin))
    taken: list[str] = []
    stop = len(words)
    while stop:
        way = best[stop]
        if way is None:
            return None
        taken.append(joined[starts[way[1]] : starts[stop] - 1])
        stop = way[1]
    return taken[::-1]


def _ends_well(word: str) -> bool:
    return word.endswith((*".,;:!?)]\"'", NO_ANSWER))


def _numbered(record: Record, name: str, pattern: re.Pattern[str]) -> list[str]:
    """The items of a string in which they are numbered from 1, with nothing else in it."""
    text = record.text(name)
    found: list[str] = []
    end = 0
    for match in pattern.finditer(text):
        found.append(match[2])
        if match.start() != end or int(match[1]) != len(found):
            break
        end = match.end()
    if end != len(text) or not found:
        raise record.error(name, f"{name}s numbered from 1, but from character {end} on it is not")
    return found


def _question(question: str, document: Document, given: list[str], history: Sequence[Turn]) -> Question:
    answers = tuple(answer for answer in given if answer != NO_ANSWER)
    is_impossible = 2 * len(answers) <= len(given)
    if is_impossible:
        answers = ()
    starts = [(document.text.find(answer), len(answer)) for answer in answers]
    return Question(
        id=f"{document.id}/{len(history) + 1}",
        question=question,
        documents=(document,),
        answers=answers,
        spans=tuple(Span(0, start, start + length) for start, length in starts if start >= 0),
        is_impossible=is_impossible,
        dialogue=document.id,
        history=tuple(history),
        scored_by="quac",
    )
