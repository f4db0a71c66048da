"""Builds the native kernel: one library with one build of the kernel per instruction set.

Everything else about the package is in pyproject.toml. Without a working compiler the install still
succeeds; the reason is left beside the package, where `longspan doctor` reads it.
"""

import os
import platform
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

SOURCES = Path("src/longspan/attention/csrc")
FLAGS = [
    "-std=c++17",
    "-O3",
    "-fopenmp",
    "-fPIC",
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-Wno-psabi",
    "-g0",
]
# name: (vector bytes, compiler flags)
INSTRUCTION_SETS = {"portable": (16, [])}
if platform.machine() in ("x86_64", "AMD64"):
    FLAGS.append("-DLONGSPAN_X86")
    AVX2 = ["-mavx2", "-mfma", "-mf16c"]
    AVX512 = [*AVX2, "-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq"]
    INSTRUCTION_SETS |= {
        "avx2": (32, AVX2),
        "avx512": (64, AVX512),
        "avx512bf16": (64, [*AVX512, "-mavx512bf16", "-DLONGSPAN_PAIRS=1"]),
    }
# Left out where the compiler does not know the instructions; the others are needed.
OPTIONAL = ("avx512bf16",)


class BuildKernel(build_ext):
    """Compiles kernel.cpp once per instruction set, dispatch.cpp once, and links them."""

    def build_extension(self, ext: Extension) -> None:
        target = Path(self.get_ext_fullpath(ext.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        # Beside the library in a wheel, and beside the sources for an editable install.
        logs = [target.parent / "native_build.txt", SOURCES.parent / "native_build.txt"]
        try:
            objects: list[str] = []
            present: list[str] = []
            for name, (vector_bytes, flags) in INSTRUCTION_SETS.items():
                defines = [f"-DLONGSPAN_ISA={name}", f"-DLONGSPAN_VECTOR_BYTES={vector_bytes}"]
                try:
                    objects += self.compile_one("kernel.cpp", name, [*flags, *defines])
                except CompileError as error:
                    if name not in OPTIONAL:
                        raise
                    print(f"longspan's native kernel is built without {name}: {error}")
                    continue
                if name in OPTIONAL:
                    present.append(f"-DLONGSPAN_{name.upper()}")
            objects += self.compile_one("dispatch.cpp", "dispatch", present)
            self.compiler.link_shared_object(
                objects, str(target), extra_postargs=["-fopenmp"], target_lang="c++"
            )
            for log in logs:
                log.unlink(missing_ok=True)
        except Exception as error:
            for log in logs:
                log.write_text(f"the compiler failed at install time: {error}\n")
            print(f"warning: longspan is installed without its native kernel: {error}")

    def compile_one(self, source: str, name: str, flags: list[str]) -> list[str]:
        return self.compiler.compile(
            [str(SOURCES / source)],
            output_dir=os.path.join(self.build_temp, name),
            extra_postargs=[*FLAGS, *flags],
            depends=[str(path) for path in SOURCES.iterdir()],
        )


setup(
    ext_modules=[
        Extension("longspan.attention._native", sources=[str(SOURCES / "dispatch.cpp")], optional=True)
    ],
    cmdclass={"build_ext": BuildKernel},
)
