"""Ragged batches packed into one row, and back."""

from itertools import accumulate

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from longspan.nn.layout import lay_out, pack_examples


def is_padding(lengths: list[int], length: int, offsets: list[int]) -> torch.Tensor:
    place = torch.arange(length)
    begin = torch.tensor(offsets)[:, None]
    return ~((place >= begin) & (place < begin + torch.tensor(lengths)[:, None]))


@settings(max_examples=50)
@given(
    st.integers(1, 9).flatmap(
        lambda length: st.lists(
            st.integers(0, length).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, length - n))),
            min_size=1,
            max_size=5,
        ).map(lambda runs: (length, runs))
    )
)
def test_packing_goes_there_and_back(case: tuple[int, list[tuple[int, int]]]) -> None:
    length, runs = case
    padding = is_padding([n for n, _ in runs], length, [begin for _, begin in runs])
    packing = pack_examples(padding)
    if not padding.any() or padding.all():
        assert packing is None
        return
    assert packing is not None
    x = torch.randn(len(runs), length, 3)
    packed = packing.pack(x)
    assert packed.shape == (1, sum(n for n, _ in runs), 3)
    assert packing.document_starts.tolist() == [0, *accumulate(n for n, _ in runs if n)]
    assert torch.equal(packing.unpack(packed), x.masked_fill(padding[..., None], 0.0))


def test_padding_between_tokens_is_not_packed() -> None:
    assert pack_examples(torch.tensor([[False, True, False]])) is None


def test_padded_tokens_are_not_global() -> None:
    layout = lay_out(torch.tensor([[False, True]]), torch.tensor([[True, True]]))
    assert layout.global_positions is not None
    assert layout.global_positions.tolist() == [[0]]


def test_a_packed_layout_numbers_the_globals_of_the_row() -> None:
    padding = torch.tensor([[False, False, True], [False, False, False]])
    packing = pack_examples(padding)
    assert packing is not None
    layout = packing.lay_out(torch.tensor([[False, True, False], [True, False, True]]))
    assert layout.global_positions is not None and layout.document_starts is not None
    assert layout.global_positions.tolist() == [[1, 2, 4]]
    assert layout.document_starts.tolist() == [0, 2, 5]
