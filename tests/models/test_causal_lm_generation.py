"""`generate` with windows: every way of choosing tokens is that of the model without a cache."""

from typing import Any, cast

import pytest
import torch
from torch import Tensor
from transformers.generation.streamers import BaseStreamer

from longspan.models.causal_lm_cache import LongformerCache
from tests.models.test_causal_lm import SHAPES, logits, tiny, tokens


def generated(model: Any, ids: Tensor, **settings: Any) -> Tensor:
    torch.manual_seed(0)
    return cast(Tensor, model.generate(ids, max_new_tokens=50, pad_token_id=0, **settings))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("length", [1, 40])
def test_greedy_is_the_most_probable_token(shape: str, length: int) -> None:
    model, ids = tiny(**SHAPES[shape]), tokens(2, length)
    out = generated(model, ids, do_sample=False)
    assert out.shape == (2, length + 50)
    assert torch.equal(out[:, :length], ids)
    said = logits(model, out, use_cache=False)[:, length - 1 : -1]
    # A tie within rounding may fall either way.
    chosen = said.gather(2, out[:, length:, None])[..., 0]
    assert bool((said.max(-1).values - chosen < 1e-4).all())


@pytest.mark.parametrize(
    "settings",
    [
        {"temperature": 0.7},
        {"top_k": 5},
        {"top_p": 0.8},
        {"temperature": 1.3, "top_k": 20, "top_p": 0.9, "num_return_sequences": 3},
    ],
    ids=str,
)
def test_sampling_is_that_without_a_cache(settings: dict[str, Any]) -> None:
    model, ids = tiny(), tokens(1, 30)
    cached = generated(model, ids, do_sample=True, **settings)
    assert torch.equal(cached, generated(model, ids, do_sample=True, use_cache=False, **settings))
    assert torch.equal(cached, generated(model, ids, do_sample=True, **settings))


def test_beam_search_is_that_without_a_cache() -> None:
    model, ids = tiny(), tokens(2, 30)
    cached = generated(model, ids, num_beams=3, do_sample=False)
    assert torch.equal(cached, generated(model, ids, num_beams=3, do_sample=False, use_cache=False))


def test_prompts_of_different_lengths_share_a_batch() -> None:
    model = tiny()
    ids = tokens(2, 30)
    mask = torch.ones_like(ids)
    mask[1, :20] = 0
    together = generated(model, ids, attention_mask=mask, do_sample=False)
    alone = generated(model, ids[1:, 20:], do_sample=False)
    assert torch.equal(together[1, 20:], alone[0])


def test_a_cache_goes_on_from_where_it_is() -> None:
    model, ids = tiny(), tokens(1, 30)
    cache = LongformerCache(model.config)
    first = generated(model, ids, do_sample=False, past_key_values=cache)
    assert cache.get_seq_length() == 79  # the last token was chosen, not yet read
    both = generated(model, first, do_sample=False, past_key_values=cache)
    assert torch.equal(both, generated(model, first, do_sample=False))
    chunked = generated(
        model, ids, do_sample=False, prefill_chunk_size=7, past_key_values=LongformerCache(model.config)
    )
    assert torch.equal(chunked, first)


def test_tokens_come_one_by_one() -> None:
    class Streamer(BaseStreamer):
        def __init__(self) -> None:
            self.sizes: list[int] = []

        def put(self, value: Tensor) -> None:
            self.sizes.append(value.numel())

        def end(self) -> None:
            self.sizes.append(-1)

    streamer = Streamer()
    generated(tiny(), tokens(1, 30), do_sample=False, streamer=streamer)
    assert streamer.sizes == [30] + [1] * 50 + [-1]


def test_going_back_is_refused() -> None:
    model, ids = tiny(), tokens(1, 9).repeat(1, 5)
    with pytest.raises(ValueError, match="prompt_lookup_num_tokens is 3; assisted generation takes back"):
        generated(model, ids, do_sample=False, prompt_lookup_num_tokens=3)
    cache = LongformerCache(model.config)
    with torch.no_grad():
        model(ids, past_key_values=cache)
    with pytest.raises(ValueError, match="cannot go back"):
        cache.crop(3)
