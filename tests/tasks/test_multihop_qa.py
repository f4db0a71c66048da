"""Questions over several paragraphs: the loss, decoding, two readings, and learning by heart."""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from transformers import AutoTokenizer

from longspan.data.examples import MultiHopQuestion
from longspan.tasks.models import EncoderWithHead, ModelSettings, load_model
from longspan.tasks.multihop_features import MARKERS, texts
from longspan.tasks.multihop_qa import Answer, MultiHopQA, MultiHopSettings, Reading
from longspan.tasks.task import Feature
from tests.tasks.multihop_cases import DOGS, EXAMPLES, FILMS, RIVERS, question, task
from tests.tasks.tiny import LONG_LENGTH, SHORT_LENGTH, tiny_longformer, tiny_roberta


@pytest.mark.parametrize(
    "example",
    [
        question(),
        question(text=""),
        question(("", [])),
        question(("", ["", " "]), text=""),
        question(("A", []), ("A", ["B"]), answer="B"),
    ],
)
def test_hardly_anything_to_read(example: MultiHopQuestion, tmp_path: Path) -> None:
    of, model = built(tiny_longformer, tmp_path)
    (feature,) = of.features(example, training=False)
    (reading,) = read(of, model, [feature])
    assert len(reading.titles) == len(example.paragraphs)
    prediction = of.prediction(example, [reading])
    json.dumps(prediction)
    assert len(prediction["paragraphs"]) == len(example.paragraphs)
    assert torch.isfinite(of.loss(model, of.collate([feature], [0])).total)


def built(model: Callable[[Path], Path], folder: Path, **changes: Any) -> tuple[MultiHopQA, EncoderWithHead]:
    length = SHORT_LENGTH if model is tiny_roberta else LONG_LENGTH
    of = task(**({"max_length": length} | changes))
    torch.manual_seed(0)
    out = of.build(ModelSettings(source=str(model(folder))))
    assert isinstance(out, EncoderWithHead)
    return of, out.eval()


@torch.no_grad()
def read(of: MultiHopQA, model: nn.Module, features: Sequence[Feature]) -> list[Reading]:
    return of.outputs(model, of.collate(features, [0] * len(features)))


@pytest.mark.parametrize("model", [tiny_longformer, tiny_roberta])
def test_loss(model: Callable[[Path], Path], tmp_path: Path) -> None:
    weights = {"paragraph_weight": 2.0, "sentence_weight": 3.0, "span_weight": 0.5, "kind_weight": 7.0}
    of, built_model = built(model, tmp_path, **weights)
    unknown = question(("Book", ["A good book."]), ("Film", []))
    features = list(chain.from_iterable(of.features(one, training=False) for one in (*EXAMPLES, unknown)))
    batch = of.collate(features, [0] * len(features))
    loss = of.loss(built_model, batch)
    assert loss.targets == len(features)
    with torch.no_grad():
        logits = built_model(batch)
    expected: dict[str, float] = {"paragraphs": 0.0, "sentences": 0.0, "span": 0.0, "answer_kind": 0.0}
    for at, one in enumerate(features):
        for part, row, labels, weight in (
            ("paragraphs", logits.relevant[at], one["is_relevant"], 2.0),
            ("sentences", logits.support[at], one["is_support"], 3.0),
        ):
            for logit, label in zip(row.tolist(), labels.tolist(), strict=False):
                if label >= 0:
                    expected[part] += weight * math.log1p(math.exp(-logit if label else logit))
        if one["kind"] >= 0:
            expected["answer_kind"] -= 7 * logits.kind[at].log_softmax(0)[one["kind"].item()].item()
        may = [place for place, start in enumerate(one["start"]) if start >= 0 or place == 0]
        for row, right in ((logits.start[at], one["is_start"]), (logits.end[at], one["is_end"])):
            if right.any():
                chance = row[may].softmax(0).tolist()
                expected["span"] -= 0.5 * math.log(
                    sum(chance[may.index(it)] for it in right.nonzero()[0].tolist())
                )
    assert {name: part.item() for name, part in loss.parts.items()} == pytest.approx(expected, rel=1e-4)
    assert loss.total.item() == pytest.approx(sum(expected.values()), rel=1e-4)
    assert all(not part.requires_grad for part in loss.parts.values())
    loss.total.backward()
    assert all(torch.isfinite(x.grad).all() for x in built_model.parameters() if x.grad is not None)


def test_outputs(tmp_path: Path) -> None:
    of, model = built(tiny_longformer, tmp_path, max_answer_tokens=4)
    features = list(chain.from_iterable(of.features(one, training=False) for one in EXAMPLES))
    readings = read(of, model, features)
    for example, feature, reading in zip(EXAMPLES, features, readings, strict=True):
        # Alone, without padding, the same comes out.
        (alone,) = read(of, model, [feature])
        assert [number for number, _ in alone.titles] == [number for number, _ in reading.titles]
        assert [logit for _, logit in alone.sentences] == pytest.approx(
            [logit for _, logit in reading.sentences], abs=1e-5
        )
        with torch.no_grad():
            logits = model(of.collate([feature], [0]))
        assert [logit for _, logit in alone.titles] == logits.relevant[0].tolist()
        assert alone.kind == logits.kind[0].tolist()
        start, end = logits.start[0].tolist(), logits.end[0].tolist()
        best = max(
            (start[first] + end[last], first, last)
            for first in range(len(start))
            for last in range(first, min(first + 4, len(start)))
            if (feature["start"][first : last + 1] >= 0).all()
        )
        assert alone.answer is not None and reading.answer is not None
        assert alone.answer.score == pytest.approx(best[0] - start[0] - end[0], abs=1e-4)
        assert alone.answer[1:] == reading.answer[1:]
        assert alone.answer.text == feature["text"][best[1]] == feature["text"][best[2]]
        assert (alone.answer.start, alone.answer.end) == (feature["start"][best[1]], feature["end"][best[2]])
        assert texts(example)[alone.answer.text].text[alone.answer.start : alone.answer.end].strip()


TEN = question(*((f"Title {at}", ["One.", " Two."]) for at in range(10)), facts=[(0, 0)])


def reading(
    relevant: dict[int, float],
    support: dict[tuple[int, int], float] | None = None,
    answer: Answer | None = None,
    kind: Sequence[float] = (1.0, 0.0, 0.0),
) -> Reading:
    """Of `TEN`, in which paragraph p has the texts 3p, 3p + 1 and 3p + 2."""
    known = support or {}
    return Reading(
        [(3 * at, logit) for at, logit in relevant.items()],
        [(3 * at + 1 + number, known.get((at, number), -5.0)) for at in relevant for number in range(2)],
        answer,
        list(kind),
    )


@pytest.mark.parametrize(
    ("logits", "kept"),
    [
        ([9, 8, 7, 6, 5, 4, 3, 2, 1, 0], [0, 1, 2, 3, 4]),
        ([0, 1, 2, 3, 4, 5, 6, 7, 8, 9], [5, 6, 7, 8, 9]),
        ([-9, -2.9, -9, 4, -3.0, -9, -9, -2, -9, -9], [1, 3, 7]),
        ([-9, -8, -7, -6, -5, -4, -7, -8, -9, -9], [4, 5]),
        ([-9, -8, -7, -6, -5, 4, -7, -8, -9, -9], [4, 5]),
    ],
)
def test_the_second_reading(logits: list[float], kept: list[int]) -> None:
    of = task()
    first = [reading(dict(enumerate(logits[:6]))), reading({6 + at: x for at, x in enumerate(logits[6:])})]
    (feature,) = of.second_features(TEN, first)
    assert (feature["text"][feature["title_at"]] // 3).tolist() == kept
    assert of.prediction(TEN, first)["paragraphs"] == [f"Title {at}" for at in kept]
    # What was read again was kept, whatever is thought of it now.
    second = [reading(dict.fromkeys(kept, -99.0))]
    assert of.prediction(TEN, second)["paragraphs"] == [f"Title {at}" for at in kept]


def test_no_second_reading_where_all_is_kept() -> None:
    of = task(max_paragraphs=10)
    assert list(of.second_features(TEN, [reading(dict.fromkeys(range(10), 0.0))])) == []
    assert list(of.second_features(question(("A", ["B"])), [reading({0: -9.0})])) == []


def facts(of: MultiHopQA, *outputs: Reading) -> list[list[Any]]:
    return of.prediction(TEN, outputs)["supporting_facts"]


def test_supporting_facts_of_two_paragraphs() -> None:
    relevant = {0: 3.0, 1: 1.0, 2: 2.0}
    # Sums with the best sentence: 4, 6 and 5.
    support = {(0, 0): 1.0, (1, 1): 5.0, (2, 0): 3.0, (2, 1): 0.5}
    assert facts(task(), reading(relevant, support)) == [["Title 1", 1], ["Title 2", 0], ["Title 2", 1]]
    # None is sure: the best of each, over two inputs.
    outputs = reading({0: 3.0, 1: 1.0}, {(1, 1): -1.0}), reading({2: 2.0}, {(2, 0): -2.0})
    assert facts(task(), *outputs) == [["Title 1", 1], ["Title 2", 0]]
    assert facts(task(support_paragraphs=1), *outputs) == [["Title 1", 1]]


def test_supporting_facts_of_any_paragraphs() -> None:
    of = task(support_paragraphs=0)
    relevant = dict.fromkeys(range(4), 1.0)
    assert facts(of, reading(relevant, {(0, 0): 1.0})) == [["Title 0", 0]]
    three = {(0, 0): 1.0, (1, 1): 0.1, (3, 0): 2.0, (2, 0): 0.0}
    assert facts(of, reading(relevant, three)) == [["Title 0", 0], ["Title 1", 1], ["Title 3", 0]]
    assert facts(of, reading(relevant, {(0, 1): -1.0, (0, 0): -2.0})) == [["Title 0", 0], ["Title 0", 1]]


def test_supporting_facts_only_of_kept_paragraphs() -> None:
    relevant = {at: float(-10 * (at > 1)) for at in range(10)}
    assert facts(task(), reading(relevant, {(5, 0): 99.0})) == [["Title 0", 0], ["Title 1", 0]]


def test_the_answer_of_several_inputs() -> None:
    of = task()
    one = reading({0: 1.0}, answer=Answer(1.0, 1, 0, 3), kind=[0.0, 1.0, 0.0])
    other = reading({1: 2.0}, answer=Answer(0.5, 5, 0, 5), kind=[1.0, 0.0, 0.0])
    # The second has the more relevant paragraph, and says it is a span; the first has the better one.
    assert of.prediction(TEN, [one, other])["answer"] == "One"
    better = other._replace(answer=Answer(1.5, 5, 0, 5))
    assert of.prediction(TEN, [one, better])["answer"] == "Two."
    assert of.prediction(TEN, [one, reading({1: 0.0})])["answer"] == "yes"
    assert of.prediction(TEN, [reading({1: 0.0}, kind=[0.0, 0.0, 1.0])])["answer"] == "no"
    assert of.prediction(TEN, [reading({1: 0.0})])["answer"] == ""
    # A paragraph in two pieces is as relevant as the more relevant of them.
    pieces = [reading({0: -5.0}), reading({0: 4.0, 1: 0.0}), reading(dict.fromkeys(range(2, 10), -9.0))]
    assert of.prediction(TEN, pieces)["paragraphs"] == ["Title 0", "Title 1"]


def test_score() -> None:
    def says(of: MultiHopQuestion, answer: str, *given: list[Any]) -> dict[str, Any]:
        return {"id": of.id, "answer": answer, "supporting_facts": list(given), "paragraphs": []}

    predictions = [
        says(RIVERS, "the Inn!", ["Passau", 0], ["Inn", 0]),
        says(FILMS, "yes", ["Film", 0], ["Car", 0]),
        says(DOGS, "yes", ["Dog", 0], ["Vienna", 0]),
    ]
    assert task().score(EXAMPLES, predictions) == pytest.approx(
        {
            "answer_em": 2 / 3,
            "answer_f1": 2 / 3,
            "support_em": 2 / 3,
            "support_f1": (1 + 0.5 + 1) / 3,
            "joint_em": 1 / 3,
            "joint_f1": (1 + 0.5 + 0) / 3,
        }
    )
    with pytest.raises(ValueError, match="q: answer is None"):
        task().score([TEN], [])


def test_a_gold_fact_that_the_context_lacks_is_a_miss() -> None:
    """As in the official script, which compares with the facts as the file names them."""
    example = replace(RIVERS, missing_facts=(("Passau", 9),))
    said = {"id": "rivers", "answer": "Inn", "supporting_facts": [["Passau", 0], ["Inn", 0]]}
    scores = task().score([example], [said])
    assert (scores["answer_em"], scores["support_em"], scores["joint_em"]) == (1, 0, 0)
    assert scores["support_f1"] == scores["joint_f1"] == pytest.approx(2 * (1 * 2 / 3) / (1 + 2 / 3))


def predicted(of: MultiHopQA, model: nn.Module, example: MultiHopQuestion) -> dict[str, Any]:
    first = read(of, model, list(of.features(example, training=False)))
    again = list(of.second_features(example, first))
    return of.prediction(example, read(of, model, again) if again else first)


@pytest.mark.parametrize("model", [tiny_longformer, tiny_roberta])
def test_learns_by_heart(model: Callable[[Path], Path], tmp_path: Path) -> None:
    """As one input of the long model, as windows of the short one: both answer, in two readings."""
    of, network = built(model, tmp_path, max_paragraphs=2)
    features = list(chain.from_iterable(of.features(one, training=True) for one in EXAMPLES))
    in_windows = len(features) > 2 * len(EXAMPLES)
    assert in_windows == (model is tiny_roberta)
    batch = of.collate(features, [0] * len(features))
    assert of.score(EXAMPLES, [predicted(of, network, one) for one in EXAMPLES])["joint_f1"] < 0.9
    optimizer = torch.optim.AdamW(network.parameters(), lr=4e-3)
    network.train()
    for _ in range(40):
        optimizer.zero_grad()
        loss = of.loss(network, batch)
        (loss.total / loss.targets).backward()
        optimizer.step()
    network.eval()
    predictions = [predicted(of, network, example) for example in EXAMPLES]
    assert [one["answer"] for one in predictions] == ["Inn", "yes", "no"]
    assert all(len(one["paragraphs"]) == 2 for one in predictions)
    assert of.score(EXAMPLES, predictions)["joint_f1"] == 1.0


def same(features: Iterator[Feature], others: Iterator[Feature]) -> bool:
    return all(
        np.array_equal(one[name], other[name])
        for one, other in zip(features, others, strict=True)
        for name in one.keys() | other.keys()
    )


@pytest.mark.parametrize("model", [tiny_longformer, tiny_roberta])
def test_saved_and_loaded(model: Callable[[Path], Path], tmp_path: Path) -> None:
    of, network = built(model, tmp_path / "source")
    folder = tmp_path / "saved"
    folder.mkdir()
    of.save(network, folder)
    of.tokenizer.save_pretrained(folder)
    again = MultiHopQA(of.settings, AutoTokenizer.from_pretrained(folder))
    assert len(again.tokenizer) == len(of.tokenizer)
    assert same(of.features(RIVERS, training=True), again.features(RIVERS, training=True))
    features = list(of.features(RIVERS, training=False))
    assert read(again, again.load(folder).eval(), features) == read(of, network, features)


def test_new_embeddings_are_drawn(tmp_path: Path) -> None:
    source = ModelSettings(source=str(tiny_longformer(tmp_path)))
    of = task()
    tables: list[torch.Tensor] = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        network = of.build(source)
        assert isinstance(network, EncoderWithHead)
        embeddings = network.encoder.get_input_embeddings()
        assert isinstance(embeddings, nn.Embedding)
        tables.append(embeddings.weight)
    old = load_model(source, None).get_input_embeddings().weight
    assert isinstance(old, torch.Tensor)
    known = len(old)
    assert tables[0].shape[0] == known + len(MARKERS)
    assert all(torch.equal(table[:known], old) for table in tables)
    assert torch.equal(tables[0], tables[1])
    assert not torch.equal(tables[0][known:], tables[2][known:])
    assert 0.1 < tables[0][known:].std() < 0.3  # the model's own scale


def test_a_short_model_made_long(tmp_path: Path) -> None:
    of = task(max_length=200)
    torch.manual_seed(0)
    network = of.build(ModelSettings(source=str(tiny_roberta(tmp_path)), max_length=200, window=16)).eval()
    (feature,) = of.features(RIVERS, training=False)
    assert len(feature["input_ids"]) > SHORT_LENGTH
    (reading,) = read(of, network, [feature])
    assert len(reading.titles) == 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_length": 31}, "settings.max_length is 31; it must be at least 32"),
        ({"max_paragraphs": 1}, "settings.max_paragraphs is 1; it must be at least 2"),
        ({"max_answer_tokens": 0}, "settings.max_answer_tokens is 0; it must be at least 1"),
        ({"support_paragraphs": -1}, "settings.support_paragraphs is -1; it must be at least 0"),
        ({"sentence_weight": math.nan}, "settings.sentence_weight is nan; it must be at least 0"),
    ],
)
def test_wrong_settings(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MultiHopSettings(**changes)
