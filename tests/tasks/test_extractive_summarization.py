"""Sentences chosen from documents: what is read, learned and said."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from longspan.data.examples import SummarizedDocument
from longspan.metrics.sentences import sentences
from longspan.tasks.extractive_summarization import (
    ExtractiveSummarization,
    ExtractiveSummarizationSettings,
    SentenceHead,
    SentenceScores,
)
from longspan.tasks.markers import UNKNOWN
from longspan.tasks.models import ModelSettings
from tests.tasks.tiny import learn, predictions, tiny_led, tiny_longformer, tiny_roberta, tiny_tokenizer

RIVER = "The river is long. Ada wrote a book. It was a good film. The city lies where they meet."
DOCUMENTS = [
    SummarizedDocument(id="book", text=RIVER, query="Who wrote it?", summaries=("Ada wrote a book.",)),
    SummarizedDocument(id="film", text=RIVER, query="Was it good?", summaries=("It was a good film.",)),
    SummarizedDocument(id="all", text=RIVER, summaries=("The river.", "The city lies where they meet.")),
]


def make(**changes: Any) -> ExtractiveSummarization:
    """The task with the tiny tokenizer."""
    usual: dict[str, Any] = {"max_length": 128, "summary_sentences": 1}
    return ExtractiveSummarization(ExtractiveSummarizationSettings(**(usual | changes)), tiny_tokenizer())


def test_every_sentence_has_a_global_marker_and_the_query_is_global() -> None:
    task = make()
    (asked,) = task.features(DOCUMENTS[0], training=True)
    said = task.tokenizer.decode(asked["input_ids"])
    assert said.startswith("<s> Who wrote it?</s><s> The river is long.<s> Ada wrote a book.<s> It was")
    assert said.endswith("they meet.</s>")
    markers = asked["sentence_at"]
    assert (asked["input_ids"][markers] == task.tokenizer.cls_token_id).all() and len(markers) == 4
    query = int(markers[0])
    assert asked["is_global"].nonzero()[0].tolist() == [*range(query), *markers]
    assert asked["is_chosen"].tolist() == [0, 1, 0, 0]

    (plain,) = task.features(DOCUMENTS[2], training=False)
    assert plain["sentence_at"][0] == 0 and plain["is_chosen"].tolist() == [UNKNOWN] * 4
    (local,) = make(global_tokens=False).features(DOCUMENTS[0], training=True)
    assert not local["is_global"].any()


def test_sentences_are_compared_with_the_query_or_with_the_whole() -> None:
    torch.manual_seed(0)
    task = make()
    batch = task.collate([one for each in DOCUMENTS for one in task.features(each, training=False)], [0] * 3)
    head = SentenceHead(8).double()
    hidden = torch.randn(*batch["input_ids"].shape, 8, dtype=torch.float64)
    logits = head(hidden, batch)
    norm = head.places.norm
    count = batch["sentence_at"].shape[1]
    for row, example in enumerate(DOCUMENTS):
        *begins, length = [*batch["sentence_at"][row].tolist(), int(batch["attention_mask"][row].sum())]
        context = norm(hidden[row, : begins[0] if example.query else length].mean(0))
        for number, (begin, end) in enumerate(zip(begins, [*begins[1:], length], strict=True)):
            words = norm(hidden[row, begin:end].mean(0))
            order = [math.log(1 + number) / 2, 1 / (1 + number), math.exp(-number / 4), number / count]
            order += [math.log(count) / 4, math.log(1 + end - begin) / 4]
            where = head.order(torch.tensor(order, dtype=torch.float64))
            slow = head.layers(torch.cat([hidden[row, begin], words, words * context, where]))
            torch.testing.assert_close(logits[row, number], slow[0].float())


@settings(max_examples=25)
@given(st.integers(64, 128), st.integers(0, 12), st.booleans())
def test_long_documents_are_read_in_whole_sentences(length: int, count: int, asked: bool) -> None:
    task = make(max_length=length)
    text = " ".join(f"The river {'is long and ' * (at % 4)}was number {at}." for at in range(count))
    example = SummarizedDocument(id="a", text=text, query="Who?" if asked else "", summaries=("x",))
    features = list(task.features(example, training=False))
    assert features and all(len(one["input_ids"]) <= length for one in features)
    assert all(one["input_ids"][-1] == task.tokenizer.sep_token_id for one in features)
    cut = [
        task.tokenizer.decode(part[1:]).removesuffix("</s>").strip()
        for one in features
        for part in np.split(one["input_ids"], one["sentence_at"])[1:]
    ]
    assert cut == sentences(text)
    (first,) = make(max_length=length, max_windows=1).features(example, training=False)
    assert (first["input_ids"] == features[0]["input_ids"]).all()


def test_a_sentence_longer_than_an_input_is_cut() -> None:
    task = make(max_length=16)
    example = SummarizedDocument(id="a", text="river " * 40 + ". Ada.", summaries=("Ada.",))
    features = list(task.features(example, training=True))
    assert [len(one["input_ids"]) for one in features][0] == 16
    assert sum(len(one["sentence_at"]) for one in features) == len(sentences(example.text))


def test_documents_without_words_are_read_but_not_learned_from() -> None:
    task = make()
    empty = SummarizedDocument(id="a", text=" \n ", summaries=("x",))
    assert list(task.features(empty, training=True)) == []
    (feature,) = task.features(empty, training=False)
    assert len(feature["input_ids"]) == 2 and len(feature["sentence_at"]) == 0
    assert task.prediction(empty, [SentenceScores([])]) == {"id": "a", "summary": "", "sentences": []}


def test_a_model_says_how_long_a_summary_is() -> None:
    task = make(summary_sentences=None)
    # 4, 4, 5 and 6 words; of even chances half of them, of certain ones all.
    for logits, expected in (
        ([-50.0, 50.0, -50.0, -50.0], [1]),
        ([-50.0, 50.0, 50.0, -50.0], [1, 2]),
        ([0.0, 1.0, 0.1, -1.0], [1, 2]),
        ([-800.0] * 4, [0]),
        ([800.0] * 4, [0, 1, 2, 3]),
    ):
        assert task.prediction(DOCUMENTS[2], [SentenceScores(logits)])["sentences"] == expected
    told = make(summary_sentences=None, summary_words=4).prediction(
        DOCUMENTS[2], [SentenceScores([800.0] * 4)]
    )
    assert told["sentences"] == [0]


def test_what_is_not_read_is_not_chosen() -> None:
    text = " ".join(f"The river was number {at}." for at in range(20)) + " Ada wrote a book."
    example = SummarizedDocument(id="a", text=text, summaries=("Ada wrote a book. The river was number 3.",))
    whole = [
        one for each in make(max_length=64).features(example, training=True) for one in each["is_chosen"]
    ]
    assert np.flatnonzero(whole).tolist() == [3, 20]
    (first,) = make(max_length=64, max_windows=1).features(example, training=True)
    assert np.flatnonzero(first["is_chosen"]).tolist() == [3]
    assert first["sentence_number"].tolist() == [*range(len(first["sentence_at"]))]
    assert first["sentence_count"].tolist() == [21]
    second = list(make(max_length=64).features(example, training=False))[1]
    assert second["sentence_number"][0] == len(first["sentence_at"])


def test_first_sentences_are_learned_whatever_they_say(tmp_path: Path) -> None:
    words = ("river", "city", "film", "book", "house", "dog")
    rng = np.random.default_rng(0)

    def document(at: int) -> SummarizedDocument:
        lines = [" ".join(rng.choice(words, size=5)) + f" {at} {line}." for line in range(10)]
        return SummarizedDocument(id=str(at), text="\n".join(lines), summaries=("\n".join(lines[:2]),))

    known, unknown = ([document(at) for at in range(begin, begin + 8)] for begin in (0, 8))
    task = make(max_length=256, summary_sentences=2)
    torch.manual_seed(0)
    model = task.build(ModelSettings(source=str(tiny_longformer(tmp_path))))
    learn(task, model, known, steps=40)
    assert [one["sentences"] for one in predictions(task, model, unknown)] == [[0, 1]] * 8


@pytest.mark.parametrize(("save", "length"), [(tiny_longformer, 128), (tiny_roberta, 48)])
def test_what_a_query_asks_for_is_learned(save: Any, length: int, tmp_path: Path) -> None:
    task = make(max_length=length)
    torch.manual_seed(0)
    model = task.build(ModelSettings(source=str(save(tmp_path))))
    learn(task, model, DOCUMENTS[:2], steps=60)
    said = predictions(task, model, DOCUMENTS[:2])
    assert [one["summary"] for one in said] == [one.summaries[0] for one in DOCUMENTS[:2]]
    assert task.score(DOCUMENTS[:2], said)["rouge_lsum"] == pytest.approx(1.0)


def test_padding_changes_nothing(tmp_path: Path) -> None:
    task = make()
    model = task.build(ModelSettings(source=str(tiny_longformer(tmp_path)))).eval()
    features = [next(task.features(one, training=False)) for one in DOCUMENTS]
    with torch.no_grad():
        together = task.outputs(model, task.collate(features, [0, 1, 2]))
        alone = [task.outputs(model, task.collate([one], [0]))[0] for one in features]
    for one, other in zip(together, alone, strict=True):
        assert one.logits == pytest.approx(other.logits, abs=1e-5)


def test_mistakes(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="settings.summary_words is 0"):
        make(summary_words=0)
    with pytest.raises(ValueError, match="all: summaries is empty"):
        next(make().features(SummarizedDocument(id="all", text="A."), training=True))
    long_query = SummarizedDocument(id="q", text="A.", query="river " * 70, summaries=("A.",))
    with pytest.raises(ValueError, match="q: query has .* at most half of settings.max_length = 128"):
        next(make().features(long_query, training=True))
    with pytest.raises(ValueError, match="which has a decoder"):
        make().build(ModelSettings(source=str(tiny_led(tmp_path))))
