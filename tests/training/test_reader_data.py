"""What the embedded reader learns from: answers stay where the questions say that they are."""

import importlib
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longspan.data.examples import Document, MultiHopQuestion, Paragraph, Question, Span, SupportingFact

ROOT = Path(__file__).parents[2]
NAMES = ("Bonn", "Rome", "Oslo", "Lima", "Bern", "Kyiv", "Riga", "Doha")
PARAGRAPHS = [
    Document(id=f"Capitals/{at}", text=f"This is said first. {name} is a capital, of {at} hills. And that.")
    for at, name in enumerate(NAMES)
]


@pytest.fixture(scope="module")
def reader_data() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "recipes")
        return importlib.import_module("reader_data")


def asked(at: int) -> Question:
    """A question about one of the paragraphs."""
    text = PARAGRAPHS[at].text
    start = text.index(NAMES[at])
    return Question(
        id=f"q{at}",
        question="Which capital?",
        documents=(PARAGRAPHS[at],),
        answers=(NAMES[at],),
        spans=(Span(0, start, start + len(NAMES[at])),),
        is_impossible=False,
    )


@given(at=st.integers(0, len(NAMES) - 1), words=st.integers(1, 200))
def test_answers_stay_in_longer_texts(reader_data: ModuleType, at: int, words: int) -> None:
    longer = reader_data.within_article(asked(at), PARAGRAPHS, words)
    (document,) = longer.documents
    assert [document.text[span.start : span.end] for span in longer.spans] == [NAMES[at]]
    assert PARAGRAPHS[at].text in document.text
    whole = sum(len(one.text.split()) for one in PARAGRAPHS)
    assert len(document.text.split()) >= min(words, whole)
    assert longer.id != asked(at).id and longer.answers == (NAMES[at],)


@given(at=st.integers(0, len(NAMES) - 1), others=st.integers(0, 10))
def test_answers_stay_among_paragraphs_like_theirs(reader_data: ModuleType, at: int, others: int) -> None:
    several = reader_data.among_alike(asked(at), PARAGRAPHS, others)
    (document,) = several.documents
    assert [document.text[span.start : span.end] for span in several.spans] == [NAMES[at]]
    kept = [one.text for one in PARAGRAPHS if one.text in document.text]
    assert document.text == "\n".join(kept) and PARAGRAPHS[at].text in kept
    assert len(kept) == min(1 + others, len(PARAGRAPHS))


def test_paragraphs_with_the_words_of_a_question_come_first(reader_data: ModuleType) -> None:
    question = replace(asked(0), question="Which capital of 5 hills is said to be like Lima?")
    (document,) = reader_data.among_alike(question, PARAGRAPHS, 2).documents
    assert document.text.split("\n") == [PARAGRAPHS[at].text for at in (0, 3, 5)]


def multi_hop(answer: str) -> MultiHopQuestion:
    """A question that paragraphs 2 and 5 support; the answer is in others too."""
    return MultiHopQuestion(
        id="multi",
        question="Which capital?",
        paragraphs=tuple(
            Paragraph(title=name, sentences=(one.text, " Lima is far."))
            for name, one in zip(NAMES, PARAGRAPHS, strict=True)
        ),
        supporting_facts=(SupportingFact(2, 0), SupportingFact(5, 1)),
        answer=answer,
        type="bridge",
    )


@pytest.mark.parametrize("distractors", [0, 2, 6, None])
def test_only_supporting_paragraphs_answer(reader_data: ModuleType, distractors: int | None) -> None:
    made = reader_data.as_question(multi_hop("Lima"), distractors)
    (document,) = made.documents
    paragraphs = document.text.split("\n")
    assert len(paragraphs) == (len(NAMES) if distractors is None else 2 + distractors)
    assert {"Oslo", "Kyiv"} <= {one.split(".")[0] for one in paragraphs}
    assert len(made.spans) == 2, "of all places that say Lima, those in the supporting paragraphs"
    for span in made.spans:
        assert document.text[span.start : span.end] == "Lima"
        assert document.text[: span.start].split("\n")[-1].startswith(("Oslo. ", "Kyiv. "))


@pytest.mark.parametrize("answer", ["yes", "no", "Atlantis"])
def test_answers_that_are_no_spans_are_left_out(reader_data: ModuleType, answer: str) -> None:
    assert reader_data.as_question(multi_hop(answer), 1) is None


@pytest.mark.parametrize("paragraphs", [1, 4, 100])
def test_what_does_not_support_does_not_answer(reader_data: ModuleType, paragraphs: int) -> None:
    made = reader_data.without_support(multi_hop("2 hills"), paragraphs)
    (document,) = made.documents
    titles = {one.split(".")[0] for one in document.text.split("\n")}
    assert len(titles) == min(paragraphs, len(NAMES) - 2) and not titles & {"Oslo", "Kyiv"}
    assert made.is_impossible and not made.answers and not made.spans
    for answer in ("Lima", "yes"):
        assert reader_data.without_support(multi_hop(answer), 3) is None, "it may be there, or anywhere"


@given(text=st.text(alphabet="ab \n\t.é", max_size=60), words=st.integers(0, 12))
def test_beginnings_are_of_the_text_as_it_is(reader_data: ModuleType, text: str, words: int) -> None:
    found = reader_data.beginning(text, words)
    assert text.startswith(found)
    assert found.split() == text.split()[:words]
