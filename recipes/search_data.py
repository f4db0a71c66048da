"""Long documents and questions whose answers are somewhere in them, for training and judging searches.

SQuAD's articles are documents as they are, under their titles. HotpotQA's paragraphs, which are beginnings of
articles, are documents when those of several questions are joined in an order drawn by lot: there a passage's
neighbours say nothing about it. SQuAD is split by article, HotpotQA by question.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reader_data import article_of, hotpotqa, paragraphs_of_articles, squad

from longspan.data.examples import MultiHopQuestion


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """A question, and what a search should find."""

    question: str
    gold: tuple[tuple[int, int], ...]
    """Characters of the document, first and after the last: an answer, or each supporting paragraph."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Searched:
    """A document that is asked about."""

    name: str
    text: str
    questions: tuple[Asked, ...]


def articles(data: Path, part: str) -> list[Searched]:
    """SQuAD's articles of a part, with the questions that they answer.

    Args:
        data: the folder of all data sets.
        part: "train", "dev" or "test".
    """
    questions = squad(data, part)
    documents: list[Searched] = []
    for article, paragraphs in paragraphs_of_articles(questions).items():
        text, begins = f"{article.replace('_', ' ')}\n", dict[str, int]()
        for one in paragraphs:
            begins[one.id] = len(text)
            text += f"{one.text}\n"
        asked = [
            Asked(
                question=one.question,
                gold=((begins[one.documents[0].id] + span.start, begins[one.documents[0].id] + span.end),),
            )
            for one in questions
            if article_of(one) == article
            for span in one.spans[:1]
        ]
        documents.append(Searched(name=article, text=text, questions=tuple(asked)))
    return documents


def joined(questions: Sequence[MultiHopQuestion], name: str) -> Searched:
    """The paragraphs of some of HotpotQA's questions as one document.

    Args:
        questions: with supporting facts.
        name: of the document, which decides the order of the paragraphs.
    """
    texts = {
        (one.title, one.text): f"{one.title}. {one.text.strip()}"
        for question in questions
        for one in question.paragraphs
    }
    order = sorted(texts)
    random.Random(name).shuffle(order)
    text, places = "", dict[tuple[str, str], tuple[int, int]]()
    for one in order:
        places[one] = (len(text), len(text) + len(texts[one]))
        text += f"{texts[one]}\n"
    asked = [
        Asked(
            question=one.question,
            gold=tuple(
                places[one.paragraphs[at].title, one.paragraphs[at].text]
                for at in sorted({fact.paragraph for fact in one.supporting_facts})
            ),
        )
        for one in questions
    ]
    return Searched(name=name, text=text, questions=tuple(asked))


def joined_documents(data: Path, part: str, *, questions: int, of_each: int) -> list[Searched]:
    """HotpotQA's questions of a part, by lot, those of each document joined.

    Args:
        data: the folder of all data sets.
        part: "train", "dev" or "test".
        questions: how many.
        of_each: how many a document.
    """
    all_questions = hotpotqa(data, part)
    random.Random(0).shuffle(all_questions)
    chosen = all_questions[:questions]
    return [joined(chosen[at : at + of_each], f"{part}/{at}") for at in range(0, len(chosen), of_each)]


def gold_passages(places: Sequence[tuple[int, int]], gold: tuple[int, int]) -> list[int]:
    """The passages that overlap a gold part; finding any of them counts."""
    return [at for at, (start, end) in enumerate(places) if start < gold[1] and end > gold[0]]
