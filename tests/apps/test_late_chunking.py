"""Vectors of passages that were read within their documents, against slow ways to the same."""

from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional
from transformers import RobertaConfig, RobertaModel

import longspan
from longspan.apps import late_chunking
from longspan.apps.late_chunking import PassageEncoder
from longspan.models.longformer import LongformerModel
from longspan.nn.layout import Layout

Documents = list[list[list[int]]]
BEGIN, END, POSITIONS = 0, 2, 24


@pytest.fixture(scope="module")
def short() -> RobertaModel:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = RobertaConfig(
            vocab_size=90,
            hidden_size=32,
            num_hidden_layers=3,
            num_attention_heads=4,
            intermediate_size=48,
            max_position_embeddings=POSITIONS + 2,
            type_vocab_size=1,
            initializer_range=0.2,
        )
        return RobertaModel(config, add_pooling_layer=False).eval()


def encoder_of(short: RobertaModel, late_layers: int, window: int = 8) -> PassageEncoder:
    made = longspan.lengthen(short, POSITIONS, window)
    config = made.config
    config.attention_window = [window] * late_layers + [2 * POSITIONS] * (3 - late_layers)
    model = LongformerModel(cast(Any, config), add_pooling_layer=False)
    model.load_state_dict(made.state_dict())
    return PassageEncoder(model=model.eval(), begin=BEGIN, end=END, late_layers=late_layers)


def some_documents(seed: int = 0) -> Documents:
    lot = np.random.default_rng(seed)
    lengths = [[5, 1, 13], [7], [0, 3], [21, 2, 2, 9]]
    return [[lot.integers(3, 90, size).tolist() for size in document] for document in lengths]


def slowly(encoder: PassageEncoder, document: list[list[int]]) -> Tensor:
    """One document, layer by layer, passages cut apart in the upper ones."""
    passages = [[BEGIN, *one, END] for one in document]
    tokens = torch.tensor([[token for one in passages for token in one]])
    positions = torch.tensor([[2 + at % POSITIONS for one in passages for at in range(len(one))]])
    x = encoder.model.embeddings(tokens, None, None, positions)
    for at, layer in enumerate(encoder.model.encoder.layer):
        parts = [x] if at < encoder.late_layers else x.split([len(one) for one in passages], 1)
        x = torch.cat([layer(part, Layout(), False).context for part in parts], 1)
    begins = np.cumsum([0, *(len(one) for one in passages[:-1])]).tolist()
    return functional.normalize(x[0, begins], dim=-1)


@torch.no_grad()
def test_alone_is_what_the_short_model_says(short: RobertaModel) -> None:
    encoder = encoder_of(short, 0)
    documents = some_documents()
    found = encoder.vectors(documents)
    expected = [
        functional.normalize(short(torch.tensor([[BEGIN, *one, END]])).last_hidden_state[0, 0], dim=-1)
        for document in documents
        for one in document
    ]
    torch.testing.assert_close(found, torch.stack(expected), atol=1e-5, rtol=0)


@pytest.mark.parametrize("late_layers", [1, 2, 3])
@torch.no_grad()
def test_late_is_what_layers_one_by_one_say(short: RobertaModel, late_layers: int) -> None:
    encoder = encoder_of(short, late_layers)
    # The last passage is longer than the table of positions.
    documents = [*some_documents(), [[4], list(range(3, 40))]]
    expected = torch.cat([slowly(encoder, document) for document in documents])
    torch.testing.assert_close(encoder.vectors(documents), expected, atol=1e-5, rtol=0)
    assert not torch.allclose(expected, encoder_of(short, 0).vectors(documents), atol=1e-2)


def test_gradients_are_those_of_layers_one_by_one(short: RobertaModel) -> None:
    encoder = encoder_of(short, 2)
    documents = some_documents()[:2]
    weights = [one for name, one in encoder.model.named_parameters() if "_global" not in name]
    signs = torch.linspace(-1, 1, 32)
    fast = torch.autograd.grad((encoder.vectors(documents) * signs).sum(), weights)
    slow = torch.autograd.grad(
        torch.cat([slowly(encoder, document) for document in documents]).mul(signs).sum(), weights
    )
    for one, other in zip(fast, slow, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_only_neighbours_within_reach_matter(short: RobertaModel) -> None:
    encoder = encoder_of(short, 1, window=8)
    document = [[5] * 10, [6] * 10, [7] * 10]
    base = encoder.vectors([document])
    # The window of the only late layer reaches four tokens beyond a border.
    changed = encoder.vectors([[[8] * 10, *document[1:]]])
    assert not torch.allclose(base[1], changed[1], atol=1e-4)
    torch.testing.assert_close(base[2], changed[2])


@torch.no_grad()
def test_documents_do_not_see_each_other(short: RobertaModel) -> None:
    encoder = encoder_of(short, 3)
    first, second = some_documents()[:2]
    both = encoder.vectors([first, second])
    torch.testing.assert_close(both[: len(first)], encoder.vectors([first]), atol=1e-5, rtol=0)
    torch.testing.assert_close(both[len(first) :], encoder.vectors([second]), atol=1e-5, rtol=0)


@pytest.mark.parametrize("most", [1, 30, 1000])
def test_batches_change_nothing(short: RobertaModel, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_chunking, "_BATCH_TOKENS", most)
    encoder = encoder_of(short, 2)
    documents = [[], *some_documents(), []]
    found = list(encoder.encode(documents))
    assert [at for at, _ in found] == list(range(len(documents)))
    assert [one.shape for _, one in found] == [(len(document), 32) for document in documents]
    with torch.no_grad():
        expected = encoder.vectors(some_documents()).numpy()
    np.testing.assert_allclose(np.concatenate([one for _, one in found]), expected, atol=1e-5)


def test_nothing_has_no_vectors(short: RobertaModel) -> None:
    encoder = encoder_of(short, 2)
    assert list(encoder.encode([])) == []
    ((at, found),) = encoder.encode([[]])
    assert at == 0 and found.shape == (0, 32)


def test_progress_rises_to_one_and_may_stop(short: RobertaModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_chunking, "_BATCH_TOKENS", 30)
    encoder = encoder_of(short, 2)
    told: list[float] = []
    list(encoder.encode(some_documents(), told.append))
    assert len(told) >= 6 and told == sorted(told) and told[0] > 0 and told[-1] == pytest.approx(1.0)

    def stop(_: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(encoder.encode(some_documents(), stop))
