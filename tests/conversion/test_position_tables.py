"""Tables with more rows: what is kept, what is repeated, what is drawn."""

from typing import cast

import pytest
import torch
from transformers.models.distilbert.modeling_distilbert import create_sinusoidal_embeddings
from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding

from longspan.conversion.position_tables import Method, extend
from longspan.nn.sinusoids import sinusoids


def a_table(rows: int = 7, hidden: int = 4) -> torch.Tensor:
    return torch.randn(rows, hidden, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("rows", [7, 8, 12, 17, 30])
def test_copy_repeats_all_but_the_first_rows(rows: int) -> None:
    table = a_table()
    longer = extend(table, rows, offset=2, method="copy")
    expected = torch.stack([table[i] if i < 2 else table[2 + (i - 2) % 5] for i in range(rows)])
    assert torch.equal(longer, expected)


@pytest.mark.parametrize("method", ["copy", "random"])
@pytest.mark.parametrize("offset", [0, 2])
def test_old_rows_stay(method: Method, offset: int) -> None:
    table = a_table()
    assert torch.equal(extend(table, 20, offset=offset, method=method)[:7], table)


def test_random_rows_have_the_spread_of_the_old_ones_and_come_again_with_the_seed() -> None:
    table = 3 * a_table(50, 40)

    def draw(seed: int) -> torch.Tensor:
        return extend(table, 500, offset=0, method="random", generator=torch.Generator().manual_seed(seed))

    assert torch.equal(draw(1), draw(1))
    assert not torch.equal(draw(1), draw(2))
    assert draw(1)[50:].std().item() == pytest.approx(table.std().item(), rel=0.05)


def test_interpolation_keeps_the_ends_and_is_linear_between() -> None:
    table = a_table()
    longer = extend(table, 2 + 9, offset=2, method="interpolate")
    assert torch.equal(longer[:2], table[:2])
    # Five positions become nine: every second one is old, those between are means.
    torch.testing.assert_close(longer[2::2], table[2:])
    torch.testing.assert_close(longer[3::2], (table[2:-1] + table[3:]) / 2)


@pytest.mark.parametrize("method", ["copy", "random", "interpolate"])
def test_dtype_stays_and_the_old_table_is_not_shared(method: Method) -> None:
    table = a_table().to(torch.bfloat16).requires_grad_()
    longer = extend(table, 7, offset=2, method=method)
    assert longer.dtype == torch.bfloat16 and not longer.requires_grad
    longer.zero_()
    assert table.detach().abs().sum() > 0


def test_wrong_arguments_are_named() -> None:
    table = a_table()
    with pytest.raises(ValueError, match="rows is 6; a table of 7 rows can only grow"):
        extend(table, 6, offset=2, method="copy")
    with pytest.raises(ValueError, match="offset is 7 in a table of 7 rows"):
        extend(table, 9, offset=7, method="copy")
    with pytest.raises(ValueError, match="method is 'repeat'; it must be one of copy, random, interpolate"):
        extend(table, 9, offset=2, method=cast(Method, "repeat"))
    with pytest.raises(ValueError, match=r"table has shape \[7\]"):
        extend(table[:, 0], 9, offset=2, method="copy")


@pytest.mark.parametrize("hidden", [8, 7])
def test_sinusoids_are_those_of_the_models(hidden: int) -> None:
    marian = MarianSinusoidalPositionalEmbedding(300, hidden)
    torch.testing.assert_close(sinusoids(torch.arange(300), hidden), marian.create_weight())
    distilbert = create_sinusoidal_embeddings(300, hidden, torch.empty(300, hidden))
    torch.testing.assert_close(sinusoids(torch.arange(300), hidden, interleaved=True), distilbert)
