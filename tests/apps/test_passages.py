"""Where passages are."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longspan.apps.passages import cover, cut


def texts_of(text: str, most: int) -> list[str]:
    return [text[start:end] for start, end in cut(text, most)]


def test_paragraphs_are_passages() -> None:
    lines = ["The river is long, and it is deep.", "Ada wrote a book about machines.", "It was a good film."]
    assert texts_of("\n".join(lines), 40) == lines


def test_a_heading_goes_with_what_follows() -> None:
    text = "Rivers\n\nThe Inn is a river of the Alps. It flows to the Danube."
    assert texts_of(text, 80) == [text]
    assert texts_of(text, 60) == ["Rivers", "The Inn is a river of the Alps. It flows to the Danube."]


def test_a_long_paragraph_is_cut_evenly_between_sentences() -> None:
    sentence = "The Inn is a river of the Alps."
    text = " ".join([sentence] * 10)
    parts = texts_of(text, 200)
    assert [part.count("Inn") for part in parts] == [5, 5]
    assert all(part.startswith("The") and part.endswith(".") for part in parts)


def test_a_long_sentence_is_cut_between_words_and_a_long_word_anywhere() -> None:
    assert texts_of("one two three four five", 10) == ["one two", "three four", "five"]
    assert texts_of("x" * 25, 10) == ["x" * 10, "x" * 10, "x" * 5]


def test_nothing_has_no_passages() -> None:
    assert cut("") == [] and cut(" \n\n ") == []


def test_a_passage_must_have_room() -> None:
    with pytest.raises(ValueError, match="most is 0"):
        cut("a", 0)


@given(text=st.text(alphabet="aB.?! \n\r\u2028é", max_size=200), most=st.integers(1, 60))
def test_passages_hold_all_but_white_space(text: str, most: int) -> None:
    places = cut(text, most)
    assert all(start < end <= start + most for start, end in places)
    assert all(before[1] <= after[0] for before, after in zip(places, places[1:], strict=False))
    assert all(text[start:end] == text[start:end].strip() for start, end in places)
    assert re.sub(r"\s", "", "".join(texts_of(text, most))) == re.sub(r"\s", "", text)


@given(text=st.text(alphabet="aB.?! \n\r\u2028é", max_size=200), most=st.integers(1, 60))
def test_passages_with_white_space_are_the_text(text: str, most: int) -> None:
    places = cover(text, most)
    assert "".join(text[start:end] for start, end in places) == text
    stripped = [text[start:end].strip() for start, end in places]
    assert stripped == (texts_of(text, most) or [""] * bool(text))
