"""TriviaQA: questions of a quiz, with whole web pages and Wikipedia articles that may answer them.

Where the answer stands was not annotated: the spans are the places where a document says one of its
names.
"""

from collections.abc import Iterator
from pathlib import Path

from longspan.data.examples import Document, Question
from longspan.data.extractive_qa import occurrences
from longspan.data.files import open_file
from longspan.data.records import Record, read_json_items, read_json_text, wrong


def read_triviaqa(path: Path, evidence: Path | None = None) -> Iterator[Question]:
    """The official JSON, of the Wikipedia or the web domain, and its evidence files.

    A question's documents are its Wikipedia pages, then its search results; their ids are the files' names.
    In the Wikipedia domain a question is an example, with all its documents. In any other, each of its
    documents is one, with an id such as ``tc_33--12/12_34.txt``: the official scores count them so.

    Its answers are those that the official script compares with: the normalised aliases and what people
    answered; a test set has none. The spans are the places of the aliases as they are written.

    Args:
        path: such as ``qa/wikipedia-train.json``.
        evidence: the folder with ``wikipedia`` and ``web``; by default ``../evidence`` seen from the file's.

    Raises:
        ValueError: an evidence file is missing, among others.
    """
    evidence = path.parent.parent / "evidence" if evidence is None else evidence
    by_document = read_json_text(path, "Domain") != "Wikipedia"
    for record in read_json_items(path, "Data"):
        documents = tuple(
            Document(id=name, text=text)
            for field, folder in (("EntityPages", "wikipedia"), ("SearchResults", "web"))
            if record.has(field)
            for page in record.records(field)
            for name, text in [_evidence(page, evidence / folder)]
        )
        id = record.text("QuestionId")
        names, answers = _answers(record.record("Answer")) if record.has("Answer") else ((), ())
        examples = [(f"{id}--{one.id}", (one,)) for one in documents] if by_document else [(id, documents)]
        for name, read in examples:
            yield Question(
                id=name,
                question=record.text("Question"),
                documents=read,
                answers=answers,
                spans=tuple(occurrences(names, read)),
                is_impossible=False,
                scored_by="triviaqa",
            )


def wording_of(question: Question) -> str:
    """What no two of TriviaQA's parts share: the question's words.

    Some questions are there under several ids, and in the web domain once for each document. Documents are
    shared by too many to keep all those together.
    """
    return " ".join(question.question.casefold().split())


def _evidence(page: Record, folder: Path) -> tuple[str, str]:
    name = page.text("Filename")
    if not (folder / name).is_file():
        raise wrong(page.where, "Filename", name, f"a file in {folder}")
    with open_file(folder / name) as file:
        return name, file.text()


def _answers(answer: Record) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What documents may call the answer, and what is right: in the official script, other lists."""
    aliases = [answer.text("Value"), *answer.texts("Aliases")]
    people = answer.texts("HumanAnswers") if answer.has("HumanAnswers") else ()
    right = answer.texts("NormalizedAliases") if answer.has("NormalizedAliases") else aliases
    return tuple(dict.fromkeys([*aliases, *people])), tuple(dict.fromkeys([*right, *people]))
