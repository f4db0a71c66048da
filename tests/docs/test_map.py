"""The map of the paper and of the survey leads to what exists, and leaves nothing out."""

import re
import shlex
from pathlib import Path

import pytest

from longspan.cli.main import app
from longspan.training.recipe import read_recipe
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs/map.md").read_text(encoding="utf-8")
COMMANDS = sorted(set(re.findall(r"`(longspan [^`]*)`", PAGE)))
SECTIONS = [
    *("1 ", "2 ", "3.1 ", "3.2 ", "4.1 ", "4.2 ", "4.2.1 ", "4.2.2 ", "5 "),
    *("6 ", "6.1 ", "6.2 ", "6.3 ", "6.4 ", "6.5 ", "7 ", "8 ", "A ", "B ", "C ", "D "),
    *(f"Figure {number}: " for number in range(1, 4)),
    *(f"Table {number}: " for number in range(1, 15)),
]
"""How rows of the paper begin: its sections, figures and tables."""


@pytest.mark.parametrize("beginning", SECTIONS)
def test_every_part_of_the_paper_has_a_row(beginning: str) -> None:
    assert f"\n| {beginning}" in PAGE


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_are_right(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Our parser takes them, with their recipes, overrides included."""
    monkeypatch.chdir(ROOT)
    _, *words = shlex.split(command)
    app.parse_args(words, exit_on_error=False, print_error=False)
    if words[0] == "train":
        read_recipe(Path(words[1]), words[2:])


def test_files_in_it_exist() -> None:
    named = re.findall(r"`((?:src|recipes|docs|benchmarks|samples)/[\w./-]+)`", PAGE)
    named += [target for _, target in re.findall(r"\[([^]]*)\]\(([^)#:]+)(?:#[^)]*)?\)", PAGE)]
    for name in named:
        assert (ROOT / name).exists() or (ROOT / "docs" / name).exists(), name
    assert len(named) > 100


def test_names_of_links_are_where_they_lead() -> None:
    """A link that is called as a path leads to that path."""
    for name, target in re.findall(r"\[([^]]*\.(?:py|yaml|json|md))\]\(([^)#:]+)\)", PAGE):
        assert target.endswith(name), f"{name} leads to {target}"
