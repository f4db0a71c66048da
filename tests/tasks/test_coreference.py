"""Coreference: documents in segments, losses, predictions, scores, and a model that learns."""

import os
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from longspan.data.coreference import read_conll_2012
from longspan.data.examples import CoreferenceDocument
from longspan.tasks.coreference import Coreference, CoreferenceSettings, LinkedSpans, clusters_of_spans
from longspan.tasks.coreference_documents import (
    NO_ONE,
    TokenDocument,
    documents_of,
    encoder_batch,
    random_part,
    segment_borders,
)
from longspan.tasks.coreference_head import CoreferenceHead, marginal_loss
from longspan.tasks.models import EncoderWithHead, ModelSettings
from tests.tasks.tiny import LONG_LENGTH, SHORT_LENGTH, tiny_longformer, tiny_roberta, tiny_tokenizer

TOKENIZER: Any = tiny_tokenizer()
SMALL: dict[str, Any] = {
    "ffnn_size": 24,
    "similarity_size": 16,
    "feature_size": 6,
    "max_span_width": 4,
    "spans_per_word": 0.6,
    "head_dropout": 0.0,
}
LITBANK = Path(os.environ.get("LONGSPAN_LITBANK", "no archive given"))
ROBERTA_TOKENIZER = Path(os.environ.get("LONGSPAN_ROBERTA_TOKENIZER", "no tokenizer.json given"))


def document(
    name: str, text: str, *clusters: list[tuple[int, int]], speakers: str | None = None
) -> CoreferenceDocument:
    """Sentences are lines; a speaker says a line."""
    sentences = tuple(tuple(line.split()) for line in text.splitlines())
    said = (
        None
        if speakers is None
        else tuple((who,) * len(one) for who, one in zip(speakers.split(","), sentences, strict=True))
    )
    return CoreferenceDocument(
        id=name, sentences=sentences, clusters=tuple(map(tuple, clusters)), speakers=said
    )


ADA = document(
    "ada",
    "Ada Lovelace saw the dog .\nIt barked , and she liked it .\nThe dog liked her .",
    [(0, 2), (10, 11), (17, 18)],
    [(3, 5), (6, 7), (12, 13), (14, 16)],
    speakers="a,b,",
)
INN = document(
    "inn",
    "The river Inn meets the Danube\nThe long one is the Danube : he wrote that he saw it",
    [(4, 6), (6, 9), (10, 12), (18, 19)],
    [(13, 14), (16, 17)],
)
NOTHING = document("nothing", "The film was good .")
ALL = [ADA, INN, NOTHING]


def task_of(**changes: Any) -> Coreference:
    fields: dict[str, Any] = {**SMALL, "max_length": LONG_LENGTH, **changes}
    return Coreference(CoreferenceSettings(**fields), TOKENIZER)


def batch_of(task: Coreference, *examples: CoreferenceDocument, seed: int = 0) -> dict[str, Tensor]:
    features = [feature for one in examples for feature in task.features(one, training=True)]
    return task.collate(features, [seed] * len(features))


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_roberta(tmp_path_factory.mktemp("short"))


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_longformer(tmp_path_factory.mktemp("long"))


def built(task: Coreference, folder: Path, seed: int = 0) -> EncoderWithHead:
    torch.manual_seed(seed)
    return cast(EncoderWithHead, task.build(ModelSettings(source=str(folder))).eval())


def predictions_of(
    task: Coreference, model: nn.Module, examples: list[CoreferenceDocument]
) -> list[dict[str, Any]]:
    predictions: list[dict[str, Any]] = []
    for example in examples:
        with torch.no_grad():
            features = list(task.features(example, training=False))
            predictions.append(task.prediction(example, task.outputs(model, task.collate(features, [0]))))
    return predictions


def test_segments_end_with_sentences_where_these_fit() -> None:
    sizes, sentence = [1, 2, 1, 3, 1, 1, 1, 1], [0, 0, 1, 1, 2, 2, 2, 2]
    assert list(segment_borders(sizes, sentence, 100)) == [(0, 8)]
    assert list(segment_borders(sizes, sentence, 6)) == [(0, 2), (2, 4), (4, 8)]
    assert list(segment_borders(sizes, sentence, 7)) == [(0, 4), (4, 8)]
    assert list(segment_borders(sizes, sentence, 3)) == [(0, 2), (2, 3), (3, 4), (4, 7), (7, 8)]
    assert list(segment_borders([], [], 3)) == [(0, 0)]


@pytest.mark.parametrize("max_length", [8, 12, 30, 400])
def test_words_know_their_tokens(max_length: int) -> None:
    (feature,) = task_of(max_length=max_length).features(ADA, training=True)
    tokens = feature["input_ids"]
    for word, first, last in zip(ADA.words, feature["first"], feature["last"], strict=True):
        assert TOKENIZER.decode(tokens[first : last + 1].tolist()) == f" {word}"
    borders = np.concatenate([[0], feature["segments"].cumsum()])
    assert borders[-1] == len(tokens)
    assert (tokens[borders[:-1]] == TOKENIZER.cls_token_id).all()
    assert (tokens[borders[1:] - 1] == TOKENIZER.sep_token_id).all()
    assert feature["segments"].max() <= max_length
    special = np.isin(tokens, [TOKENIZER.cls_token_id, TOKENIZER.sep_token_id])
    assert special.sum() == 2 * len(feature["segments"])
    assert not feature["is_global"].any()
    if max_length == 400:
        assert len(feature["segments"]) == 1


def test_other_fields_of_a_feature() -> None:
    (feature,) = task_of(max_length=20, global_tokens=True).features(ADA, training=True)
    assert feature["sentence"].tolist() == [0] * 6 + [1] * 8 + [2] * 5
    assert feature["speaker"].tolist() == [0] * 6 + [1] * 8 + [NO_ONE] * 5
    mentions = zip(feature["starts"], feature["ends"], feature["clusters"], strict=True)
    assert [(int(s), int(e), int(c)) for s, e, c in mentions][:4] == [
        (0, 2, 0),
        (10, 11, 0),
        (17, 18, 0),
        (3, 5, 1),
    ]
    assert np.flatnonzero(feature["is_global"]).tolist() == [0, *feature["segments"].cumsum()[:-1].tolist()]
    (unknown,) = task_of().features(INN, training=True)
    assert set(unknown["speaker"].tolist()) == {NO_ONE}


def test_strange_words() -> None:
    strange = CoreferenceDocument(
        id="s", sentences=(("", "x" * 300, "\N{EM DASH}"), (), ("end",)), clusters=(), speakers=None
    )
    (feature,) = task_of(max_length=16).features(strange, training=True)
    sizes = feature["last"] - feature["first"] + 1
    assert len(sizes) == 4
    assert sizes.min() >= 1
    assert sizes[1] == 14  # as much as a segment holds
    assert feature["segments"].max() == 16


def test_documents_without_words(short: Path) -> None:
    empty = CoreferenceDocument(id="e", sentences=(), clusters=(), speakers=None)
    task = task_of(max_length=SHORT_LENGTH)
    assert not list(task.features(empty, training=True))
    (prediction,) = predictions_of(task, built(task, short), [empty])
    assert prediction == {"id": "e", "clusters": [], "mentions": []}


def test_features_have_the_same_names_and_types_with_and_without_targets() -> None:
    (known,) = task_of().features(ADA, training=True)
    (unknown,) = task_of().features(NOTHING, training=False)
    assert {name: array.dtype for name, array in known.items()} == {
        name: array.dtype for name, array in unknown.items()
    }


def test_batches_come_apart_again() -> None:
    task = task_of(max_length=20)
    documents = list(documents_of(batch_of(task, *ALL)))
    for example, found in zip(ALL, documents, strict=True):
        (feature,) = task.features(example, training=True)
        names = {"tokens": "input_ids"}
        for name in TokenDocument._fields:
            assert getattr(found, name).tolist() == feature[names.get(name, name)].tolist(), name
    rows = encoder_batch(documents, 1)
    assert rows["input_ids"].shape[0] == sum(len(one.segments) for one in documents)
    assert rows["input_ids"].shape[1] <= 20
    mask = rows["attention_mask"].bool()
    assert torch.equal(rows["input_ids"][mask], torch.cat([one.tokens for one in documents]))


def test_random_parts_of_a_document() -> None:
    (whole,) = documents_of(batch_of(task_of(max_length=12), ADA))
    count = len(whole.segments)
    assert count > 3
    assert random_part(whole, count, 0) is whole
    seen: set[str] = set()
    for seed in range(40):
        part = random_part(whole, 2, seed)
        assert all(torch.equal(a, b) for a, b in zip(part, random_part(whole, 2, seed), strict=True))
        assert len(part.segments) == 2
        assert len(part.tokens) == part.segments.sum() == len(part.is_global)
        words = [
            TOKENIZER.decode(part.tokens[first : last + 1].tolist()).strip()
            for first, last in zip(part.first, part.last, strict=True)
        ]
        text = " ".join(words)
        seen.add(text)
        assert text in " ".join(ADA.words)
        at = next(at for at in range(len(ADA.words)) if list(ADA.words[at : at + len(words)]) == words)
        inside = {
            (start - at, end - at, cluster)
            for cluster, mentions in enumerate(ADA.clusters)
            for start, end in mentions
            if at <= start and end <= at + len(words)
        }
        found = zip(part.starts.tolist(), part.ends.tolist(), part.clusters.tolist(), strict=True)
        assert set(found) == inside
    assert len(seen) == count - 1


def test_clusters_of_spans() -> None:
    (one,) = documents_of(batch_of(task_of(), ADA))
    starts, ends = torch.tensor([[0, 2], [0, 1], [14, 16], [17, 18]]).T
    assert clusters_of_spans(starts, ends, one).tolist() == [0, -1, 1, 0]


def blind(model: EncoderWithHead) -> EncoderWithHead:
    """Makes an encoder whose tokens see neither each other nor their places."""
    with torch.no_grad():
        for name, parameter in model.encoder.named_parameters():
            if "attention.output.dense" in name or "position_embeddings" in name:
                parameter.zero_()
    return model


def test_segments_are_one_document(long: Path) -> None:
    """Links across segments are those of one long segment, where tokens do not see each other anyway."""
    whole, cut = task_of(), task_of(max_length=10)
    model = blind(built(whole, long))
    one, several = batch_of(whole, ADA, INN), batch_of(cut, ADA, INN)
    assert several["segments"].shape[1] > 4
    loss, other = whole.loss(model, one), cut.loss(model, several)
    torch.testing.assert_close(loss.total, other.total, rtol=1e-5, atol=1e-5)
    for a, b in zip(whole.outputs(model, one), cut.outputs(model, several), strict=True):
        assert a.spans == b.spans
        assert a.antecedents == b.antecedents


def test_attention_stays_inside_a_segment(short: Path) -> None:
    """A word of the second segment changes no hidden state of the first, so no score of its spans."""
    task = task_of(max_length=16, spans_per_word=20.0, cross_sentences=True)
    changed = document("changed", "\n".join([*map(" ".join, ADA.sentences[:2]), "A film liked her ."]))
    model = built(task, short)
    ours, theirs = (task.outputs(model, batch_of(task, one))[0] for one in (ADA, changed))
    scores, others = (dict(zip(one.spans, one.mention_scores, strict=True)) for one in (ours, theirs))
    assert scores.keys() == others.keys()
    same = {span for span in scores if scores[span] == pytest.approx(others[span], abs=1e-6)}
    assert {span for span in scores if span[1] <= 14} <= same
    assert (14, 15) not in same


@pytest.mark.parametrize("singletons", [False, True])
def test_loss_of_a_batch_is_the_sum_over_documents(short: Path, singletons: bool) -> None:
    task = task_of(max_length=SHORT_LENGTH, singletons=singletons)
    model = built(task, short)
    together = task.loss(model, batch_of(task, *ALL))
    alone = [task.loss(model, batch_of(task, one)) for one in ALL]
    torch.testing.assert_close(together.total, torch.stack([one.total for one in alone]).sum())
    assert int(together.targets) == sum(int(one.targets) for one in alone)
    assert int(alone[0].targets) == int(0.6 * 19)
    assert together.total.dtype == torch.float32
    together.total.backward()
    assert all(p.grad is None or bool(p.grad.isfinite().all()) for p in model.parameters())


def test_loss_with_singletons_adds_the_mentions(short: Path) -> None:
    task = task_of(max_length=SHORT_LENGTH, singletons=True, spans_per_word=0.2)
    model = built(task, short)
    batch = batch_of(task, ADA)
    loss = task.loss(model, batch)
    (pieces,) = documents_of(batch)
    (links,) = task._links(model, [pieces])
    head = cast(CoreferenceHead, model.head)
    kept = list(zip(links.starts.tolist(), links.ends.tolist(), strict=True))
    golds = [mention for cluster in ADA.clusters for mention in cluster]
    assert set(golds) - set(kept)  # some were not kept
    expected = 0.0
    for start, end in {*kept, *golds}:
        score = head.mention_scores(links.words, torch.tensor([start]), torch.tensor([end]))
        chance = score.sigmoid()
        expected -= float((chance if (start, end) in golds else 1 - chance).log().detach())
    assert float(loss.parts["mentions"]) == pytest.approx(expected, rel=1e-4)
    linking = marginal_loss(
        links.links, links.antecedents, clusters_of_spans(links.starts, links.ends, pieces)
    )
    torch.testing.assert_close(loss.parts["links"], linking.detach())
    torch.testing.assert_close(loss.total.detach(), loss.parts["links"] + loss.parts["mentions"])


def test_training_reads_parts_evaluation_reads_all(short: Path) -> None:
    task = task_of(max_length=16, max_training_segments=1)
    model = built(task, short)
    whole = task.loss(model, batch_of(task, ADA))
    assert int(whole.targets) == int(0.6 * 19)
    model.train()
    losses = [task.loss(model, batch_of(task, ADA, seed=seed)) for seed in (1, 1, 2, 3, 4, 2**64 - 1)]
    assert all(int(one.targets) < int(whole.targets) for one in losses)
    assert torch.equal(losses[0].total, losses[1].total)
    assert len({float(one.total.detach()) for one in losses}) > 1


def test_prediction() -> None:
    found = LinkedSpans(
        [(0, 2), (3, 5), (6, 7), (10, 11), (17, 18)], [-1, -1, 1, 0, -1], [1.0, -3.0, 0, 1, 2]
    )
    linked = {
        "id": "ada",
        "clusters": [[[0, 2], [10, 11]], [[3, 5], [6, 7]]],
        "mentions": [["Ada Lovelace", "she"], ["the dog", "It"]],
    }
    assert task_of().prediction(ADA, [found]) == linked
    alone = task_of(singletons=True).prediction(ADA, [found])
    assert alone["clusters"] == [*linked["clusters"], [[17, 18]]]
    assert alone["mentions"][-1] == ["her"]
    unlikely = found._replace(mention_scores=[0.0] * 5)
    assert task_of(singletons=True).prediction(ADA, [unlikely]) == linked


def test_scores() -> None:
    task = task_of()
    right = [{"id": one.id, "clusters": [[list(m) for m in c] for c in one.clusters]} for one in ALL]
    assert set(task.score(ALL, right).values()) == {1.0}
    half = task.score([ADA], [{"id": "ada", "clusters": [[[0, 2], [10, 11]]]}])
    # MUC: 1 link of 5. B³: recall (2/3 + 2/3) / 7. CEAF: 2 * 2 / (3 + 2) of 2 clusters.
    assert half["muc_f1"] == pytest.approx(2 * 0.2 / 1.2)
    recall = 4 / 21
    assert half["b3_f1"] == pytest.approx(2 * recall / (1 + recall))
    assert half["ceaf_f1"] == pytest.approx(2 * 0.8 * 0.4 / 1.2)
    assert half["conll_f1"] == pytest.approx((half["muc_f1"] + half["b3_f1"] + half["ceaf_f1"]) / 3)
    assert task.best_score in half


def test_same_ids_are_different_documents() -> None:
    right = [{"clusters": [[list(m) for m in c] for c in one.clusters]} for one in (ADA, INN)]
    twin = CoreferenceDocument(id=ADA.id, sentences=INN.sentences, clusters=INN.clusters, speakers=None)
    assert task_of().score([ADA, twin], right)["conll_f1"] == 1.0


def test_singletons_are_looked_for() -> None:
    settings = CoreferenceSettings()
    assert Coreference.resolved(settings, ALL).singletons is False
    lonely = document("lonely", "Ada sang", [(0, 1)])
    assert Coreference.resolved(settings, [ADA, lonely]).singletons is True
    told = CoreferenceSettings(singletons=False)
    assert Coreference.resolved(told, [lonely]) is told


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_length", 3),
        ("max_span_width", 0),
        ("antecedents", 0),
        ("spans_per_word", 0.0),
        ("refinements", -1),
        ("head_dropout", 1.0),
        ("max_training_segments", 0),
    ],
)
def test_settings_that_cannot_be(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"settings\.{field} is {value}"):
        CoreferenceSettings(**{field: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["short", "long"])
def test_learns_a_few_documents(kind: str, request: pytest.FixtureRequest) -> None:
    """The short model in segments, the long one in one; dropout on, singletons too."""
    lonely = document("lonely", "Paris is good .\nVienna is also good .", [(0, 1)], [(4, 5)])
    examples = [ADA, INN, lonely]
    task = task_of(max_length=LONG_LENGTH if kind == "long" else 24, singletons=True, head_dropout=0.1)
    model = built(task, request.getfixturevalue(kind)).train()
    batch = batch_of(task, *examples)
    assert (batch["segments"].shape[1] > 1) == (kind == "short")
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(300):
        loss = task.loss(model, batch)
        mean = loss.total / loss.targets
        optimizer.zero_grad()
        mean.backward()
        optimizer.step()
        if float(mean.detach()) < 0.05:
            break
    predictions = predictions_of(task, model.eval(), examples)
    assert task.score(examples, predictions)["conll_f1"] > 0.98
    assert ["Ada Lovelace", "she", "her"] in predictions[0]["mentions"]
    assert predictions[2]["mentions"] == [["Paris"], ["Vienna"]]


@pytest.mark.parametrize("kind", ["short", "long"])
def test_saved_models_say_the_same(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    task = task_of(max_length=SHORT_LENGTH)
    model = built(task, request.getfixturevalue(kind))
    batch = batch_of(task, *ALL)
    task.save(model, tmp_path)
    torch.manual_seed(7)
    again = task.load(tmp_path).eval()
    with torch.no_grad():
        assert task.outputs(again, batch) == task.outputs(model, batch)
        assert torch.equal(task.loss(again, batch).total, task.loss(model, batch).total)


@pytest.mark.skipif(
    not LITBANK.exists() or not ROBERTA_TOKENIZER.exists(),
    reason="set LONGSPAN_LITBANK and LONGSPAN_ROBERTA_TOKENIZER",
)
def test_litbank() -> None:
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(ROBERTA_TOKENIZER))
    settings = CoreferenceSettings(max_length=512)
    task = Coreference(settings, tokenizer)
    golds = findable = 0
    for number, one in enumerate(read_conll_2012(LITBANK)):
        if number == 10:
            break
        (feature,) = task.features(one, training=True)
        assert feature["segments"].max() <= 512
        ids = feature["input_ids"].tolist()
        pieces = [ids[f : last + 1] for f, last in zip(feature["first"], feature["last"], strict=True)]
        assert [word.strip() for word in tokenizer.batch_decode(pieces)] == list(one.words)
        wide = feature["ends"] - feature["starts"] > settings.max_span_width
        crossing = feature["sentence"][feature["starts"]] != feature["sentence"][feature["ends"] - 1]
        golds += len(wide)
        findable += int((~wide & ~crossing).sum())
        assert not crossing.any()
    assert golds > 2000
    assert findable / golds > 0.99
