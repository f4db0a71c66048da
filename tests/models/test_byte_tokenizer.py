"""Tokens that are bytes, there and back, and shown as they come."""

from pathlib import Path

import torch
from transformers import AutoTokenizer

from longspan.models.byte_tokenizer import ByteStreamer, byte_tokenizer

TEXT = "Größe: 3 km²,\n\tzwei  Wörter \u20ac\U0001f600 \x00\x7f '' ."


def test_tokens_are_bytes(tmp_path: Path) -> None:
    tokenizer = byte_tokenizer()
    assert len(tokenizer) == 256
    assert tokenizer(TEXT)["input_ids"] == list(TEXT.encode())
    assert tokenizer.decode(list(TEXT.encode())) == TEXT
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert loaded(TEXT)["input_ids"] == list(TEXT.encode())
    assert loaded.decode(list(TEXT.encode())) == TEXT


def test_characters_are_shown_when_they_are_whole() -> None:
    shown: list[str] = []
    streamer = ByteStreamer(shown.append)
    streamer.put(torch.tensor([list(b"prompt")]))
    for byte in "aß€".encode() + b"\xff\xe2\x82":
        streamer.put(torch.tensor([byte]))
    streamer.end()
    assert shown == ["a", "ß", "€", "\ufffd", "\ufffd"]
