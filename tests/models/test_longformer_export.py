"""Our Longformer through torch.compile, torch.export and ONNX."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import longspan
from tests.models.tiny import config, marks, padding, tokens

# What torch's own compilers and exporters say to each other.
pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit.script_method`:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec:FutureWarning"),
    pytest.mark.filterwarnings("ignore:# The axis name:UserWarning"),
]


def build(kind: Any = None, **changes: Any) -> Any:
    torch.manual_seed(0)
    return (kind or longspan.LongformerModel)(config(num_hidden_layers=2, **changes)).eval()


def inputs(batch: int, length: int) -> dict[str, Tensor]:
    lengths = [length - 3 * example for example in range(batch)]
    mask = padding(lengths)
    return {
        "input_ids": tokens(batch, length).masked_fill(mask == 0, 1),
        "attention_mask": mask,
        "global_attention_mask": marks(batch, length, *((0, i) for i in range(length % 5)), (batch - 1, 1)),
    }


@pytest.mark.parametrize("with_globals", [False, True])
@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_compile_in_one_graph(with_globals: bool, backend: str) -> None:
    model = build()
    compiled = torch.compile(model, fullgraph=True, backend=backend)
    for length in (16, 23, 20):
        given = inputs(2, length)
        if not with_globals:
            del given["global_attention_mask"]
        with torch.no_grad():
            expected, actual = model(**given)[0], compiled(**given)[0]
        real = given["attention_mask"].bool()
        torch.testing.assert_close(actual[real], expected[real], atol=1e-5, rtol=1e-5)


class Exportable(nn.Module):
    """A model with plain tensors in and out."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor, global_attention_mask: Tensor) -> Tensor:
        return self.model(input_ids, attention_mask, global_attention_mask, return_dict=False)[0]


def shapes() -> tuple[dict[int, Any], ...]:
    batch, length = torch.export.Dim("batch", min=1, max=64), torch.export.Dim("length", min=2, max=190)
    return ({0: batch, 1: length},) * 3


def test_export_with_dynamic_batch_and_length() -> None:
    model = build(attention_impl="blocked")
    program = torch.export.export(
        Exportable(model).eval(), tuple(inputs(2, 20).values()), dynamic_shapes=shapes()
    )
    for batch, length in ((2, 20), (1, 33), (3, 12)):
        given = inputs(batch, length)
        with torch.no_grad():
            actual = program.module()(*given.values())
            expected = model(**given)[0]
        real = given["attention_mask"].bool()
        torch.testing.assert_close(actual[real], expected[real], atol=1e-5, rtol=1e-5)


def test_onnx_at_lengths_it_was_not_traced_at(tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    model = build(attention_impl="blocked")
    path = tmp_path / "model.onnx"
    torch.onnx.export(
        Exportable(model).eval(),
        tuple(inputs(2, 20).values()),
        path,
        input_names=["input_ids", "attention_mask", "global_attention_mask"],
        dynamic_shapes=shapes(),
        dynamo=True,
        verbose=False,
    )
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for batch, length in ((2, 20), (1, 47), (3, 12)):
        given = inputs(batch, length)
        with torch.no_grad():
            expected = model(**given)[0]
        actual = torch.from_numpy(session.run(None, {k: v.numpy() for k, v in given.items()})[0])
        real = given["attention_mask"].bool()
        torch.testing.assert_close(actual[real], expected[real], atol=1e-4, rtol=1e-4)
