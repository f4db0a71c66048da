"""TriviaQA: questions of a quiz, with whole web pages and Wikipedia articles that may answer them.

Where the answer stands was not annotated: the spans are the places where a document says one of its
names.
"""

from collections.abc import Iterator
from pathlib import Path

from longspan.data.examples import Document, Question
from longspan.data.extractive_qa import occurrences
from longspan.data.files import open_file
from longspan.data.records import Record, read_json_items, wrong


def read_triviaqa(path: Path, evidence: Path | None = None) -> Iterator[Question]:
    """The official JSON, of the Wikipedia or the web domain, and its evidence files.

    A question's documents are its Wikipedia pages, then its search results; their ids are the files'
    names. Its answers are the answer's value, its aliases and what people answered; a test set has none.

    Args:
        path: such as ``qa/wikipedia-train.json``.
        evidence: the folder with ``wikipedia`` and ``web``; by default ``../evidence`` seen from the file's.

    Raises:
        ValueError: an evidence file is missing, among others.
    """
    evidence = path.parent.parent / "evidence" if evidence is None else evidence
    for record in read_json_items(path, "Data"):
        documents = tuple(
            Document(id=name, text=text)
            for field, folder in (("EntityPages", "wikipedia"), ("SearchResults", "web"))
            if record.has(field)
            for page in record.records(field)
            for name, text in [_evidence(page, evidence / folder)]
        )
        answers = tuple(_answers(record.record("Answer"))) if record.has("Answer") else ()
        yield Question(
            id=record.text("QuestionId"),
            question=record.text("Question"),
            documents=documents,
            answers=answers,
            spans=tuple(occurrences(answers, documents)),
            is_impossible=False,
            scored_by="triviaqa",
        )


def wording_of(question: Question) -> str:
    """What no two of TriviaQA's parts share: the question's words.

    Some questions are there under several ids. Documents are shared by too many to keep all those together.
    """
    return " ".join(question.question.casefold().split())


def _evidence(page: Record, folder: Path) -> tuple[str, str]:
    name = page.text("Filename")
    if not (folder / name).is_file():
        raise wrong(page.where, "Filename", name, f"a file in {folder}")
    with open_file(folder / name) as file:
        return name, file.text()


def _answers(answer: Record) -> list[str]:
    found = [answer.text("Value"), *answer.texts("Aliases")]
    if answer.has("HumanAnswers"):
        found += answer.texts("HumanAnswers")
    return list(dict.fromkeys(found))
