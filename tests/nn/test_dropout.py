"""Elementwise dropout: its rate, its mask, and that forward, backward and every build share it."""

import subprocess
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from longspan.attention import library
from longspan.nn.dropout import Dropout, dropout
from tests.attention.kernel_build import build_program

KERNEL = library.KERNEL
needs_kernel = pytest.mark.skipif(isinstance(KERNEL, str), reason=f"no native kernel here: {KERNEL}")

DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
SEEDS = [0, 1, 2, 2**31, 2**32, 2**32 + 1, 2**62 - 1]


def _drop(x: Tensor, p: float, seed: int) -> Tensor:
    """The operator, without the drawing of a seed."""
    return torch.ops.longspan.dropout(x, p, torch.tensor(seed))


def _mask(p: float, seed: int, count: int = 2**20) -> Tensor:
    """[count] bool, True for what is kept."""
    return _drop(torch.ones(count), p, seed) != 0


def _normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@needs_kernel
@pytest.mark.parametrize("p", [0.001, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("seed", [0, 1, 2**40 + 7])
def test_rate_and_scale(p: float, seed: int) -> None:
    x = _normal(2**20).abs() + 1
    out = _drop(x, p, seed)
    kept = out != 0
    # Four standard deviations of a binomial share.
    assert abs((~kept).double().mean().item() - p) <= 4 * (p * (1 - p) / x.numel()) ** 0.5
    assert torch.equal(out[kept], x[kept] * torch.tensor(1 / (1 - p)))


@needs_kernel
@pytest.mark.parametrize("seed", SEEDS)
def test_mask_is_a_hash_of_seed_and_index(seed: int) -> None:
    def mix(x: int) -> int:
        x &= 0xFFFFFFFF
        x = (x ^ (x >> 16)) * 0x7FEB352D & 0xFFFFFFFF
        x = (x ^ (x >> 15)) * 0x846CA68B & 0xFFFFFFFF
        return x ^ (x >> 16)

    golden, low, high = 0x9E3779B9, seed & 0xFFFFFFFF, seed >> 32
    first = mix(low + mix(high + mix(golden)))
    second = mix(high + mix(low + mix(0xFFFFFFFF + golden)))
    wanted = [mix(mix(i + first) ^ second) >= round(0.3 * 2**32) for i in range(1000)]
    assert _mask(0.3, seed, 1000).tolist() == wanted


@needs_kernel
@pytest.mark.parametrize("seed", SEEDS)
def test_neighbours_are_independent(seed: int) -> None:
    sign = _mask(0.5, seed).double() * 2 - 1
    for distance in (1, 2, 3, 4, 8, 16, 64, 768, 1024, 2**16):
        product = sign[distance:] * sign[:-distance]
        assert abs(product.mean().item()) <= 5 / product.numel() ** 0.5, distance
    # Every pattern of eight neighbours is as frequent as any other: chi-squared with 255 degrees of freedom.
    patterns = (_mask(0.5, seed).view(-1, 8).long() * 2 ** torch.arange(8)).sum(1)
    expected = patterns.numel() / 256
    chi_squared = ((patterns.bincount(minlength=256) - expected) ** 2 / expected).sum().item()
    assert abs(chi_squared - 255) <= 5 * (2 * 255) ** 0.5


@needs_kernel
def test_seeds_give_independent_masks() -> None:
    signs = [_mask(0.5, seed).double() * 2 - 1 for seed in SEEDS]
    for i, one in enumerate(signs):
        for other in signs[:i]:
            assert abs((one * other).mean().item()) <= 5 / one.numel() ** 0.5


@needs_kernel
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_has_the_same_mask_and_one_rounding(dtype: torch.dtype) -> None:
    x = _normal(5, 1001).to(dtype)
    compute = torch.float64 if dtype == torch.float64 else torch.float32
    out = _drop(x, 0.3, 4)
    scaled = (x.to(compute) * torch.tensor(1 / 0.7, dtype=compute)).to(dtype)
    assert out.dtype == dtype
    assert torch.equal(out, torch.where(_mask(0.3, 4, x.numel()).view_as(x), scaled, 0))


@needs_kernel
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_same_bits_in_every_build_and_with_any_threads(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = _normal(3, 50_001).to(dtype)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = _drop(x, 0.2, 8)
        torch.set_num_threads(2)
        two = _drop(x, 0.2, 8)
    finally:
        torch.set_num_threads(before)
    monkeypatch.setattr(KERNEL, "instruction_set", "portable")
    assert torch.equal(one, two)
    assert torch.equal(one, _drop(x, 0.2, 8))


@needs_kernel
def test_backward_meets_the_mask_of_forward() -> None:
    x = _normal(7, 300).requires_grad_()
    out = dropout(x, 0.4)
    cotangent = _normal(300, 7, seed=1).t()  # other strides than those of x
    (gradient,) = torch.autograd.grad(out, x, cotangent)
    scale = torch.tensor(1 / 0.6)
    assert torch.equal(gradient, torch.where(out != 0, cotangent * scale, 0))


@needs_kernel
def test_only_the_seed_is_saved() -> None:
    saved: list[Tensor] = []

    def pack(x: Tensor) -> Tensor:
        saved.append(x)
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        dropout(_normal(100).requires_grad_(), 0.5)
    assert [(x.dtype, x.numel()) for x in saved] == [(torch.int64, 1)]


def test_torch_governs_the_mask() -> None:
    x = torch.ones(1000)
    torch.manual_seed(3)
    first, second = dropout(x, 0.5), dropout(x, 0.5)
    torch.manual_seed(3)
    assert torch.equal(first, dropout(x, 0.5))
    assert not torch.equal(first, second)


def test_checkpointing_repeats_the_mask() -> None:
    layer = nn.Sequential(nn.Linear(16, 16), Dropout(0.5), nn.Linear(16, 16), Dropout(0.2))
    x = _normal(50, 16)

    def gradients(checkpointed: bool) -> list[Tensor]:
        torch.manual_seed(6)
        out = checkpoint(layer, x, use_reentrant=False) if checkpointed else layer(x)
        assert isinstance(out, Tensor)
        return [out, *torch.autograd.grad(out.square().sum(), list(layer.parameters()))]

    for got, wanted in zip(gradients(True), gradients(False), strict=True):
        assert torch.equal(got, wanted)


@needs_kernel
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_dropped_places_are_zero_whatever_was_there(value: float) -> None:
    kept = _mask(0.5, 1, 1003)
    out = _drop(torch.full((1003,), value), 0.5, 1)
    assert not out[~kept].any()
    assert not out[kept].isfinite().any()


@needs_kernel
@pytest.mark.parametrize("p", [1.0, 1 - 1e-12])
def test_everything_can_be_dropped(p: float) -> None:
    x = torch.full((20_000,), float("nan")).requires_grad_()
    out = dropout(x, p)
    assert torch.equal(out, torch.zeros(20_000))
    assert torch.equal(torch.autograd.grad(out.sum(), x)[0], torch.zeros(20_000))


def test_identity() -> None:
    x = _normal(10)
    assert dropout(x, 0.0) is x
    assert dropout(x, 0.5, training=False) is x
    assert Dropout(0.5).eval()(x) is x
    assert not torch.equal(Dropout(0.5)(x), x)


@needs_kernel
def test_layout_does_not_matter() -> None:
    x = _normal(4, 30, 5)
    wanted = _drop(x, 0.3, 2)
    for strided in (x.transpose(0, 2).contiguous().transpose(0, 2), x.repeat(1, 1, 2)[..., :5]):
        assert not strided.is_contiguous()
        assert torch.equal(_drop(strided, 0.3, 2), wanted)
    expanded = torch.ones(1).expand(4, 30, 5)
    assert torch.equal(_drop(expanded, 0.3, 2), _drop(torch.ones(4, 30, 5), 0.3, 2))


@pytest.mark.parametrize("shape", [(0,), (3, 0, 2), ()])
@pytest.mark.parametrize("p", [0.5, 1.0])
def test_hardly_any_elements(shape: tuple[int, ...], p: float) -> None:
    x = torch.ones(shape, requires_grad=True)
    out = dropout(x, p)
    assert out.shape == shape
    assert torch.autograd.grad(out.sum(), x)[0].shape == shape


@pytest.mark.parametrize("p", [-0.1, 1.1])
def test_wrong_probability_is_refused(p: float) -> None:
    with pytest.raises(ValueError) as wanted:
        nn.Dropout(p)
    for make in (lambda: Dropout(p), lambda: dropout(torch.ones(2), p)):
        with pytest.raises(ValueError) as got:
            make()
        assert str(got.value) == str(wanted.value)


def test_looks_like_the_module_of_torch() -> None:
    assert repr(Dropout(0.25)) == repr(nn.Dropout(0.25))
    assert isinstance(Dropout(0.25), nn.Dropout)


@needs_kernel
def test_opcheck() -> None:
    for x in (_normal(40, 3), _normal(3, 40).t().bfloat16(), torch.ones(()), torch.ones(2, 0)):
        inputs = (x.requires_grad_(), 0.3, torch.tensor(5))
        torch.library.opcheck(torch.ops.longspan.dropout.default, inputs)


@needs_kernel
def test_gradcheck() -> None:
    x = _normal(6, 9).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: _drop(x, 0.4, 3), x)
    assert torch.autograd.gradgradcheck(lambda x: _drop(x, 0.4, 3).square(), x)


@needs_kernel
@pytest.mark.filterwarnings("default::DeprecationWarning")
def test_compiles_as_one_graph() -> None:
    layer = Dropout(0.5)
    compiled = torch.compile(lambda x: layer(x * 2) + 1, fullgraph=True)
    x = torch.ones(64, 100, requires_grad=True)
    out = compiled(x)
    kept = out != 1
    assert 0.4 < kept.double().mean().item() < 0.6
    assert torch.equal(out, torch.where(kept, 5.0, 1.0))
    assert torch.equal(torch.autograd.grad(out.sum(), x)[0], torch.where(kept, 4.0, 0.0))
    assert not torch.equal(compiled(x), out)


@needs_kernel
def test_exports_as_the_operation_of_torch() -> None:
    program = torch.export.export(Dropout(0.5), (torch.ones(4, 3),))
    targets = {str(node.target) for node in program.graph.nodes}
    assert "aten.dropout.default" in targets and not any("longspan" in target for target in targets)


def test_is_the_operation_of_torch_where_the_library_does_not_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    assert dropout(torch.ones(2, 3, device="meta"), 0.3).shape == (2, 3)
    monkeypatch.setattr(library, "KERNEL", "no native kernel")
    x = _normal(100, 3)
    torch.manual_seed(2)
    wanted = nn.functional.dropout(x, 0.3)
    torch.manual_seed(2)
    assert torch.equal(dropout(x, 0.3), wanted)


@pytest.mark.slow
def test_other_builds_agree_and_are_clean(tmp_path: Path) -> None:
    """Every vector width, under sanitizers; and indices beyond 2**32 have a mask of their own."""
    printed: set[str] = set()
    for vector_bytes in (16, 32, 64):
        program = build_program(
            tmp_path / f"vectors_of_{vector_bytes}",
            str(Path(__file__).with_name("elementwise_dropout.cpp")),
            "-O1",
            "-g",
            "-fsanitize=address,undefined",
            "-fno-sanitize-recover=all",
            vector_bytes=vector_bytes,
        )
        done = subprocess.run([program], capture_output=True, text=True)
        assert done.returncode == 0 and not done.stderr, done.stderr
        printed.add(done.stdout)
    assert len(printed) == 1, printed
    _, same, _, count = printed.pop().split()
    assert abs(int(same) - int(count) / 2) <= 5 * (int(count) / 4) ** 0.5
