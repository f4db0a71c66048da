"""The data sets themselves, where they are at hand: the counts that their sources state."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from longspan.data.classification import read_hyperpartisan, split_hyperpartisan
from longspan.data.conll import EMPTY, UNMATCHED
from longspan.data.coreference import BLANKED, read_conll_2012, read_ontogum
from longspan.data.examples import CoreferenceDocument
from longspan.data.extractive_qa import read_squad
from longspan.data.hotpotqa import read_hotpotqa, split_hotpotqa
from longspan.data.imdb import read_imdb
from longspan.data.peerread import read_peerread
from longspan.data.quac import read_quac
from longspan.data.statistics import measure, words
from longspan.data.summarization import (
    TITLE_ALONE,
    Part,
    read_cnn_dailymail,
    read_qmsum,
    read_scisummnet,
    read_squality,
)
from longspan.data.text8 import write_text8
from longspan.data.texts import read_enwik8, read_texts, read_wikitext

DATA = Path(__file__).parents[2].parent / "shared" / "data"


def real(name: str) -> Path:
    if not (DATA / name).exists():
        pytest.skip(f"{name} is not at hand")
    return DATA / name


@pytest.mark.slow
def test_imdb() -> None:
    path = real("imdb/imdb_labeled.jsonl.xz")
    reviews = list(read_imdb(path))
    counts = Counter((review.id.split("/")[0], review.label) for review in reviews)
    assert counts == {(split, label): 12500 for split in ("train", "test") for label in ("pos", "neg")}
    assert len({review.id for review in reviews}) == 50000


def test_hyperpartisan() -> None:
    path = real("hyperpartisan/articles-training-byarticle-20181122.xml.xz")
    articles = list(read_hyperpartisan(path))
    assert Counter(article.label for article in articles) == {"true": 238, "false": 407}
    found = measure(articles, words)
    assert 565 <= found.mean < 585
    parts = split_hyperpartisan(path, seed=0)
    assert [len(part) for part in parts] == [516, 65, 64]
    assert len({article.id for part in parts for article in part}) == 645
    for seed in range(3):
        places = {
            article.id: at for at, part in enumerate(split_hyperpartisan(path, seed=seed)) for article in part
        }
        for one, other in (("0000065", "0000121"), ("0000383", "0000384"), ("0000386", "0000580")):
            assert places[one] == places[other]


@pytest.mark.slow
def test_peerread() -> None:
    path = real("peerread_cscl/peerread_arxiv_cs_cl.jsonl.xz")
    for split, papers, accepted in (("train", 2374, 576), ("dev", 132, 29), ("test", 132, 41)):
        found = [paper.label for paper in read_peerread(path, split=split)]  # pyright: ignore[reportArgumentType]
        assert (len(found), found.count("accepted")) == (papers, accepted)


def test_squad() -> None:
    questions = list(read_squad(real("squad2_dev/dev-v2.0.json.xz")))
    assert len(questions) == 11873
    assert len({question.documents[0].id.rpartition("/")[0] for question in questions}) == 35
    for question in questions:
        said = tuple(question.documents[0].text[span.start : span.end] for span in question.spans)
        assert said == question.answers


@pytest.mark.parametrize(
    ("name", "passages", "total"),
    [("quac-val", 1000, 7354), pytest.param("quac-train", 11567, 83568, marks=pytest.mark.slow)],
)
def test_quac(name: str, passages: int, total: int) -> None:
    dropped: Counter[str] = Counter()
    questions = list(read_quac(real(f"quac/{name}.jsonl.xz"), dropped=dropped))
    assert len({question.documents[0].id for question in questions}) == passages
    assert len(questions) == total
    assert not dropped
    for question in questions:
        assert question.is_impossible != bool(question.answers)


@pytest.mark.slow
def test_hotpotqa() -> None:
    path = real("hotpotqa/hotpot_dev_distractor_v1.json.xz")
    dropped: Counter[str] = Counter()
    questions = list(read_hotpotqa(path, dropped=dropped))
    assert Counter(question.type for question in questions) == {"bridge": 5918, "comparison": 1487}
    assert sum(question.answer in ("yes", "no") for question in questions) == 458
    assert sum(len(question.paragraphs) == 10 for question in questions) == 7345
    assert all(question.supporting_facts for question in questions)
    assert dropped.total() < 50
    parts = split_hotpotqa(path, seed=0, dropped=dropped)
    assert [len(part) for part in parts] == [5924, 741, 740]


def counts(documents: Sequence[CoreferenceDocument]) -> tuple[int, int, int, int]:
    return (
        len(documents),
        sum(len(document.words) for document in documents),
        sum(len(cluster) for document in documents for cluster in document.clusters),
        sum(len(document.clusters) for document in documents),
    )


def test_litbank() -> None:
    documents = list(read_conll_2012(real("litbank/litbank_coref_conll.tar.xz")))
    assert counts(documents) == (100, 210532, 29103, 7927)


def test_ontogum() -> None:
    path = real("ontogum/ontogum.tar.xz")
    dropped: Counter[str] = Counter()
    documents = list(read_ontogum(path, dropped=dropped))
    assert dropped == {BLANKED: 18, UNMATCHED: 2, EMPTY: 1}
    # A word is empty, and a mention is opened and never closed.
    assert counts(documents)[:3] == (281 - 18, 251725 - 1, 32629 - 1)
    assert max(len(document.words) for document in documents) <= 1878
    dev = {document.id for document in read_ontogum(path, split="dev", dropped=dropped)}
    other_genres = {document.id for document in read_ontogum(path, split="test2", dropped=dropped)}
    # Of 32 documents, 2 are blanked.
    assert (len(dev), len(other_genres)) == (30, 26)
    assert dev | other_genres <= {document.id for document in documents}
    assert all(id.startswith("GENTLE_") for id in other_genres)


@pytest.mark.slow
def test_novels() -> None:
    novels = list(read_texts(real("litbank/litbank_original_100_novels.tar.xz")))
    assert len(novels) == 100
    assert 61.6e6 < sum(len(novel.text.encode()) for novel in novels) < 61.8e6


@pytest.mark.parametrize(
    ("name", "lines", "num_words", "articles"),
    [("train", 36718, 2051908, 600), ("valid", 3760, 213886, 60), ("test", 4358, 241211, 60)],
)
def test_wikitext(name: str, lines: int, num_words: int, articles: int) -> None:
    found = list(read_wikitext(real(f"wikitext2/wiki.{name}.raw.xz")))
    # Whoever counted the words of the training part found two fewer than there are between spaces.
    assert 0 <= sum(len(article.text.split()) for article in found) - num_words <= 2
    assert sum(article.text.count("\n") + 1 for article in found) == lines - 1
    assert len(found) == articles


@pytest.mark.slow
def test_enwik8() -> None:
    path = real("enwik8/enwik8.xz")
    assert read_enwik8(path, "train").startswith(b"<mediawiki")
    assert len(read_enwik8(path, "dev")) == len(read_enwik8(path, "test")) == 5_000_000


@pytest.mark.slow
def test_text8(tmp_path: Path) -> None:
    # enwik9, which text8 is made of, begins with enwik8.
    assert write_text8(real("enwik8/enwik8.xz"), tmp_path / "text8", size=200) == 200
    published = b" anarchism originated as a term of abuse first used against early working class radicals "
    assert (tmp_path / "text8").read_bytes().startswith(published)


def test_qmsum() -> None:
    path = real("qmsum/qmsum.tar.xz")
    counts = [sum(1 for _ in read_qmsum(path, split=split)) for split in ("train", "dev", "test")]
    assert counts == [1257, 272, 281]


def test_squality() -> None:
    path = real("squality/squality.tar.xz")
    sizes: dict[Part, int] = {"train": 250, "dev": 125, "test": 260}
    for split, questions in sizes.items():
        found = list(read_squality(path, split=split))
        assert len(found) == questions == len({one.id for one in found})
        assert sum(len(one.summaries) for one in found) == 4 * questions


def test_scisummnet() -> None:
    dropped: Counter[str] = Counter()
    papers = list(read_scisummnet(real("scisummnet/scisummnet_task2.tar.xz"), dropped=dropped))
    assert dropped == {TITLE_ALONE: 4}
    assert len(papers) == 974 == len({one.id for one in papers})
    assert 4400 < measure(papers, words).mean < 4900
    assert all(one.summaries[0].strip() for one in papers)


@pytest.mark.slow
def test_cnn_dailymail() -> None:
    news = list(read_cnn_dailymail(real("cnndm10k/cnndm10k.jsonl.xz")))
    assert len(news) == 10000
    assert 650 < measure(news, words).mean < 680
