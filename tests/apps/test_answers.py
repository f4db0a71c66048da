"""Which spans are shown, and in which sentences."""

import pytest

from longspan.apps.answers import Candidate, distinct, sentences_around

TEXT = "Ada wrote it. Bob read it! Who knows?\nNobody does. Ada wrote it."


def test_what_overlaps_or_says_the_same_is_shown_once() -> None:
    documents = [TEXT, "the Ada"]
    candidates = [
        Candidate(1.0, 0, 0, 3),  # Ada
        Candidate(3.0, 0, 4, 9),  # wrote
        Candidate(2.0, 0, 0, 9),  # Ada wrote, which overlaps what is better
        Candidate(0.5, 1, 0, 7),  # the Ada, which says the same as Ada
        Candidate(0.4, 0, 12, 13),  # a point
        Candidate(0.3, 0, 14, 17),  # Bob
    ]
    found = distinct(candidates, documents, 9)
    assert [documents[one.document][one.start : one.end] for one in found] == ["wrote", "Ada", ".", "Bob"]
    assert distinct(reversed(candidates), documents, 2) == found[:2]
    assert distinct([], documents, 2) == []


@pytest.mark.parametrize(
    ("part", "sentence"),
    [
        ("Bob", "Bob read it!"),
        ("Bob read it!", "Bob read it!"),
        ("it! Who", "Bob read it! Who knows?"),
        ("knows?\nNobody", "Who knows?\nNobody does."),
        ("Who", "Who knows?"),
        (" Bob", "Ada wrote it. Bob read it!"[13:]),
        (TEXT, TEXT),
    ],
)
def test_sentences_around(part: str, sentence: str) -> None:
    start = TEXT.index(part)
    first, last = sentences_around(TEXT, start, start + len(part))
    assert TEXT[first:last] == sentence


def test_sentences_around_nothing() -> None:
    assert sentences_around("", 0, 0) == (0, 0)
    assert sentences_around("a\n\nb", 2, 2) == (2, 2)
