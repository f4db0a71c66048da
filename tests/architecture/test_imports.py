"""What is imported when, seen in fresh processes."""

import subprocess
import sys

OPTIONAL = ("transformers", "matplotlib", "local_attention", "rich", "cyclopts")


def run_python(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_attend_works_without_optional_packages() -> None:
    program = f"""
import sys
for name in {OPTIONAL}:
    sys.modules[name] = None
import torch
import longspan
x = torch.randn(1, 2, 8, 4)
out = longspan.attend(x, x, x, longspan.Pattern(left=1, right=1))
print(tuple(out.shape))
"""
    assert run_python(program).strip() == "(1, 2, 8, 4)"


def test_help_and_mistakes_import_nothing_heavy() -> None:
    program = """
import contextlib, io, sys
from longspan.cli.main import app, main

def commands(group, path=()):
    yield path
    for name in group:
        if not name.startswith("-"):
            yield from commands(group[name], (*path, name))

def ends(*words):
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            main(words)
    except SystemExit as done:
        return done.code

for path in commands(app):
    assert not ends(*path, "--help"), path
    assert ends(*path, "--no-such-option") == 2, path
assert ends("bnech") == 2
assert not ends("completion", "bash")
assert not ends("--version")
heavy = ("torch", "transformers", "numpy", "matplotlib", "tokenizers", "safetensors", "longspan.data.formats")
print("heavy:", [name for name in heavy if name in sys.modules])
"""
    assert run_python(program).endswith("heavy: []\n")


def test_public_names_are_listed_and_unknown_ones_are_refused() -> None:
    program = """
import longspan
assert {"Pattern", "attend", "attend_global"} <= set(dir(longspan))
try:
    longspan.attent
except AttributeError as error:
    print(error)
"""
    assert "attent" in run_python(program)
