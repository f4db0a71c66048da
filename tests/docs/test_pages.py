"""What the documents tell a reader to type works: every block of code of every page is run.

A page is run from its beginning to its end, in a folder of its own, as `stand_ins` describes; its blocks
build on each other. A block in a language that is not known here fails, and so does a command that neither
runs nor is listed.
"""

import contextlib
import io
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Generator
from itertools import pairwise
from pathlib import Path
from typing import cast, get_args

import pytest
import torch
import yaml

from longspan.cli.main import app, main
from longspan.data import formats
from longspan.data.formats import FormatName
from longspan.training.recipe import read_recipe
from tests.docs.pages import PAGES, ROOT, Block, blocks, name_of
from tests.docs.stand_ins import (
    COPIES,
    DOCUMENTS,
    ONLY_PARSED,
    RUNS,
    SMALLER,
    copied,
    furnish,
    options_for,
    write_document,
)


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = furnish(tmp_path_factory.mktemp("furnished"))
    with contextlib.chdir(folder):
        for command in RUNS.values():
            run_command(command)
        for name, source in COPIES.items():
            shutil.copytree(source, name)
    return folder


@pytest.fixture(autouse=True)
def as_before(loudness: None) -> Generator[None]:
    """Commands set the number of threads too, which only matters in this process."""
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_page_runs(page: Path, furnished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(copied(furnished, tmp_path / "page"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    names: dict[str, object] = {"__name__": "page"}
    for block in blocks(page):
        try:
            if block.language == "python":
                run_python(block, names)
            else:
                READERS[block.language](block)
        except KeyError as error:
            raise AssertionError(f"{block}: nothing is known about blocks of {error}") from error
        except (Exception, SystemExit) as error:
            raise AssertionError(f"{block}: {type(error).__name__}: {error}") from error
    for picture in Path("docs/images").iterdir():
        assert_same_picture(picture, ROOT / picture)


def run_python(block: Block, names: dict[str, object]) -> None:
    """Runs a block with the names of those before it; what it prints is what its remarks promise."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(block.code, str(block), "exec"), names)
    promised = re.findall(r"print\(.*?\)  # (.*(?:\n *# .*)*)", block.code)
    assert printed.getvalue().split() == re.sub(r"\n *# ", " ", " ".join(promised)).split()


def run_shell(block: Block) -> None:
    for command in block.commands:
        run_command(command)


def run_command(command: str) -> None:
    """Runs one line of a shell, made smaller, or parses it where it is listed so."""
    not_run = [beginning for beginning in ONLY_PARSED if command.startswith(beginning)]
    if not_run:
        PARSERS[not_run[0]](command)
        return
    run_pipe(command)


def run_pipe(command: str) -> None:
    """Runs our own program and `cat`, with `<`, `>` and `|`."""
    parts = command.split(" | ")
    known = all(part.startswith(("longspan ", "cat ")) for part in parts)
    assert known, f"{command}: it is not run, and not in ONLY_PARSED"
    said = ""
    for part in parts:
        words = shlex.split(f"{part} {options_for(part)}")
        for before, name in pairwise(words):
            wanted = name.endswith(DOCUMENTS) and before not in (">", "--out", "--output")
            if wanted and not Path(name).exists():
                write_document(Path(name))
        words, into = redirected(words, ">")
        words, source = redirected(words, "<")
        given = said if source is None else Path(source).read_text()
        files = (Path(name).read_text() for name in words[1:])
        said = "".join(files) if words[0] == "cat" else longspan(words[1:], given)
        if into is not None:
            Path(into).write_text(said)


def redirected(words: list[str], sign: str) -> tuple[list[str], str | None]:
    """Words without a redirection, and the name behind it."""
    if sign not in words:
        return words, None
    at = words.index(sign)
    return words[:at] + words[at + 2 :], words[at + 1]


def longspan(words: list[str], given: str = "") -> str:
    """Runs the program in this process, with ``given`` as its input; gives what it prints."""
    if words[0] == "train":
        begin_anew(words)
    printed, errors = io.BytesIO(), io.StringIO()
    out = io.TextIOWrapper(printed, encoding="utf-8", write_through=True)
    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(given.encode()), encoding="utf-8")
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            main(words)
    except SystemExit as stop:
        assert not stop.code, f"longspan {' '.join(words)}: {errors.getvalue()}"
    finally:
        sys.stdin = before
    return printed.getvalue().decode()


def begin_anew(words: list[str]) -> None:
    """A training gets an empty folder; one that goes on gets the beginning that it goes on from."""
    out = Path(words[words.index("--out") + 1] if "--out" in words else f"runs/{Path(words[1]).stem}")
    shutil.rmtree(out, ignore_errors=True)
    if "--resume-from" in words:
        at = words.index("--resume-from") + 1
        longspan(words[: at - 1] + words[at + 1 :])
        words[at] = str(next((out / "checkpoints").iterdir()))
    elif "--resume" in words:
        longspan([word for word in words if word != "--resume"] + ["--run.minutes", "0"])


def parse_longspan(command: str) -> None:
    app.parse_args(shlex.split(command)[1:], exit_on_error=False, print_error=False)


def parse_make(command: str) -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in command.split()[1:]:
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), f"the Makefile has no {target}"


def parse_pip(command: str) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for named in re.findall(r"\[(.*?)\]", command):
        assert set(named.split(",")) <= extras.keys(), command


def parse_pytest(command: str) -> None:
    markers = (ROOT / "pyproject.toml").read_text()
    for marker in re.findall(r"-m (\w+)", command):
        assert f'"{marker}: ' in markers, f"there is no marker {marker}"


def parse_torchrun(command: str) -> None:
    before, found, ours = command.partition(" -m longspan ")
    assert found, f"{command} does not start longspan"
    parse_longspan(f"longspan {ours}")
    from torch.distributed.run import get_args_parser

    get_args_parser().parse_args([*shlex.split(before)[1:], "-m", "longspan"])


PARSERS: dict[str, Callable[[str], None]] = {
    "longspan demo": parse_longspan,
    "longspan serve": parse_longspan,
    "longspan bench": parse_longspan,
    "make": parse_make,
    "pip install": parse_pip,
    ".venv/bin/pytest": parse_pytest,
    "torchrun": parse_torchrun,
}


def read_script(block: Block) -> None:
    """A script for a cluster, which is not here: bash parses it, torchrun and we what it starts."""
    subprocess.run(["bash", "-n"], input=block.code, text=True, check=True)
    started = [line.removeprefix("srun ") for line in block.commands if "longspan" in line]
    assert started and any("#SBATCH" in line for line in block.code.splitlines())
    for line in started:
        parse_torchrun(re.sub(r"\$\w+", "1", line))


def read_json(block: Block) -> None:
    """Records of a format, which its reader reads, below its name; elsewhere objects."""
    for line in block.code.splitlines():
        assert isinstance(json.loads(line), dict)
    name = block.heading.strip("`")
    if block.page.name == "data.md" and name in get_args(FormatName):
        Path("records.jsonl").write_text(block.code)
        examples = formats.read(Path("records.jsonl"), cast(FormatName, name))
        assert len(list(examples)) == len(block.code.splitlines())


def read_yaml(block: Block) -> None:
    """A recipe, or fields of one."""
    fields = yaml.safe_load(block.code)
    if "task" not in fields:
        whole = yaml.safe_load((ROOT / "recipes/cpu/char-lm.yaml").read_text())
        fields = whole | fields
    Path("recipe.yaml").write_text(yaml.safe_dump(fields))
    read_recipe(Path("recipe.yaml"))


def read_text(block: Block) -> None:
    """What a command prints: it follows the command."""
    before = [one for one in blocks(block.page) if one.line < block.line]
    assert before and before[-1].language == "sh", "a block of text shows what the commands before it print"


READERS: dict[str, Callable[[Block], None]] = {
    "sh": run_shell,
    "bash": read_script,
    "json": read_json,
    "yaml": read_yaml,
    "text": read_text,
}


def assert_same_picture(drawn: Path, published: Path) -> None:
    from matplotlib.image import imread

    now, before = imread(drawn), imread(published)
    assert now.shape == before.shape and bool((now == before).all()), f"{published} is not what is drawn now"


MEASUREMENTS = sorted(
    {
        command
        for page in PAGES
        for block in blocks(page)
        for command in block.commands
        if command.startswith("longspan bench")
    }
)


@pytest.mark.slow
@pytest.mark.parametrize("command", MEASUREMENTS)
def test_measurement_runs(
    command: str, furnished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(copied(furnished, tmp_path / "page"))
    run_pipe(command)
    assert list(Path("bench-results").glob("*.json"))


def test_lists_have_nothing_that_no_page_has() -> None:
    commands = [command for page in PAGES for block in blocks(page) for command in block.commands]
    for beginning in (*SMALLER, *ONLY_PARSED):
        assert any(beginning in command for command in commands), f"{beginning} is in no page any more"
    assert PARSERS.keys() == ONLY_PARSED.keys()
