"""Brackets in columns: written and read again they are the same mentions; and what is refused."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longspan.data.conll import conll_lines, in_order
from longspan.data.coreference import read_conll_2012
from longspan.data.examples import CoreferenceDocument, Mention

from .writing import write


def crosses(one: Mention, other: Mention) -> bool:
    return one[0] < other[0] < one[1] < other[1] or other[0] < one[0] < other[1] < one[1]


@st.composite
def documents(draw: st.DrawFn) -> CoreferenceDocument:
    word = st.text(st.characters(codec="utf-8", exclude_categories=["Z", "C"]), min_size=1).filter(
        lambda text: bool(text.strip("_")) and not text.startswith("#")
    )
    sentences = draw(st.lists(st.lists(word, min_size=1, max_size=6).map(tuple), min_size=1, max_size=4))
    num_words = sum(map(len, sentences))
    place = st.integers(0, num_words - 1)
    spans = st.tuples(place, place).map(lambda pair: (min(pair), max(pair) + 1))
    clusters: list[list[Mention]] = []
    for wanted in draw(st.lists(st.lists(spans, min_size=1, max_size=6, unique=True), max_size=4)):
        cluster: list[Mention] = []
        for span in wanted:
            if not any(crosses(span, other) for other in cluster):
                cluster.append(span)
        clusters.append(cluster)
    speakers = None
    if draw(st.booleans()):
        speakers = tuple(tuple("Ada" for _ in sentence) for sentence in sentences)
    return CoreferenceDocument(
        id="any/name", sentences=tuple(sentences), clusters=in_order(clusters, "here"), speakers=speakers
    )


@settings(max_examples=150)
@given(document=documents(), bars=st.booleans())
def test_written_and_read_it_is_the_same(
    document: CoreferenceDocument, bars: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    lines = list(conll_lines(document))
    if not bars:
        # OntoGUM writes brackets with nothing between them.
        lines = [
            head + tab + tail.replace("|", "")
            for line in lines
            for head, tab, tail in [line.rpartition("\t")]
        ]
    path = write(tmp_path_factory.mktemp("conll") / "one.conll", "\n".join(lines) + "\n")
    (again,) = read_conll_2012(path)
    assert again.id == "any/name_0"
    assert again.sentences == document.sentences
    assert again.clusters == document.clusters
    assert again.speakers == document.speakers


def test_nested_and_single_brackets(tmp_path: Path) -> None:
    cells = ["(0|(1)|(2", "-", "(0)|2)", "0)", "(0", "(1)|0)"]
    rows = "".join(f"doc 0 {at} w{at} - - - - - - - {cell}\n" for at, cell in enumerate(cells))
    (document,) = read_conll_2012(
        write(tmp_path / "a.conll", f"#begin document (doc); part 003\n{rows}\n#end document\n")
    )
    assert document.id == "doc_3"
    assert document.clusters == (((0, 1), (5, 6)), ((0, 3),), ((0, 4), (2, 3), (4, 6)))


def test_crossing_mentions_of_one_entity_cannot_be_written() -> None:
    document = CoreferenceDocument(
        id="d", sentences=(("a", "b", "c", "d"),), clusters=(((0, 3), (1, 4)),), speakers=None
    )
    with pytest.raises(ValueError, match="d: a cluster is .* without mentions that cross"):
        list(conll_lines(document))


BEGIN = "#begin document (doc); part 000\n"
END = "\n#end document\n"


def row(cell: str) -> str:
    return f"doc 0 0 word - - - - - - - {cell}\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (row("-"), "line 1: the line is .*; it must be '#begin document"),
        (BEGIN + row("-"), "line 2: the file ends; it must have '#end document' before"),
        (BEGIN + row("(0") + END, r"line 2: \(0 is not closed; 0\) must come before .*line 4"),
        (BEGIN + row("0)") + END, r"line 2: the last column is '0\)'; it must be without 0\)"),
        (BEGIN + row("(0)(x") + END, "line 2: the last column is '.*'; it must be brackets such as"),
        (BEGIN + row("(0)|(0)") + END, "a cluster is .*; it must be different mentions"),
        (BEGIN + "doc 0 0 word -\n" + END, "line 2: the number of columns is 5; it must be 3, as in OntoGUM"),
        (BEGIN + "0\t\t_\n" + END, "line 2: the word is ''; it must be at least one character"),
        (BEGIN + BEGIN + END, "line 2: the number of columns is 5"),
    ],
)
def test_refuses(content: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        list(read_conll_2012(write(tmp_path / "bad.conll", content)))
