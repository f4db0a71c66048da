"""Our loop of `generate` beside transformers': the same results, and no copies of what came before."""

from typing import Any, cast

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers.generation.stopping_criteria import StoppingCriteria, StoppingCriteriaList
from transformers.generation.streamers import BaseStreamer
from transformers.generation.utils import GenerationMixin

from longspan import LongformerForCausalLM
from longspan.models.causal_lm_cache import LongformerCache
from longspan.models.steady_generation import GrowingRows
from tests.models.test_causal_lm import tiny, tokens


class Stock(LongformerForCausalLM):
    """The same model with transformers' own loop."""

    _sample = cast(Any, GenerationMixin)._sample


class Until(StoppingCriteria):
    """Ends a row where its last two tokens have an odd sum, after some tokens."""

    def __init__(self, least: int) -> None:
        self.least = least

    def __call__(self, input_ids: Tensor, scores: Any, **_: Any) -> Any:
        return (input_ids[:, -2:].sum(1) % 2 == 1) & (input_ids.shape[1] >= self.least)


class Told(BaseStreamer):
    def __init__(self) -> None:
        self.values: list[list[int]] = []

    def put(self, value: Tensor) -> None:
        self.values.append(value.flatten().tolist())

    def end(self) -> None:
        self.values.append([])


def both(ids: Tensor | None, *, seed: int = 0, **settings: Any) -> list[tuple[Any, list[list[int]]]]:
    """What our model and its stock twin write and stream."""
    ours = tiny()
    stock = Stock(ours.config).eval()
    stock.load_state_dict(ours.state_dict())
    found: list[tuple[Any, list[list[int]]]] = []
    for model in (ours, stock):
        torch.manual_seed(seed)
        told = Told()
        streamer = told if settings.get("num_return_sequences", 1) == 1 else None
        given = {"max_new_tokens": 40, "pad_token_id": 7} | settings
        if given.pop("with_cache", False):
            given["past_key_values"] = LongformerCache(model.config)
        found.append((cast(Any, model).generate(ids, streamer=streamer, **given), told.values))
    return found


SETTINGS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "sampling": {"do_sample": True},
    "warped": {"do_sample": True, "temperature": 0.7, "top_k": 30, "top_p": 0.9},
    "min_p and typical": {"do_sample": True, "min_p": 0.01, "typical_p": 0.9},
    "penalties": {"repetition_penalty": 1.5, "no_repeat_ngram_size": 2, "min_new_tokens": 10},
    "of the prompt": {"encoder_repetition_penalty": 1.3, "encoder_no_repeat_ngram_size": 2},
    "bad words": {"bad_words_ids": [[3], [5, 6]], "suppress_tokens": [9, 10], "do_sample": True},
    "ends": {"do_sample": True, "eos_token_id": list(range(0, 256, 9)), "temperature": 2.0},
    "criteria": {"do_sample": True, "stopping_criteria": StoppingCriteriaList([Until(35)])},
    "several": {"do_sample": True, "num_return_sequences": 3},
    "one token": {"max_new_tokens": 1},
    "guidance": {"guidance_scale": 1.5},
    "given cache": {"with_cache": True},
    "chunks": {"with_cache": True, "prefill_chunk_size": 7},
    "no cache": {"use_cache": False},
    "beams": {"num_beams": 3},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_texts_are_those_of_transformers(name: str) -> None:
    batch = 1 if name in ("beams", "guidance") else 2
    settings = SETTINGS[name]
    if name == "beams":
        settings = settings | {"num_return_sequences": 2}  # which cannot be streamed
    (ours, told), (stock, told_stock) = both(tokens(batch, 30), **settings)
    assert torch.equal(ours, stock)
    assert told == told_stock
    assert ours.is_contiguous()


def test_ends_and_criteria_end_texts_early() -> None:
    """The cases above would say nothing if all texts had the same length."""
    (ours, _), _ = both(tokens(2, 30), **SETTINGS["ends"])
    assert ours.shape[1] < 70 and bool((ours[:, 30:] == 7).any())
    (ours, _), _ = both(tokens(2, 30), **SETTINGS["criteria"])
    assert ours.shape[1] < 70


def test_left_padded_prompts() -> None:
    ids = tokens(2, 30)
    mask = torch.ones_like(ids)
    mask[1, :20] = 0
    (ours, _), (stock, _) = both(ids, attention_mask=mask)
    assert torch.equal(ours, stock)


def test_embeddings_as_a_prompt() -> None:
    embeds = tiny().model.embeddings(tokens(1, 12)).detach()
    (ours, told), (stock, told_stock) = both(None, inputs_embeds=embeds)
    assert torch.equal(ours, stock) and told == told_stock


def test_all_that_a_caller_can_ask_for() -> None:
    asked = {"output_scores": True, "output_logits": True, "output_hidden_states": True}
    (ours, _), (stock, _) = both(
        tokens(1, 30), return_dict_in_generate=True, do_sample=True, top_k=9, max_new_tokens=5, **asked
    )
    assert set(ours) == set(stock)
    assert torch.equal(ours.sequences, stock.sequences)
    for name in ("scores", "logits"):
        assert len(ours[name]) == 5
        torch.testing.assert_close(ours[name], stock[name], rtol=0, atol=0)
    torch.testing.assert_close(ours.hidden_states, stock.hidden_states, rtol=0, atol=0)
    assert ours.past_key_values.get_seq_length() == stock.past_key_values.get_seq_length() == 34


class Large(TorchDispatchMode):
    """Counts the operations that make a tensor of at least so many elements."""

    def __init__(self, least: int) -> None:
        super().__init__()
        self.least, self.count = least, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        given = {x.untyped_storage().data_ptr() for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)}
        for made in (x for x in tree_leaves(out) if isinstance(x, Tensor) and x.numel() >= self.least):
            self.count += made.untyped_storage().data_ptr() not in given  # a view makes nothing
        return out


@pytest.mark.parametrize("padded", [False, True])
def test_a_new_token_copies_nothing_of_a_long_text(padded: bool) -> None:
    model, ids = tiny(), tokens(1, 20_000)
    mask = torch.ones_like(ids)
    mask[:, :50] = 0 if padded else 1
    counts: list[int] = []
    for new in (3, 30):
        cache = LongformerCache(model.config)
        with torch.no_grad():
            model(ids[:, :-1], past_key_values=cache, logits_to_keep=1)
        with Large(20_000) as large:
            cast(Any, model).generate(
                ids, attention_mask=mask, past_key_values=cache, max_new_tokens=new, do_sample=False
            )
        counts.append(large.count)
    assert counts[0] == counts[1]


def test_rows_grow_beyond_their_room() -> None:
    rows = GrowingRows(torch.arange(6).view(2, 3), 2)
    first = rows.rows
    for value in range(10_000):
        rows.append(torch.tensor([value, -value]))
    assert rows.rows.shape == (2, 10_003)
    assert torch.equal(rows.rows[:, 3:], torch.stack([torch.arange(10_000), -torch.arange(10_000)]))
    assert torch.equal(first, torch.arange(6).view(2, 3))
