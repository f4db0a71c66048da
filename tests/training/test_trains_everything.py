"""Every task trains all that is not frozen with every input, which several processes rely on."""

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist

from longspan.data import formats
from longspan.data.format_names import FormatName
from longspan.tasks import markers
from longspan.tasks.masked_lm import NO_LABEL
from longspan.tasks.models import ModelSettings
from longspan.tasks.registry import TASKS
from longspan.tasks.token_classification import UNKNOWN
from tests.tasks.tiny import (
    tiny_bart,
    tiny_causal_lm,
    tiny_led,
    tiny_longformer,
    tiny_roberta,
    tiny_tokenizer,
)

SAMPLES = Path(__file__).parents[2] / "samples"
SMALL: dict[str, dict[str, Any]] = {
    "qa": {"stride": 0, "max_question_tokens": 16},
    "candidates": {"min_support_tokens": 8},
    "tagging": {"overlap": 8},
    "summarization": {"max_summary_length": 32},
}
"""Settings that leave room in inputs of 64 tokens."""
NO_TARGET = {
    "qa": {"is_start": False, "is_end": False},
    "candidates": {"answer": -1},
    "tagging": {"labels": UNKNOWN},
    "masked-lm": {"labels": NO_LABEL},
    "summarization": {"labels": NO_LABEL},
    "extractive-summarization": {"is_chosen": markers.UNKNOWN},
}
"""What batches have where there is nothing to learn."""


@pytest.fixture
def group(tmp_path: Path) -> Generator[None]:
    """A process group of one, which is what layers look for."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'group'}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize("global_tokens", [True, False])
@pytest.mark.parametrize(("save", "length"), [(tiny_longformer, 256), (tiny_roberta, 64)])
@pytest.mark.parametrize("name", sorted(TASKS))
def test_every_input_gives_every_parameter_a_gradient(
    name: str, save: Callable[[Path], Path], length: int, global_tokens: bool, tmp_path: Path
) -> None:
    kind, is_long = TASKS[name], save is tiny_longformer
    if name == "summarization":
        save = tiny_led if is_long else tiny_bart
    if name == "causal-lm":
        save = tiny_causal_lm
    format: FormatName = kind.formats[0]
    examples = list(formats.read(SAMPLES / f"{format}.jsonl", format))
    settings = kind.Settings(max_length=length, global_tokens=global_tokens, **SMALL.get(name, {}))
    source = str(save(tmp_path / "model"))
    tokenizer = kind.load_tokenizer(source) if name == "causal-lm" else tiny_tokenizer()
    assert tokenizer is not None
    task = kind(kind.resolved(settings, examples), tokenizer)
    model = task.build(ModelSettings(source=source)).train()
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    assert task.trains_everything
    assert any("_global" in one for one in trained) == (
        is_long and global_tokens and name not in ("causal-lm", "tagging")
    )
    features = [one for example in examples[:3] for one in task.features(example, training=True)]
    for feature in features:
        task.loss(model, task.collate([feature], [0])).total.backward()
        assert [one for one, p in trained.items() if p.grad is None] == []
        model.zero_grad()
    # Without a target, as the rest of a document may be.
    batch = task.collate(features[:1], [0])
    for target, nothing in NO_TARGET.get(name, {}).items():
        batch[target].fill_(nothing)
    task.loss(model, batch).total.backward()
    assert [one for one, p in trained.items() if p.grad is None] == []
    assert all(p.grad is not None and p.grad.isfinite().all() for p in trained.values())
