"""Writes what the embedded reader learns from: questions made of plain text, and questions that people asked.

python recipes/reader_data.py --data data --out runs/reader-data

``cloze.jsonl`` is for the first stage, ``short.jsonl`` for the second, whose documents fit a short model,
``long.jsonl`` for the third and ``doubt.jsonl`` for the last; ``dev.jsonl`` chooses the best model and fits
its confidence. SQuAD is split by article, HotpotQA by question, QuAC as it is published; nothing here is from
their test parts. Documents are paragraphs, several of them, or most of an article, so that an answer may be
anywhere in inputs of any length. A long text teaches most where it could mislead, and the rest of it costs
computing: so many are made of a question's paragraph and those of its article that have its words too.
Questions of HotpotQA all have answers, and a model learns that what looks like one of them has an answer: in
the last stage half of them lose the paragraphs that support theirs.
"""

import argparse
import json
import random
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, cast

import numpy as np
from cloze import clozes

from longspan.apps.shared_words import PassageWords
from longspan.data.examples import Document, MultiHopQuestion, Question, Span
from longspan.data.extractive_qa import article_of, occurrences
from longspan.data.parts import read_part
from longspan.training.run_folder import write_whole

SQUAD = "squad2_dev/dev-v2.0.json.xz"
QUAC = "quac/quac-{part}.jsonl.xz"
HOTPOTQA = "hotpotqa/hotpot_dev_distractor_v1.json.xz"
NEWS = "cnndm10k/cnndm10k.jsonl.xz#train"
_PLAIN_WORDS = 200
"""Of a text that questions are made of: in short texts there are more questions for the same computing."""
_UNANSWERED = 0.15


def beginning(text: str, words: int) -> str:
    """So many words of a text."""
    found = [*islice(re.finditer(r"\S+", text), words)]
    return text[: found[-1].end()] if found else ""


def squad(data: Path, part: str) -> list[Question]:
    """SQuAD's questions about articles of a part."""
    return cast(list[Question], list(read_part(f"{SQUAD}#{part}", "squad", root=data)))


def hotpotqa(data: Path, part: str) -> list[MultiHopQuestion]:
    """HotpotQA's questions of a part."""
    return cast(list[MultiHopQuestion], list(read_part(f"{HOTPOTQA}#{part}", "hotpotqa", root=data)))


def paragraphs_of_articles(questions: Iterable[Question]) -> dict[str, list[Document]]:
    """The paragraphs that are asked about, in their order, by article."""
    found: dict[str, dict[str, Document]] = defaultdict(dict)
    for one in questions:
        found[article_of(one)][one.documents[0].id] = one.documents[0]
    return {article: list(documents.values()) for article, documents in found.items()}


def within_article(question: Question, paragraphs: Sequence[Document], words: int) -> Question:
    """The question about a longer part of its article: its paragraph, and what stands around it.

    Args:
        question: about one paragraph.
        paragraphs: of the article, in their order.
        words: about how many the text shall have; it begins anywhere before the paragraph, by lot.
    """
    lot = random.Random(question.id)
    at = [one.id for one in paragraphs].index(question.documents[0].id)
    first, last = at, at
    while sum(len(one.text.split()) for one in paragraphs[first : last + 1]) < words:
        sides = [side for side, there in ((0, first > 0), (1, last + 1 < len(paragraphs))) if there]
        if not sides:
            break
        if lot.choice(sides):
            last += 1
        else:
            first -= 1
    return _about(question, paragraphs[first : last + 1])


def among_alike(question: Question, paragraphs: Sequence[Document], others: int) -> Question:
    """The question about its paragraph and those of its article that it could be mistaken to be about.

    Args:
        question: about one paragraph.
        paragraphs: of the article, in their order.
        others: how many further ones there shall be: those that share most with the question's words.
    """
    shared = PassageWords.of([one.text for one in paragraphs]).shares(question.question)
    own = question.documents[0].id
    most_alike = [int(at) for at in np.argsort(-shared, kind="stable") if paragraphs[at].id != own][:others]
    kept = (one for at, one in enumerate(paragraphs) if one.id == own or at in most_alike)
    return _about(question, list(kept))


def _about(question: Question, paragraphs: Sequence[Document]) -> Question:
    """The question about several paragraphs as one text; its own is among them."""
    own = [one.id for one in paragraphs].index(question.documents[0].id)
    shift = sum(len(one.text) + 1 for one in paragraphs[:own])
    article = Document(id=article_of(question), text="\n".join(one.text for one in paragraphs))
    spans = tuple(Span(0, one.start + shift, one.end + shift) for one in question.spans)
    return _with(question, article, spans)


def _with(question: Question, document: Document, spans: tuple[Span, ...]) -> Question:
    return Question(
        id=f"{question.id}/{len(document.text)}",
        question=question.question,
        documents=(document,),
        answers=question.answers,
        spans=spans,
        is_impossible=question.is_impossible,
    )


def as_question(question: MultiHopQuestion, distractors: int | None) -> Question | None:
    """A question of HotpotQA about one text: the paragraphs that support its answer, and others.

    Args:
        question: with an answer.
        distractors: how many paragraphs that do not support it; None is all.

    Returns:
        None where the answer is no span of a supporting paragraph: "yes" and "no" are not.
    """
    gold = {fact.paragraph for fact in question.supporting_facts}
    others = [at for at in range(len(question.paragraphs)) if at not in gold]
    random.Random(question.id).shuffle(others)
    kept = sorted((*gold, *others[: len(others) if distractors is None else distractors]))
    texts = [f"{question.paragraphs[at].title}. {question.paragraphs[at].text.strip()}" for at in kept]
    document = Document(id=question.id, text="\n".join(texts))
    begins = [sum(len(text) + 1 for text in texts[:at]) for at in range(len(texts))]
    inside = [
        (begin, begin + len(text)) for begin, text, at in zip(begins, texts, kept, strict=True) if at in gold
    ]
    spans = [
        span
        for span in occurrences([question.answer or ""], [document])
        if any(begin <= span.start and span.end <= end for begin, end in inside)
    ]
    if question.answer in (None, "yes", "no") or not spans:
        return None
    return Question(
        id=f"{question.id}/{len(document.text)}",
        question=question.question,
        documents=(document,),
        answers=(question.answer,),
        spans=tuple(spans),
        is_impossible=False,
    )


def without_support(question: MultiHopQuestion, paragraphs: int) -> Question | None:
    """A question of HotpotQA about one text that does not answer it.

    Args:
        question: with an answer.
        paragraphs: how many that do not support it, at most.

    Returns:
        None where the answer is "yes", "no", or said there all the same.
    """
    gold = {fact.paragraph for fact in question.supporting_facts}
    others = [one for at, one in enumerate(question.paragraphs) if at not in gold]
    lot = random.Random(question.id)
    kept = lot.sample(others, min(paragraphs, len(others)))
    text = "\n".join(f"{one.title}. {one.text.strip()}" for one in kept)
    if question.answer in (None, "yes", "no") or not kept or question.answer.lower() in text.lower():
        return None
    return Question(
        id=f"{question.id}/none/{len(text)}",
        question=question.question,
        documents=(Document(id=f"{question.id}/none", text=text),),
        answers=(),
        spans=(),
        is_impossible=True,
    )


def plain_texts(data: Path) -> Iterator[tuple[str, str]]:
    """Ids and texts to make questions of; none is of an article that is tested on."""
    held_out = {
        article.replace("_", " ").lower()
        for part in ("dev", "test")
        for article in paragraphs_of_articles(squad(data, part))
    }
    for article, paragraphs in paragraphs_of_articles(squad(data, "train")).items():
        for at in range(0, len(paragraphs) - 1, 2):
            yield f"squad/{article}/{at}", "\n".join(one.text for one in paragraphs[at : at + 2])
    for question in hotpotqa(data, "train"):
        kept = [one for one in question.paragraphs if one.title.lower() not in held_out]
        for at in range(0, len(kept), 3):
            texts = (f"{one.title}. {one.text.strip()}" for one in kept[at : at + 3])
            yield f"hotpotqa/{question.id}/{at}", "\n".join(texts)
    dialogues: set[str] = set()
    for question in cast(Iterator[Question], read_part(QUAC.format(part="train"), "quac", root=data)):
        if question.dialogue not in dialogues:
            dialogues.add(question.dialogue)
            yield f"quac/{question.dialogue}", question.documents[0].text
    for one in cast(Iterator[Any], read_part(NEWS, "cnn-dailymail", root=data)):
        yield f"news/{one.id}", one.text


def made_questions(data: Path, of_each: int) -> Iterator[dict[str, Any]]:
    """Questions made of plain text, in our JSONL."""
    for name, text in plain_texts(data):
        lot = random.Random(name)
        text = beginning(text, _PLAIN_WORDS)
        for number, one in enumerate(clozes(text, of_each, lot, unanswered=_UNANSWERED)):
            yield {
                "id": f"{name}/{number}",
                "question": one.question,
                "documents": [{"id": name, "text": one.text}],
                "answers": [one.answer] if one.spans else [],
                "spans": [[0, *span] for span in one.spans],
                "is_impossible": not one.spans,
            }


def short_questions(data: Path, part: str) -> Iterator[Question]:
    """Questions about texts that a short model reads whole: paragraphs of SQuAD, two or three of HotpotQA."""
    yield from squad(data, part)
    for one in hotpotqa(data, part):
        if short := as_question(one, random.Random(one.id).randint(0, 1)):
            yield short


def long_questions(
    data: Path, part: str, *, quac: int, alike: float, long: float, absent: float = 0.0
) -> Iterator[Question]:
    """Questions about texts of all lengths.

    Args:
        data: the folder of all data sets.
        part: "train" or "dev".
        quac: how many of QuAC's.
        alike: the share of SQuAD's questions that are asked about their paragraph among those most like it.
        long: the share of SQuAD's and HotpotQA's questions that are asked about a long text.
        absent: the share of HotpotQA's questions whose text does not answer.
    """
    questions = squad(data, part)
    articles = paragraphs_of_articles(questions)
    for one in questions:
        lot = random.Random(f"{one.id}/long")
        drawn = lot.random()
        if drawn < long:
            yield within_article(one, articles[article_of(one)], lot.randint(800, 5000))
        elif drawn < long + alike:
            yield among_alike(one, articles[article_of(one)], lot.randint(1, 7))
        else:
            yield one
    for one in hotpotqa(data, part):
        lot = random.Random(f"{one.id}/long")
        distractors = None if lot.random() < long else lot.randint(0, 4)
        if lot.random() < absent:
            made = without_support(one, len(one.paragraphs) if distractors is None else distractors + 2)
        else:
            made = as_question(one, distractors)
        if made is not None:
            yield made
    source = QUAC.format(part="train")
    dialogues = list(cast(Iterator[Question], read_part(source, "quac", root=data)))
    random.Random(0).shuffle(dialogues)
    yield from dialogues[:quac] if part == "train" else dialogues[len(dialogues) - quac :]


def record(one: Question) -> dict[str, Any]:
    """A question in our JSONL."""
    return {
        "id": one.id,
        "question": one.question,
        "documents": [{"id": document.id, "text": document.text} for document in one.documents],
        "answers": list(one.answers),
        "spans": [list(span) for span in one.spans],
        "is_impossible": one.is_impossible,
        **(
            {"dialogue": one.dialogue, "history": [list(turn) for turn in one.history]} if one.history else {}
        ),
    }


def write(path: Path, records: Iterable[dict[str, Any]], most: int | None = None) -> None:
    """Writes JSONL in an order drawn by lot, whole or not at all."""
    unique = {one["id"]: one for one in records}
    lines = [json.dumps(one) + "\n" for one in unique.values()]
    random.Random(0).shuffle(lines)
    write_whole(path, "".join(lines[:most]))
    print(f"{path}: {len(lines[:most]):,} of {len(lines):,} questions", flush=True)


def main() -> None:
    """Writes all files."""
    parser = argparse.ArgumentParser(description="What the embedded reader learns from.")
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--out", type=Path, default=Path("runs/reader-data"))
    parser.add_argument("--clozes", type=int, default=30_000, help="questions made of plain text, at most")
    parser.add_argument("--quac", type=int, default=5_000, help="questions of QuAC")
    where = parser.parse_args()
    where.out.mkdir(parents=True, exist_ok=True)
    write(where.out / "cloze.jsonl", made_questions(where.data, 3), where.clozes)
    write(where.out / "short.jsonl", map(record, short_questions(where.data, "train")))
    train = long_questions(where.data, "train", quac=where.quac, alike=0.55, long=0.15)
    write(where.out / "long.jsonl", map(record, train))
    doubt = long_questions(where.data, "train", quac=where.quac, alike=0.4, long=0.3, absent=0.5)
    write(where.out / "doubt.jsonl", map(record, doubt))
    dev = long_questions(where.data, "dev", quac=200, alike=0.2, long=0.4, absent=0.5)
    write(where.out / "dev.jsonl", map(record, dev))


if __name__ == "__main__":
    main()
