"""Documents with a class, in four formats."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from longspan.data.classification import read_hyperpartisan, read_labelled, split_hyperpartisan
from longspan.data.examples import LabelledDocument
from longspan.data.imdb import UNLABELLED, read_imdb
from longspan.data.peerread import read_peerread

from .writing import ENDINGS, ids, without, write, write_jsonl, write_tar

REVIEW = {"split": "train", "id": 3, "rating": 9, "label": 1, "text": "A fine film.<br />Go."}
PAPER = {
    "split": "dev",
    "id": "1701.00001",
    "accepted": False,
    "title": "On Spans",
    "abstract": "They are long.",
    "body": "1 Introduction\nLong.",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_our_jsonl(ending: str, tmp_path: Path) -> None:
    path = write_jsonl(
        tmp_path / f"a.jsonl{ending}",
        {"id": "a", "text": "naïve", "label": "good"},
        {"id": 2, "text": "", "label": 0},
    )
    assert list(read_labelled(path)) == [
        LabelledDocument(id="a", text="naïve", label="good"),
        LabelledDocument(id="2", text="", label="0"),
    ]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"id": "a", "text": "x"}, "line 1: label is missing; it must be a string or an integer"),
        ({"id": "a", "text": "x", "label": None}, "line 1: label is None"),
        ({"id": "a", "text": ["x"], "label": 1}, r"line 1: text is \['x'\]; it must be a string"),
    ],
)
def test_our_jsonl_refuses(record: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        list(read_labelled(write_jsonl(tmp_path / "a.jsonl", record)))


def test_imdb(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "imdb.jsonl", REVIEW, REVIEW | {"split": "test", "label": 0, "rating": 2})
    assert [(review.id, review.label) for review in read_imdb(path)] == [
        ("train/pos/3_9", "pos"),
        ("test/neg/3_2", "neg"),
    ]
    assert ids(read_imdb(path, split="test")) == ["test/neg/3_2"]
    assert next(read_imdb(path)).text == "A fine film.<br />Go."


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label": 2}, "label is 2; it must be 0 or 1"),
        ({"split": "unsup"}, "split is 'unsup'; it must be 'train' or 'test'"),
        ({"rating": "9"}, "rating is '9'; it must be an integer"),
    ],
)
def test_imdb_refuses(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"line 2: {message}"):
        list(read_imdb(write_jsonl(tmp_path / "imdb.jsonl", REVIEW, REVIEW | change)))


REVIEWS = {
    "README": "Large Movie Review Dataset",
    "train/urls_pos.txt": "http://example.org",
    "train/pos/3_9.txt": "A fine film.<br />Go.",
    "train/neg/4_1.txt": "No.",
    "train/unsup/0_0.txt": "Who knows?",
    "test/neg/3_2.txt": "No again.",
}


def aclimdb(tmp_path: Path, kind: str, files: dict[str, str] = REVIEWS) -> Path:
    """The published folders, or an archive of them."""
    named = {f"aclImdb/{name}": text for name, text in files.items()}
    if kind == "archive":
        return write_tar(tmp_path / "aclImdb_v1.tar.gz", named)
    for name, text in named.items():
        write(tmp_path / name, text)
    return tmp_path / "aclImdb"


@pytest.mark.parametrize("kind", ["folder", "archive"])
def test_imdb_as_it_is_published(kind: str, tmp_path: Path) -> None:
    path, dropped = aclimdb(tmp_path, kind), Counter[str]()
    reviews = {review.id: (review.text, review.label) for review in read_imdb(path, dropped=dropped)}
    assert reviews == {
        "train/pos/3_9": ("A fine film.<br />Go.", "pos"),
        "train/neg/4_1": ("No.", "neg"),
        "test/neg/3_2": ("No again.", "neg"),
    }
    assert dropped == {UNLABELLED: 1}
    assert ids(read_imdb(path, split="test", dropped=Counter())) == ["test/neg/3_2"]


def test_imdb_refuses_other_folders(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the review is 'good/3_9.txt'; it must be pos or neg"):
        list(read_imdb(aclimdb(tmp_path / "a", "folder", {"train/good/3_9.txt": "a"})))
    with pytest.raises(ValueError, match="must be the folder aclImdb"):
        list(read_imdb(aclimdb(tmp_path / "b", "folder", {"novel.txt": "a"})))


def test_peerread(tmp_path: Path) -> None:
    path = write_jsonl(
        tmp_path / "papers.jsonl", PAPER, PAPER | {"id": "1701.00002", "split": "train", "accepted": True}
    )
    assert [(paper.id, paper.label) for paper in read_peerread(path)] == [
        ("1701.00001", "rejected"),
        ("1701.00002", "accepted"),
    ]
    (paper,) = read_peerread(path, split="dev")
    assert paper.text == "On Spans\nThey are long.\n1 Introduction\nLong."
    bad = write_jsonl(tmp_path / "bad.jsonl", without(PAPER, "body"))
    with pytest.raises(ValueError, match="line 1: body is missing"):
        list(read_peerread(bad))


def peerread(tmp_path: Path, kind: str, **review: Any) -> Path:
    """A section as it is published, with one paper in its dev part and one in train."""
    sections = [{"heading": None, "text": "ar X"}, {"heading": "1 Introduction", "text": "Long \ud835."}]
    parsed = {"name": "1701.00001.pdf", "metadata": {"title": None, "sections": sections, "references": []}}
    said = {"title": "On Spans", "abstract": "They are long.", "accepted": False, "reviews": []} | review
    files = {
        f"section/{part}/{folder}": json.dumps(content)
        for part, id in (("dev", "1701.00001"), ("train", "1701.00002"))
        for folder, content in ((f"parsed_pdfs/{id}.pdf.json", parsed), (f"reviews/{id}.json", said))
    }
    if kind == "archive":
        return write_tar(tmp_path / "section.tar.gz", files)
    for name, text in files.items():
        write(tmp_path / name, text)
    return tmp_path / "section"


@pytest.mark.parametrize("kind", ["folder", "archive"])
def test_peerread_as_it_is_published(kind: str, tmp_path: Path) -> None:
    path = peerread(tmp_path, kind)
    assert ids(read_peerread(path)) == ["1701.00001", "1701.00002"]
    (paper,) = read_peerread(path, split="dev")
    assert paper == LabelledDocument(
        id="1701.00001",
        text="On Spans\nThey are long.\nar X\n\n1 Introduction\nLong \ufffd.",
        label="rejected",
    )


def test_peerread_refuses_what_says_too_little(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="reviews/1701.00001.json: accepted is None; it must be true"):
        list(read_peerread(peerread(tmp_path / "a", "folder", accepted=None)))
    path = peerread(tmp_path / "b", "folder")
    (path / "dev/reviews/1701.00001.json").unlink()
    with pytest.raises(ValueError, match="the paper is '1701.00001'; it must be one that dev/reviews has"):
        list(read_peerread(path))
    with pytest.raises(ValueError, match="has no file named|must be PeerRead"):
        list(read_peerread(path / "dev" / "reviews"))


def xml_articles(*numbers: int) -> str:
    body = """
        From here: <a href="x" type="external">a source</a> &amp; more
        <p>First <a href="y">linked</a>
        words.</p> between <p></p><p>Last.</p>"""
    inside = "".join(
        f'<article id="{number:07}" published-at="2017-09-10" title="Title {number}">{body}'
        f"<p>{'again ' * 10}{number // 2}</p></article>"
        for number in numbers
    )
    return f'<?xml version="1.0" encoding="UTF-8"?><articles>{inside}</articles>'


def xml_truth(labels: dict[int, str]) -> str:
    inside = "".join(
        f'<article hyperpartisan="{label}" id="{number:07}" labeled-by="article" url="u"/>'
        for number, label in labels.items()
    )
    return f'<?xml version="1.0" ?><articles>{inside}</articles>'


@pytest.mark.parametrize("ending", ENDINGS)
def test_hyperpartisan(ending: str, tmp_path: Path) -> None:
    articles = write(tmp_path / f"articles-t.xml{ending}", xml_articles(0, 1))
    write(tmp_path / f"ground-truth-t.xml{ending}", xml_truth({1: "false", 0: "true"}))
    first, second = read_hyperpartisan(articles)
    assert (first.id, first.label, second.label) == ("0000000", "true", "false")
    assert (
        first.text
        == "Title 0\nFrom here: a source & more\nFirst linked words.\nbetween\nLast.\n" + "again " * 10 + "0"
    )


def test_hyperpartisan_split_is_stratified_and_seeded(tmp_path: Path) -> None:
    labels = {number: "true" if number < 40 else "false" for number in range(100)}
    articles = write(tmp_path / "articles-t.xml", xml_articles(*range(100)))
    truth = write(tmp_path / "truth.xml", xml_truth(labels))
    parts = split_hyperpartisan(articles, truth, seed=1)
    counts = [(len(part), sum(article.label == "true" for article in part)) for part in parts]
    assert counts == [(80, 32), (10, 4), (10, 4)]
    assert len({article.id for part in parts for article in part}) == 100
    for part in parts:
        numbers = {int(article.id) for article in part}
        assert numbers == {number ^ 1 for number in numbers}, "articles that are one were separated"
    assert split_hyperpartisan(articles, truth, seed=1) == parts
    assert split_hyperpartisan(articles, truth, seed=2) != parts


@pytest.mark.parametrize(
    ("articles", "truth", "message"),
    [
        (xml_articles(0, 1), xml_truth({0: "true"}), "article 2: id is '0000001'; it must be among those"),
        (xml_articles(0), xml_truth({0: "true", 1: "false"}), "article 0000001 is missing"),
        (xml_articles(0, 0), xml_truth({0: "true"}), "article 2: id is '0000000'; it must be unique"),
        (xml_articles(0), xml_truth({0: "yes"}), "hyperpartisan is 'yes'; it must be 'true' or 'false'"),
        (xml_articles(0)[:-20], xml_truth({0: "true"}), "articles-t.xml, after article .*it must be XML"),
        ("<articles/>", xml_truth({0: "true"}), "has no <article>"),
        (xml_articles(0).replace(' id="0000000"', ""), xml_truth({0: "true"}), "article 1: id is missing"),
    ],
)
def test_hyperpartisan_refuses(articles: str, truth: str, message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "articles-t.xml", articles)
    write(tmp_path / "ground-truth-t.xml", truth)
    with pytest.raises(ValueError, match=message):
        list(read_hyperpartisan(path))


def test_hyperpartisan_needs_the_truth(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="its name must begin with articles-, or give the truth"):
        list(read_hyperpartisan(write(tmp_path / "news.xml", xml_articles(0))))
