"""What the documents say about the tree is so. That what they tell to type works is tests/docs."""

import os
import re
from pathlib import Path

import torch

from tests.attention.cases import TOLERANCES
from tests.docs.pages import PAGES

ROOT = Path(__file__).parents[2]


def test_local_links_lead_somewhere() -> None:
    for path in [*PAGES, ROOT / "DESIGN.md"]:
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
