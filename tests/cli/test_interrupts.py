"""Ctrl-C while commands work: nothing half-written, one line, exit code 130.

A process that has imported everything forks; each child runs a command and gets a SIGINT, at a moment that is
drawn anew for each. So many moments can be tried in the time that one import takes.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tasks.tiny import tiny_longformer, tiny_roberta
from tests.training.runs import write_recipe

PROGRAM = """
import json, os, random, signal, sys, tempfile, time
import torch
from pathlib import Path
from transformers.utils import logging
from longspan.cli.main import main
import longspan.conversion.compact, longspan.conversion.lengthen, longspan.conversion.saving
import longspan.training.loop

logging.disable_progress_bar()
torch.set_num_threads(1)
signal.signal(signal.SIGINT, signal.default_int_handler)

def child(arguments, said):
    descriptor = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    code = 0
    try:
        main(arguments)
    except SystemExit as end:
        code = end.code or 0
    except BaseException as error:
        print("ESCAPED", repr(error))
        code = 99
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)

def attempt(arguments, said, after):
    begin = time.monotonic()
    pid = os.fork()
    if not pid:
        child(arguments, said)
    if after is not None:
        time.sleep(after)
        os.kill(pid, signal.SIGINT)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code, time.monotonic() - begin

def tree(folder):
    return sorted(str(one.relative_to(folder)) for one in folder.rglob("*"))

place, trials = Path(sys.argv[1]), int(sys.argv[2])
draw = random.Random(0)
found = []
arguments = json.loads(sys.argv[3])
out = place / "out"
code, whole = attempt([*arguments], place / "said", None)
assert code == 0, (place / "said").read_text()
complete = tree(out)
for _ in range(trials):
    import shutil
    shutil.rmtree(out)
    code, _ = attempt(arguments, place / "said", draw.random() * whole)
    is_there = out.exists()
    found.append({
        "code": code,
        "said": (place / "said").read_text(),
        "beside": sorted(one.name for one in place.iterdir()),
        "tree": tree(out) if is_there else None,
    })
    if not is_there:
        out.mkdir()
print(json.dumps({"complete": complete, "found": found}))
"""


def interrupted(place: Path, trials: int, *arguments: object) -> tuple[list[str], list[dict[str, object]]]:
    """What a command leaves when it ends well, and what is there after each time it was interrupted."""
    words = json.dumps([str(one) for one in (*arguments,)])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, str(place), str(trials), words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert any(one["code"] == 130 for one in said["found"]), "no trial was interrupted"
    for one in said["found"]:
        assert one["code"] in (0, 130), one["said"]
        if one["code"] == 130:
            assert one["said"].splitlines()[-1] == "longspan: interrupted"
            assert "Traceback" not in one["said"]
    return said["complete"], said["found"]


@pytest.mark.parametrize("command", ["lengthen", "compact"])
def test_a_model_is_whole_or_absent(command: str, tmp_path: Path) -> None:
    source = (tiny_roberta if command == "lengthen" else tiny_longformer)(tmp_path / "source")
    options = ["--max-length", "512"] if command == "lengthen" else []
    place = tmp_path / "place"
    place.mkdir()
    complete, found = interrupted(place, 12, command, source, place / "out", *options)
    for one in found:
        assert one["beside"] in (["said"], ["out", "said"])
        assert one["tree"] in (None, complete)


def test_a_run_has_nothing_unfinished(tmp_path: Path) -> None:
    run = {"steps": 12, "checkpoint_every": 1, "evaluate_every": 3}
    recipe = write_recipe(tmp_path / "recipe", run=run)
    place = tmp_path / "place"
    place.mkdir()
    complete, found = interrupted(place, 5, "train", recipe, "--out", place / "out")
    models = {one for one in complete if one.startswith("last/")}
    for one in found:
        tree: list[str] = one["tree"] or []  # pyright: ignore[reportAssignmentType]
        # ".metadata" is the name that torch gives a file of a checkpoint.
        hidden = [part for path in tree for part in Path(path).parts if part.startswith(".")]
        assert set(hidden) <= {".metadata"}
        for folder in ("best", "last"):
            there = {path.replace(f"{folder}/", "last/") for path in tree if path.startswith(f"{folder}/")}
            assert there in (set(), models)
        steps = {Path(path).parts[1] for path in tree if path.startswith("checkpoints/step-")}
        assert all(f"checkpoints/{step}/files.json" in tree for step in steps)
