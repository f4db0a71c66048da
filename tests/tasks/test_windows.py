"""Windows cover a text and overlap as told; tokens find the characters that they came from."""

import pytest
from tokenizers.processors import RobertaProcessing

from longspan.tasks.windows import text_tokens, windows
from tests.tasks.tiny import tiny_tokenizer


@pytest.mark.parametrize("size", [1, 2, 5, 8])
@pytest.mark.parametrize("length", [1, 4, 5, 6, 9, 40])
def test_windows_cover_every_token_and_overlap_as_told(length: int, size: int) -> None:
    for overlap in range(size):
        cut = windows(length, size, overlap)
        assert set().union(*cut) == set(range(length))
        assert all(len(window) == size for window in cut[:-1]) and 0 < len(cut[-1]) <= size
        shared = [len(set(one) & set(other)) for one, other in zip(cut, cut[1:], strict=False)]
        assert shared == [overlap] * (len(cut) - 1)
        # None is in vain: each has a token that the one before has not.
        assert all(set(other) - set(one) for one, other in zip(cut, cut[1:], strict=False))


def test_windows_by_hand() -> None:
    assert windows(10, 4, 2) == [range(0, 4), range(2, 6), range(4, 8), range(6, 10)]
    assert windows(9, 4, 1) == [range(0, 4), range(3, 7), range(6, 9)]
    assert windows(3, 4, 2) == [range(0, 3)]
    assert windows(0, 4, 2) == [range(0, 0)]


@pytest.mark.parametrize(("size", "overlap"), [(4, 4), (4, -1), (0, 0)])
def test_windows_that_do_not_move_are_refused(size: int, overlap: int) -> None:
    with pytest.raises(ValueError, match=f"windows of {size} tokens cannot overlap by {overlap}"):
        windows(10, size, overlap)


def test_tokens_know_their_characters() -> None:
    text = "Ada, the 東京 dog; naïve\n\n end"
    tokens = text_tokens(tiny_tokenizer(), text)
    assert len(tokens.ids) == len(tokens.starts) == len(tokens.ends)
    for word in ("Ada", "the", "東", "京", "東京", "dog", "naïve", "end", text):
        start = text.index(word)
        first_last = tokens.span(start, start + len(word))
        assert first_last is not None
        first, last = first_last
        assert text[tokens.starts[first] : tokens.ends[last]] == word
    first_last = tokens.span(0, 1)  # inside of a word: the token that has the letter
    assert first_last is not None and tokens.starts[first_last[0]] == 0


def test_characters_without_a_token_have_no_span() -> None:
    tokens = text_tokens(tiny_tokenizer(), "Ada found it.")
    assert tokens.span(3, 3) is None  # no characters at all
    assert tokens.span(50, 60) is None
    empty = text_tokens(tiny_tokenizer(), "")
    assert len(empty.ids) == 0 and empty.starts.shape == (0,) and empty.span(0, 3) is None


def test_a_long_text_is_tokenized_whole_and_without_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.model_max_length = 16
    assert len(text_tokens(tokenizer, "long " * 500).ids) >= 500
    assert not caplog.records


def test_special_tokens_are_not_added_and_read_where_wanted() -> None:
    tokenizer = tiny_tokenizer()
    for text in ("Ada wrote it.", "<s>Ada</s> wrote <mask>."):
        tokens = text_tokens(tokenizer, text, plain=True)
        assert not set(tokenizer.all_special_ids) & set(tokens.ids.tolist())
        assert tokenizer.decode(tokens.ids) == text
    assert tokenizer.mask_token_id in text_tokens(tokenizer, "Ada <mask> it.").ids


def test_white_space_is_no_part_of_a_token() -> None:
    tokenizer = tiny_tokenizer()
    text = "  The  dog \n barked\t"
    trimmed = text_tokens(tokenizer, text)
    post_processor = RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=False)
    tokenizer.backend_tokenizer.post_processor = post_processor
    raw = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    assert any(text[start:end] != text[start:end].strip() for start, end in raw)  # or this tests nothing
    for tokens in (trimmed, text_tokens(tokenizer, text)):
        assert len(tokens.ids) == len(raw)
        pieces = [text[start:end] for start, end in zip(tokens.starts, tokens.ends, strict=True)]
        assert pieces == [text[start:end].strip() for start, end in raw]
        assert (tokens.starts <= tokens.ends).all()
        assert (tokens.starts[1:] >= tokens.starts[:-1]).all() and (tokens.ends[1:] >= tokens.ends[:-1]).all()
        span = tokens.span(text.index("dog"), len("  The  dog \n barked"))
        assert span is not None
        assert text[tokens.starts[span[0]] : tokens.ends[span[1]]] == "dog \n barked"
