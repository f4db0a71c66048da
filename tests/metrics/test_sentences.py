"""Sentences by rules."""

import pytest

from longspan.metrics.sentences import sentence_spans, sentences


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("  \n \n", []),
        ("One", ["One"]),
        ("It rained. We left! Why? Nobody knows.", ["It rained.", "We left!", "Why?", "Nobody knows."]),
        ("In 1999. We met.", ["In 1999.", "We met."]),
        (
            "It is 3.5 m. long, as e.g. Smith et al. We agree.",
            ["It is 3.5 m. long, as e.g. Smith et al. We agree."],
        ),
        ("Dr. A. B. Smith saw Fig. 3. It was good.", ["Dr. A. B. Smith saw Fig. 3.", "It was good."]),
        ('He said "Go." Then he left.', ['He said "Go."', "Then he left."]),
        ("(It rained.) [We left.] Home", ["(It rained.)", "[We left.]", "Home"]),
        ("first line\nsecond line. Third", ["first line", "second line.", "Third"]),
        ("lower case. follows here", ["lower case. follows here"]),
        ("Really?! Yes... No", ["Really?!", "Yes...", "No"]),
    ],
)
def test_sentences(text: str, found: list[str]) -> None:
    assert sentences(text) == found
    assert [text[start:end] for start, end in sentence_spans(text)] == found
    shifted = f"\x0b {text}\r\n\n  {text}\n"
    assert [shifted[start:end] for start, end in sentence_spans(shifted)] == found * 2
