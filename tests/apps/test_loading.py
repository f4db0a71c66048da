"""Models as objects for their tasks."""

from pathlib import Path

import pytest
import yaml

import longspan
from longspan.apps.classifier import Classifier
from longspan.apps.reader import Reader
from longspan.apps.searcher import Searcher
from longspan.apps.summarizer import Summarizer
from longspan.embedded import SEARCHER, SUMMARIZER
from longspan.models.longformer_config import LongformerConfig
from longspan.models.longformer_heads import LongformerForSequenceClassification
from tests.apps.tiny_reader import tiny_reader
from tests.tasks.tiny import tiny_led, tiny_longformer


def test_what_a_model_is_decides(tmp_path: Path) -> None:
    assert isinstance(longspan.load(str(tiny_reader(tmp_path / "reader"))), Reader)
    assert isinstance(longspan.load(str(tiny_led(tmp_path / "led"))), Summarizer)
    assert isinstance(longspan.load(str(SUMMARIZER)), Summarizer)
    assert isinstance(longspan.load("summarizer"), Summarizer)
    folder = tiny_longformer(tmp_path / "classifier")
    config = LongformerConfig.from_pretrained(folder)
    LongformerForSequenceClassification(config).save_pretrained(folder)
    assert isinstance(longspan.load(str(tmp_path / "classifier")), Classifier)


def test_the_searcher_has_its_object() -> None:
    assert isinstance(longspan.load(str(SEARCHER)), Searcher)
    assert isinstance(longspan.load("searcher"), Searcher)
    assert isinstance(longspan.load("reader"), Reader)


def test_models_without_an_object(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is LongformerForMaskedLM; there are objects for"):
        longspan.load(str(tiny_longformer(tmp_path / "lm")))
    with pytest.raises(ValueError, match="no model can be loaded"):
        longspan.load(str(tmp_path / "nothing"))
    run = tmp_path / "run"
    run.mkdir()
    recipe = yaml.safe_load((SUMMARIZER / "config.yaml").read_text())
    recipe |= {"task": "coreference", "settings": {}}
    recipe["data"] |= {"format": "coreference"}
    (run / "config.yaml").write_text(yaml.safe_dump(recipe))
    with pytest.raises(ValueError, match="is a run of the task coreference; there are objects for qa"):
        longspan.load(str(run))
