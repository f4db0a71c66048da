"""Stores are written in the background, the same by any number of processes, whole or not at all."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from longspan.data.classification import read_labelled
from longspan.data.examples import CandidateQuestion
from longspan.models.byte_tokenizer import byte_tokenizer
from longspan.tasks.candidates import CandidateScoring, CandidateSettings
from longspan.tasks.causal_lm import CausalLM, CausalLMSettings
from longspan.tasks.classification import Classification, ClassificationSettings
from longspan.tasks.task import Feature
from longspan.training import tokenising
from longspan.training.tokeniser_pool import features_of
from longspan.training.tokenising import DataError, Source, Tokenising
from tests.tasks.tiny import tiny_tokenizer
from tests.training.runs import write_reviews


def _task() -> Classification:
    return Classification(ClassificationSettings(labels=("bad", "good"), max_length=64), tiny_tokenizer())


def _source(where: Path, **changes: Any) -> Source:
    folder = where.parent / "tokenizer"
    tiny_tokenizer().save_pretrained(folder)
    usual: dict[str, Any] = {
        "task": "classification",
        "settings": _task().settings,
        "tokenizer": str(folder),
        "where": str(where),
        "format": "classification",
        "root": "",
        "split_seed": 0,
        "limit": None,
        "training": True,
    }
    return Source(**(usual | changes))


def _contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_processes_write_what_a_thread_writes(tmp_path: Path) -> None:
    source = _source(write_reviews(tmp_path / "reviews.jsonl", 150))
    for processes in (0, 2):
        Tokenising(source, _task(), tmp_path / str(processes), processes=processes).store()
    alone, together = (_contents(tmp_path / str(n) / source.fingerprint()) for n in (0, 2))
    assert alone == together and len(alone) > 4


def test_a_mistake_in_the_data_is_theirs_wherever_it_is_found(tmp_path: Path) -> None:
    reviews = write_reviews(tmp_path / "reviews.jsonl", 40)
    with reviews.open("a") as file:
        file.write(json.dumps({"id": "odd", "text": "a", "label": "odd"}) + "\n")
    messages: list[str] = []
    for processes in (0, 1):
        store = Tokenising(_source(reviews), _task(), tmp_path / "cache", processes=processes)
        with pytest.raises(DataError, match="odd: label is 'odd'; settings.labels are bad, good") as raised:
            store.store()
        messages.append(str(raised.value))
    assert messages[0] == messages[1]
    assert not any((tmp_path / "cache").iterdir())


def test_a_task_with_tokens_of_its_own_is_sent_with_them() -> None:
    questions = [
        CandidateQuestion(
            id=f"c{at}", query="river", candidates=("Inn", "Danube"), supports=("Long.",) * at, answer=at % 2
        )
        for at in range(20)
    ]
    task = CandidateScoring(CandidateSettings(max_length=60, min_support_tokens=16), tiny_tokenizer())
    made = [list(features_of(questions, task, training=True, processes=n)) for n in (0, 1)]
    assert [number for number, _ in made[1]] == list(range(20))
    for (_, here), (_, there) in zip(*made, strict=True):
        assert {name: values.tolist() for name, values in here.items()} == {
            name: values.tolist() for name, values in there.items()
        }


class Deadly(Classification):
    """A task that the system kills."""

    def features(self, example: Any, *, training: bool) -> Iterator[Feature]:
        os._exit(9)


def test_a_process_that_is_killed_ends_the_work(tmp_path: Path) -> None:
    examples = read_labelled(write_reviews(tmp_path / "reviews.jsonl", 3))
    task = Deadly(_task().settings, tiny_tokenizer())
    with pytest.raises(RuntimeError, match="data.workers 0 does without them"):
        list(features_of(examples, task, training=True, processes=1))


def test_parts_are_tokenised_one_after_the_other(tmp_path: Path) -> None:
    first = Tokenising(_source(write_reviews(tmp_path / "a.jsonl", 300)), _task(), tmp_path / "cache")
    second = Tokenising(
        _source(write_reviews(tmp_path / "b.jsonl", 3)), _task(), tmp_path / "cache", after=first
    )
    assert len(second.store()) == 3
    assert not first.is_running and len(first.store()) == 300


def test_what_is_given_up_leaves_nothing(tmp_path: Path) -> None:
    first = Tokenising(_source(write_reviews(tmp_path / "a.jsonl", 5000)), _task(), tmp_path / "cache")
    second = Tokenising(
        _source(write_reviews(tmp_path / "b.jsonl", 3)), _task(), tmp_path / "cache", after=first
    )
    second.close()
    assert not first.is_running and not second.is_running
    assert not list((tmp_path / "cache").glob("*"))
    with pytest.raises(InterruptedError, match=r"a.jsonl was stopped"):
        first.store()


def test_large_data_are_worth_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reviews = write_reviews(tmp_path / "reviews.jsonl", 10)
    assert _source(reviews).processes() == 0
    monkeypatch.setattr(tokenising, "_WORTH_PROCESSES", 100)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    assert _source(reviews).processes() == _source(reviews.with_name("reviews.jsonl#train")).processes() == 3
    assert _source(reviews, limit=5).processes() == 0
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    assert _source(reviews).processes() == 1


def test_bytes_are_cut_without_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenising, "_WORTH_PROCESSES", 100)
    asked: list[int] = []

    def features_here(*arguments: Any, processes: int, **options: Any) -> Any:
        asked.append(processes)
        return features_of(*arguments, processes=0, **options)

    monkeypatch.setattr(tokenising, "features_of", features_here)
    (tmp_path / "text.txt").write_bytes(bytes(range(256)) * 10)
    byte_tokenizer().save_pretrained(tmp_path / "tokenizer")
    settings = CausalLMSettings(max_length=64)
    text = Source(
        task="causal-lm",
        settings=settings,
        tokenizer=str(tmp_path / "tokenizer"),
        where=str(tmp_path / "text.txt"),
        format="bytes",
        root=".",
        split_seed=0,
        limit=None,
        training=True,
    )
    assert text.processes() > 0
    assert len(Tokenising(text, CausalLM(settings, byte_tokenizer()), tmp_path / "cache").store()) == 40
    reviews = write_reviews(tmp_path / "reviews.jsonl", 10)
    Tokenising(_source(reviews), _task(), tmp_path / "cache").store()
    assert asked[0] == 0 < asked[1]
