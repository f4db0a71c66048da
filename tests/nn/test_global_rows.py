"""The rows of global tokens: scored from hidden states, and from projected keys."""

import pytest
import torch
from torch import Tensor, nn

from longspan.nn import global_rows
from longspan.nn.global_rows import Projections, attend_globally, global_shares
from longspan.nn.layout import Layout, lay_out, pack_examples

HEADS, SIZE = 2, 12


def projections(dtype: torch.dtype) -> Projections:
    torch.manual_seed(0)
    return Projections(*(nn.Linear(SIZE, SIZE, dtype=dtype) for _ in range(3)))


def dense(x: Tensor, project: Projections, position: int, seen: Tensor) -> Tensor:
    """[heads, head_dim]: one global token of one example, token by token."""
    q = project.query(x[position]).view(HEADS, -1)
    k, v = (p(x).view(len(x), HEADS, -1) for p in (project.key, project.value))
    scores = torch.einsum("hd,nhd->hn", q, k) * q.shape[-1] ** -0.5
    return torch.einsum("hn,nhd->hd", scores.masked_fill(~seen, float("-inf")).softmax(-1), v)


CASES = {
    "one": [[3]],
    "several": [[0, 4, 9], [2]],
    "none in one": [[], [5, 6]],
    "none": [[], []],
}


@pytest.mark.parametrize("absorbed", [True, False])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("places", CASES.values(), ids=CASES.keys())
def test_against_one_token_at_a_time(
    places: list[list[int]], packed: bool, causal: bool, absorbed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(global_rows, "_is_cheaper_absorbed", lambda *_: absorbed)
    project = projections(torch.float64)
    lengths = [11, 8][: len(places)]
    x = torch.randn(len(places), 11, SIZE, dtype=torch.float64)
    padding = torch.arange(11) >= torch.tensor(lengths)[:, None]
    is_global = torch.zeros(len(places), 11, dtype=torch.bool)
    for example, positions in enumerate(places):
        is_global[example, positions] = True
    layout = lay_out(padding, is_global)
    packing = pack_examples(padding) if packed else None
    if packing is not None:
        x_given, layout = packing.pack(x), packing.lay_out(is_global)
    else:
        x_given = x
    rows = attend_globally(x_given, layout, project, HEADS, causal=causal).rows
    for example, positions in enumerate(places):
        for number, position in enumerate(positions):
            seen = torch.arange(11) < lengths[example]
            if causal:
                seen = seen & (torch.arange(11) <= position)
            expected = dense(x[example], project, position, seen)
            before = sum(len(p) for p in places[:example]) if packing is not None else 0
            actual = rows[0 if packing is not None else example, :, before + number]
            torch.testing.assert_close(actual, expected)
    if packing is None:
        for example, positions in enumerate(places):
            assert not rows[example, :, len(positions) :].any()


@pytest.mark.parametrize(("globals_", "cheaper"), [(1, True), (5, True), (30, False)])
def test_the_cheaper_way_is_taken(globals_: int, cheaper: bool) -> None:
    """heads * globals against the hidden size: 4 heads of 16."""
    is_global = torch.zeros(1, 40, dtype=torch.bool)
    is_global[:, :globals_] = True
    assert global_rows._is_cheaper_absorbed(torch.zeros(1, 40, 64), lay_out(None, is_global), 4) == cheaper


def test_packed_documents_are_counted_by_their_own_globals() -> None:
    """Eight documents with one global token each are cheap, though the row has eight."""
    is_global = torch.zeros(1, 80, dtype=torch.bool)
    is_global[:, ::10] = True
    layout = Layout(
        is_global=is_global,
        global_positions=torch.arange(0, 80, 10)[None],
        document_starts=torch.arange(0, 81, 10),
    )
    assert global_rows._is_cheaper_absorbed(torch.zeros(1, 80, 16), layout, 4)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("places", CASES.values(), ids=CASES.keys())
@torch.no_grad()
def test_shares_are_means_of_probabilities(places: list[list[int]], packed: bool, causal: bool) -> None:
    project = projections(torch.float64)
    lengths = [11, 8][: len(places)]
    x = torch.randn(len(places), 11, SIZE, dtype=torch.float64)
    padding = torch.arange(11) >= torch.tensor(lengths)[:, None]
    is_global = torch.zeros(len(places), 11, dtype=torch.bool)
    for example, positions in enumerate(places):
        is_global[example, positions] = True
    packing = pack_examples(padding) if packed else None
    if packing is None:
        shares = global_shares(x, lay_out(padding, is_global), project, HEADS, causal=causal)
    else:
        row = global_shares(packing.pack(x), packing.lay_out(is_global), project, HEADS, causal=causal)
        shares = packing.unpack(row[..., None])[..., 0]
    for example, (length, positions) in enumerate(zip(lengths, places, strict=True)):
        expected = torch.zeros(11, dtype=torch.float64)
        for position in positions:
            q = project.query(x[example, position]).view(HEADS, -1)
            k = project.key(x[example, :length]).view(length, HEADS, -1)
            scores = torch.einsum("hd,nhd->hn", q, k) * q.shape[-1] ** -0.5
            if causal:
                scores[:, position + 1 :] = -torch.inf
            expected[:length] += scores.softmax(-1).mean(0) / len(positions)
        torch.testing.assert_close(shares[example].double(), expected, atol=1e-6, rtol=1e-5)
        assert float(shares[example].sum()) == pytest.approx(float(bool(positions)), abs=1e-5)
