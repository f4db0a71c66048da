"""A tiny tokenizer, and folders with tiny random models and it, for the tests of tasks and training.

Both models are saved with the head for masked words, as the published checkpoints are.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, pre_tokenizers, trainers
from tokenizers.models import BPE
from tokenizers.processors import RobertaProcessing
from torch import nn
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForMaskedLM,
)

from longspan.models.causal_lm import LongformerForCausalLM
from longspan.models.causal_lm_config import LongformerCausalLMConfig
from longspan.models.led_config import LEDConfig
from longspan.models.led_heads import LEDForConditionalGeneration
from longspan.models.longformer_config import LongformerConfig
from longspan.models.longformer_heads import LongformerForMaskedLM
from longspan.tasks.task import Task

SHORT_LENGTH = 64
"""Tokens that the short model reads."""
LONG_LENGTH = 512
"""Tokens that the long one reads."""
ATTENTION_WINDOW = 16
"""Of the long one, both sides together."""

_SPECIAL = {"bos": "<s>", "pad": "<pad>", "eos": "</s>", "unk": "<unk>", "mask": "<mask>"}
_TEXTS = [
    "Ada Lovelace wrote the first program for a machine that nobody had built.",
    "The river Inn flows from Switzerland to the Danube, and the city of Passau lies where they meet.",
    "Who found the treasure? Where is the city? Which river is the longest one in the country?",
    "It was a good film, a very good film, and it was the longest film that I ever liked.",
    "The worst book of the year was also the longest: nobody liked it, and nobody read it to the end.",
    "Paris is the capital of France, Vienna of Austria, Lima of Peru, and London of England.",
    "Yes, she said, the dog barked, and he saw her house, her garden and her long green car.",
]
_SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "layer_norm_eps": 1e-5,
    "type_vocab_size": 1,
    # The default scale would leave attention nearly uniform, and mistakes in it invisible.
    "initializer_range": 0.2,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
}


def tiny_tokenizer() -> PreTrainedTokenizerFast:
    """RoBERTa's kind: bytes in pairs, ``<s> a </s>`` and ``<s> a </s></s> b </s>``. 400 tokens."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=list(_SPECIAL.values()),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_TEXTS, trainer)
    tokenizer.post_processor = RobertaProcessing(
        ("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_input_names=["input_ids", "attention_mask"],
        cls_token="<s>",
        sep_token="</s>",
        **{f"{name}_token": token for name, token in _SPECIAL.items()},
    )


def tiny_roberta(folder: Path, *, seed: int = 0, **changes: Any) -> Path:
    """Saves transformers' RoBERTa, for `SHORT_LENGTH` tokens, and the tokenizer; gives the folder.

    Args:
        folder: made if it is not there.
        seed: of the weights.
        changes: of fields of the configuration.
    """
    tokenizer = tiny_tokenizer()
    sizes: dict[str, Any] = _SIZES | {
        "vocab_size": len(tokenizer),
        "max_position_embeddings": SHORT_LENGTH + 2,
    }
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = RobertaForMaskedLM(RobertaConfig(**(sizes | changes)))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def tiny_longformer(folder: Path, *, seed: int = 0, **changes: Any) -> Path:
    """Saves our Longformer, for `LONG_LENGTH` tokens, and the tokenizer; gives the folder.

    Args:
        folder: made if it is not there.
        seed: of the weights.
        changes: of fields of the configuration.
    """
    tokenizer = tiny_tokenizer()
    sizes: dict[str, Any] = _SIZES | {
        "vocab_size": len(tokenizer),
        "max_position_embeddings": LONG_LENGTH + 2,
        "attention_window": ATTENTION_WINDOW,
    }
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = LongformerForMaskedLM(LongformerConfig(**(sizes | changes)))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


_SEQ2SEQ: dict[str, Any] = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "dropout": 0.0,
    "init_std": 0.2,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
}


def tiny_bart(folder: Path, *, seed: int = 0, **changes: Any) -> Path:
    """Saves transformers' BART, for `SHORT_LENGTH` tokens, and the tokenizer; gives the folder."""
    tokenizer = tiny_tokenizer()
    sizes: dict[str, Any] = _SEQ2SEQ | {"vocab_size": len(tokenizer), "max_position_embeddings": SHORT_LENGTH}
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        BartForConditionalGeneration(BartConfig(**(sizes | changes))).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def tiny_led(folder: Path, *, seed: int = 0, **changes: Any) -> Path:
    """Saves our LED, for `LONG_LENGTH` tokens, and the tokenizer; gives the folder."""
    tokenizer = tiny_tokenizer()
    sizes: dict[str, Any] = _SEQ2SEQ | {
        "vocab_size": len(tokenizer),
        "max_encoder_position_embeddings": LONG_LENGTH,
        "max_decoder_position_embeddings": SHORT_LENGTH,
        "attention_window": ATTENTION_WINDOW,
    }
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        LEDForConditionalGeneration(LEDConfig(**(sizes | changes))).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def tiny_causal_lm(folder: Path, *, seed: int = 0, **changes: Any) -> Path:
    """Saves our causal model of bytes, which has no tokenizer; gives the folder.

    Args:
        folder: made if it is not there.
        seed: of the weights.
        changes: of fields of the configuration.
    """
    sizes = {name: _SIZES[name] for name in ("hidden_size", "num_hidden_layers", "num_attention_heads")}
    sizes |= {"intermediate_size": 48, "attention_window": [4, 6], "attention_dilation": [1, [2, 2, 1, 1]]}
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        LongformerForCausalLM(LongformerCausalLMConfig(**(sizes | changes))).save_pretrained(folder)
    return folder


def learn(
    task: Task[Any, Any],
    model: nn.Module,
    examples: Sequence[Any],
    *,
    steps: int,
    learning_rate: float = 3e-3,
) -> None:
    """Trains on all examples at once, ``steps`` times."""
    features = [one for example in examples for one in task.features(example, training=True)]
    optimizer = torch.optim.Adam(model.parameters(), learning_rate)
    model.train()
    for step in range(steps):
        loss = task.loss(model, task.collate(features, [step + at for at in range(len(features))]))
        (loss.total / loss.targets).backward()
        optimizer.step()
        optimizer.zero_grad()
    model.eval()


def predictions(task: Task[Any, Any], model: nn.Module, examples: Sequence[Any]) -> list[dict[str, Any]]:
    """What the model says about each example; all windows of an example are one batch."""
    said: list[dict[str, Any]] = []
    model.eval()
    with torch.no_grad():
        for example in examples:
            features = list(task.features(example, training=False))
            outputs = task.outputs(model, task.collate(features, range(len(features))))
            said.append(task.prediction(example, outputs))
    return said
