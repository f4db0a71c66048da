"""A tokenizer whose tokens are symbols with spaces between them, for texts of a small closed alphabet."""

from collections.abc import Sequence

from tokenizers import Tokenizer, pre_tokenizers, processors
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

_SPECIAL = ("<pad>", "<cls>", "<unk>", "<mask>")


def symbol_tokenizer(symbols: Sequence[str]) -> PreTrainedTokenizerFast:
    """A token a symbol, behind one before every text; ``<pad>`` is 0, ``<cls>`` 1, then unknown and mask."""
    vocabulary = {symbol: at for at, symbol in enumerate((*_SPECIAL, *symbols))}
    tokenizer = Tokenizer(WordLevel(vocab=vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<cls> $A", pair="<cls> $A <cls> $B", special_tokens=[("<cls>", vocabulary["<cls>"])]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        cls_token="<cls>",
        unk_token="<unk>",
        mask_token="<mask>",
        model_input_names=["input_ids", "attention_mask"],
    )
