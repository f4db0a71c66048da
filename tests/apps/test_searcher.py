"""`Searcher` on tiny models, and the one that comes with the package."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from transformers import RobertaConfig, RobertaModel

import longspan
from longspan.apps import searcher as module
from longspan.apps.searcher import LATE_LAYERS, Searcher
from longspan.data.examples import Document
from longspan.embedded import SEARCHER
from tests.tasks.tiny import tiny_led, tiny_roberta, tiny_tokenizer

TEXTS = [
    "The river Inn flows from Switzerland to the Danube.\nThe city of Passau lies where they meet.",
    "Ada Lovelace wrote the first program. Nobody had built the machine.",
]


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_roberta(tmp_path_factory.mktemp("short"))


@pytest.fixture(scope="module")
def late(short: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose lower layer sees documents."""
    folder = tmp_path_factory.mktemp("late")
    model = longspan.lengthen(RobertaModel.from_pretrained(short, add_pooling_layer=False), 64, 128)
    model.config.longspan |= {LATE_LAYERS: 1}
    model.save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


def test_finds_what_is_nearest_and_says_where(late: Path) -> None:
    searcher = Searcher(str(late), most=60)
    documents = searcher.index(TEXTS)
    assert [one.text for one in documents] == TEXTS
    found = searcher.search("Which river?", top=100)
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    assert all(one.text == TEXTS[one.document][one.start : one.end] for one in found)
    assert {(one.document, one.start) for one in found} == {
        (at, start) for at in range(2) for start, _ in searcher.places(at)
    }
    assert all(-1 <= one.score <= 1 for one in found)
    assert searcher.search("Which river?", top=2) == found[:2]


@pytest.mark.parametrize("bf16", [False, True])
def test_scores_are_cosines_of_vectors(late: Path, bf16: bool) -> None:
    searcher = Searcher(str(late), most=60, words=0)
    searcher.encoder = replace(searcher.encoder, bf16=bf16)
    searcher.index(TEXTS)
    query = "Which river?"
    with torch.no_grad():
        vector = searcher.encoder.vectors([[searcher.tokenizer.encode(query, add_special_tokens=False)]])[0]
        cut = [[text[a:b] for a, b in searcher.places(at)] for at, text in enumerate(TEXTS)]
        passages = searcher.encoder.vectors(
            [[searcher.tokenizer.encode(one, add_special_tokens=False) for one in some] for some in cut]
        )
    found, expected = np.concatenate(searcher.scores(query)), (passages @ vector).numpy()
    np.testing.assert_allclose(found, expected, atol=2e-2 if bf16 else 2e-3)


def test_words_that_are_shared_count_as_much_as_is_said(late: Path) -> None:
    scores = {}
    for share in (0.0, 0.25, 1.0):
        searcher = Searcher(str(late), most=60, words=share)
        searcher.index(["", *TEXTS])
        assert [len(one) for one in searcher.scores("the first program")] == [0, 2, 2]
        scores[share] = np.concatenate(searcher.scores("the first program"))
    np.testing.assert_allclose(scores[0.25], 0.75 * scores[0.0] + 0.25 * scores[1.0], atol=1e-5)
    assert scores[1.0].argmax() == 2 and not scores[1.0][:2].any()


def test_reads_texts_files_folders_and_named_texts(late: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXTS[0])
    (tmp_path / "b.md").write_text(f"# Ada\n\n{TEXTS[1]}")
    (tmp_path / "c.bin").write_bytes(b"\0")
    searcher = Searcher(str(late))
    named = Document(id="a name", text=TEXTS[1])
    found = searcher.index([tmp_path, TEXTS[0], named, tmp_path / "a.txt"])
    assert [one.id for one in found] == [
        str(tmp_path / "a.txt"),
        str(tmp_path / "b.md"),
        "2",
        "a name",
        str(tmp_path / "a.txt"),
    ]
    assert searcher.index("A text.")[0].text == "A text."
    assert searcher.search("text")[0].name == "0"


def test_the_surroundings_of_a_passage_matter_only_in_one_pass(late: Path) -> None:
    text, other = "Nobody read it to the end.", "Paris is the capital of France."

    def second(searcher: Searcher, before: str) -> float:
        searcher.encoder = replace(searcher.encoder, bf16=False)
        searcher.index(f"{before}\n{text}")
        return float(searcher.scores("What?")[0][-1])

    in_one_pass = Searcher(str(late), most=40, words=0)
    alone = Searcher(str(late), most=40, words=0, late=False)
    before = "It was a good film, a very good film."
    assert abs(second(in_one_pass, before) - second(in_one_pass, other)) > 1e-2
    assert second(alone, before) == pytest.approx(second(alone, other), abs=1e-3)


def test_a_short_model_reads_passages_alone(short: Path) -> None:
    searcher = Searcher(str(short))
    assert searcher.encoder.late_layers == 0
    searcher.index([*TEXTS, "word " * 400])  # longer than its positions
    assert len(searcher.search("river", top=50)) >= 4
    with pytest.raises(ValueError, match="learned to read each passage alone"):
        Searcher(str(short), late=True)


def test_empty_documents_have_no_passages(late: Path) -> None:
    searcher = Searcher(str(late))
    assert searcher.search("river") == () and searcher.scores("river") == []
    searcher.index([])
    assert searcher.search("river") == ()
    searcher.index(["", " \n"])
    assert searcher.search("river") == ()
    searcher.index(["", "The river."])
    assert [one.document for one in searcher.search("river")] == [1]


def test_what_was_read_is_not_read_again(late: Path, tmp_path: Path) -> None:
    store = tmp_path / "index.sqlite"
    (tmp_path / "a.txt").write_text(TEXTS[0])
    told: list[float] = []
    first = Searcher(str(late), store=store)
    first.index(tmp_path / "a.txt", progress=told.append)
    assert told[-1] == pytest.approx(1.0)
    expected = first.search("river")
    first.store.close()
    told.clear()
    again = Searcher(str(late), store=store)
    again.index(tmp_path / "a.txt", progress=told.append)
    assert told == [] and again.search("river") == expected
    # Another text, another size of passages and another way of reading are computed anew.
    (tmp_path / "a.txt").write_text(TEXTS[1])
    again.index(tmp_path / "a.txt", progress=told.append)
    assert told and again.search("river")[0].text in TEXTS[1]
    again.store.close()
    for changed in (Searcher(str(late), store=store, most=30), Searcher(str(late), store=store, late=False)):
        told.clear()
        changed.index(tmp_path / "a.txt", progress=told.append)
        changed.store.close()
        assert told


def test_other_weights_make_other_vectors(late: Path, tmp_path: Path) -> None:
    one = Searcher(str(late))
    model = longspan.LongformerModel.from_pretrained(late, add_pooling_layer=False)
    with torch.no_grad():
        cast(Any, model.encoder.layer[1]).output.dense.weight[0, 0] += 1e-3
    model.save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    assert Searcher(str(late))._maker == one._maker != Searcher(str(tmp_path))._maker


def test_an_interrupted_reading_keeps_the_documents_from_before(
    late: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searcher = Searcher(str(late), store=tmp_path / "index")
    searcher.index(TEXTS[0])

    def stop(_: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        searcher.index(TEXTS[1], progress=stop)
    assert [one.text for one in searcher.documents] == TEXTS[:1]
    assert searcher.search("river")[0].text in TEXTS[0]
    searcher.store.close()


def test_a_broken_file_of_a_folder_may_be_left_out(late: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXTS[0])
    (tmp_path / "b.docx").write_bytes(b"broken")
    searcher = Searcher(str(late))
    with pytest.raises(ValueError, match=r"b\.docx"):
        searcher.index(tmp_path)
    reasons: list[str] = []
    assert len(searcher.index(tmp_path, unreadable=reasons.append)) == 1
    assert len(reasons) == 1 and "b.docx" in reasons[0]
    with pytest.raises(ValueError, match=r"b\.docx"):
        searcher.index(tmp_path / "b.docx", unreadable=reasons.append)


def test_mistakes_are_named(late: Path, tmp_path: Path) -> None:
    searcher = Searcher(str(late))
    with pytest.raises(ValueError, match="top is 0"):
        searcher.search("a", top=0)
    with pytest.raises(ValueError, match="query is empty"):
        searcher.search(" ")
    with pytest.raises(ValueError, match="most is 0"):
        Searcher(str(late), most=0)
    with pytest.raises(ValueError, match=r"words is 1.5; it must be from 0"):
        Searcher(str(late), words=1.5)
    with pytest.raises(ValueError, match="nowhere"):
        searcher.index(tmp_path / "nowhere.txt")
    with pytest.raises(ValueError, match="no model can be loaded"):
        Searcher(str(tmp_path))
    with pytest.raises(ValueError, match="cannot become a Longformer"):
        Searcher(str(tiny_led(tmp_path / "led")))
    (tmp_path / "bare").mkdir()
    sizes: dict[str, Any] = {
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 8,
    }
    RobertaModel(RobertaConfig(vocab_size=9, **sizes), add_pooling_layer=False).save_pretrained(
        tmp_path / "bare"
    )
    with pytest.raises(ValueError, match="no tokenizer"):
        Searcher(str(tmp_path / "bare"))


def test_the_model_that_comes_with_the_package_finds_meaning() -> None:
    searcher = Searcher(most=200, words=0)
    assert searcher.encoder.late_layers > 0
    searcher.index(
        [
            "The kitchen\nTo bake bread, mix flour, water, salt and yeast, and let it rise for an hour.",
            "Space\nThe probe left the solar system after passing its outermost planets.",
            "Health\nShe was given penicillin, since the infection was caused by bacteria.",
        ]
    )
    assert searcher.search("How do I make a loaf?")[0].document == 0
    assert searcher.search("antibiotic treatment")[0].document == 2
    assert searcher.search("a spacecraft far away from the sun")[0].document == 1
    files = list(SEARCHER.rglob("*"))
    assert sum(one.stat().st_size for one in files if one.is_file()) < 40e6
    assert json.loads((SEARCHER / "config.json").read_text())["longspan"][LATE_LAYERS] > 0
    assert module.SEARCHER == SEARCHER
