"""Coreference as OntoNotes, LitBank and OntoGUM write it, and our JSONL."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from longspan.data.conll import EMPTY, UNMATCHED
from longspan.data.coreference import BLANKED, read_conll_2012, read_coreference, read_ontogum
from longspan.data.examples import CoreferenceDocument

from .writing import ENDINGS, ids, without, write, write_jsonl, write_tar

ONTONOTES = """#begin document (nw/x/00/x_0001); part 000
nw/x/00/x_0001   0    0    Ada      NNP   (TOP(S(NP*)    -    -   -   Speaker#1   (PERSON)   (ARG0*)   (12)
nw/x/00/x_0001   0    1    saw      VBD        (VP*      see  01   1   Speaker#1       *       (V*)     -
nw/x/00/x_0001   0    2    her     PRP$     (NP(NP*)     -    -   -   Speaker#1       *     (ARG1*   (3|(12)
nw/x/00/x_0001   0    3    dog       NN          *))     -    -   -   Speaker#1       *        *)     3)
nw/x/00/x_0001   0    4    /.        .           *))     -    -   -   Speaker#1       *        *      -

nw/x/00/x_0001   0    0    It       PRP   (TOP(S(NP*)    -    -   -      -       *    (ARG0*)     (3)
nw/x/00/x_0001   0    1    barked   VBD      (VP*)))     bark 01   1     -       *       (V*)     -

#end document
#begin document (nw/x/00/x_0001); part 001
nw/x/00/x_0001   1    0    Yes       UH   (TOP(INTJ*))   -    -   -      -       *        *      -

#end document
"""

LITBANK = (
    "#begin document (1_novel_brat); part 0\n"
    + "".join(
        f"1_novel_brat\t0\t{at}\t{word}\t_\t_\t_\t_\t_\t_\t_\t_\t{cell}\n"
        for at, (word, cell) in enumerate([("CHAPTER", ""), ("the", "(2"), ("judge", "2)|(4)"), (".", "")])
    )
    + "\n#end document\n"
)


def ontogum(name: str, *rows: tuple[str, str]) -> str:
    inside = "".join(f"{at}\t{word}\t{cell}\n" for at, (word, cell) in enumerate(rows))
    return f"# begin document {name}\n{inside}# end document\n"


ONTOGUM = {
    "splits.md": "# Splits\n\nOn dev.\n\n## dev\n\n  * GUM_a\n\n## train\n\n  * GUM_b\n  * GUM_reddit\n",
    "conll/GUM_a.conll": ontogum("", ("Middle", "(3(4"), ("English", "4)3)(11)"), ("_", "_")),
    "conll/GUM_b.conll": ontogum("GUM_b", ("He", "(1)"), ("left", "_")),
    "conll/GUM_reddit.conll": ontogum("GUM_reddit", ("___", "(1"), ("_", "1)"), ("____", "_")),
}

OURS: dict[str, Any] = {
    "id": "d1",
    "sentences": [["Ada", "saw", "her", "dog", "."], ["It", "barked"]],
    "clusters": [[[5, 6], [2, 4]], [[0, 1], [2, 3]]],
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_ontonotes(ending: str, tmp_path: Path) -> None:
    first, second = read_conll_2012(write(tmp_path / f"x.v4_gold_conll{ending}", ONTONOTES))
    assert first == CoreferenceDocument(
        id="nw/x/00/x_0001_0",
        sentences=(("Ada", "saw", "her", "dog", "/."), ("It", "barked")),
        clusters=(((0, 1), (2, 3)), ((2, 4), (5, 6))),
        speakers=(("Speaker#1",) * 5, ("", "")),
    )
    assert (second.id, second.clusters, second.speakers) == ("nw/x/00/x_0001_1", (), None)


def test_litbank_in_an_archive(tmp_path: Path) -> None:
    files = {"README.md": "# no data", "coref/conll/1_novel_brat.conll": LITBANK}
    (document,) = read_conll_2012(write_tar(tmp_path / "litbank.tar.xz", files))
    assert document.id == "1_novel_brat_0"
    assert document.words == ("CHAPTER", "the", "judge", ".")
    assert document.clusters == (((1, 3),), ((2, 3),))
    assert document.speakers is None


def test_ontonotes_in_a_folder_is_read_once(tmp_path: Path) -> None:
    gold, automatic = "nw/x.v4_gold_conll", "nw/x.v4_auto_conll"
    changed = ONTONOTES.replace("Ada", "Ida")
    write(tmp_path / "both" / gold, ONTONOTES)
    write(tmp_path / "both" / automatic, changed)
    archive = write_tar(tmp_path / "both.tar.gz", {automatic: changed, gold: ONTONOTES})
    for path in (tmp_path / "both", archive):
        documents = list(read_conll_2012(path))
        assert (len(documents), documents[0].words[0]) == (2, "Ada")
        assert next(read_conll_2012(path, names="*auto_conll")).words[0] == "Ida"
        assert len(ids(read_conll_2012(path, names="*conll"))) == 4
    write(tmp_path / "automatic" / automatic, changed)
    assert len(ids(read_conll_2012(tmp_path / "automatic"))) == 2


def test_ontogum_drops_blanked_documents_and_counts_them(tmp_path: Path) -> None:
    archive = write_tar(tmp_path / "ontogum.tar.xz", ONTOGUM)
    dropped: Counter[str] = Counter()
    first, second = read_ontogum(archive, dropped=dropped)
    assert first.clusters == (((0, 2),), ((0, 2),), ((1, 2),))
    assert first.id == "GUM_a"
    assert first.sentences == (("Middle", "English", "_"),)
    assert second.id == "GUM_b"
    assert dropped == {BLANKED: 1}


def test_ontogum_counts_brackets_without_partners_and_empty_words(tmp_path: Path) -> None:
    rows = [("sorry", "(2"), ("", "_"), ("I", "(3)"), (",", "3)")]
    path = write(tmp_path / "GUM_c.conll", ontogum("", *rows))
    dropped: Counter[str] = Counter()
    (document,) = read_ontogum(path, dropped=dropped)
    assert document.clusters == (((1, 2),),)
    assert dropped == {EMPTY: 1, UNMATCHED: 2}
    with pytest.raises(ValueError, match=r"GUM_c.conll, line 3: the word is ''"):
        list(read_conll_2012(path))


def test_ontogum_has_its_splits(tmp_path: Path) -> None:
    archive = write_tar(tmp_path / "ontogum.tar.xz", ONTOGUM)
    dropped: Counter[str] = Counter()
    assert ids(read_ontogum(archive, split="dev", dropped=dropped)) == ["GUM_a"]
    assert not dropped
    assert ids(read_ontogum(archive, split="train", dropped=dropped)) == ["GUM_b"]
    assert dropped == {BLANKED: 1}
    with pytest.raises(ValueError, match=r"splits.md names no document of 'test'"):
        list(read_ontogum(archive, split="test"))


def test_our_jsonl(tmp_path: Path) -> None:
    speakers = [["A"] * 5, ["B"] * 2]
    first, second = read_coreference(
        write_jsonl(tmp_path / "c.jsonl", OURS, OURS | {"id": 2, "speakers": speakers, "clusters": []})
    )
    assert first.clusters == (((0, 1), (2, 3)), ((2, 4), (5, 6)))
    assert first.speakers is None
    assert (second.id, second.clusters, second.speakers) == ("2", (), (("A",) * 5, ("B",) * 2))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clusters": [[[0, 8]]]}, r"clusters\[0\]\[0\] is \[0, 8\]; it must be .*<= 7, the number of words"),
        ({"clusters": [[[2, 2]]]}, r"clusters\[0\]\[0\] is \[2, 2\]"),
        ({"clusters": [[]]}, r"a cluster is \(\); it must be different mentions, at least one"),
        ({"clusters": [[[0, 1], [0, 1]]]}, "a cluster is .* different mentions"),
        ({"clusters": [5]}, r"clusters\[0\] is 5; it must be a list of \[start, end\]"),
        ({"sentences": ["Ada saw"]}, r"sentences\[0\] is 'Ada saw'; it must be a list of strings"),
        ({"sentences": [["Ada", 3]]}, r"sentences\[0\]\[1\] is 3; it must be a string"),
        ({"speakers": [["A"] * 5]}, "speakers is .*; it must be shaped as the sentences"),
    ],
)
def test_our_jsonl_refuses(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"line 1: {message}"):
        list(read_coreference(write_jsonl(tmp_path / "c.jsonl", OURS | change)))


def test_our_jsonl_needs_clusters(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="clusters is missing; it must be a list of clusters"):
        list(read_coreference(write_jsonl(tmp_path / "c.jsonl", without(OURS, "clusters"))))
