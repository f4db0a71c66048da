"""Every format has a reader, and its page's examples are read by it."""

import re
from collections import Counter
from pathlib import Path
from typing import get_args

import pytest

from longspan.data.examples import TaggedSentence
from longspan.data.format_names import FormatName
from longspan.data.formats import read
from longspan.data.options import ReaderOptions
from longspan.data.parts import read_part

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


def test_options_reach_the_readers_that_take_them(tmp_path: Path) -> None:
    path = write(tmp_path / "data" / "a.tags", "NNP Ada B-PER x\n\nNNP Rome B-LOC x\n")
    options = ReaderOptions(word=1, tag=2, whole_documents=True, names="*.tags")
    (sentence,) = read(path.parent, "conll-tags", options=options)
    assert sentence == TaggedSentence(id="a/1", words=("Ada", "Rome"), tags=("B-PER", "B-LOC"))
    (document,) = read(path.parent, "text", options=ReaderOptions(names="*.tags"))
    assert document.id == "a.tags"
    (part,) = [
        one
        for part in ("train", "dev", "test")
        for one in read_part(f"data#{part}", "conll-tags", root=tmp_path, options=options)
    ]
    assert part == sentence
    with pytest.raises(ValueError, match="data has no file named .*auto_conll"):
        list(read(path.parent, "conll-2012", options=ReaderOptions(names="*auto_conll")))
    with pytest.raises(ValueError, match="options.word is 0; the format conll-2012 takes names"):
        read(path, "conll-2012", options=ReaderOptions(word=0))
    with pytest.raises(ValueError, match="options.tag is 1; the format squad takes no options"):
        read(path, "squad", options=ReaderOptions(tag=1))


def test_the_page_lists_every_format() -> None:
    listed = re.findall(r"^\| `(\w[\w-]*)` \|", PAGE, flags=re.MULTILINE)
    assert sorted({*listed, *EXAMPLES}) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_format_has_a_reader_that_refuses_what_it_cannot_read(name: FormatName, tmp_path: Path) -> None:
    path = write(tmp_path / "articles-wrong.jsonl.gz", b"\xff\xfe\x00")
    write(tmp_path / "ground-truth-wrong.jsonl.gz", b"\xff\xfe\x00")
    with pytest.raises(ValueError, match=r"-wrong.jsonl.gz"):
        list(read(path, name))
