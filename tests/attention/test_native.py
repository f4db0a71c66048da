"""The native kernel against the reference, as a torch operator, and under other builds of itself."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from torch.utils._python_dispatch import TorchDispatchMode

from longspan import Pattern, attend, attend_global
from longspan.attention import library
from longspan.attention.attend import Attention

from .agreement import assert_matches_reference, run
from .cases import Call, any_calls, examples
from .edge_calls import edge_calls
from .kernel_build import build_kernel

ROOT = Path(__file__).parents[2]
KERNEL = library.KERNEL
pytestmark = pytest.mark.skipif(isinstance(KERNEL, str), reason=f"no native kernel here: {KERNEL}")

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]
EDGE_CALLS = edge_calls()
# Best first, so what comes after the one in use runs here as well.
OTHER_BUILDS = (
    [] if isinstance(KERNEL, str) else KERNEL.built[KERNEL.built.index(KERNEL.instruction_set) + 1 :]
)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@examples(120)
@given(call=any_calls())
def test_any_call_matches_reference(dtype: torch.dtype, call: Call) -> None:
    assert_matches_reference(call, "native", dtype)


@pytest.mark.parametrize("name", EDGE_CALLS)
def test_edge_call_matches_reference(name: str) -> None:
    assert_matches_reference(EDGE_CALLS[name], "native", torch.float32)


@pytest.mark.parametrize(
    "name", ["several runs", "dilated", "globals", "documents", "relative", "head_dim 20"]
)
@pytest.mark.parametrize("instruction_set", OTHER_BUILDS)
def test_other_build_matches_reference(
    instruction_set: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KERNEL, "instruction_set", instruction_set)
    for dtype in (torch.float32, torch.float16, torch.float64):
        assert_matches_reference(EDGE_CALLS[name], "native", dtype)


def test_unknown_instruction_set_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KERNEL, "instruction_set", "abacus")
    with pytest.raises(RuntimeError, match="instruction set"):
        run(EDGE_CALLS["globals"], "native")


@pytest.mark.parametrize("name", ["several runs", "globals", "grouped heads", "dropout", "relative", "bias"])
def test_same_bits_with_one_and_two_threads(name: str) -> None:
    def bits(threads: int) -> list[torch.Tensor]:
        torch.set_num_threads(threads)
        call = {
            key: x.float().requires_grad_() if isinstance(x, torch.Tensor) and x.is_floating_point() else x
            for key, x in EDGE_CALLS[name].items()
        }
        result = run(call, "native")
        leaves = [x for x in call.values() if isinstance(x, torch.Tensor) and x.requires_grad]
        generator = torch.Generator().manual_seed(1)
        cotangent = torch.randn(result.out.shape, generator=generator)
        return [result.out, *torch.autograd.grad(result.out, leaves, cotangent)]

    before = torch.get_num_threads()
    try:
        one, two = bits(1), bits(2)
    finally:
        torch.set_num_threads(before)
    for a, b in zip(one, two, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("name", ["globals", "documents", "grouped heads", "dropout", "relative", "bias"])
def test_opcheck(name: str) -> None:
    call = {**EDGE_CALLS[name]}
    for key in ("q", "k", "v", "position_query"):
        if key in call:
            call[key] = call[key][:, :, :130].float().requires_grad_()
    for key in ("bias", "position_keys"):
        if key in call:
            call[key] = call[key].float().requires_grad_()
    for key in ("is_global", "is_padding"):
        if key in call:
            call[key] = call[key][:, :130]
    if "document_starts" in call:
        call["document_starts"] = torch.tensor([0, 1, 1, 60, 130])
    with _recorded_operator_calls() as calls:
        run(call, "native")
    for arguments in calls:
        torch.library.opcheck(torch.ops.longspan.attend.default, arguments)


class _recorded_operator_calls(TorchDispatchMode):
    """Collects the arguments with which `longspan::attend` is called."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[object, ...]] = []

    def __enter__(self) -> list[tuple[object, ...]]:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().__enter__()
        return self.calls

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.longspan.attend.default:
            self.calls.append(
                tuple(
                    x.detach().clone().requires_grad_(x.is_floating_point())
                    if isinstance(x, torch.Tensor)
                    else x
                    for x in args
                )
            )
        return func(*args, **(kwargs or {}))


def test_gradcheck() -> None:
    generator = torch.Generator().manual_seed(0)
    q, k, v = (
        torch.randn(1, 2, 11, 3, generator=generator, dtype=torch.float64).requires_grad_() for _ in range(3)
    )
    bias = torch.randn(2, 5, generator=generator, dtype=torch.float64).requires_grad_()
    is_global = torch.zeros(1, 11, dtype=torch.bool)
    is_global[:, 4] = True

    def operation(*tensors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        q, k, v, bias = tensors
        result = attend(
            q, k, v, Pattern(left=2, right=1), is_global=is_global, bias=bias, return_lse=True, impl="native"
        )
        assert isinstance(result, Attention) and result.lse is not None
        return result.out, result.lse

    assert torch.autograd.gradcheck(operation, (q, k, v, bias))


@pytest.mark.filterwarnings("default::DeprecationWarning")
def test_compiles_as_one_graph() -> None:
    is_global = torch.zeros(1, 150, dtype=torch.bool)
    is_global[:, 0] = True

    def layer(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        out = attend(q * 2, k, v, Pattern(left=8, right=8), is_global=is_global, impl="native")
        rows = attend_global(q[:, :, :1], k, v, torch.zeros(1, 1, dtype=torch.int64), impl="native")
        assert isinstance(out, torch.Tensor) and isinstance(rows, torch.Tensor)
        return torch.cat((rows, out[:, :, 1:]), 2) + 1

    inputs = [torch.randn(1, 150, 2, 16).transpose(1, 2).requires_grad_() for _ in range(3)]
    compiled = torch.compile(layer, fullgraph=True)
    wanted, got = layer(*inputs), compiled(*inputs)
    torch.testing.assert_close(got, wanted)
    cotangent = torch.randn_like(wanted)
    torch.testing.assert_close(
        torch.autograd.grad(got, inputs, cotangent), torch.autograd.grad(wanted, inputs, cotangent)
    )


def _poisoned(x: torch.Tensor, *positions: int, value: float = float("nan")) -> torch.Tensor:
    x = x.clone()
    x[:, :, list(positions)] = value
    return x


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_nothing_leaks_out_of_masked_places(value: float) -> None:
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 2, 300, 16, generator=generator) for _ in range(3))
    causal, window = Pattern(left=None, right=0), Pattern(left=10, right=10)

    def out(pattern: Pattern, k: torch.Tensor, v: torch.Tensor, **more: torch.Tensor) -> torch.Tensor:
        result = attend(q, k, v, pattern, impl="native", **more)  # pyright: ignore[reportArgumentType]
        assert isinstance(result, torch.Tensor)
        return result

    bad_k, bad_v = _poisoned(k, 150, value=value), _poisoned(v, 150, value=value)
    for keys, values in ((bad_k, v), (k, bad_v)):
        future = out(causal, keys, values)
        assert torch.equal(future[:, :, :150], out(causal, k, v)[:, :, :150])
        assert not future[:, :, 150:].isfinite().all()
        near = out(window, keys, values)
        clean = out(window, k, v)
        untouched = [*range(140), *range(161, 300)]
        torch.testing.assert_close(near[:, :, untouched], clean[:, :, untouched])
    starts = torch.tensor([0, 150, 300])
    packed = out(
        window, _poisoned(k, 155, value=value), _poisoned(v, 155, value=value), document_starts=starts
    )
    torch.testing.assert_close(packed[:, :, :150], out(window, k, v, document_starts=starts)[:, :, :150])


def test_nothing_leaks_out_of_padding_in_the_backward_pass() -> None:
    generator = torch.Generator().manual_seed(0)
    padding = torch.zeros(1, 200, dtype=torch.bool)
    padding[:, 60:70] = padding[:, 190:] = True
    where = padding[0].nonzero().flatten().tolist()

    def gradients(poison: bool) -> tuple[torch.Tensor, ...]:
        generator.manual_seed(0)
        inputs = [torch.randn(1, 2, 200, 16, generator=generator) for _ in range(4)]
        *qkv, cotangent = [_poisoned(x, *where) if poison else x for x in inputs]
        leaves = [x.requires_grad_() for x in qkv]
        q, k, v = leaves
        result = attend(q, k, v, Pattern(left=9, right=9), is_padding=padding, impl="native")
        assert isinstance(result, torch.Tensor)
        return torch.autograd.grad(result, leaves, cotangent)

    for poisoned, clean in zip(gradients(True), gradients(False), strict=True):
        assert torch.equal(poisoned, clean)
        assert not poisoned[:, :, where].any()


def test_extreme_scores() -> None:
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 1, 200, 32, generator=generator) for _ in range(3))
    for factor in (0.0, 1e-20, 30.0, 1e4):
        got = attend(q * factor, k, v, Pattern(left=50, right=50), impl="native")
        wanted = attend(
            (q * factor).double(), k.double(), v.double(), Pattern(left=50, right=50), impl="reference"
        )
        assert isinstance(got, torch.Tensor) and isinstance(wanted, torch.Tensor)
        # A score of 10,000 is itself only known to a thousandth.
        torch.testing.assert_close(got.double(), wanted, rtol=0, atol=1e-5 * max(1.0, factor))


def test_works_without_the_library(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "src/longspan", tmp_path / "longspan", ignore=shutil.ignore_patterns("*.so"))
    (tmp_path / "longspan/attention/native_build.txt").write_text("no compiler was found\n")
    program = """
import torch
from longspan import Pattern, attend
from longspan.attention import library
q = torch.randn(1, 2, 50, 8)
assert attend(q, q, q, Pattern(left=4, right=4)).shape == q.shape
assert not library.status().available
try:
    attend(q, q, q, Pattern(left=4, right=4), impl="native")
except ValueError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "no compiler was found" in done.stdout


def _run_edge_calls(library: Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tests.attention.edge_calls"],
        cwd=ROOT,
        env={**os.environ, "LONGSPAN_NATIVE_LIBRARY": str(library), **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
def test_wide_vectors(tmp_path: Path) -> None:
    """The AVX-512 build's geometry (64-byte vectors, wide tiles), in instructions every x86 has."""
    library = build_kernel(tmp_path / "wide.so", "-O2", vector_bytes=64)
    assert "all agree" in _run_edge_calls(library)


@pytest.mark.slow
def test_sanitizers_are_clean(tmp_path: Path) -> None:
    library = build_kernel(
        tmp_path / "sanitized.so",
        "-O1",
        "-g",
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=all",
        vector_bytes=32,
    )
    runtime = subprocess.run(
        ["g++", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    output = _run_edge_calls(library, LD_PRELOAD=runtime, ASAN_OPTIONS="detect_leaks=0")
    assert "all agree" in output and "ERROR" not in output and "runtime error" not in output
