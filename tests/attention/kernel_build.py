"""Builds of the native kernel beside the installed one: other vector widths, sanitizers."""

import shutil
import subprocess
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "src/longspan/attention/csrc"


def build_kernel(target: Path, *flags: str, vector_bytes: int, tile_rows: int) -> Path:
    """Compiles the kernel into the library ``target``, as its only instruction set ("portable")."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("needs g++")
    settings = {"ISA": "portable", "VECTOR_BYTES": vector_bytes, "TILE_ROWS": tile_rows}
    subprocess.run(
        [
            compiler,
            "-std=c++17",
            "-fPIC",
            "-shared",
            "-fopenmp",
            "-ffp-contract=fast",
            "-Wno-psabi",
            *flags,
            *(f"-DLONGSPAN_{name}={value}" for name, value in settings.items()),
            str(SOURCES / "dispatch.cpp"),
            str(SOURCES / "kernel.cpp"),
            "-o",
            str(target),
        ],
        check=True,
    )
    return target
