"""What a full disk does to a run: one clear line, and what was written before stays usable."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.training.runs import write_recipe

# A limit on the size of files is to a program what a full disk is, and needs no disk of its own. The first
# run writes a model and a checkpoint; then there is room for models, then not even for those, then for all.
PROGRAM = """
import resource, sys
from longspan.cli.main import main

def train(*arguments):
    try:
        main(["train", *sys.argv[1:], *arguments])
    except SystemExit as stop:
        print("##", stop.code, file=sys.stderr)

def room(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

from pathlib import Path
train("--run.steps", "3")
last = Path(sys.argv[sys.argv.index("--out") + 1], "last", "model.safetensors")
room(last.stat().st_size + 20_000)
train("--run.steps", "6", "--resume")
room(last.stat().st_size // 2)
train("--run.steps", "6", "--resume", "--run.evaluate_every", "4")
room(resource.RLIM_INFINITY)
train("--run.steps", "6", "--resume")
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    """The lines of each of the four runs on stderr; the last one is ``## exit code``."""
    folder = tmp_path_factory.mktemp("full")
    recipe = write_recipe(folder / "recipe", model={"dropout": 0.0})
    command = [sys.executable, "-c", PROGRAM, str(recipe), "--out", str(folder / "run")]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"COLUMNS": "1000"})
    assert done.returncode == 0, done.stderr[-3000:]
    runs: list[list[str]] = [[]]
    for line in done.stderr.splitlines():
        runs[-1].append(line)
        if line.startswith("## "):
            runs.append([])
    return runs[:-1]


def test_a_checkpoint_that_finds_no_room_says_so(said: list[list[str]]) -> None:
    assert said[0][-1] == "## 0"
    assert said[1][-1] == "## 2"
    (line,) = (line for line in said[1] if line.startswith("longspan: "))
    assert "checkpoints/step-00000006 cannot be written: File too large; " in line
    assert "B are free there; step-00000003 stays usable" in line
    assert len(line) < 400 and not any("Traceback" in one for one in said[1])


def test_a_model_that_finds_no_room_says_so(said: list[list[str]]) -> None:
    assert said[2][-1] == "## 2"
    (line,) = (line for line in said[2] if line.startswith("longspan: "))
    assert "longspan: the model " in line and "cannot be written: File too large; " in line
    assert "B are free there" in line
    assert not any("Traceback" in one for one in said[2])


def test_the_checkpoint_before_is_gone_on_from(said: list[list[str]]) -> None:
    assert said[3][-1] == "## 0"
    assert any("Going on from step-00000003." in line for line in said[3])


def test_whatever_the_disk_did_not_do_keeps_its_error(tmp_path: Path) -> None:
    from longspan.training.write_errors import writing

    with pytest.raises(ValueError, match="no matter"), writing(tmp_path / "x", "the model"):
        raise ValueError("no matter")
    with (
        pytest.raises(OSError, match=r"the model .*x cannot be written: Not a directory \(.*\); .*B are"),
        writing(tmp_path / "x", "the model"),
    ):
        (tmp_path / "file").write_text("")
        (tmp_path / "file" / "x").write_text("")
