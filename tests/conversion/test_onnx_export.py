"""A Longformer as ONNX: what onnxruntime computes of it, what is refused, what is left of a failure."""

from pathlib import Path
from typing import Any

import pytest
import torch

from longspan.conversion import onnx_export
from longspan.conversion.onnx_export import FILE, _lengths, export_onnx
from longspan.models.longformer_heads import LongformerForQuestionAnswering
from tests.cli.running import ends
from tests.tasks.tiny import tiny_led, tiny_longformer, tiny_roberta

onnxruntime: Any = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")
# torch's exporters import what says this.
pytestmark = [
    pytest.mark.usefixtures("quiet_transformers"),
    pytest.mark.filterwarnings("ignore:`torch.jit.script_method`:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec:FutureWarning"),
]


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tiny_longformer(tmp_path_factory.mktemp("reader") / "reader", num_hidden_layers=1)
    torch.manual_seed(3)
    LongformerForQuestionAnswering.from_pretrained(folder).save_pretrained(folder)
    return folder


def test_any_batch_and_length(reader: Path, tmp_path: Path) -> None:
    made = export_onnx(reader, tmp_path / "out")
    assert made.kind == "LongformerForQuestionAnswering"
    assert made.outputs == ("start_logits", "end_logits")
    assert made.longest == 512
    assert len(made.errors) == 2 and max(made.errors.values()) < 1e-4
    assert {one.name for one in tmp_path.iterdir()} == {"out"}
    names = {one.name for one in (tmp_path / "out").iterdir()}
    assert {FILE, "config.json", "tokenizer.json", "README.md"} <= names
    assert "start_logits" in (tmp_path / "out" / "README.md").read_text()

    model = LongformerForQuestionAnswering.from_pretrained(reader).eval()
    session = onnxruntime.InferenceSession(str(tmp_path / "out" / FILE), providers=["CPUExecutionProvider"])
    for batch, length, globals in ((1, 2, 1), (1, 101, 25), (3, 33, 8), (2, 512, 128), (1, 2, 0), (3, 40, 0)):
        ids = torch.randint(5, 400, (batch, length))
        is_global = torch.zeros_like(ids)
        is_global[:, :globals] = 1
        given = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "global_attention_mask": is_global}
        with torch.no_grad():
            expected = model(**given)
        start, end = session.run(None, {name: x.numpy() for name, x in given.items()})
        torch.testing.assert_close(torch.from_numpy(start), expected.start_logits, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(torch.from_numpy(end), expected.end_logits, atol=1e-4, rtol=1e-4)


def test_a_file_that_is_wrong_is_not_left(
    reader: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(onnx_export, "TOLERANCE", 1e-12)
    assert ends("export", reader, tmp_path / "out") == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "differs from torch" in said.err and len(said.err.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_what_would_lose_something_is_refused(tmp_path: Path) -> None:
    for folder in (tiny_roberta(tmp_path / "roberta"), tiny_led(tmp_path / "led")):
        with pytest.raises(ValueError, match="models that can be exported are LongformerModel"):
            export_onnx(folder, tmp_path / "out")
    encoder = tiny_longformer(tmp_path / "encoder")
    (encoder / "head.safetensors").touch()
    with pytest.raises(ValueError, match="a head of its task, which ONNX would lose"):
        export_onnx(encoder, tmp_path / "out")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="no model can be loaded"):
        export_onnx(tmp_path / "empty", tmp_path / "out")
    with pytest.raises(ValueError, match="where the source is"):
        export_onnx(encoder, encoder)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("window", "longest"), [(512, 4096), (16, 512), (512, 512), (4, 6), (2, 4), (64, 8)])
def test_lengths_of_checks_are_new(window: int, longest: int) -> None:
    lengths = _lengths(window, longest)
    assert len(set(lengths)) == 3
    assert all(2 <= length <= longest for length in lengths)


def test_a_model_that_reads_too_little_to_be_checked() -> None:
    with pytest.raises(ValueError, match="at least 4"):
        _lengths(4, 3)
