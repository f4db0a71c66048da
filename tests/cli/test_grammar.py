"""One grammar for all commands: names, examples, JSON, completion."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cyclopts import App

from longspan.cli.main import app
from tests.architecture.documents import arguments_of
from tests.cli.running import ends

SAID_OTHERWISE = {"output", "input", "dest", "destination", "model_path", "max_new_tokens", "json", "quiet"}
ON_OR_OFF = {"--no-training", "--no-whole-documents"}
"""Of switches that are not simply off until they are named."""
PRINTS_NO_RESULT = {"predict", "completion", "plot pattern", "plot run", "serve"}
"""JSON or a script already; a picture; a page."""


def leaves(group: App = app, path: tuple[str, ...] = ()) -> Iterator[tuple[str, App]]:
    for name in group:
        if not name.startswith("-"):
            command = group[name]
            if command.default_command is None:
                yield from leaves(command, (*path, name))
            else:
                yield " ".join((*path, name)), command


COMMANDS = dict(leaves())


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_examples_that_work(name: str) -> None:
    command = COMMANDS[name]
    heading, *examples = (command.help_epilogue or "").splitlines()
    assert heading == "Examples:"
    assert any(f"longspan {name}" in example for example in examples)
    for example in examples:
        app.parse_args(arguments_of(example), exit_on_error=False, print_error=False)


@pytest.mark.parametrize("name", COMMANDS)
def test_names_of_options(name: str) -> None:
    arguments = COMMANDS[name].assemble_argument_collection(parse_docstring=True)
    fields = {argument.field_info.name for argument in arguments}
    assert not fields & SAID_OTHERWISE
    assert ("as_json" in fields) == (name not in PRINTS_NO_RESULT)
    for argument in arguments:
        assert not [one for one in argument.names if one.startswith("--no-") and one not in ON_OR_OFF]
        assert argument.parameter.help, f"{argument.name} has no help"


def test_every_command_is_in_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
    for name in COMMANDS:
        assert f"longspan {name}" in page


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["longspan", "len"], {"lengthen"}),
        (["longspan", "bench", "ke"], {"kernel"}),
        (["longspan", "export", "--ov"], {"--overwrite"}),
        (["longspan", "lengthen", "a", "b", "--into", "l"], {"longformer", "led"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bash_completes(
    words: list[str], expected: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    assert ends("completion", "bash") == 0
    script = tmp_path / "longspan.bash"
    script.write_text(capsys.readouterr().out)
    typed = " ".join(words)
    program = f"""
source {script}
COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; COMP_LINE='{typed}'; COMP_POINT={len(typed)}
$(complete -p longspan | sed 's/.*-F \\([^ ]*\\) .*/echo \\1/') > {tmp_path}/name
"$(cat {tmp_path}/name)" longspan "{words[-1]}" "{words[-2]}"
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run([bash, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert {one.strip() for one in done.stdout.splitlines()} == expected


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_a_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ends("completion", shell) == 0
    assert "lengthen" in capsys.readouterr().out
