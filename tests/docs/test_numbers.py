"""Numbers of the README are those of the measurements that it names."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
ROWS = re.findall(
    r"^\| (.+?) \| (\S+ \w+) \| (\S+ \w+) \| (\S+)x \| \[.*?\]\((.*?)\) \|$", README, flags=re.MULTILINE
)


@pytest.mark.parametrize(("what", "theirs", "ours", "times", "file"), ROWS, ids=[row[0] for row in ROWS])
def test_row_was_measured(what: str, theirs: str, ours: str, times: str, file: str) -> None:
    """The file has both values in the detail of one result, and their ratio as its value."""
    results: list[dict[str, Any]] = json.loads((ROOT / Path(file)).read_text())["results"]
    said = rf"^{re.escape(theirs)},? against {re.escape(ours)}"
    found = [result for result in results if re.search(said, result["detail"])]
    assert found, f"{file} has no {theirs} against {ours}"
    assert all(f"{result['value']:.1f}" == times for result in found)


def test_there_is_a_table() -> None:
    assert len(ROWS) >= 5


def test_readme_is_short() -> None:
    assert len(README.splitlines()) <= 150
