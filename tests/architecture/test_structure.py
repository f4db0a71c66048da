"""The shape of the tree: small files, names that say something."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted(
    path
    for folder in ("src", "tests")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in (".py", ".cpp", ".h")
)
MOST_LINES = 500
SAYS_NOTHING = {"utils.py", "util.py", "helpers.py", "misc.py", "common.py"}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_file_is_short_and_named(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MOST_LINES
    assert path.name not in SAYS_NOTHING


@pytest.mark.parametrize(
    "path", [p for p in SOURCES if "src" in p.parts and p.suffix == ".py"], ids=lambda p: p.name
)
def test_module_says_what_it_is(path: Path) -> None:
    assert path.read_text().startswith('"""')
