"""Weights as whole numbers with scales, and back."""

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from longspan.models.compact_weights import FORMAT, LARGEST_ERROR, read_compact, write_compact


def there_and_back(weights: dict[str, Tensor], folder: Path) -> dict[str, Tensor]:
    write_compact(weights, folder / "x.safetensors")
    return read_compact(folder / "x.safetensors")


def relative_error(x: Tensor, again: Tensor) -> float:
    return float((x.double() - again.double()).norm() / x.double().norm())


def slow_copy(matrix: Tensor, run: int) -> Tensor:
    """What a matrix comes back as, number by number, with exact scales."""
    again = torch.zeros_like(matrix)
    for row, numbers in enumerate(matrix.tolist()):
        for begin in range(0, len(numbers), run):
            part = numbers[begin : begin + run]
            step = max(abs(x) for x in part) / 127
            for at, x in enumerate(part):
                again[row, begin + at] = round(x / step) * step if step else 0.0
    return again


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("shape", [(128, 64), (3, 5000), (100, 93), (4, 32, 80)])
def test_matrices_come_back_nearly(shape: tuple[int, ...], dtype: torch.dtype, tmp_path: Path) -> None:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype)
    again = there_and_back({"a.weight": x}, tmp_path)["a.weight"]
    assert again.dtype == dtype and again.shape == x.shape
    assert relative_error(x, again) < 0.007


def test_it_is_the_obvious_rounding(tmp_path: Path) -> None:
    x = torch.randn(90, 93, generator=torch.Generator().manual_seed(0))
    again = there_and_back({"x": x}, tmp_path)["x"]
    # Scales in fp16 are up to a thousandth larger than exact ones: they move a number by a step at most.
    step = x.abs().max() / 127
    assert float((again - slow_copy(x, 32)).abs().max()) <= 1.1 * step
    assert relative_error(x, again) < 1.01 * relative_error(x, slow_copy(x, 32))


def test_weights_that_are_whole_numbers_of_scales_come_back_exactly(tmp_path: Path) -> None:
    """As those of models that were stored so before: of two lengths of runs the better one is taken."""
    generator = torch.Generator().manual_seed(0)
    codes = torch.randint(-126, 127, (40, 4, 64), generator=generator).float()
    codes[:, :, 5] = 127
    scales = torch.rand(40, 4, 1, generator=generator).half().float()
    x = (codes * scales).flatten(1)
    assert there_and_back({"x": x}, tmp_path)["x"].equal(x)


@pytest.mark.parametrize("size", [1e-30, 1e-6, 1.0, 1e20])
def test_the_size_of_the_numbers_does_not_matter(size: float, tmp_path: Path) -> None:
    x = torch.randn(100, 100, generator=torch.Generator().manual_seed(0)) * size
    assert relative_error(x, there_and_back({"x": x}, tmp_path)["x"]) < 0.007


@given(st.integers(0, 10**6))
def test_no_matrix_is_worse_than_promised(seed: int) -> None:
    import tempfile

    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(91, 97, generator=generator) * torch.randn(91, 97, generator=generator).mul(4).exp()
    x[seed % 91] = 0
    with tempfile.TemporaryDirectory() as folder:
        again = there_and_back({"x": x}, Path(folder))["x"]
    assert relative_error(x, again) <= LARGEST_ERROR
    assert not again[seed % 91].any()


def test_the_rest_stays_to_the_bit(tmp_path: Path) -> None:
    weights = {
        "bias": torch.randn(20000),
        "small": torch.randn(2, 384),
        "counts": torch.arange(20000).view(2, -1),
        "zero": torch.zeros(100, 100),
        "number": torch.tensor(float("inf")),
    }
    again = there_and_back(weights, tmp_path)
    assert again.keys() == weights.keys()
    assert all(again[name].equal(x) for name, x in weights.items())


def test_rows_that_repeat_are_stored_once(tmp_path: Path) -> None:
    learned = torch.randn(130, 64, generator=torch.Generator().manual_seed(0))
    table = torch.cat([learned[:2], learned[2:].repeat(32, 1)])
    again = there_and_back({"x": table}, tmp_path)["x"]
    assert (tmp_path / "x.safetensors").stat().st_size < 130 * 64 * 1.2 + 4 * len(table) + 1000
    assert again[2:].view(32, 128, 64).eq(again[2:130]).all()
    assert relative_error(table, again) < 0.007


def test_it_cannot_be_taken_for_plain_weights(tmp_path: Path) -> None:
    write_compact({"a.weight": torch.randn(100, 100), "a.bias": torch.randn(3)}, tmp_path / "x.safetensors")
    with safe_open(tmp_path / "x.safetensors", framework="pt") as file:
        assert (file.metadata() or {})["format"] == FORMAT
    assert not {"a.weight", "a.bias"} & load_file(tmp_path / "x.safetensors").keys()


def test_numbers_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    x = torch.randn(100, 100)
    x[3, 4] = float("nan")
    with pytest.raises(ValueError, match=r"a\.weight has numbers that are not finite"):
        write_compact({"a.weight": x}, tmp_path / "x.safetensors")


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    save_file({"x": torch.zeros(3)}, path, metadata={"format": "pt"})
    with pytest.raises(ValueError, match="'pt'; it must be 'longspan-compact-1'"):
        read_compact(path)
    write_compact({"x": torch.randn(100, 100)}, path)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(ValueError, match="cannot be read"):
        read_compact(path)
