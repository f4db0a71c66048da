"""Candidates to choose from: what the inputs are, what is learned, and what is chosen."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers import AutoTokenizer, BertConfig, BertModel

from longspan.data.examples import CandidateQuestion
from longspan.tasks.candidates import (
    MARKERS,
    CandidateHead,
    CandidateScores,
    CandidateScoring,
    CandidateSettings,
)
from longspan.tasks.models import EncoderWithHead, ModelSettings, head_parameters
from longspan.tasks.task import Batch
from tests.tasks.tiny import tiny_longformer, tiny_roberta, tiny_tokenizer

SHORT: dict[str, Any] = {"max_length": 60, "min_support_tokens": 16}
RIVER = "The river Inn flows from Switzerland to the Danube, and the city of Passau lies where they meet."


def question(
    query: str, candidates: str, *supports: str, answer: int | None = 0, id: str = "c"
) -> CandidateQuestion:
    return CandidateQuestion(
        id=id, query=query, candidates=tuple(candidates.split(",")), supports=supports, answer=answer
    )


def task(**settings: Any) -> CandidateScoring:
    return CandidateScoring(CandidateSettings(**settings), tiny_tokenizer())


def batch_of(one: CandidateScoring, *examples: CandidateQuestion, training: bool) -> Batch:
    features = [feature for example in examples for feature in one.features(example, training=training)]
    return one.collate(features, [0] * len(features))


def test_an_input_is_query_candidates_and_supports() -> None:
    one = task()
    (feature,) = one.features(
        question("country Inn", "Peru,Austria", RIVER, "", "Yes.", answer=1), training=True
    )
    ids = feature["input_ids"].tolist()
    text = f"<s>[q]country Inn[/q][ent]Peru[/ent][ent]Austria[/ent]</s>{RIVER}</s></s>Yes.</s>"
    assert one.tokenizer.decode(ids, skip_special_tokens=False) == text
    assert ids == one.tokenizer(text, add_special_tokens=False)["input_ids"]
    assert [ids[at] for at in feature["candidates"]] == [one.tokenizer.convert_tokens_to_ids("[ent]")] * 2
    after = [one.tokenizer.decode(ids[at + 1 : at + 3]) for at in feature["candidates"]]
    assert after[0].startswith("P") and after[1].startswith("A")
    separator = ids.index(2)
    assert feature["is_global"].tolist() == [at < separator for at in range(len(ids))]
    assert feature["answer"].tolist() == [1]
    (feature,) = task(global_tokens=False).features(question("a", "b,c", RIVER), training=True)
    assert not feature["is_global"].any()


def test_markers_are_added_once_and_kept_with_the_tokenizer(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer()
    before = len(tokenizer)
    first = CandidateScoring(CandidateSettings(), tokenizer)
    assert first.markers == [before, before + 1, before + 2, before + 3]
    assert CandidateScoring(CandidateSettings(), tokenizer).markers == first.markers
    tokenizer.save_pretrained(tmp_path)
    again = CandidateScoring(CandidateSettings(), AutoTokenizer.from_pretrained(tmp_path))
    assert again.markers == first.markers and len(again.tokenizer) == before + len(MARKERS)


def test_markers_in_a_text_are_text() -> None:
    one = task()
    (feature,) = one.features(question("[q]", "[ent] a,b", "</s> [ent] [/ent]"), training=True)
    counts = [feature["input_ids"].tolist().count(marker) for marker in one.markers]
    assert counts == [1, 1, 2, 2]
    assert (feature["input_ids"] == one.tokenizer.sep_token_id).sum() == 2


def test_supports_that_do_not_fit_are_read_in_chunks() -> None:
    one = task(**SHORT)
    example = question("river", "Inn,Danube", RIVER, RIVER, RIVER)
    features = list(one.features(example, training=False))
    (whole,) = task().features(example, training=False)
    front = int(np.flatnonzero(whole["input_ids"] == 2)[0]) + 1
    assert len(features) > 2
    assert [len(feature["input_ids"]) for feature in features[:-1]] == [60] * (len(features) - 1)
    for feature in features:
        assert feature["input_ids"][:front].tolist() == whole["input_ids"][:front].tolist()
        assert feature["input_ids"][-1] == 2
        assert feature["candidates"].tolist() == whole["candidates"].tolist()
        assert feature["chunk_lengths"].tolist() == [len(feature["input_ids"])]
    supports = np.concatenate([feature["input_ids"][front:-1] for feature in features])
    assert supports.tolist() == whole["input_ids"][front:-1].tolist()
    overlapping = list(task(**SHORT, stride=5).features(example, training=False))
    for this, following in zip(overlapping, overlapping[1:], strict=False):
        assert this["input_ids"][-6:-1].tolist() == following["input_ids"][front : front + 5].tolist()
    assert len(list(task(**SHORT, max_chunks=2).features(example, training=False))) == 2


def test_chunks_are_learned_from_together() -> None:
    one = task(**SHORT)
    examples = [question("river", "Inn,Danube", RIVER, RIVER), question("city", "a,b,c", "Yes.", answer=2)]
    apart = batch_of(one, *examples, training=False)
    together = batch_of(one, *examples, training=True)
    count = len(apart["input_ids"])
    assert apart["chunks"].tolist() == [1] * count
    assert together["chunks"].tolist() == [count - 1, 1]
    for name in ("input_ids", "attention_mask", "is_global"):
        assert together[name].equal(apart[name])
    assert together["answer"].tolist() == [0, 2]
    assert together["candidates"].tolist() == apart["candidates"][-2:].tolist()


@pytest.mark.parametrize("supports", [(), ("",), ("Yes",)])
def test_few_or_no_supports(supports: tuple[str, ...]) -> None:
    (feature,) = task(**SHORT).features(question("", "a", *supports), training=False)
    assert len(feature["candidates"]) == 1


def test_the_longest_candidates_are_cut_where_they_leave_no_room() -> None:
    one = task(**SHORT)
    long = RIVER.replace(",", "")
    (feature, *_) = one.features(question("river", f"Inn,{long},{long} Yes", RIVER), training=True)
    assert len(feature["candidates"]) == 3
    ids = feature["input_ids"].tolist()
    front = ids.index(2)
    assert 60 - 16 - 4 <= front + 2 <= 60 - 16  # no more is cut than must be
    lengths = [ids.index(one.markers[3], at) - at - 1 for at in feature["candidates"]]
    assert lengths[1] == lengths[2] > lengths[0]
    text = one.tokenizer.decode(ids[:front], skip_special_tokens=False)
    assert text.startswith("<s>[q]river[/q][ent]Inn[/ent][ent]The river")
    with pytest.raises(
        ValueError, match="c: settings.max_length is 60; that is too little for 26 candidates"
    ):
        list(one.features(question("river", ",".join("abcdefghijklmnopqrstuvwxyz")), training=False))


def test_unknown_answers_teach_nothing_but_are_asked() -> None:
    one = task()
    unknown = question("river", "Inn,Danube", RIVER, answer=None)
    assert list(one.features(unknown, training=True)) == []
    (feature,) = one.features(unknown, training=False)
    assert feature["answer"].tolist() == [-1]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"stride": -1}, "settings.stride is -1"),
        ({"max_chunks": 0}, "settings.max_chunks is 0"),
        ({"stride": 64}, "settings.min_support_tokens is 64; it must be above settings.stride, 64"),
        ({"max_length": 64}, "and below settings.max_length, 64"),
        ({"max_length": 4}, "settings.max_length is 4"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        task(**settings)


def test_a_tokenizer_without_a_separator_is_refused() -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.sep_token = None
    with pytest.raises(ValueError, match="lacks cls_token or sep_token"):
        CandidateScoring(CandidateSettings(), tokenizer)


class Fixed(nn.Module):
    """A model that says what it is told."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.logits = logits

    def forward(self, _: Batch) -> Tensor:
        return self.logits


def test_the_head_reads_the_markers() -> None:
    head = CandidateHead(6)
    hidden = torch.randn(2, 9, 6, generator=torch.Generator().manual_seed(0))
    places = torch.tensor([[1, 4, 8], [2, 5, -1]], dtype=torch.int32)
    logits = head(hidden, {"candidates": places, "chunks": torch.tensor([1, 1])})
    weight = head.score.weight[0]
    expected = [[hidden[0, at] @ weight for at in (1, 4, 8)], [hidden[1, at] @ weight for at in (2, 5)]]
    torch.testing.assert_close(logits[0], torch.stack(expected[0]))
    torch.testing.assert_close(logits[1, :2], torch.stack(expected[1]))
    assert logits[1, 2] == -torch.inf
    mean = head(hidden, {"candidates": places[1:], "chunks": torch.tensor([2])})
    expected = [(hidden[0, at] + hidden[1, at]) @ weight / 2 for at in (2, 5)]
    torch.testing.assert_close(mean[0, :2], torch.stack(expected))
    assert mean.shape == (1, 3) and mean[0, 2] == -torch.inf


def test_the_loss_is_that_of_the_mean_over_chunks(tmp_path: Path) -> None:
    one = task(**SHORT)
    torch.manual_seed(0)
    model = one.build(ModelSettings(source=str(tiny_roberta(tmp_path))))
    loss = one.loss(model, batch_of(one, *LESSONS, training=True))
    said = [
        one.prediction(example, one.outputs(model, batch_of(one, example, training=False)))
        for example in LESSONS
    ]
    expected = sum(
        -torch.tensor(list(each["scores"].values())).log_softmax(0)[example.answer or 0]
        for each, example in zip(said, LESSONS, strict=True)
    )
    torch.testing.assert_close(loss.total.detach(), expected, rtol=1e-4, atol=1e-5)
    assert int(loss.targets) == len(LESSONS)
    assert max(len(list(one.features(example, training=False))) for example in LESSONS) > 1


def test_the_loss_is_cross_entropy_over_the_candidates_there_are() -> None:
    one = task()
    examples = [
        question("a", "b,c,d", answer=2),
        question("a", "b,c", answer=0),
        question("a", "b,c", answer=None),
    ]
    batch = batch_of(one, *examples, training=False)
    logits = torch.tensor(
        [[0.5, -1.0, 2.0], [1.0, 3.0, -torch.inf], [1.0, 2.0, -torch.inf]], requires_grad=True
    )
    loss = one.loss(Fixed(logits), batch)
    expected = (
        -torch.tensor([0.5, -1.0, 2.0]).softmax(0)[2].log() - torch.tensor([1.0, 3.0]).softmax(0)[0].log()
    )
    torch.testing.assert_close(loss.total, expected)
    assert int(loss.targets) == 2
    loss.total.backward()
    assert logits.grad is not None and logits.grad.isfinite().all() and not logits.grad[2].any()
    outputs = one.outputs(Fixed(logits.detach()), batch)
    assert outputs == [([0.5, -1.0, 2.0],), ([1.0, 3.0],), ([1.0, 2.0],)]


def test_scores_are_means_over_chunks() -> None:
    example = question("a", "b,c", answer=1)
    outputs = [CandidateScores([1.0, 0.0]), CandidateScores([-2.0, 0.5])]
    expected = {"id": "c", "answer": "c", "scores": {"b": -0.5, "c": 0.25}}
    assert task().prediction(example, outputs) == expected
    assert task().prediction(example, outputs[:1])["answer"] == "b"


def test_accuracy_by_hand() -> None:
    examples = [
        question("a", "b,c", answer=1),
        question("a", "b,c", answer=1),
        question("a", "b,c", answer=0),
    ]
    predictions = [{"answer": "c"}, {"answer": "b"}, {"answer": "b"}]
    assert task().score(examples, predictions) == {"accuracy": pytest.approx(2 / 3)}
    with pytest.raises(ValueError, match="c: answer is unknown"):
        task().score([question("a", "b", answer=None)], predictions[:1])


LESSONS = [
    question("country Passau", "Peru,Austria,France", "It was long. " * 8, "Yes, Passau.", answer=0, id="1"),
    question("country Inn", "Austria,Peru", RIVER, answer=0, id="2"),
    question("country Paris", "Peru,Austria,France,England", "Paris.", answer=2, id="3"),
]


def chosen(one: CandidateScoring, model: nn.Module) -> list[dict[str, Any]]:
    with torch.no_grad():
        return [
            one.prediction(example, one.outputs(model, batch_of(one, example, training=False)))
            for example in LESSONS
        ]


@pytest.mark.parametrize("kind", ["short, in chunks", "long"])
def test_a_tiny_model_learns_its_lessons_and_is_saved(kind: str, tmp_path: Path) -> None:
    source = (tiny_roberta if kind.startswith("short") else tiny_longformer)(tmp_path / "source")
    one = task(**(SHORT if kind.startswith("short") else {"max_length": 400}))
    torch.manual_seed(0)
    model = one.build(ModelSettings(source=str(source)))
    assert isinstance(model, EncoderWithHead)
    assert head_parameters(model) == {"head.score.weight"}
    batch = batch_of(one, *LESSONS, training=True)
    assert (len(batch["input_ids"]) > len(LESSONS)) == kind.startswith("short")
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    losses: list[float] = []
    for _ in range(30):
        loss = one.loss(model, batch)
        mean = loss.total / loss.targets
        mean.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(mean.item())
    assert losses[-1] < 0.05 < losses[0]
    model.eval()
    predictions = chosen(one, model)
    assert [prediction["answer"] for prediction in predictions] == ["Peru", "Austria", "France"]
    assert one.score(LESSONS, predictions) == {"accuracy": 1.0}

    saved = tmp_path / "saved"
    saved.mkdir()
    one.save(model, saved)
    one.tokenizer.save_pretrained(saved)
    again = CandidateScoring(one.settings, AutoTokenizer.from_pretrained(saved))
    assert chosen(again, again.load(saved).eval()) == predictions


def test_only_a_vocabulary_that_is_too_small_grows(tmp_path: Path) -> None:
    one = task()
    sizes: list[int] = []
    for vocabulary in (400, 512):  # without room for the markers, and with
        folder = tiny_longformer(tmp_path / str(vocabulary), vocab_size=vocabulary)
        model = one.build(ModelSettings(source=str(folder)))
        assert isinstance(model, EncoderWithHead)
        embeddings = model.encoder.get_input_embeddings()
        assert isinstance(embeddings, nn.Embedding)
        sizes.append(embeddings.num_embeddings)
    assert sizes == [404, 512]


def test_bert_is_an_encoder_too(tmp_path: Path) -> None:
    sizes: dict[str, Any] = {
        "vocab_size": 400,
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "intermediate_size": 48,
    }
    BertModel(BertConfig(**sizes)).save_pretrained(tmp_path)
    one = task(max_length=400)
    model = one.build(ModelSettings(source=str(tmp_path))).eval()
    assert all(np.isfinite(score) for one in chosen(one, model) for score in one["scores"].values())


def test_padding_changes_nothing(tmp_path: Path) -> None:
    one = task(max_length=400)
    model = one.build(ModelSettings(source=str(tiny_longformer(tmp_path)))).eval()
    with torch.no_grad():
        together = one.outputs(model, batch_of(one, *LESSONS, training=False))
        for example, row in zip(LESSONS, together, strict=True):
            (alone,) = one.outputs(model, batch_of(one, example, training=False))
            np.testing.assert_allclose(alone.logits, row.logits, atol=1e-4)


def test_global_tokens_reach_the_model(tmp_path: Path) -> None:
    source = ModelSettings(source=str(tiny_longformer(tmp_path)))
    logits: list[list[float]] = []
    for global_tokens in (True, False):
        one = task(max_length=400, global_tokens=global_tokens)
        torch.manual_seed(0)
        with torch.no_grad():
            model = one.build(source).eval()
            logits.append(one.outputs(model, batch_of(one, LESSONS[0], training=False))[0].logits)
    assert np.abs(np.subtract(logits[0], logits[1])).max() > 1e-4
