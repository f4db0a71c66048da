"""Classes of documents: runs and plain models, short texts and long ones, in Python and as a command."""

import io
import json
import sys
from pathlib import Path
from typing import cast

import pytest
import torch

from longspan.apps.classifier import Classifier
from longspan.data.examples import LabelledDocument
from longspan.models.longformer_heads import LongformerForSequenceClassification
from longspan.tasks.classification import Classification, ClassificationSettings
from longspan.training.inference import Predictor
from longspan.training.recipe import read_recipe
from longspan.training.run_folder import RunFolder
from tests.cli.running import ends, mistake
from tests.tasks.tiny import LONG_LENGTH, tiny_longformer, tiny_roberta, tiny_tokenizer
from tests.training.runs import BAD, GOOD, write_recipe

LABELS = ("bad", "fair", "good")
pytestmark = pytest.mark.usefixtures("quiet_transformers")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run as training leaves it, with a head that is still random."""
    folder = tmp_path_factory.mktemp("run")
    settings = {"labels": list(LABELS), "max_length": 64}
    recipe = read_recipe(write_recipe(folder / "recipe", settings=settings, model={"dropout": 0.0}))
    torch.manual_seed(1)
    task = Classification(cast(ClassificationSettings, recipe.settings), tiny_tokenizer())
    saved = RunFolder(folder / "run")
    saved.open(task.tokenizer)
    saved.begin(recipe, 0)
    saved.save_model(saved.best, task, task.build(recipe.model), recipe, 1, {"macro_f1": 0.5})
    return folder / "run"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Longformer with classes, without a run."""
    folder = tiny_longformer(tmp_path_factory.mktemp("model") / "model")
    torch.manual_seed(2)
    names = dict(enumerate(LABELS))
    LongformerForSequenceClassification.from_pretrained(
        folder, num_labels=3, id2label=names, label2id={label: at for at, label in names.items()}
    ).save_pretrained(folder)
    return folder


def test_a_short_text_is_what_predict_says(run: Path) -> None:
    examples = [LabelledDocument(id=text, text=text, label="") for text in (GOOD, BAD, "")]
    with Predictor(run) as predictor:
        expected = predictor(examples)
    classifier = Classifier(str(run))
    assert classifier.labels == LABELS
    for found, said in zip(classifier.classify([one.text for one in examples]), expected, strict=True):
        assert found.label == said["label"]
        assert found.inputs == 1
        assert found.probabilities == pytest.approx(said["probabilities"], abs=1e-5)
        assert list(found.probabilities.values()) == sorted(found.probabilities.values(), reverse=True)


def test_a_long_text_is_the_mean_of_its_pieces(run: Path) -> None:
    text = f"{GOOD} {BAD} " * 9
    found = Classifier(str(run))(text)
    tokenizer = tiny_tokenizer()
    model = LongformerForSequenceClassification.from_pretrained(run / "best").eval()
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    total = torch.zeros(3, dtype=torch.float64)
    for at in range(0, len(ids), 62):
        piece = torch.tensor([[0, *ids[at : at + 62], 2]])
        is_global = torch.zeros_like(piece)
        is_global[0, 0] = 1
        with torch.no_grad():
            logits = model(piece, global_attention_mask=is_global).logits[0]
        total += len(ids[at : at + 62]) / len(ids) * logits.double().softmax(0)
    assert found.inputs == -(-len(ids) // 62) > 2
    assert found.tokens == len(ids)
    expected = dict(zip(LABELS, total.tolist(), strict=True))
    assert found.probabilities == pytest.approx(expected, abs=1e-5)
    assert sum(found.probabilities.values()) == pytest.approx(1)


def test_a_model_without_a_run(model: Path) -> None:
    classifier = Classifier(str(model))
    assert classifier.labels == LABELS
    assert classifier(GOOD).inputs == 1
    # All positions are used, and no more than there are.
    assert classifier("word " * LONG_LENGTH).inputs > 1


def test_what_has_no_classes_is_refused(tmp_path: Path, run: Path) -> None:
    with pytest.raises(ValueError, match="RobertaForMaskedLM, which has no classes"):
        Classifier(str(tiny_roberta(tmp_path / "words")))
    with pytest.raises(ValueError, match="no model can be loaded"):
        Classifier(str(tmp_path))
    recipe = (run / "config.yaml").read_text()
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.yaml").write_text(recipe.replace("task: classification", "task: qa"))
    with pytest.raises(ValueError):
        Classifier(str(other))


def test_command(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "b.txt").write_text(GOOD)
    (tmp_path / "a.md").write_text(f"# Review\n\n{BAD}")
    (tmp_path / "photo.jpg").write_bytes(b"\xff")

    def said(*arguments: str) -> list[str]:
        assert ends("classify", *arguments, "--model", run) == 0
        return capsys.readouterr().out.splitlines()

    classifier = Classifier(str(run))
    found = classifier(GOOD)
    (line,) = said(str(tmp_path / "b.txt"))
    assert line == f"{found.label}  {found.probabilities[found.label]:.1%}"
    lines = said(str(tmp_path))
    assert [line.split("  ")[0] for line in lines] == [str(tmp_path / name) for name in ("a.md", "b.txt")]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(GOOD.encode())))
    (record,) = map(json.loads, said("--json"))
    assert record["name"] == "standard input"
    assert record["label"] == found.label
    assert record["probabilities"] == pytest.approx(found.probabilities)


def test_command_without_a_model_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--model" in mistake(capsys, "classify", "a.txt")
