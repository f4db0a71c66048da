"""Questions over several paragraphs, with the sentences that support the answer: HotpotQA, and as JSONL."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from longspan.data.examples import MultiHopQuestion, Paragraph, SupportingFact
from longspan.data.files import counted
from longspan.data.records import Record, read_json_items, read_jsonl, wrong
from longspan.data.splits import Splits, train_dev_test

UNKNOWN_FACT = "supporting facts that name a sentence that is not there"


def read_multihop(path: Path) -> Iterator[MultiHopQuestion]:
    """Our JSONL: HotpotQA's records, one a line, with ``"id"`` for ``"_id"``.

    A supporting fact that names no sentence is an error here.
    """
    for record in read_jsonl(path, unique="id"):
        strict: Counter[str] = Counter()
        question = _question(record, "id", strict)
        if strict[UNKNOWN_FACT]:
            raise record.error("supporting_facts", "pairs of a title and the number of one of its sentences")
        yield question


def read_hotpotqa(path: Path, *, dropped: Counter[str] | None = None) -> Iterator[MultiHopQuestion]:
    """HotpotQA's official JSON, of the distractor or the full-wiki setting; a test set has no answers.

    Args:
        path: the file.
        dropped: counts supporting facts that nothing is learned from: those that name a sentence that the
            context does not have. The official files have some; in the full-wiki setting, many. They stay
            among a question's ``missing_facts``, since the official scores count them.
    """
    with counted(path, dropped) as drop:
        for record in read_json_items(path):
            yield _question(record, "_id", drop)


def split_hotpotqa(path: Path, *, seed: int, dropped: Counter[str] | None = None) -> Splits[MultiHopQuestion]:
    """80/10/10 of one file, with the same share of bridge and comparison questions."""
    questions = read_hotpotqa(path, dropped=dropped)
    return train_dev_test(questions, seed=seed, stratum=type_of)


def type_of(question: MultiHopQuestion) -> str:
    """What HotpotQA's parts have the same share of."""
    return question.type or ""


def _question(record: Record, id_field: str, dropped: Counter[str]) -> MultiHopQuestion:
    paragraphs = tuple(_paragraphs(record))
    facts, missing = _facts(record, paragraphs) if record.has("supporting_facts") else ((), ())
    if missing:
        dropped[UNKNOWN_FACT] += len(missing)
    return MultiHopQuestion(
        id=record.text_or_number(id_field),
        question=record.text("question"),
        paragraphs=paragraphs,
        supporting_facts=facts,
        answer=record.text("answer") if record.has("answer") else None,
        type=record.text("type") if record.has("type") else None,
        missing_facts=missing,
    )


def _paragraphs(record: Record) -> Iterator[Paragraph]:
    for at, item in enumerate(record.items("context", "a list of [title, sentences]")):
        match item:
            case [str(title), [*sentences]] if all(isinstance(sentence, str) for sentence in sentences):
                inside = Record(record.where, {"title": title, "sentences": sentences})
                yield Paragraph(title=inside.text("title"), sentences=inside.texts("sentences"))
            case _:
                raise wrong(record.where, f"context[{at}]", item, "[title, [sentence, ...]]")


def _facts(
    record: Record, paragraphs: Iterable[Paragraph]
) -> tuple[tuple[SupportingFact, ...], tuple[tuple[str, int], ...]]:
    """Those that name a sentence of the paragraphs, and those that do not."""
    sentences: dict[tuple[str, int], SupportingFact] = {}
    for at, paragraph in enumerate(paragraphs):
        for number in range(len(paragraph.sentences)):
            # Of paragraphs with one title, the first is meant.
            sentences.setdefault((paragraph.title, number), SupportingFact(at, number))
    found: list[SupportingFact] = []
    missing: list[tuple[str, int]] = []
    for at, item in enumerate(record.items("supporting_facts", "a list of [title, sentence]")):
        match item:
            case [str(title), int(number)]:
                if (title, number) in sentences:
                    found.append(sentences[title, number])
                else:
                    missing.append((title, number))
            case _:
                raise wrong(record.where, f"supporting_facts[{at}]", item, "[title, number of the sentence]")
    return tuple(found), tuple(missing)
