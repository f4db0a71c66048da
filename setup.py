"""Builds the native kernel: one library with one build of the kernel per instruction set.

Everything else about the package is in pyproject.toml. Without a working compiler the install still
succeeds; the reason is left beside the package, where `longspan doctor` reads it.
"""

import os
import platform
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

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
    INSTRUCTION_SETS |= {
        "avx2": (32, ["-mavx2", "-mfma", "-mf16c"]),
        "avx512": (
            64,
            ["-mavx2", "-mfma", "-mf16c", "-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq"],
        ),
    }


class BuildKernel(build_ext):
    """Compiles kernel.cpp once per instruction set, dispatch.cpp once, and links them."""

    def build_extension(self, ext: Extension) -> None:
        target = Path(self.get_ext_fullpath(ext.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        # Beside the library in a wheel, and beside the sources for an editable install.
        logs = [target.parent / "native_build.txt", SOURCES.parent / "native_build.txt"]
        try:
            objects = self.compile_one("dispatch.cpp", "dispatch", [])
            for name, (vector_bytes, flags) in INSTRUCTION_SETS.items():
                defines = [f"-DLONGSPAN_ISA={name}", f"-DLONGSPAN_VECTOR_BYTES={vector_bytes}"]
                objects += self.compile_one("kernel.cpp", name, [*flags, *defines])
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
