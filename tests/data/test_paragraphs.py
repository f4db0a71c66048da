"""Wrapped lines joined again."""

import textwrap

from hypothesis import given
from hypothesis import strategies as st

from longspan.data.paragraphs import paragraphs

words = st.lists(st.sampled_from(["a", "boat", "harbour", "council", "river"]), min_size=1, max_size=60)


@given(st.lists(words.map(" ".join), min_size=1, max_size=5), st.integers(40, 100))
def test_what_was_wrapped_comes_back(texts: list[str], width: int) -> None:
    wrapped = "\n\n".join(textwrap.fill(text, width) for text in texts)
    assert paragraphs(wrapped) == "\n".join(texts)
    assert paragraphs(wrapped.replace("\n", "\r\n")) == "\n".join(texts)


def test_short_lines_and_items_stay_lines() -> None:
    text = (
        "A heading\nThe first line of a paragraph that is rather wide\nand the second.\n"
        "- an item that is as wide as all the other lines\n- another\n1. a third one"
    )
    assert paragraphs(text).split("\n") == [
        "A heading",
        "The first line of a paragraph that is rather wide and the second.",
        "- an item that is as wide as all the other lines",
        "- another",
        "1. a third one",
    ]


def test_a_paragraph_a_line_stays_so() -> None:
    text = f"{'word ' * 60}\n{'other ' * 50}"
    assert paragraphs(text).split("\n") == [("word " * 60).strip(), ("other " * 50).strip()]
    assert paragraphs(" \n\n ") == ""


def test_broken_words() -> None:
    text = "This line is long enough to be full, har-\nbours are in the next one, and CPU-\nTime is not."
    joined = "This line is long enough to be full, harbours are in the next one, and CPU- Time is not."
    assert paragraphs(text, join_words=True) == joined
    assert "har- bours" in paragraphs(text)
