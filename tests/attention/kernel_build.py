"""Builds of the native kernel beside the installed one: other vector widths, sanitizers."""

import shutil
import subprocess
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "src/longspan/attention/csrc"


def build_kernel(target: Path, *flags: str, vector_bytes: int) -> Path:
    """Compiles the kernel into the library ``target``, as its only instruction set ("portable")."""
    sources = [str(SOURCES / name) for name in ("dispatch.cpp", "kernel.cpp")]
    return build_program(target, *sources, "-fPIC", "-shared", *flags, vector_bytes=vector_bytes)


def build_program(target: Path, *sources_and_flags: str, vector_bytes: int) -> Path:
    """Compiles a program that includes headers of the kernel."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("needs g++")
    subprocess.run(
        [
            compiler,
            "-std=c++17",
            "-fopenmp",
            "-ffp-contract=fast",
            "-Wno-psabi",
            f"-I{SOURCES}",
            "-DLONGSPAN_ISA=portable",
            f"-DLONGSPAN_VECTOR_BYTES={vector_bytes}",
            *sources_and_flags,
            "-o",
            str(target),
        ],
        check=True,
    )
    return target
