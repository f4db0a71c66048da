"""The native library: finds it, loads it, and calls it through its C interface with ctypes.

The library is built at install time (`setup.py`, `csrc/`) and may be missing; `status` says so, and
everything else in longspan works without it.
"""

import ctypes
import os
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

# In the order of the enum in csrc/problem.h.
DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
_ERRORS = {1: "out of memory", 2: "this instruction set is not available on this machine"}
# Results of this size are asked to live in huge pages, of which one is 2 MiB.
_HUGE = 2**22


class View(ctypes.Structure):
    """`View` in csrc/problem.h."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("batch", ctypes.c_int64),
        ("head", ctypes.c_int64),
        ("row", ctypes.c_int64),
    ]


class Problem(ctypes.Structure):
    """`Problem` in csrc/problem.h, field by field."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("dtype", "threads", "batch", "heads", "kv_heads")),
        *((name, ctypes.c_int64) for name in ("queries", "keys", "head_dim")),
        *((name, View) for name in ("q", "k", "v", "out", "out_rest")),
        ("lse", ctypes.c_void_p),
        ("patterns", ctypes.c_void_p),
        ("offset", ctypes.c_int64),
        ("positions", ctypes.c_void_p),
        ("key_flags", ctypes.c_void_p),
        ("global_positions", ctypes.c_void_p),
        ("global_counts", ctypes.c_void_p),
        ("max_globals", ctypes.c_int64),
        ("skip_global_queries", ctypes.c_int64),
        ("document_begin", ctypes.c_void_p),
        ("document_end", ctypes.c_void_p),
        ("document_batch", ctypes.c_int64),
        ("scale", ctypes.c_double),
        ("dropout", ctypes.c_double),
        ("seed", ctypes.c_uint64),
        ("bias", ctypes.c_void_p),
        ("bias_reach", ctypes.c_int64),
        ("position_query", View),
        ("position_keys", ctypes.c_void_p),
        ("position_reach", ctypes.c_int64),
        *((name, View) for name in ("d_out", "d_q", "d_k", "d_v", "d_position_query")),
        ("d_lse", ctypes.c_void_p),
        ("d_bias", ctypes.c_void_p),
        ("d_position_keys", ctypes.c_void_p),
    ]


class Elements(ctypes.Structure):
    """`Elements` in csrc/problem.h, field by field."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("dtype", "threads", "count")),
        ("x", ctypes.c_void_p),
        ("out", ctypes.c_void_p),
        ("dropout", ctypes.c_double),
        ("seed", ctypes.c_uint64),
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class NativeStatus:
    """What of the native kernel there is on this machine."""

    available: bool
    instruction_set: str | None
    """The one in use."""
    built: tuple[str, ...]
    """Those in the library, best first."""
    reason: str | None
    """Why it is not available."""


class Kernel:
    """A loaded kernel library and the instruction set to use of it."""

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))
        self._library.longspan_instruction_sets.restype = ctypes.c_char_p
        self._library.longspan_best_instruction_set.restype = ctypes.c_char_p
        for structure in (Problem, Elements):
            size = getattr(self._library, f"longspan_{structure.__name__.lower()}_size", None)
            if size is None or size() != ctypes.sizeof(structure):
                raise OSError("it was built from other sources; reinstall longspan")
        self.built = tuple(self._library.longspan_instruction_sets().decode().split())
        self.instruction_set: str = self._library.longspan_best_instruction_set().decode()

    @property
    def runnable(self) -> tuple[str, ...]:
        """Those of `built` that this machine can run. Not all of them are worth it."""
        return tuple(name for name in self.built if self._library.longspan_runs_here(name.encode()))

    @property
    def tiles_are_announced_only(self) -> bool:
        """Whether this machine says that it has tile instructions (AMX), and has none that work."""
        return bool(self._library.longspan_tiles_are_announced_only())

    def prefer_huge_pages(self, *results: Tensor) -> None:
        """A hint for the memory of large results, before it is touched."""
        for x in results:
            if x.nbytes >= _HUGE:
                self._library.longspan_prefer_huge_pages(
                    ctypes.c_void_p(x.data_ptr()), ctypes.c_int64(x.nbytes)
                )

    def call(self, function: str, problem: ctypes.Structure) -> None:
        """Runs ``function``, a name without "longspan_", on ``problem``."""
        entry = getattr(self._library, f"longspan_{function}")
        code = entry(ctypes.byref(problem), self.instruction_set.encode())
        if code:
            raise RuntimeError(f"the native kernel failed: {_ERRORS.get(code, code)}")


def _find() -> Kernel | str:
    """The kernel, or the reason why there is none.

    The environment variable LONGSPAN_NATIVE_LIBRARY names another build of it, for debugging.
    """
    folder = Path(__file__).parent
    other = os.environ.get("LONGSPAN_NATIVE_LIBRARY")
    found = [Path(other)] if other else sorted(folder.glob("_native*.so"))
    if not found:
        log = folder / "native_build.txt"
        unknown = "it was not built; reinstall longspan with a C++ compiler"
        return f"no native kernel: {log.read_text().strip() if log.exists() else unknown}"
    try:
        return Kernel(found[0])
    except OSError as error:
        return f"the native kernel does not load: {error}"


# Found once, at import: torch.compile does not trace through the loading of libraries.
KERNEL = _find()

# On such a machine every product of bf16 matrices would kill the process: oneDNN, which torch uses for
# them, believes the announcement. The limit holds if it is set before the first product.
if isinstance(KERNEL, Kernel) and KERNEL.tiles_are_announced_only:
    os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")


def kernel() -> Kernel:
    """The kernel.

    Raises:
        RuntimeError: there is none.
    """
    if isinstance(KERNEL, str):
        raise RuntimeError(KERNEL)
    return KERNEL


def status() -> NativeStatus:
    """Whether the kernel is there, and for which instruction sets."""
    if isinstance(KERNEL, str):
        return NativeStatus(available=False, instruction_set=None, built=(), reason=KERNEL)
    return NativeStatus(
        available=True, instruction_set=KERNEL.instruction_set, built=KERNEL.built, reason=None
    )
