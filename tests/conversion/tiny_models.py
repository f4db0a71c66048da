"""Tiny random models of every architecture that can be lengthened, and inputs for them."""

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import transformers as hf
from torch import Tensor

OLD_LENGTH = 40
LOCAL_ATTENTION = 8
"""The window of ModernBERT's local layers, both sides together."""

_TOKENS: dict[str, Any] = {"vocab_size": 60, "pad_token_id": 1, "bos_token_id": 2, "eos_token_id": 3}
_NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
# Larger weights than usual: with small ones attention is nearly flat and hides mistakes.
_BERT: dict[str, Any] = (
    _TOKENS
    | _NO_DROPOUT
    | {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "max_position_embeddings": OLD_LENGTH,
        "initializer_range": 0.2,
    }
)
_ROBERTA: dict[str, Any] = _BERT | {"max_position_embeddings": OLD_LENGTH + 2}
_BART: dict[str, Any] = _TOKENS | {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": OLD_LENGTH,
    "init_std": 0.2,
    "dropout": 0.0,
    "decoder_start_token_id": 3,
    "forced_eos_token_id": None,
}
_GPT2: dict[str, Any] = _TOKENS | {
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": OLD_LENGTH,
    "initializer_range": 0.2,
    "resid_pdrop": 0.0,
    "embd_pdrop": 0.0,
    "attn_pdrop": 0.0,
}
_LLAMA: dict[str, Any] = _TOKENS | {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 48,
    "max_position_embeddings": OLD_LENGTH,
    "initializer_range": 0.2,
}
_T5: dict[str, Any] = _TOKENS | {
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 48,
    "num_layers": 2,
    "num_heads": 4,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 20,
    "dropout_rate": 0.0,
    "decoder_start_token_id": 1,
}
_DISTILBERT: dict[str, Any] = _TOKENS | {
    "dim": 32,
    "n_layers": 2,
    "n_heads": 4,
    "hidden_dim": 48,
    "max_position_embeddings": OLD_LENGTH,
    "initializer_range": 0.2,
    "dropout": 0.0,
    "attention_dropout": 0.0,
}
_MODERNBERT: dict[str, Any] = _BERT | {
    "num_hidden_layers": 3,
    "global_attn_every_n_layers": 3,
    "local_attention": LOCAL_ATTENTION,
    "cls_token_id": 2,
    "sep_token_id": 3,
}

MODELS: dict[str, Callable[[], hf.PreTrainedModel]] = {
    "roberta": lambda: hf.RobertaModel(hf.RobertaConfig(**_ROBERTA)),
    "bert": lambda: hf.BertModel(hf.BertConfig(**_BERT)),
    "xlm-roberta": lambda: hf.XLMRobertaModel(hf.XLMRobertaConfig(**_ROBERTA)),
    "camembert": lambda: hf.CamembertForMaskedLM(hf.CamembertConfig(**_ROBERTA)),
    "distilbert": lambda: hf.DistilBertModel(hf.DistilBertConfig(**_DISTILBERT)),
    "sinusoidal distilbert": lambda: hf.DistilBertModel(
        hf.DistilBertConfig(**_DISTILBERT, sinusoidal_pos_embds=True)
    ),
    "electra": lambda: hf.ElectraModel(hf.ElectraConfig(**_BERT, embedding_size=16)),
    "albert": lambda: hf.AlbertModel(hf.AlbertConfig(**_BERT, embedding_size=16)),
    "modernbert": lambda: hf.ModernBertModel(hf.ModernBertConfig(**_MODERNBERT)),
    "bart": lambda: hf.BartForConditionalGeneration(hf.BartConfig(**_BART)),
    "mbart": lambda: hf.MBartForConditionalGeneration(hf.MBartConfig(**_BART)),
    "pegasus": lambda: hf.PegasusForConditionalGeneration(hf.PegasusConfig(**_BART)),
    "marian": lambda: hf.MarianMTModel(hf.MarianConfig(**_BART)),
    "t5": lambda: hf.T5ForConditionalGeneration(hf.T5Config(**_T5)),
    "t5 encoder": lambda: hf.T5EncoderModel(hf.T5Config(**_T5)),
    "gpt2": lambda: hf.GPT2LMHeadModel(hf.GPT2Config(**_GPT2)),
    "llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**_LLAMA)),
    "roberta decoder": lambda: hf.RobertaForCausalLM(hf.RobertaConfig(**_ROBERTA, is_decoder=True)),
    "bart decoder": lambda: hf.BartForCausalLM(hf.BartConfig(**_BART)),
}


def tiny(name: str) -> hf.PreTrainedModel:
    """The model of this name, in evaluation mode; the same weights every time."""
    torch.manual_seed(0)
    return MODELS[name]().eval()


def dense_twin(model: hf.PreTrainedModel) -> hf.PreTrainedModel:
    """A model made anew from the config, with the same weights and transformers' eager attention."""
    twin = type(model)._from_config(copy.deepcopy(model.config), attn_implementation="eager")
    twin.load_state_dict(model.state_dict())
    return twin.eval()


class Batch(NamedTuple):
    """Two rows of tokens, one of them with padding."""

    inputs: dict[str, Tensor]
    is_real: Tensor
    """[2, length] bool."""


def batch(length: int, *, padding: int = 5, left: bool = False, seed: int = 1) -> Batch:
    """Random tokens, none of them special; the second row ends (or begins) with padding."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(4, 60, (2, length), generator=generator)
    is_real = torch.ones(2, length, dtype=torch.bool)
    is_real[1, slice(None, padding) if left else slice(length - padding, None)] = False
    ids[~is_real] = 1
    return Batch({"input_ids": ids, "attention_mask": is_real.long()}, is_real)


def decoder_ids(length: int = 7) -> Tensor:
    """[2, length] tokens for a decoder."""
    return torch.randint(4, 60, (2, length), generator=torch.Generator().manual_seed(2))


def is_seq2seq(model: hf.PreTrainedModel) -> bool:
    """Whether the model has an encoder and a decoder."""
    return hasattr(model.base_model, "encoder") and hasattr(model.base_model, "decoder")


def answer(model: hf.PreTrainedModel, given: Batch, **more: Any) -> Tensor:
    """What the model says at real tokens; of an encoder-decoder model, at all of the decoder's."""
    if is_seq2seq(model):
        return model(**given.inputs, decoder_input_ids=decoder_ids(), **more)[0]
    return model(**given.inputs, **more)[0][given.is_real]
