"""What is trained, and that the rest stays bit for bit."""

from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import nn
from transformers import PreTrainedModel

from longspan.conversion.lengthen import lengthen
from longspan.conversion.position_tables import Method
from longspan.tasks.models import EncoderWithHead, Head, ModelSettings, load_model
from longspan.tasks.trainable import Part, train_only
from tests.tasks.tiny import ATTENTION_WINDOW, SHORT_LENGTH, tiny_longformer, tiny_roberta

LONGER = 150


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_roberta(tmp_path_factory.mktemp("short")))


def loaded(source: str, head: Head | None = "MaskedLM", **settings: Any) -> PreTrainedModel:
    return load_model(ModelSettings(source=source, window=ATTENTION_WINDOW, **settings), head)


def step(model: Any, no_decay: set[str], length: int, *, fused: bool) -> None:
    """Two steps of AdamW with weight decay, over inputs that have every position."""
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    groups = [
        {"params": [p for name, p in named if name in no_decay], "weight_decay": 0.0},
        {"params": [p for name, p in named if name not in no_decay], "weight_decay": 0.1},
    ]
    optimizer = torch.optim.AdamW([group for group in groups if group["params"]], lr=0.05, fused=fused)
    ids = torch.randint(5, 400, (2, length), generator=torch.Generator().manual_seed(0))
    for _ in range(2):
        optimizer.zero_grad()
        model(input_ids=ids, attention_mask=torch.ones_like(ids))[0].square().sum().backward()
        optimizer.step()


def changed(model: nn.Module, before: dict[str, torch.Tensor]) -> set[str]:
    return {name for name, p in model.named_parameters() if not torch.equal(p, before[name])}


def copies(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def test_all_leaves_everything_as_it_is(short: str) -> None:
    model = loaded(short)
    model.get_parameter("lm_head.dense.weight").requires_grad_(False)
    assert train_only(model, "all") == set()
    assert {name for name, p in model.named_parameters() if not p.requires_grad} == {"lm_head.dense.weight"}


def test_embeddings_stay_and_the_rest_changes(short: str) -> None:
    model = loaded(short, max_length=LONGER)
    before = copies(model)
    assert train_only(model, "all_but_embeddings") == set()
    step(model, set(), LONGER, fused=False)
    frozen = before.keys() - changed(model, before)
    assert {name for name in frozen if "_global" not in name} == {
        f"longformer.embeddings.{kind}_embeddings.weight" for kind in ("word", "position", "token_type")
    }


@pytest.mark.parametrize("max_length", [None, LONGER])
def test_head_alone_without_the_embeddings_it_is_tied_to(short: str, max_length: int | None) -> None:
    model = loaded(short, max_length=max_length)
    before = copies(model)
    assert train_only(model, "head") == set()
    step(model, set(), SHORT_LENGTH, fused=False)
    assert changed(model, before) == {
        f"lm_head.{name}"
        for name in ("bias", "dense.weight", "dense.bias", "layer_norm.weight", "layer_norm.bias")
    }
    output, words = cast(Any, model.get_output_embeddings()), cast(Any, model.get_input_embeddings())
    assert output.weight is words.weight


def test_head_of_our_own(short: str) -> None:
    model = EncoderWithHead(loaded(short, None), nn.Linear(32, 3))
    train_only(model, "head")
    assert {name for name, p in model.named_parameters() if p.requires_grad} == {"head.weight", "head.bias"}


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("positions", ["copy", "random"])
@pytest.mark.parametrize("into", ["longformer", "same"])
def test_only_new_positions_change(short: str, into: Any, positions: Method, fused: bool) -> None:
    model = lengthen(loaded(short), LONGER, ATTENTION_WINDOW, into=into, positions=positions)
    before = copies(model)
    no_decay = train_only(model, "new_positions")
    (name,) = no_decay
    assert name.endswith("embeddings.position_embeddings.weight")
    step(model, no_decay, LONGER, fused=fused)
    assert changed(model, before) == {name}
    table, old = model.get_parameter(name).detach(), before[name]
    # Two rows before the first position, as RoBERTa counts.
    rows = SHORT_LENGTH + 2
    assert len(table) == LONGER + 2
    assert torch.equal(table[:rows], old[:rows])
    assert (table[rows:] != old[rows:]).any(1).all()


def test_weight_decay_would_change_the_old_rows(short: str) -> None:
    """Why the names are returned: the test above could not fail otherwise."""
    model = loaded(short, max_length=LONGER)
    (name,) = train_only(model, "new_positions")
    before = copies(model)
    step(model, set(), LONGER, fused=True)
    rows = SHORT_LENGTH + 2
    assert not torch.equal(model.get_parameter(name)[:rows], before[name][:rows])


def test_new_positions_of_an_encoder_with_our_head_and_after_saving(short: str, tmp_path: Path) -> None:
    encoder = loaded(short, None, max_length=LONGER)
    encoder.save_pretrained(tmp_path)
    for one in (encoder, loaded(str(tmp_path), None)):
        model = EncoderWithHead(one, nn.Linear(32, 3))
        assert train_only(model, "new_positions") == {"encoder.embeddings.position_embeddings.weight"}
        gradients = torch.ones(LONGER + 2, 32)
        weight = model.get_parameter("encoder.embeddings.position_embeddings.weight")
        (weight * gradients).sum().backward()
        assert weight.grad is not None
        assert weight.grad[:, 0].tolist() == [0.0] * (SHORT_LENGTH + 2) + [1.0] * (LONGER - SHORT_LENGTH)


def test_gradients_that_are_not_finite_do_not_reach_old_rows(short: str) -> None:
    model = loaded(short, max_length=LONGER)
    (name,) = train_only(model, "new_positions")
    weight = model.get_parameter(name)
    (weight * float("inf")).sum().backward()
    assert weight.grad is not None
    assert weight.grad[: SHORT_LENGTH + 2].eq(0).all()


@pytest.mark.parametrize(
    ("part", "settings", "message"),
    [
        ("new_positions", {}, "lengthened"),
        ("new_positions", {"max_length": SHORT_LENGTH}, "there are none"),
        ("new_positions", {"max_length": LONGER, "positions": "interpolate"}, "'interpolate'"),
        ("positions", {}, "must be one of all, all_but_embeddings, head, new_positions"),
    ],
)
def test_what_cannot_be_is_refused(short: str, part: Part, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        train_only(loaded(short, **settings), part)


def test_a_model_without_a_table_is_refused(tmp_path: Path) -> None:
    model = loaded(str(tiny_longformer(tmp_path, position_kind="sinusoidal")))
    with pytest.raises(ValueError, match="no table of learned positions"):
        train_only(model, "new_positions")
