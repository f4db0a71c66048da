"""Classification of documents, and the models under all tasks: loaded, lengthened, shared, saved."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import nn

from longspan.data.examples import LabelledDocument
from longspan.models.longformer_heads import LongformerForSequenceClassification
from longspan.tasks.classification import Classification, ClassificationSettings, ClassScores
from longspan.tasks.models import (
    EncoderWithHead,
    ModelSettings,
    call,
    copy_global_projections,
    head_parameters,
    load_model,
    share_global_projections,
)
from longspan.tasks.task import Batch
from tests.tasks.tiny import LONG_LENGTH, learn, predictions, tiny_longformer, tiny_roberta, tiny_tokenizer

LABELS = ("bad", "good", "mixed")
TEXTS = {
    "bad": "The worst book of the year. Nobody liked it to the end.",
    "good": "A very good film, and the longest film that I ever liked.",
    "mixed": "Good film, worst book.",
}
DOCUMENTS = [LabelledDocument(id=label, text=text, label=label) for label, text in TEXTS.items()]


def make(**changes: Any) -> Classification:
    """The task with the tiny tokenizer."""
    usual: dict[str, Any] = {"labels": LABELS, "max_length": 64}
    return Classification(ClassificationSettings(**(usual | changes)), tiny_tokenizer())


@pytest.fixture(params=[tiny_roberta, tiny_longformer], ids=["short", "long"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A tiny pretrained model's."""
    save: Callable[[Path], Path] = request.param
    return save(tmp_path / "pretrained")


def build(task: Classification, folder: Path, **settings: Any) -> Any:
    """The task's model, for evaluation."""
    torch.manual_seed(1)
    return task.build(ModelSettings(source=str(folder), **settings)).eval()


def batch_of(task: Classification, documents: list[LabelledDocument] = DOCUMENTS) -> Batch:
    """All documents."""
    features = [one for document in documents for one in task.features(document, training=False)]
    return task.collate(features, range(len(features)))


def logits_of(model: nn.Module, batch: Batch) -> torch.Tensor:
    """[batch, labels]."""
    with torch.no_grad():
        return call(model, batch).logits


def test_the_first_token_is_global_and_long_texts_are_cut() -> None:
    document = LabelledDocument(id="d", text="long " * 100, label="good")
    (feature,) = make(max_length=20).features(document, training=True)
    ids = feature["input_ids"].tolist()
    assert len(ids) == 20 and ids[0] == 0 and ids[-1] == 2
    assert feature["is_global"].tolist() == [True] + [False] * 19
    assert feature["label"].tolist() == [1]
    (ablated,) = make(global_tokens=False).features(document, training=True)
    assert not ablated["is_global"].any()


def test_an_empty_text_is_a_document_too() -> None:
    (feature,) = make().features(LabelledDocument(id="e", text="", label="bad"), training=True)
    assert feature["input_ids"].tolist() == [0, 2] and feature["is_global"].tolist() == [True, False]


def test_labels_that_are_not_known() -> None:
    strange = LabelledDocument(id="s", text="Good.", label="odd")
    with pytest.raises(ValueError, match="s: label is 'odd'; settings.labels are bad, good, mixed"):
        list(make().features(strange, training=True))
    (feature,) = make().features(strange, training=False)
    assert feature["label"].tolist() == [-1]


def test_labels_are_those_of_the_examples_unless_given() -> None:
    resolved = Classification.resolved(ClassificationSettings(), reversed(DOCUMENTS))
    assert resolved.labels == LABELS
    assert Classification.resolved(ClassificationSettings(labels=("x",)), DOCUMENTS).labels == ("x",)


def test_a_batch_is_padded_on_the_right() -> None:
    task = make()
    batch = batch_of(task)
    lengths = [len(tiny_tokenizer()(text)["input_ids"]) for text in TEXTS.values()]
    assert batch["input_ids"].shape == (3, max(lengths))
    assert batch["attention_mask"].sum(1).tolist() == lengths
    assert (batch["input_ids"] == 1).sum(1).tolist() == [max(lengths) - length for length in lengths]
    assert batch["is_global"].sum(1).tolist() == [1, 1, 1] and batch["is_global"][:, 0].all()
    assert batch["label"].tolist() == [0, 1, 2]


def test_the_model_is_what_transformers_computes(folder: Path) -> None:
    """Saved by us, read by transformers' own class, given what the task gives."""
    task = make()
    model = build(task, folder)
    task.save(model, folder)
    is_long = isinstance(model, LongformerForSequenceClassification)
    kind: Any = (
        transformers.LongformerForSequenceClassification
        if is_long
        else transformers.RobertaForSequenceClassification
    )
    plain = kind.from_pretrained(folder)
    assert plain.config.id2label == dict(enumerate(LABELS))
    batch = batch_of(task)
    inputs: dict[str, Any] = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}
    if is_long:
        inputs["global_attention_mask"] = batch["is_global"].long()
    with torch.no_grad():
        expected = plain.eval()(**inputs).logits
    torch.testing.assert_close(logits_of(model, batch), expected, rtol=1e-4, atol=1e-4)
    assert expected.std() > 0.01


def test_global_tokens_matter_to_the_long_model_alone(tmp_path: Path) -> None:
    on, off = batch_of(make()), batch_of(make(global_tokens=False))
    short = build(make(), tiny_roberta(tmp_path / "short"))
    assert torch.equal(logits_of(short, on), logits_of(short, off))
    long = build(make(), tiny_longformer(tmp_path / "long"))
    assert not torch.allclose(logits_of(long, on), logits_of(long, off), atol=1e-3)


def test_loss_is_the_sum_over_documents(folder: Path) -> None:
    task = make()
    model = build(task, folder)
    expected = 0.0
    for document in DOCUMENTS:
        (row,) = logits_of(model, batch_of(task, [document])).double()
        expected -= float(row.log_softmax(0)[LABELS.index(document.label)])
    loss = task.loss(model, batch_of(task))
    assert int(loss.targets) == 3
    assert float(loss.total.detach()) == pytest.approx(expected, rel=1e-5)


def test_prediction_and_score() -> None:
    task = make()
    said = [task.prediction(document, [ClassScores([0.0, 1.0, -1.0])]) for document in DOCUMENTS]
    assert [one["label"] for one in said] == ["good"] * 3 and said[0]["id"] == "bad"
    assert list(said[0]["probabilities"]) == list(LABELS)
    assert sum(said[0]["probabilities"].values()) == pytest.approx(1)
    # F1 is 1/2 for "good" (precision 1/3, recall 1) and 0 for the two others.
    assert task.score(DOCUMENTS, said) == pytest.approx({"accuracy": 1 / 3, "macro_f1": 1 / 6})


def test_a_positive_class_is_scored_apart() -> None:
    task = make(positive="good")
    said = [{"label": "good"}, {"label": "good"}, {"label": "mixed"}]
    scores = task.score(DOCUMENTS, said)
    assert scores == pytest.approx(
        {"accuracy": 2 / 3, "macro_f1": (0 + 2 / 3 + 1) / 3, "f1": 2 / 3, "precision": 0.5, "recall": 1}
    )
    with pytest.raises(ValueError, match="settings.positive is 'great'; it must be one of the labels bad"):
        make(positive="great")


@pytest.mark.parametrize(
    ("save", "settings", "max_length"),
    [
        (tiny_roberta, {}, 16),
        (tiny_longformer, {}, LONG_LENGTH),
        (tiny_roberta, {"max_length": 128, "window": 16}, 128),
    ],
    ids=["short", "long", "lengthened"],
)
def test_learns_a_few_documents_by_heart(
    save: Callable[[Path], Path], settings: dict[str, Any], max_length: int, tmp_path: Path
) -> None:
    task = make(max_length=max_length)
    model = build(task, save(tmp_path), **settings)
    learn(task, model, DOCUMENTS, steps=20)
    assert task.score(DOCUMENTS, predictions(task, model, DOCUMENTS)) == {"accuracy": 1.0, "macro_f1": 1.0}


def test_saved_and_loaded_it_says_the_same(folder: Path, tmp_path: Path) -> None:
    task = make()
    model = build(task, folder)
    saved = tmp_path / "saved"
    saved.mkdir()
    task.save(model, saved)
    loaded = task.load(saved).eval()
    assert type(loaded) is type(model)
    assert torch.equal(logits_of(loaded, batch_of(task)), logits_of(model, batch_of(task)))


def test_a_lengthened_model_reads_more(tmp_path: Path) -> None:
    task = make(max_length=256)
    model = build(task, tiny_roberta(tmp_path), max_length=256, window=16)
    assert isinstance(model, LongformerForSequenceClassification)
    long = LabelledDocument(id="long", text="good film " * 120, label="good")
    batch = batch_of(task, [long])
    assert batch["input_ids"].shape[1] > 200
    assert logits_of(model, batch).isfinite().all()


def projections(model: nn.Module) -> list[Any]:
    """The attention modules."""
    return [module for module in model.modules() if hasattr(module, "query_global")]


def test_shared_projections_are_one_and_stay_one(tmp_path: Path) -> None:
    task = make()
    folder = tiny_longformer(tmp_path / "pretrained")
    separate = build(task, folder)
    shared = build(task, folder, separate_global_projections=False)
    assert len(list(shared.parameters())) == len(list(separate.parameters())) - 2 * 3 * 2
    learn(task, shared, DOCUMENTS, steps=3)
    for layer in projections(shared):
        for name in ("query", "key", "value"):
            assert getattr(layer, name) is getattr(layer, f"{name}_global")
    # Others read two sets, which are equal.
    saved = tmp_path / "saved"
    saved.mkdir()
    task.save(shared, saved)
    weights = load_file(saved / "model.safetensors")
    globals_ = [name for name in weights if "_global." in name]
    assert len(globals_) == 12
    assert all(torch.equal(weights[name], weights[name.replace("_global", "")]) for name in globals_)
    assert torch.equal(logits_of(task.load(saved).eval(), batch_of(task)), logits_of(shared, batch_of(task)))


def test_copied_projections_are_equal_and_separate(tmp_path: Path) -> None:
    model = build(make(), tiny_longformer(tmp_path))
    assert not torch.equal(projections(model)[0].query.weight, projections(model)[0].query_global.weight)
    copy_global_projections(model)
    layers = projections(model)
    assert len(layers) == 2
    for layer in layers:
        for name in ("query", "key", "value"):
            local, global_ = getattr(layer, name), getattr(layer, f"{name}_global")
            assert torch.equal(local.weight, global_.weight) and torch.equal(local.bias, global_.bias)
            assert local.weight is not global_.weight
    shared = build(make(), tmp_path)
    share_global_projections(shared)
    assert torch.equal(logits_of(model, batch_of(make())), logits_of(shared, batch_of(make())))


def test_missing_weights_are_an_error_and_a_missing_head_is_not(folder: Path) -> None:
    build(make(), folder)
    path = folder / "model.safetensors"
    weights = load_file(path)
    gone = next(name for name in weights if name.endswith("layer.1.attention.self.value.weight"))
    save_file({name: x for name, x in weights.items() if name != gone}, path, metadata={"format": "pt"})
    with pytest.raises(ValueError, match=r"model.source is .*, which lacks weights of .*layer.1.attention"):
        build(make(), folder)


def test_a_source_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="model.source is .*nowhere"):
        load_model(ModelSettings(source=str(tmp_path / "nowhere")), None)


def test_dropout_and_checkpointing_are_set(folder: Path) -> None:
    model = build(make(), folder, dropout=0.25, gradient_checkpointing=True)
    assert model.config.hidden_dropout_prob == 0.25
    assert model.config.attention_probs_dropout_prob == 0.25
    assert model.is_gradient_checkpointing
    plain = build(make(), folder, gradient_checkpointing=False, dropout=0.0)
    checkpointed = build(make(), folder, gradient_checkpointing=True, dropout=0.0)
    for one in (plain, checkpointed):
        make().loss(one.train(), batch_of(make())).total.backward()
    for left, right in zip(plain.parameters(), checkpointed.parameters(), strict=True):
        torch.testing.assert_close(left.grad, right.grad)


def test_the_head_is_told_from_the_encoder(folder: Path) -> None:
    names = head_parameters(build(make(), folder))
    assert names and all(name.startswith("classifier.") for name in names)
    encoder = load_model(ModelSettings(source=str(folder)), None)
    model = EncoderWithHead(encoder, MeanHead())
    assert head_parameters(model) == {"head.out.weight", "head.out.bias"}


class MeanHead(nn.Module):
    """One that transformers does not have."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(32, 2)

    def forward(self, hidden: torch.Tensor, batch: Batch) -> torch.Tensor:
        """[batch, 2]."""
        real = batch["attention_mask"][:, :, None]
        return self.out((hidden * real).sum(1) / real.sum(1))


def test_an_encoder_with_a_head_is_saved_and_restored(folder: Path, tmp_path: Path) -> None:
    torch.manual_seed(2)
    head = MeanHead()
    model = EncoderWithHead(load_model(ModelSettings(source=str(folder)), None), head).eval()
    saved = tmp_path / "saved"
    saved.mkdir()
    model.save(saved)
    again = EncoderWithHead(load_model(ModelSettings(source=str(saved)), None), MeanHead()).eval()
    batch = batch_of(make())
    with torch.no_grad():
        assert not torch.equal(again(batch), model(batch))
        again.restore(saved)
        assert torch.equal(again(batch), model(batch))
        hidden = call(model.encoder, batch).last_hidden_state
    lengths = batch["attention_mask"].sum(1).tolist()
    means = torch.stack([row[:length].mean(0) for row, length in zip(hidden, lengths, strict=True)])
    torch.testing.assert_close(model(batch), head.out(means))
