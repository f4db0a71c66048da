"""Memories saved and looked into."""

from pathlib import Path

import pytest
import torch

from longspan.models.memory_files import load_memory, save_memory
from longspan.models.memory_probes import attention_shares, influence
from tests.models.relatives import causal_lm, tokens
from tests.models.test_compressive import FUNCTIONS, model_of


@pytest.mark.parametrize(("function", "loss"), FUNCTIONS)
def test_reading_goes_on_from_a_file(function: str, loss: str, tmp_path: Path) -> None:
    model, ids = model_of(function, loss), tokens(2, 48)
    whole = model.model(ids, use_cache=False)
    first = model.model(ids[:, :30], use_cache=False)
    save_memory(first.memory, tmp_path)
    memory = load_memory(tmp_path)
    assert memory.seen == 30
    then = model.model(ids[:, 30:], memory=memory, use_cache=False)
    assert torch.equal(then.last_hidden_state, whole.last_hidden_state[:, 30:])


def test_a_missing_memory_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="save_memory writes it"):
        load_memory(tmp_path)


def test_a_broken_memory_is_named(tmp_path: Path) -> None:
    path = save_memory(model_of("mean", "none").model(tokens(1, 20), use_cache=False).memory, tmp_path)
    assert [one.name for one in tmp_path.iterdir()] == [path.name]
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match="is no memory, or not whole"):
        load_memory(tmp_path)


def test_shares_add_up() -> None:
    model, ids = model_of("mean", "none"), tokens(2, 40)
    shares = attention_shares(model.model, ids)
    for layer in zip(*shares, strict=True):
        assert sum(layer) == pytest.approx(1.0)
        assert all(one > 0 for one in layer)


def test_influence_ends_where_memories_end() -> None:
    said = influence(model_of("mean", "none", num_hidden_layers=1).model, tokens(1, 48))
    # The first token of the last segment sees 6 states and 4 groups of 3 before it.
    assert said.distance == [42, 36, 30, 24, 18, 12, 6]
    assert [change > 0 for change in said.change] == [False, False, False, False, True, True, True]


def test_probes_need_a_memory() -> None:
    with pytest.raises(ValueError, match="memory is 'none'"):
        influence(causal_lm("full", positions="none").model, tokens(1, 20))
