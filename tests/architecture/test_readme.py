"""What the documents tell a reader to type works."""

import os
import re
import shlex
from pathlib import Path

import pytest
import torch

from longspan.cli.main import app
from tests.attention.cases import TOLERANCES

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text(), flags=re.MULTILINE | re.DOTALL)


def commands() -> list[str]:
    lines = (line for path in DOCUMENTS for block in blocks(path, "sh") for line in block.splitlines())
    return sorted({line.split("#")[0].strip() for line in lines if line.split("#")[0].strip()})


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_python_examples_run(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    # The blocks of a page build on each other.
    names: dict[str, object] = {}
    for block in blocks(path, "python"):
        exec(compile(block, str(path), "exec"), names)
        printed = capsys.readouterr().out.split()
        promised = re.findall(r"print\(.*?\)  # (.*)", block)
        assert printed == " ".join(promised).split()


@pytest.mark.parametrize("command", commands())
def test_commands_exist(command: str) -> None:
    program, *arguments = [word for word in shlex.split(command) if "=" not in word or word.startswith("-")]
    if program == "make":
        makefile = (ROOT / "Makefile").read_text()
        assert all(re.search(rf"^{target}:", makefile, flags=re.MULTILINE) for target in arguments)
    elif program.endswith("longspan"):
        app.parse_args(arguments, exit_on_error=False, print_error=False)
    else:
        assert program in ("pip", "git", "cd", ".venv/bin/pytest", ".venv/bin/ruff", ".ci/run")


def test_local_links_lead_somewhere() -> None:
    for path in [*DOCUMENTS, ROOT / "DESIGN.md"]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text()):
            assert (path.parent / target).exists(), f"{path.name} links to {target}"


def test_tolerance_table_is_the_one_that_is_tested() -> None:
    page = (ROOT / "docs/attention.md").read_text()
    rows = re.findall(r"^\| (b?float\d+) \| (\S+) \| (\S+) \| (\S+) \|$", page, flags=re.MULTILINE)
    published = {getattr(torch, name): tuple(map(float, numbers)) for name, *numbers in rows}
    assert published == {dtype: (t.forward, t.gradient, t.table_gradient) for dtype, t in TOLERANCES.items()}


def test_ci_runs_the_tests() -> None:
    assert os.access(ROOT / ".ci/run", os.X_OK)
    assert "make test" in (ROOT / ".ci/run").read_text()
