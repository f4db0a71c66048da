"""Documents and their summaries, in every form that they are published in."""

import json
from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest

from longspan.data.examples import SummarizedDocument
from longspan.data.parts import read_part
from longspan.data.summarization import (
    EMPTY_ARTICLE,
    TITLE_ALONE,
    read_cnn_dailymail,
    read_qmsum,
    read_scientific_papers,
    read_scisummnet,
    read_squality,
    read_summarized,
)

from .writing import ids, write, write_jsonl, write_tar


def test_our_jsonl(tmp_path: Path) -> None:
    path = write_jsonl(
        tmp_path / "a.jsonl.gz",
        {"id": 1, "text": "A b.", "summary": "A."},
        {"id": "q", "text": "A b.", "query": "b?", "summaries": ["B.", "b"]},
    )
    assert list(read_summarized(path)) == [
        SummarizedDocument(id="1", text="A b.", summaries=("A.",)),
        SummarizedDocument(id="q", text="A b.", query="b?", summaries=("B.", "b")),
    ]


def test_summaries_may_be_unknown_only_where_nothing_is_learned(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", {"id": 1, "text": "A b."})
    assert next(read_summarized(path, targets=False)).summaries == ()
    with pytest.raises(ValueError, match="line 1: summary is missing; it must be a string"):
        list(read_summarized(path))
    path = write_jsonl(tmp_path / "b.jsonl", {"id": 1, "text": "A b.", "summaries": []})
    with pytest.raises(ValueError, match="at least one summary"):
        list(read_summarized(path))


def test_scientific_papers(tmp_path: Path) -> None:
    paper = {
        "article_id": "1",
        "article_text": ["one .", "two ."],
        "abstract_text": ["<S> a . </S>", "<S> b . </S>"],
    }
    path = write_jsonl(
        tmp_path / "test.txt",
        paper,
        {**paper, "article_id": "2", "article_text": []},
        {**paper, "article_id": "3", "abstract_text": ["<S>  </S>"]},
    )
    dropped: Counter[str] = Counter()
    expected = SummarizedDocument(id="1", text="one .\ntwo .", summaries=("a .\nb .",))
    assert list(read_scientific_papers(path, dropped=dropped)) == [expected]
    assert dropped == {EMPTY_ARTICLE: 2}


def test_cnn_dailymail(tmp_path: Path) -> None:
    path = write_jsonl(
        tmp_path / "news.jsonl",
        {"id": "x", "article": "News.", "highlights": "One.\nTwo."},
        {"document": "More.", "summary": "M."},
    )
    assert [(one.id, one.text, one.summaries) for one in read_cnn_dailymail(path)] == [
        ("x", "News.", ("One.\nTwo.",)),
        ("2", "More.", ("M.",)),
    ]
    path = write_jsonl(tmp_path / "wrong.jsonl", {"document": "More."})
    with pytest.raises(ValueError, match="line 1: summary is missing"):
        list(read_cnn_dailymail(path))


MEETING: dict[str, Any] = {
    "meeting_transcripts": [{"speaker": "A", "content": "Hi ."}, {"speaker": "B", "content": "Bye ."}],
    "general_query_list": [{"query": "Summarize.", "answer": "They met."}],
    "specific_query_list": [{"query": "Who left?", "answer": "B."}, {"query": "Why?", "answer": "No idea."}],
}


@pytest.mark.parametrize("archive", [False, True])
def test_qmsum(tmp_path: Path, archive: bool) -> None:
    files = {f"ALL/{part}/m-{part}.json": json.dumps(MEETING) for part in ("test", "train", "val")}
    path = tmp_path / ("q.tar.xz" if archive else "q")
    if archive:
        write_tar(path, files)
    else:
        for name, content in files.items():
            write(path / name, content)
    found = list(read_qmsum(path))
    assert len(found) == 9
    assert found[1] == SummarizedDocument(
        id="m-test/specific-1", text="A: Hi .\nB: Bye .", query="Who left?", summaries=("B.",)
    )
    assert ids(read_part(f"{path}#dev", "qmsum")) == [
        "m-val/general-1",
        "m-val/specific-1",
        "m-val/specific-2",
    ]


def test_a_meeting_that_is_no_json_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="m.json, line 1: .* it must be JSON"):
        list(read_qmsum(write(tmp_path / "m.json", "{")))


STORY = {
    "metadata": {"passage_id": "63833"},
    "document": "Once.",
    "questions": [
        {
            "question_text": "What is the plot?",
            "question_number": 1,
            "responses": [{"response_text": "One."}, {"response_text": "Another."}],
        }
    ],
}


def test_squality(tmp_path: Path) -> None:
    lines = {f"txt/{part}.jsonl": json.dumps(STORY) + "\n" for part in ("dev", "test", "train")}
    path = write_tar(tmp_path / "s.tar", lines)
    assert len(list(read_squality(path))) == 3
    assert list(read_part(f"{path}#test", "squality")) == [
        SummarizedDocument(
            id="63833/1", text="Once.", query="What is the plot?", summaries=("One.", "Another.")
        )
    ]


PAPER = """<PAPER>
  <S sid="0">A Title</S>
  <ABSTRACT><S sid="1">We  do.</S></ABSTRACT>
  <SECTION title="1 Introduction" number="1"><S sid="2">First &amp; last.</S></SECTION>
</PAPER>"""


@pytest.mark.parametrize("archive", [False, True])
def test_scisummnet(tmp_path: Path, archive: bool) -> None:
    files = {
        "top/A00/Reference_XML/A00.xml": PAPER,
        "top/A00/summary/A00.abstract.txt": "not this",
        "top/A00/summary/A00.scisummnet_human.txt": "A Title\nThey do.\nIt works.\n",
        "top/A01/Reference_XML/A01.xml": PAPER,
        "top/A01/summary/A01.scisummnet_human.txt": "A Title\n\n",
    }
    path = tmp_path / ("s.tar.gz" if archive else "s")
    if archive:
        write_tar(path, files)
    else:
        for name, content in files.items():
            write(path / name, content)
    text = "A Title\nWe do.\n1 Introduction\nFirst & last."
    expected = SummarizedDocument(id="A00", text=text, summaries=("They do.\nIt works.",))
    dropped: Counter[str] = Counter()
    assert list(read_scisummnet(path, dropped=dropped)) == [expected]
    assert dropped == {TITLE_ALONE: 1}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a/A.xml": PAPER}, "A.xml has no A.scisummnet_human.txt"),
        ({"a/A.scisummnet_human.txt": "T\ns"}, "comes before A.xml"),
        ({"a/A.xml": "<PAPER>"}, "A.xml: .* it must be XML"),
        ({"a/README": "hello"}, "it must be a folder or an archive of ScisummNet"),
    ],
    ids=str,
)
def test_papers_without_summaries_are_refused(tmp_path: Path, files: dict[str, str], message: str) -> None:
    for name, content in files.items():
        write(tmp_path / "s" / name, content)
    with pytest.raises(ValueError, match=message):
        list(read_scisummnet(tmp_path / "s"))


def test_queries_about_one_text_stay_in_one_part(tmp_path: Path) -> None:
    records = [
        {"id": f"{text}-{at}", "text": f"text {text}", "query": str(at), "summary": "s"}
        for text in range(30)
        for at in range(2)
    ]
    path = write_jsonl(tmp_path / "a.jsonl", *records)
    parts = [
        {cast(SummarizedDocument, one).text for one in read_part(f"{path}#{part}", "summarization")}
        for part in ("train", "dev", "test")
    ]
    assert sum(map(len, parts)) == 30 == len(set.union(*parts))
