"""Every format has a reader, and its page's examples are read by it."""

import re
from collections import Counter
from pathlib import Path
from typing import get_args

import pytest

from longspan.data.formats import FormatName, read

from .writing import write

PAGE = (Path(__file__).parents[2] / "docs/data.md").read_text()
NAMES: tuple[FormatName, ...] = get_args(FormatName)
EXAMPLES: dict[str, str] = dict(
    re.findall(r"^### `(\w+)`\n\n```json\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
)


def test_the_page_has_an_example_for_each_task() -> None:
    tasks = ["text", "classification", "qa", "candidates", "multihop", "coreference", "tagging"]
    tasks += ["summarization", "bytes"]
    assert list(EXAMPLES) == tasks


@pytest.mark.parametrize("name", [name for name in NAMES if name in EXAMPLES])
def test_examples_of_the_page_are_read(name: FormatName, tmp_path: Path) -> None:
    lines = EXAMPLES[name].splitlines()
    dropped: Counter[str] = Counter()
    found = list(read(write(tmp_path / "page.jsonl", EXAMPLES[name]), name, dropped))
    assert len(found) == len(lines)
    assert [example.id for example in found] == re.findall(r'^{"id": "([^"]+)"', EXAMPLES[name], flags=re.M)
    assert not dropped


def test_the_page_lists_every_format() -> None:
    listed = re.findall(r"^\| `(\w[\w-]*)` \|", PAGE, flags=re.MULTILINE)
    assert sorted({*listed, *EXAMPLES}) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_format_has_a_reader_that_refuses_what_it_cannot_read(name: FormatName, tmp_path: Path) -> None:
    path = write(tmp_path / "articles-wrong.jsonl.gz", b"\xff\xfe\x00")
    write(tmp_path / "ground-truth-wrong.jsonl.gz", b"\xff\xfe\x00")
    with pytest.raises(ValueError, match=r"-wrong.jsonl.gz"):
        list(read(path, name))
