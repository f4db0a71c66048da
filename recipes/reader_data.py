"""Writes what the embedded reader learns from: questions made of plain text, and questions that people asked.

python recipes/reader_data.py --data data --out runs/reader-data

``cloze.jsonl`` is for the first stage, ``train.jsonl`` for the second; ``dev.jsonl`` chooses the best model
and fits its confidence. SQuAD is split by article, HotpotQA by question, QuAC as it is published; nothing
here is from their test parts. Documents are paragraphs, several of them, or most of an article, so that an
answer may be anywhere in inputs of any length.
"""

import argparse
import json
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from cloze import clozes

from longspan.data.examples import Document, MultiHopQuestion, Question, Span
from longspan.data.extractive_qa import article_of, occurrences
from longspan.data.parts import read_part
from longspan.training.run_folder import write_whole

SQUAD = "squad2_dev/dev-v2.0.json.xz"
QUAC = "quac/quac-{part}.jsonl.xz"
HOTPOTQA = "hotpotqa/hotpot_dev_distractor_v1.json.xz"
NEWS = "cnndm10k/cnndm10k.jsonl.xz#train"
_NEWS_WORDS = 350
_UNANSWERED = 0.15


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
    texts = [one.text for one in paragraphs[first : last + 1]]
    shift = sum(len(text) + 1 for text in texts[: at - first])
    article = Document(id=article_of(question), text="\n".join(texts))
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


def plain_texts(data: Path) -> Iterator[tuple[str, str]]:
    """Ids and texts to make questions of; none is of an article that is tested on."""
    held_out = {
        article.replace("_", " ").lower()
        for part in ("dev", "test")
        for article in paragraphs_of_articles(squad(data, part))
    }
    for article, paragraphs in paragraphs_of_articles(squad(data, "train")).items():
        for at in range(0, len(paragraphs) - 1, 2):
            yield f"squad/{article}/{at}", "\n".join(one.text for one in paragraphs[at : at + 3])
    for question in hotpotqa(data, "train"):
        kept = [one for one in question.paragraphs if one.title.lower() not in held_out]
        for at in range(0, len(kept), 4):
            texts = (f"{one.title}. {one.text.strip()}" for one in kept[at : at + 4])
            yield f"hotpotqa/{question.id}/{at}", "\n".join(texts)
    dialogues: set[str] = set()
    for question in cast(Iterator[Question], read_part(QUAC.format(part="train"), "quac", root=data)):
        if question.dialogue not in dialogues:
            dialogues.add(question.dialogue)
            yield f"quac/{question.dialogue}", question.documents[0].text
    for one in cast(Iterator[Any], read_part(NEWS, "cnn-dailymail", root=data)):
        yield f"news/{one.id}", " ".join(one.text.split()[:_NEWS_WORDS])


def made_questions(data: Path, of_each: int) -> Iterator[dict[str, Any]]:
    """Questions made of plain text, in our JSONL."""
    for name, text in plain_texts(data):
        lot = random.Random(name)
        for number, one in enumerate(clozes(text, of_each, lot, unanswered=_UNANSWERED)):
            yield {
                "id": f"{name}/{number}",
                "question": one.question,
                "documents": [{"id": name, "text": one.text}],
                "answers": [one.answer] if one.spans else [],
                "spans": [[0, *span] for span in one.spans],
                "is_impossible": not one.spans,
            }


def asked_questions(data: Path, part: str, *, quac: int, long: float, repeats: int = 1) -> Iterator[Question]:
    """Questions that people asked, of a part of each data set.

    Args:
        data: the folder of all data sets.
        part: "train" or "dev".
        quac: how many of QuAC's.
        long: the share of SQuAD's and HotpotQA's questions that are asked once more about a long text.
        repeats: how often SQuAD's questions are asked, each time about other surroundings.
    """
    questions = squad(data, part)
    articles = paragraphs_of_articles(questions)
    for one in questions:
        lot = random.Random(one.id)
        yield one
        for _ in range(repeats - 1):
            yield within_article(one, articles[article_of(one)], lot.randint(150, 400))
        if lot.random() < long:
            yield within_article(one, articles[article_of(one)], lot.randint(800, 3000))
    for one in hotpotqa(data, part):
        lot = random.Random(one.id)
        distractors = [lot.randint(0, 2), *([None] if lot.random() < long else [])]
        yield from filter(None, (as_question(one, count) for count in distractors))
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
    """Writes all three files."""
    parser = argparse.ArgumentParser(description="What the embedded reader learns from.")
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--out", type=Path, default=Path("runs/reader-data"))
    parser.add_argument("--clozes", type=int, default=60_000, help="questions made of plain text, at most")
    parser.add_argument("--quac", type=int, default=6_000, help="questions of QuAC")
    where = parser.parse_args()
    where.out.mkdir(parents=True, exist_ok=True)
    write(where.out / "cloze.jsonl", made_questions(where.data, 3), where.clozes)
    train = asked_questions(where.data, "train", quac=where.quac, long=0.15, repeats=2)
    write(where.out / "train.jsonl", map(record, train))
    dev = asked_questions(where.data, "dev", quac=300, long=0.3)
    write(where.out / "dev.jsonl", map(record, dev), 1_500)


if __name__ == "__main__":
    main()
