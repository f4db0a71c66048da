"""Texts that share an input, against each by itself in the short model; a chapter, with real weights."""

import os
from pathlib import Path
from typing import Any, cast

import pytest
import torch
import transformers as hf
from torch import Tensor

from longspan.conversion.in_place import lengthen_in_place
from longspan.conversion.lengthen import lengthen
from longspan.conversion.packed_texts import encode_packed, generate_packed
from tests.conversion.tiny_models import tiny

SEQ2SEQ = ("bart", "mbart", "pegasus", "marian", "t5")
OPUS = Path(os.environ.get("LONGSPAN_OPUS", "no directory given"))
SENTENCES = [
    "The old man went down to the harbour and looked at the boats, which had come back during the night.",
    "Nobody knew where she had gone.",
    "In the morning the council met in the town hall, and everybody who had lost a boat was asked to speak.",
]


def texts(*lengths: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(2)
    return [torch.randint(4, 60, (length,), generator=generator) for length in lengths]


@pytest.mark.parametrize("name", SEQ2SEQ)
@torch.no_grad()
def test_every_text_is_encoded_as_if_it_were_alone(name: str) -> None:
    some = texts(9, 1, 17, 30, 5)
    short: Any = tiny(name)
    expected = [short.get_encoder()(text[None]).last_hidden_state[0] for text in some]
    long = lengthen_in_place(tiny(name), max_length=100, window=64)
    for found, right in zip(encode_packed(long, some), expected, strict=True):
        torch.testing.assert_close(found, right, atol=1e-5, rtol=1e-5)
    # Afterwards positions count from the beginning again.
    alone = cast(Any, long).get_encoder()(some[3][None]).last_hidden_state[0]
    torch.testing.assert_close(alone, expected[3], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", SEQ2SEQ)
@torch.no_grad()
def test_every_text_is_written_about_as_if_it_were_alone(name: str) -> None:
    some = texts(9, 1, 17, 30, 5)
    short: Any = tiny(name)
    settings: dict[str, Any] = {"max_new_tokens": 8, "num_beams": 2, "do_sample": False}
    expected = [short.generate(text[None], **settings)[0] for text in some]
    long = lengthen_in_place(tiny(name), max_length=100, window=64)
    for found, right in zip(generate_packed(long, some, batch=2, **settings), expected, strict=True):
        length = min(len(found), len(right))
        assert torch.equal(found[:length], right[:length])
        assert set(found[length:].tolist()) <= {short.config.pad_token_id}


def test_mistakes() -> None:
    long = lengthen_in_place(tiny("marian"), max_length=60, window=8)
    with pytest.raises(ValueError, match="texts have 61 tokens together; MarianMTModel reads at most 60"):
        encode_packed(long, texts(30, 31))
    with pytest.raises(ValueError, match="has an empty text"):
        encode_packed(long, texts(3, 0))
    with pytest.raises(ValueError, match="was not lengthened in place or has no decoder"):
        encode_packed(tiny("marian"), texts(3))
    with pytest.raises(ValueError, match="was not lengthened in place or has no decoder"):
        encode_packed(lengthen_in_place(tiny("llama"), max_length=60, window=8), texts(3))


@pytest.mark.slow
@pytest.mark.skipif(not OPUS.is_dir(), reason="LONGSPAN_OPUS names no folder with opus-mt-en-fr")
@torch.no_grad()
def test_a_translator_made_long_translates_as_it_did() -> None:
    tokenizer: Any = hf.MarianTokenizer.from_pretrained(OPUS)
    short: Any = hf.MarianMTModel.from_pretrained(OPUS).eval()
    long: Any = lengthen(OPUS, 8192, 1024).eval()
    assert type(long).__name__ == "MarianMTModel"
    settings: dict[str, Any] = {"max_new_tokens": 60, "max_length": None, "do_sample": False}
    given = tokenizer(SENTENCES, padding=True, return_tensors="pt")
    expected = tokenizer.batch_decode(short.generate(**given, **settings), skip_special_tokens=True)
    assert "le port" in expected[0].lower() or "au port" in expected[0].lower()
    found = tokenizer.batch_decode(long.generate(**given, **settings), skip_special_tokens=True)
    assert found == expected
    # A hundred paragraphs in one input, of nearly two thousand tokens: the short model reads 512.
    tokens = [torch.tensor(tokenizer(text)["input_ids"]) for text in SENTENCES] * 34
    assert sum(map(len, tokens)) > 3 * short.config.max_position_embeddings
    written = generate_packed(long, tokens, batch=34, **settings)
    assert tokenizer.batch_decode(written, skip_special_tokens=True) == expected * 34
