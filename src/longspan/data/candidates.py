"""Questions whose answer is one of given candidates: WikiHop's JSON, and the same records as JSONL."""

from collections.abc import Iterator
from pathlib import Path

from longspan.data.examples import CandidateQuestion
from longspan.data.records import Record, read_json_items, read_jsonl


def read_candidates(path: Path) -> Iterator[CandidateQuestion]:
    """Our JSONL: ``{"id", "query", "candidates", "supports", "answer"}``; the answer may be left out."""
    for record in read_jsonl(path, unique="id"):
        yield _question(record)


def read_wikihop(path: Path) -> Iterator[CandidateQuestion]:
    """WikiHop's official JSON, masked or not: an array of such records."""
    for record in read_json_items(path):
        yield _question(record)


def _question(record: Record) -> CandidateQuestion:
    candidates = record.texts("candidates")
    if len(set(candidates)) < len(candidates) or not candidates:
        raise record.error("candidates", "a list of different strings, at least one")
    answer = record.text("answer") if record.has("answer") else None
    if answer is not None and answer not in candidates:
        raise record.error("answer", "one of the candidates")
    return CandidateQuestion(
        id=record.text_or_number("id"),
        query=record.text("query"),
        candidates=candidates,
        supports=record.texts("supports"),
        answer=None if answer is None else candidates.index(answer),
    )
