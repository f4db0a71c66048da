"""The Compressive Transformer: what it keeps, what trains what, and what it is the same as."""

from typing import Any, cast

import pytest
import torch

from longspan import LongRangeForCausalLM
from longspan.models.long_range_layer import LongRangeLayer
from longspan.nn.compression import Compressor
from longspan.nn.memory import LayerMemory, MemorySizes, Overflow, add_compressed, remember
from tests.models.relatives import EXACT, causal_lm, logits, tokens
from tests.models.test_transformer_xl import reach

SIZES: dict[str, Any] = {
    "memory": "compressive",
    "positions": "relative",
    "segment_length": 6,
    "memory_length": 6,
    "compressed_length": 4,
    "compression_ratio": 3,
}
LEARNED = [
    (function, loss) for function in ("conv", "dilated") for loss in ("attention", "auto-encoding", "bptt")
]
FUNCTIONS = [*LEARNED, ("mean", "none"), ("max", "none"), ("most-used", "none")]


def model_of(function: str, loss: str, **changes: Any) -> LongRangeForCausalLM:
    return causal_lm("full", **SIZES | {"compression": function, "compression_loss": loss} | changes)


def test_ratio_one_is_transformer_xl() -> None:
    ids = tokens(2, 40)
    xl = causal_lm("full", **SIZES | {"memory": "xl", "memory_length": 11})
    same = model_of("mean", "none", compression_ratio=1, memory_length=6, compressed_length=5)
    torch.testing.assert_close(logits(same, ids), logits(xl, ids), **EXACT)


@pytest.mark.parametrize(("function", "loss"), FUNCTIONS)
def test_memories_have_their_sizes(function: str, loss: str) -> None:
    model = model_of(function, loss)
    read = model.model(tokens(2, 60))
    for one in read.memory.layers:
        assert one.recent.shape == (2, 6, 32) and one.compressed.shape == (2, 4, 32)
        assert not one.recent.requires_grad
        assert one.compressed.requires_grad == (loss == "bptt")


@pytest.mark.parametrize("sizes", [[5, 5, 5, 5], [1] * 20, [7, 1, 12], [20]])
def test_segments_of_any_length_lose_nothing(sizes: list[int]) -> None:
    """Every group of three in its order, whatever the segments were; the rest waits."""
    x = torch.arange(20.0)[None, :, None]
    keep = MemorySizes(recent=6, compressed=100, ratio=3)
    memory = LayerMemory(recent=x[:, :0], compressed=x[:, :0])
    for piece in x.split(sizes, 1):
        memory, overflow = remember(memory, piece, keep)
        if overflow is not None:
            memory = add_compressed(memory, Compressor(1, 3, "mean", "none")(overflow), keep)
    assert memory.compressed.flatten().tolist() == [1.0, 4.0, 7.0, 10.0]
    assert memory.recent.flatten().tolist() == [float(at) for at in range(12, 20)]


def test_compressions_are_what_they_say() -> None:
    x = torch.randn(2, 9, 4, dtype=torch.float64)
    usage = torch.tensor([[0, 9, 1, 2, 8, 3, 7, 4, 5]] * 2)
    old = Overflow(states=x, usage=usage)
    groups = x.view(2, 3, 3, 4)
    assert torch.equal(Compressor(4, 3, "mean", "none")(old), groups.mean(2))
    assert torch.equal(Compressor(4, 3, "max", "none")(old), groups.amax(2))
    assert torch.equal(Compressor(4, 3, "most-used", "none")(old), x[:, [1, 4, 6]])
    for function, gap in (("conv", 1), ("dilated", 2)):
        one = Compressor(4, 3, cast(Any, function), "bptt").double()
        assert one.conv is not None
        expected = one.conv.bias.expand(2, 3, 4).clone()  # pyright: ignore[reportOptionalMemberAccess]
        for group in range(3):
            for tap in range(3):
                at = 3 * group + 2 - gap * (2 - tap)
                if at >= 0:
                    expected[:, group] += x[:, at] @ one.conv.weight[:, :, tap].T
        torch.testing.assert_close(one(old), expected, **EXACT)


@pytest.mark.parametrize(("function", "loss"), LEARNED)
def test_its_loss_trains_the_compression_and_nothing_else(function: str, loss: str) -> None:
    model, ids = model_of(function, loss), tokens(2, 40)
    read = model.model(ids)
    if loss == "bptt":
        assert read.losses is None
        return
    read.losses["compression"].backward()
    trained = {
        name for name, one in model.named_parameters() if one.grad is not None and one.grad.abs().sum()
    }
    assert trained == {name for name, _ in model.named_parameters() if ".compressor." in name}


@pytest.mark.parametrize(("function", "loss"), [one for one in LEARNED if one[1] != "bptt"])
def test_its_loss_changes_no_other_gradient(function: str, loss: str) -> None:
    ids = tokens(2, 40)
    grads: list[dict[str, torch.Tensor]] = []
    for with_loss in (True, False):
        model = model_of(function, loss)
        said = model(ids, labels=ids)
        plain = torch.nn.functional.cross_entropy(said.logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        (said.loss if with_loss else plain).backward()
        learns = [one.grad is not None for name, one in model.named_parameters() if ".compressor." in name]
        assert learns == [with_loss] * len(learns)
        grads.append(
            {
                name: cast(torch.Tensor, one.grad)
                for name, one in model.named_parameters()
                if ".compressor." not in name
            }
        )
    for name, one in grads[0].items():
        assert torch.equal(one, grads[1][name]), name


def test_through_time_the_language_model_trains_the_compression() -> None:
    model, ids = model_of("conv", "bptt"), tokens(2, 60)
    model(ids, labels=ids).loss.backward()
    for name, one in model.named_parameters():
        assert one.grad is not None and one.grad.abs().sum() > 0, name


def test_keys_and_values_stay_trainable() -> None:
    model, ids = model_of("conv", "attention").train(), tokens(2, 40)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    attention = cast(LongRangeLayer, model.model.layers[1]).attention
    assert attention.key is not None
    for _ in range(2):
        before = attention.key.weight.detach().clone(), attention.value.weight.detach().clone()
        optimizer.zero_grad()
        model(ids, labels=ids).loss.backward()
        optimizer.step()
        assert attention.key.weight.requires_grad
        assert not torch.equal(attention.key.weight, before[0])
        assert not torch.equal(attention.value.weight, before[1])


def test_its_loss_falls_when_only_it_is_trained() -> None:
    model, ids = model_of("conv", "attention"), tokens(4, 60)
    compression = [one for name, one in model.named_parameters() if ".compressor." in name]
    optimizer = torch.optim.Adam(compression, lr=1e-2)
    losses: list[float] = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = model.model(ids).losses["compression"]
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.7 * losses[0]


def test_it_reconstructs_what_is_evicted() -> None:
    """A segment reads just what leaves the memory: with a ratio of 1 and the identity the loss is 0."""
    model = model_of("conv", "attention", compression_ratio=1)
    for layer in model.model.layers:
        conv = cast(LongRangeLayer, layer).compressor.conv  # pyright: ignore[reportOptionalMemberAccess]
        assert conv is not None and conv.bias is not None
        with torch.no_grad():
            conv.weight.copy_(torch.eye(32)[:, :, None])
            conv.bias.zero_()
    losses = model.model(tokens(1, 30)).losses
    assert float(losses["compression"].detach()) < 1e-25


def test_receptive_field_grows_by_what_is_compressed() -> None:
    for layers in (1, 2):
        model = model_of("mean", "none", num_hidden_layers=layers)
        # A segment's own 5, and in each layer 6 states and 4 of 3.
        assert reach(model, 60) == 5 + layers * (6 + 3 * 4)


def test_future_changes_nothing() -> None:
    model, ids = model_of("conv", "attention"), tokens(1, 40)
    other = ids.clone()
    other[:, 25:] = (other[:, 25:] + 1) % 64
    assert torch.equal(logits(model, ids)[:, :25], logits(model, other)[:, :25])


def test_usage_is_what_was_looked_at() -> None:
    """By the segment itself and by the one after it, the mean over heads and queries."""
    model, ids = model_of("most-used", "none", num_hidden_layers=1, positions="none"), tokens(2, 12)
    memory = model.model(ids[:, :6], use_cache=False).memory
    layer = cast(LongRangeLayer, model.model.layers[0])
    x = layer.attention_norm(model.get_input_embeddings()(ids))
    q, k = (
        cast(torch.nn.Linear, one)(x).unflatten(2, (4, 8)).transpose(1, 2)
        for one in (layer.attention.query, layer.attention.key)
    )
    seen = torch.ones(12, 12, dtype=torch.bool).tril()
    looked = (q @ k.transpose(2, 3) / 8**0.5).masked_fill(~seen, -torch.inf).softmax(3)
    first, second = looked[:, :, :6].mean((1, 2)), looked[:, :, 6:].mean((1, 2))
    torch.testing.assert_close(memory.layers[0].usage, first[:, :6], **EXACT)
    # The first segment is evicted then: two of its states, those that were looked at most.
    after = model.model(ids[:, 6:], memory=memory, use_cache=False).memory.layers[0]
    kept = (first + second)[:, :6].topk(2, dim=1).indices.sort(1).values
    states = model.get_input_embeddings()(ids)
    torch.testing.assert_close(
        after.compressed, states.gather(1, kept[..., None].expand(-1, -1, 32)), **EXACT
    )
    torch.testing.assert_close(after.usage, second[:, 6:], **EXACT)
