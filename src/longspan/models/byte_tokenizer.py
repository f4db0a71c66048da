"""A tokenizer whose tokens are bytes, and what it takes to show them as they come.

A model of bytes needs no file of a vocabulary; where transformers wants a tokenizer, this is one.
"""

import codecs
from collections.abc import Callable

from tokenizers import Tokenizer, decoders, pre_tokenizers, processors
from tokenizers.models import BPE
from torch import Tensor
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast
from transformers.generation.streamers import BaseStreamer

from longspan.models.causal_lm_config import BYTES


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """Token n is byte n of the text in UTF-8; there are no special tokens."""
    # transformers' byte-level tokenizers write a byte as a character: itself where it is visible, and one
    # after the other from 256 on where it is not.
    visible = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    hidden = [byte for byte in range(BYTES) if byte not in visible]
    vocabulary = {chr(byte): byte for byte in visible}
    vocabulary |= {chr(BYTES + at): byte for at, byte in enumerate(hidden)}
    tokenizer = Tokenizer(BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        clean_up_tokenization_spaces=False,
        model_input_names=["input_ids", "attention_mask"],
    )


def marked_byte_tokenizer() -> PreTrainedTokenizerFast:
    """The same with three more tokens: padding (256), one before every text (257), and a mask (258)."""
    tokenizer = byte_tokenizer()
    tokenizer.add_special_tokens({"pad_token": "<pad>", "cls_token": "<cls>", "mask_token": "<mask>"})
    begin = ("<cls>", tokenizer.convert_tokens_to_ids("<cls>"))
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<cls> $A", pair="<cls> $A <cls> $B", special_tokens=[begin]
    )
    return tokenizer


def is_byte_tokenizer(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether its tokens are bytes, as those of `byte_tokenizer` are."""
    text = "".join(map(chr, range(BYTES)))
    return len(tokenizer) == BYTES and tokenizer(text)["input_ids"] == list(text.encode())


class ByteStreamer(BaseStreamer):
    """Writes bytes as text while `generate` makes them: a character when its last byte is there.

    Args:
        write: takes text, never an empty one. The prompt, which comes first, is not written.
    """

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._prompt_came = False

    def put(self, value: Tensor) -> None:
        """Takes [tokens] or [1, tokens], each a byte."""
        if self._prompt_came:
            self._show(self._decoder.decode(bytes(value.flatten().tolist())))
        self._prompt_came = True

    def end(self) -> None:
        """Writes what is left of a character that was cut off."""
        self._show(self._decoder.decode(b"", final=True))
        self._decoder.reset()
        self._prompt_came = False

    def _show(self, text: str) -> None:
        if text:
            self._write(text)
