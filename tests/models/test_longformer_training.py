"""Training our Longformer: checkpointing, half precision, Trainer, distributed gradients."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import Dataset

import longspan
from tests.models.tiny import config, marks, padding, tokens


def build(kind: Any = None, **changes: Any) -> Any:
    torch.manual_seed(0)
    return (kind or longspan.LongformerForMaskedLM)(config(**changes))


def batch() -> dict[str, Tensor]:
    ids, mask = tokens(2, 30), padding([30, 21])
    return {
        "input_ids": ids,
        "attention_mask": mask,
        "global_attention_mask": marks(2, 30, (0, 0), (1, 0), (1, 9)),
        "labels": ids.masked_fill(mask == 0, -100),
    }


@pytest.mark.parametrize("reentrant", [False, True])
def test_gradient_checkpointing_gives_the_same_gradients_with_dropout(reentrant: bool) -> None:
    gradients: list[dict[str, Tensor]] = []
    for checkpointing in (False, True):
        model = build().train()
        if checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": reentrant})
        torch.manual_seed(1)
        model(**batch()).loss.backward()
        gradients.append({name: p.grad for name, p in model.named_parameters() if p.grad is not None})
    assert gradients[0].keys() == gradients[1].keys()
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], gradient, atol=1e-6, rtol=1e-5, msg=name)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_close_to_full(dtype: torch.dtype) -> None:
    model = build(initializer_range=0.05).eval()
    inputs = batch()
    with torch.no_grad():
        expected = model(**inputs).logits
        actual = model.to(dtype)(**inputs).logits
    assert actual.dtype == dtype
    real = inputs["attention_mask"].bool()
    error = (actual.float() - expected)[real].abs().max() / expected[real].abs().max()
    assert error < (0.05 if dtype == torch.bfloat16 else 0.01)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_trains(dtype: torch.dtype) -> None:
    model = build(initializer_range=0.05).to(dtype).train()
    model(**batch()).loss.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_autocast_trains() -> None:
    model = build(initializer_range=0.05).train()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(**batch()).loss
    loss.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_global_projections_get_no_gradient_without_global_tokens() -> None:
    model = build()
    inputs = batch()
    del inputs["global_attention_mask"]
    model(**inputs).loss.backward()
    missing = [name for name, p in model.named_parameters() if p.grad is None]
    assert missing and all("_global" in name for name in missing)


def test_distributed_training_meets_no_unused_parameter(tmp_path: Path) -> None:
    """DistributedDataParallel raises in the step after one in which a parameter had no gradient."""
    torch.distributed.init_process_group("gloo", f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    try:
        model = build().train()
        parallel = torch.nn.parallel.DistributedDataParallel(model)
        with_globals, without = batch(), batch()
        del without["global_attention_mask"]
        for inputs in (without, with_globals, without):
            model.zero_grad()
            parallel(**inputs).loss.backward()
        for name, p in model.named_parameters():
            assert p.grad is not None, name
            assert "_global" not in name or not p.grad.any(), name
    finally:
        torch.distributed.destroy_process_group()


TWO_RANKS = """
import os, sys, torch
from tests.models.test_longformer_training import batch, build
rank = int(sys.argv[1])
torch.distributed.init_process_group("gloo", "file://" + sys.argv[2], rank=rank, world_size=2)
model = build(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0).train()
parallel = torch.nn.parallel.DistributedDataParallel(model)
for step in range(3):
    inputs = batch()
    if step % 2 == rank:
        del inputs["global_attention_mask"]
    model.zero_grad()
    parallel(**inputs).loss.backward()
assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
assert any(p.grad.any() for name, p in model.named_parameters() if "_global" in name)
torch.distributed.destroy_process_group()
# A thread of gloo that is left when Python takes itself apart can abort the process.
sys.stderr.flush()
os._exit(0)
"""


def test_two_ranks_of_which_one_has_global_tokens(tmp_path: Path) -> None:
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", TWO_RANKS, str(rank), str(tmp_path / "store")],
            cwd=Path(__file__).parents[2],
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    for process in ranks:
        _, complaints = process.communicate(timeout=120)
        assert process.returncode == 0, complaints


class Examples(Dataset[dict[str, Tensor]]):
    """Sixteen short documents of two classes."""

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        ids = tokens(1, 24, seed=index)[0]
        label = index % 2
        ids[1:12] = 10 + label
        globals_ = torch.zeros(24, dtype=torch.int64)
        globals_[:2] = 1
        return {"input_ids": ids, "global_attention_mask": globals_, "labels": torch.tensor(label)}


def trainer(model: Any, folder: Path, **changes: Any) -> Any:
    from transformers import Trainer, TrainingArguments

    settings: dict[str, Any] = {
        "output_dir": str(folder),
        "max_steps": 6,
        "per_device_train_batch_size": 4,
        "learning_rate": 1e-3,
        "save_steps": 3,
        "logging_steps": 1,
        "seed": 1,
        "use_cpu": True,
        "disable_tqdm": True,
    } | changes
    return Trainer(model=model, args=TrainingArguments(**settings), train_dataset=Examples())


def test_trainer_trains_saves_and_resumes(tmp_path: Path) -> None:
    kind = longspan.LongformerForSequenceClassification
    whole = trainer(build(kind), tmp_path / "whole")
    whole.train()
    losses = [entry["loss"] for entry in whole.state.log_history if "loss" in entry]
    assert losses[-1] < losses[0]
    resumed = trainer(build(kind), tmp_path / "whole")
    resumed.train(resume_from_checkpoint=str(tmp_path / "whole" / "checkpoint-3"))
    for (name, a), b in zip(whole.model.named_parameters(), resumed.model.parameters(), strict=True):
        torch.testing.assert_close(b, a, atol=1e-6, rtol=1e-5, msg=name)


def test_trainer_does_not_scale_the_loss_by_accumulation(tmp_path: Path) -> None:
    """Models that swallow num_items_in_batch have their loss multiplied by the number of steps."""
    kind = longspan.LongformerForSequenceClassification
    logged = []
    for size, steps in ((4, 1), (1, 4)):
        run = trainer(
            build(kind, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0),
            tmp_path / str(steps),
            per_device_train_batch_size=size,
            gradient_accumulation_steps=steps,
            max_steps=1,
        )
        run.train()
        logged.append(run.state.log_history[0]["loss"])
    assert logged[1] == pytest.approx(logged[0], rel=1e-3)


def test_trainer_keeps_the_global_mask(tmp_path: Path) -> None:
    run = trainer(build(longspan.LongformerForSequenceClassification), tmp_path)
    columns = next(iter(run.get_train_dataloader())).keys()
    assert "global_attention_mask" in columns
