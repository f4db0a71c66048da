"""Lengths in words and in tokens."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from longspan.data.examples import (
    CandidateQuestion,
    CoreferenceDocument,
    Document,
    Example,
    LabelledDocument,
    MultiHopQuestion,
    Paragraph,
    Question,
    TaggedSentence,
)
from longspan.data.statistics import measure, summed_up, texts_of, tokens, words


def save_tokenizer(path: Path) -> Path:
    """Splits words and punctuation; saved with truncation and padding, which must not count."""
    tokenizer = Tokenizer(WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.enable_truncation(2)
    tokenizer.enable_padding(length=8)
    tokenizer.save(str(path))
    return path


@given(st.lists(st.integers(0, 10_000), min_size=1))
def test_figures_are_those_of_numpy(lengths: list[int]) -> None:
    found = summed_up(lengths)
    assert found.examples == len(lengths)
    assert found.mean == pytest.approx(np.mean(lengths))
    assert found.median == np.median(lengths)
    assert found.percentile_95 == pytest.approx(np.percentile(lengths, 95))
    assert found.maximum == max(lengths)
    assert found.over_512 == pytest.approx(np.mean(np.array(lengths) > 512))
    assert found.over_4096 == pytest.approx(np.mean(np.array(lengths) > 4096))


def test_nothing_has_no_figures() -> None:
    with pytest.raises(ValueError, match="there are no examples"):
        measure([], words)


@pytest.mark.parametrize(
    ("example", "read"),
    [
        (Document(id="1", text="a b"), ["a b"]),
        (LabelledDocument(id="1", text="a b", label="x"), ["a b"]),
        (
            Question(
                id="1",
                question="q?",
                documents=(Document(id="1", text="d"), Document(id="2", text="e")),
                answers=("d",),
                spans=(),
                is_impossible=False,
            ),
            ["q?", "d", "e"],
        ),
        (
            CandidateQuestion(id="1", query="q", candidates=("a", "b"), supports=("s",), answer=0),
            ["q", "a", "b", "s"],
        ),
        (
            MultiHopQuestion(
                id="1",
                question="q?",
                paragraphs=(Paragraph(title="t", sentences=("s.", " u.")),),
                supporting_facts=(),
                answer="yes",
                type=None,
            ),
            ["q?", "t", "s. u."],
        ),
        (CoreferenceDocument(id="1", sentences=(("a", "b"), ("c",)), clusters=(), speakers=None), ["a b c"]),
        (TaggedSentence(id="1", words=("a", "b"), tags=("O", "O")), ["a b"]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_all_that_a_model_reads_counts(example: Example, read: list[str]) -> None:
    assert list(texts_of(example)) == read
    assert measure([example], words).maximum == sum(len(text.split()) for text in read)


def test_tokens_are_those_of_the_file_uncut(tmp_path: Path) -> None:
    count = tokens(save_tokenizer(tmp_path / "tokenizer.json"))
    texts = ["one, two.", "", "a b c d e f g h i j"]
    assert count(texts) == [4, 0, 10]
    assert tokens(tmp_path)(texts) == [4, 0, 10]
    found = measure((Document(id=str(at), text=texts[at % 3]) for at in range(600)), count)
    assert (found.examples, found.mean, found.maximum) == (600, pytest.approx(14 / 3), 10)


def test_a_tokenizer_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has no tokenizer.json"):
        tokens(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ValueError, match=r"tokenizer.json cannot be read"):
        tokens(tmp_path)
