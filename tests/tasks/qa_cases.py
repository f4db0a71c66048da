"""Questions about documents, for the tests of extractive question answering."""

from typing import Any

from longspan.data.examples import Document, Question
from longspan.data.extractive_qa import occurrences
from longspan.tasks.extractive_qa import ExtractiveQA, ExtractiveQASettings
from tests.tasks.tiny import tiny_tokenizer

SHORT: dict[str, Any] = {"max_length": 48, "stride": 8, "max_question_tokens": 16}
RIVER = "The river Inn flows from Switzerland to the Danube, and the city of Passau lies where they meet. "


def question(
    text: str, *documents: str, answers: tuple[str, ...] = (), is_impossible: bool = False, id: str = "q"
) -> Question:
    read = tuple(Document(id=str(at), text=document) for at, document in enumerate(documents))
    spans = tuple(occurrences(answers, read))
    return Question(
        id=id, question=text, documents=read, answers=answers, spans=spans, is_impossible=is_impossible
    )


def task(**settings: Any) -> ExtractiveQA:
    return ExtractiveQA(ExtractiveQASettings(**settings), tiny_tokenizer())
