"""The native kernel against the reference, as a torch operator, and under other builds of itself."""

import os
import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from torch.utils._python_dispatch import TorchDispatchMode

from longspan import Pattern, attend, attend_global
from longspan.attention import library
from longspan.attention.attend import Attention

from .agreement import assert_matches_reference, run
from .cases import TOLERANCES, Call, any_calls, examples
from .edge_calls import edge_calls
from .kernel_build import build_kernel

ROOT = Path(__file__).parents[2]
KERNEL = library.KERNEL
pytestmark = pytest.mark.skipif(isinstance(KERNEL, str), reason=f"no native kernel here: {KERNEL}")

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]
EDGE_CALLS = edge_calls()
RUNNABLE = () if isinstance(KERNEL, str) else KERNEL.runnable
OTHER_BUILDS = [] if isinstance(KERNEL, str) else [x for x in RUNNABLE if x != KERNEL.instruction_set]
# The build that multiplies bf16 in pairs, whether or not it is the one in use.
PAIRS = "avx512bf16"
needs_pairs = pytest.mark.skipif(PAIRS not in RUNNABLE, reason="the processor has no products of bf16 pairs")
# The two kinds of products.
PRODUCTS = [
    pytest.param(None, torch.float32, id="numbers"),
    pytest.param(PAIRS, torch.bfloat16, id="pairs", marks=needs_pairs),
]


@contextmanager
def using(instruction_set: str | None) -> Generator[None]:
    """Runs a named build of the kernel; None is the one in use."""
    with pytest.MonkeyPatch.context() as patch:
        if instruction_set:
            patch.setattr(KERNEL, "instruction_set", instruction_set)
        yield


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@examples(120)
@given(call=any_calls())
def test_any_call_matches_reference(dtype: torch.dtype, call: Call) -> None:
    assert_matches_reference(call, "native", dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("instruction_set", RUNNABLE)
def test_calls_never_tried_before_match_reference(instruction_set: str, dtype: torch.dtype) -> None:
    """Half precision has the least room below its tolerances, so it gets other calls in every run."""

    @settings(examples(500), derandomize=False)
    @given(call=any_calls())
    def matches_reference(call: Call) -> None:
        with using(instruction_set):
            assert_matches_reference(call, "native", dtype)

    matches_reference()


@pytest.mark.parametrize("name", EDGE_CALLS)
def test_edge_call_matches_reference(name: str) -> None:
    assert_matches_reference(EDGE_CALLS[name], "native", torch.float32)


@needs_pairs
@examples(240)
@given(call=any_calls())
def test_any_call_in_pairs_matches_reference(call: Call) -> None:
    with using(PAIRS):
        assert_matches_reference(call, "native", torch.bfloat16)


@needs_pairs
@pytest.mark.parametrize("name", EDGE_CALLS)
def test_edge_call_in_pairs_matches_reference(name: str) -> None:
    with using(PAIRS):
        assert_matches_reference(EDGE_CALLS[name], "native", torch.bfloat16)


@pytest.mark.parametrize(
    "name",
    ["several runs", "dilated", "globals", "mutual globals", "documents", "relative", "head_dim 20"],
)
@pytest.mark.parametrize("instruction_set", OTHER_BUILDS)
def test_other_build_matches_reference(instruction_set: str, name: str) -> None:
    with using(instruction_set):
        for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
            assert_matches_reference(EDGE_CALLS[name], "native", dtype)


def test_unknown_instruction_set_is_refused() -> None:
    with using("abacus"), pytest.raises(RuntimeError, match="instruction set"):
        run(EDGE_CALLS["globals"], "native")


@pytest.mark.parametrize(
    "name", ["several runs", "globals", "mutual globals", "grouped heads", "dropout", "relative", "bias"]
)
@pytest.mark.parametrize(("instruction_set", "dtype"), PRODUCTS)
def test_same_bits_with_one_and_two_threads(
    instruction_set: str | None, dtype: torch.dtype, name: str
) -> None:
    def bits(threads: int) -> list[torch.Tensor]:
        torch.set_num_threads(threads)
        call = {
            key: x.to(dtype).requires_grad_() if isinstance(x, torch.Tensor) and x.is_floating_point() else x
            for key, x in EDGE_CALLS[name].items()
        }
        result = run(call, "native")
        leaves = [x for x in call.values() if isinstance(x, torch.Tensor) and x.requires_grad]
        generator = torch.Generator().manual_seed(1)
        cotangent = torch.randn(result.out.shape, generator=generator).to(dtype)
        return [result.out, *torch.autograd.grad(result.out, leaves, cotangent)]

    before = torch.get_num_threads()
    try:
        with using(instruction_set):
            one, two = bits(1), bits(2)
    finally:
        torch.set_num_threads(before)
    for a, b in zip(one, two, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize(
    "name", ["globals", "mutual globals", "documents", "grouped heads", "dropout", "relative", "bias"]
)
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
@pytest.mark.parametrize(("instruction_set", "dtype"), PRODUCTS)
def test_nothing_leaks_out_of_masked_places(
    instruction_set: str | None, dtype: torch.dtype, value: float
) -> None:
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 2, 300, 16, generator=generator).to(dtype) for _ in range(3))
    # Where a value is not finite, products of pairs are done number by number, and round less.
    tolerance = TOLERANCES[dtype].forward
    causal, window = Pattern(left=None, right=0), Pattern(left=10, right=10)

    def out(pattern: Pattern, k: torch.Tensor, v: torch.Tensor, **more: torch.Tensor) -> torch.Tensor:
        with using(instruction_set):
            result = attend(q, k, v, pattern, impl="native", **more)  # pyright: ignore[reportArgumentType]
        assert isinstance(result, torch.Tensor)
        return result

    bad_k, bad_v = _poisoned(k, 150, value=value), _poisoned(v, 150, value=value)
    for keys, values in ((bad_k, v), (k, bad_v)):
        future = out(causal, keys, values)
        past = out(causal, k, v)[:, :, :150]
        torch.testing.assert_close(future[:, :, :150], past, rtol=0, atol=tolerance if instruction_set else 0)
        assert not future[:, :, 150:].isfinite().all()
        near = out(window, keys, values)
        clean = out(window, k, v)
        untouched = [*range(140), *range(161, 300)]
        torch.testing.assert_close(near[:, :, untouched], clean[:, :, untouched], rtol=0, atol=tolerance)
    starts = torch.tensor([0, 150, 300])
    packed = out(
        window, _poisoned(k, 155, value=value), _poisoned(v, 155, value=value), document_starts=starts
    )
    torch.testing.assert_close(
        packed[:, :, :150],
        out(window, k, v, document_starts=starts)[:, :, :150],
        rtol=0,
        atol=tolerance,
    )


@pytest.mark.parametrize(("instruction_set", "dtype"), PRODUCTS)
def test_nothing_leaks_out_of_padding_in_the_backward_pass(
    instruction_set: str | None, dtype: torch.dtype
) -> None:
    generator = torch.Generator().manual_seed(0)
    padding = torch.zeros(1, 200, dtype=torch.bool)
    padding[:, 60:70] = padding[:, 190:] = True
    where = padding[0].nonzero().flatten().tolist()

    def gradients(poison: bool) -> tuple[torch.Tensor, ...]:
        generator.manual_seed(0)
        inputs = [torch.randn(1, 2, 200, 16, generator=generator).to(dtype) for _ in range(4)]
        *qkv, cotangent = [_poisoned(x, *where) if poison else x for x in inputs]
        leaves = [x.requires_grad_() for x in qkv]
        q, k, v = leaves
        result = attend(q, k, v, Pattern(left=9, right=9), is_padding=padding, impl="native")
        assert isinstance(result, torch.Tensor)
        return torch.autograd.grad(result, leaves, cotangent)

    with using(instruction_set):
        found, wanted = gradients(True), gradients(False)
    for poisoned, clean in zip(found, wanted, strict=True):
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


@pytest.mark.parametrize(("instruction_set", "dtype"), PRODUCTS)
def test_a_bad_query_reaches_only_the_gradients_of_what_it_sees(
    instruction_set: str | None, dtype: torch.dtype
) -> None:
    generator = torch.Generator().manual_seed(0)
    q, k, v, cotangent = (torch.randn(1, 2, 201, 16, generator=generator).to(dtype) for _ in range(4))
    near = torch.zeros(201, dtype=torch.bool)
    near[91:112] = True

    def gradients(q: torch.Tensor, cotangent: torch.Tensor) -> tuple[torch.Tensor, ...]:
        keys, values = k.clone().requires_grad_(), v.clone().requires_grad_()
        out = attend(q, keys, values, Pattern(left=10, right=10), impl="native")
        assert isinstance(out, torch.Tensor)
        return torch.autograd.grad(out, (keys, values), cotangent)

    with using(instruction_set):
        wanted = gradients(q, cotangent)
        for bad in (gradients(_poisoned(q, 101), cotangent), gradients(q, _poisoned(cotangent, 101))):
            for got, clean in zip(bad, wanted, strict=True):
                assert got[:, :, near].isnan().all()
                torch.testing.assert_close(
                    got[:, :, ~near], clean[:, :, ~near], rtol=0, atol=TOLERANCES[dtype].gradient
                )


def _run_edge_calls(library: Path, *dtypes: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tests.attention.edge_calls", *dtypes],
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
    assert "all agree" in _run_edge_calls(library, "float32", "bfloat16")


@pytest.mark.slow
@pytest.mark.parametrize("vector_bytes", [16, 64])
def test_pairs(vector_bytes: int, tmp_path: Path) -> None:
    """Products of bf16 pairs, in instructions every processor has."""
    library = build_kernel(tmp_path / "pairs.so", "-O2", "-DLONGSPAN_PAIRS=1", vector_bytes=vector_bytes)
    assert "all agree" in _run_edge_calls(library, "bfloat16")


@pytest.mark.slow
@pytest.mark.parametrize("pairs", [0, 1])
def test_sanitizers_are_clean(pairs: int, tmp_path: Path) -> None:
    library = build_kernel(
        tmp_path / "sanitized.so",
        "-O1",
        "-g",
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=all",
        f"-DLONGSPAN_PAIRS={pairs}",
        vector_bytes=32,
    )
    runtime = subprocess.run(
        ["g++", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    dtype = "bfloat16" if pairs else "float32"
    output = _run_edge_calls(library, dtype, LD_PRELOAD=runtime, ASAN_OPTIONS="detect_leaks=0")
    assert "all agree" in output and "ERROR" not in output and "runtime error" not in output
