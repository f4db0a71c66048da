"""Questions that spans of documents answer: our JSONL, and SQuAD 1.1 and 2.0."""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from longspan.data.examples import Document, Question, Span, Turn
from longspan.data.records import Record, read_json_items, read_jsonl, wrong

NO_ANSWER = "CANNOTANSWER"
"""The last word of QuAC's passages, which stands for "no answer"."""


def read_questions(path: Path) -> Iterator[Question]:
    """Our JSONL: ``{"id", "question", "documents": [{"id", "text"}], "answers", "spans", "is_impossible"}``.

    ``answers``, ``spans`` and ``is_impossible`` may be left out. A span is ``[document, start, end]``;
    without spans, every place where a document says an answer is one. In a dialogue there are ``"dialogue"``,
    an id, and ``"history"``, a list of ``[question, answer]``.
    """
    for record in read_jsonl(path, unique="id"):
        documents = tuple(
            Document(id=document.text_or_number("id"), text=document.text("text"))
            for document in record.records("documents")
        )
        answers = record.texts("answers") if record.has("answers") else ()
        is_impossible = record.flag("is_impossible", default=False)
        if is_impossible and answers:
            raise record.error("is_impossible", "false where there are answers")
        if record.has("spans"):
            spans = tuple(_given_spans(record, documents))
        else:
            spans = tuple(occurrences(answers, documents))
        yield Question(
            id=record.text_or_number("id"),
            question=record.text("question"),
            documents=documents,
            answers=answers,
            spans=spans,
            is_impossible=is_impossible,
            dialogue=record.text_or_number("dialogue") if record.has("dialogue") else "",
            history=tuple(_turns(record)) if record.has("history") else (),
        )


def dialogue_of(question: Question) -> str:
    """The dialogue, or the question itself where it stands alone."""
    return question.dialogue or question.id


def source_of(question: Question) -> str:
    """What no two parts of a split share: the dialogue, or the documents where it stands alone.

    Who learned from one question about a text has seen the text of the next.
    """
    return question.dialogue or "\n".join(document.text for document in question.documents)


def article_of(question: Question) -> str:
    """What no two of SQuAD's parts share, as in the official split: the article that a paragraph is from."""
    return question.documents[0].id.rpartition("/")[0]


def read_squad(path: Path) -> Iterator[Question]:
    """SQuAD's JSON, 1.1 or 2.0: one question an example, its document the paragraph.

    The document's id is the article's title and the paragraph's number in it, from 0.

    Raises:
        ValueError: an answer does not stand where its ``answer_start`` says, or the file is QuAC's, which
            looks alike but says "no answer" in words, among others.
    """
    for article in read_json_items(path, "data"):
        title = article.text("title")
        for number, paragraph in enumerate(article.records("paragraphs")):
            document = Document(id=f"{title}/{number}", text=paragraph.text("context"))
            if document.text.endswith(NO_ANSWER):
                right = f"without {NO_ANSWER} at its end, which is QuAC's; the format of this file is quac"
                raise paragraph.error("context", right)
            for record in paragraph.records("qas"):
                yield _squad_question(record, document)


def occurrences(answers: Iterable[str], documents: Sequence[Document]) -> Iterator[Span]:
    """Every place where a document says an answer, in whole words, in any case.

    Where answers overlap, the longest that begins first counts.
    """
    wanted = sorted({answer.strip() for answer in answers} - {""}, key=lambda text: (-len(text), text))
    if not wanted:
        return
    pattern = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, wanted))})(?!\w)", re.IGNORECASE)
    for at, document in enumerate(documents):
        for match in pattern.finditer(document.text):
            yield Span(at, match.start(), match.end())


def annotated_span(answer: Record, context: str) -> Span:
    """Where an answer ``{"text", "answer_start"}`` stands.

    Raises:
        ValueError: the context says something else there.
    """
    text, start = answer.text("text"), answer.integer("answer_start")
    found = context[start : start + len(text)]
    if not text or found != text:
        raise answer.error("answer_start", f"where the context says {text!r}, but {found!r} is there")
    return Span(0, start, start + len(text))


def _turns(record: Record) -> Iterator[Turn]:
    for at, item in enumerate(record.items("history", "a list of [question, answer]")):
        match item:
            case [str(question), str(answer)]:
                yield Turn(question, answer)
            case _:
                raise wrong(record.where, f"history[{at}]", item, "[question, answer], two strings")


def _given_spans(record: Record, documents: Sequence[Document]) -> Iterator[Span]:
    for at, item in enumerate(record.items("spans", "a list of [document, start, end]")):
        match item:
            case [int(document), int(start), int(end)] if 0 <= document < len(documents):
                length = len(documents[document].text)
                if 0 <= start < end <= length:
                    yield Span(document, start, end)
                    continue
                right = f"0 <= start < end <= {length}, the document's length"
            case _:
                right = f"[document, start, end] with a document below {len(documents)}"
        raise wrong(record.where, f"spans[{at}]", item, right)


def _squad_question(record: Record, document: Document) -> Question:
    answers: list[str] = []
    spans: list[Span] = []
    for answer in record.records("answers"):
        span = annotated_span(answer, document.text)
        answers.append(document.text[span.start : span.end])
        spans.append(span)
    is_impossible = record.flag("is_impossible", default=False)
    if is_impossible == bool(answers):
        raise record.error("answers", "a list of answers, or empty where is_impossible is true")
    return Question(
        id=record.text("id"),
        question=record.text("question"),
        documents=(document,),
        answers=tuple(answers),
        spans=tuple(spans),
        is_impossible=is_impossible,
    )
