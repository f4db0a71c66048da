"""What the numbers were measured on. Standard library and torch only: `longspan doctor` uses it too."""

import os
import platform
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

INSTRUCTION_SETS = ("avx2", "fma", "avx512f", "avx512_bf16", "amx_bf16")


@cache
def cpu_model() -> str:
    """The processor's name as the system gives it."""
    return _cpuinfo().get("model name") or platform.processor() or platform.machine() or "unknown"


@cache
def instruction_sets() -> tuple[str, ...]:
    """Those of `INSTRUCTION_SETS` that the processor has; empty where the system does not say."""
    flags = _cpuinfo().get("flags", "").split()
    return tuple(name for name in INSTRUCTION_SETS if name in flags)


def has_bf16_products() -> bool:
    """Whether torch's bf16 matrix products run on bf16 instructions rather than by emulation."""
    return bool({"avx512_bf16", "amx_bf16"} & set(instruction_sets()))


def version_of(distribution: str) -> str | None:
    """The installed version, or None."""
    with suppress(metadata.PackageNotFoundError):
        return metadata.version(distribution)
    return None


def describe() -> dict[str, Any]:
    """The machine and the software, for the head of a results file."""
    import torch

    memory = 0
    with suppress(ValueError, OSError):
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    packages = ("longspan", "torch", "transformers", "local-attention")
    return {
        "cpu": cpu_model(),
        "instruction_sets": list(instruction_sets()),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "memory_gb": round(memory / 1e9, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "packages": {name: version_of(name) for name in packages},
    }


@cache
def _cpuinfo() -> dict[str, str]:
    """The first processor's fields."""
    with suppress(OSError):
        first = Path("/proc/cpuinfo").read_text().split("\n\n", 1)[0]
        pairs = (line.split(":", 1) for line in first.splitlines() if ":" in line)
        return {key.strip(): value.strip() for key, value in pairs}
    return {}
