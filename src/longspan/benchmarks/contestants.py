"""The implementations that are compared, each as a user would call it.

A contestant turns a workload and its inputs into a function without arguments that returns the
output as [batch, heads, length, head_dim]. What it needs once per sequence length (a mask, a
compiled kernel) is made in `prepare`: left out of the times, included in the memory.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from longspan.attention.pattern import Pattern
from longspan.benchmarks.longformer_core import longformer_core
from longspan.benchmarks.workload import Inputs, Workload

Semantics = Literal["longformer", "window", "full"]
Call = Callable[[], Tensor]


@dataclass(frozen=True, kw_only=True, slots=True)
class Contestant:
    """One line of the plot."""

    name: str
    label: str
    claims: Semantics
    """What it computes, and is checked for: the window with global tokens, the window alone, or
    full attention."""
    prepare: Callable[[Workload, Inputs], Call]
    trains: bool = True
    compiles: bool = False
    """The first call compiles, which is in neither the times nor the memory."""
    needs: str | None = None
    """The package that must be installed."""
    note: str = ""


def _longspan(impl: Literal["native", "blocked", "reference"]) -> Callable[[Workload, Inputs], Call]:
    def prepare(work: Workload, inputs: Inputs) -> Call:
        is_global = work.is_global()
        return lambda: longformer_core(inputs.q, inputs.k, inputs.v, work.pattern, is_global, impl=impl)

    return prepare


def hugging_face_core(work: Workload, inputs: Inputs) -> Call:
    """LongformerSelfAttention with the inputs in the place of its projections."""
    core, attention_mask = _hugging_face(work, inputs)
    return lambda: core(attention_mask)


def hugging_face_with_mask(work: Workload, inputs: Inputs) -> Call:
    """The same, with the [batch, 1, length, length] mask that LongformerModel builds and cuts to 2-D.

    The model builds it once per forward pass, not once per layer.
    """
    from transformers.masking_utils import create_bidirectional_mask
    from transformers.models.longformer import LongformerConfig

    core, _ = _hugging_face(work, inputs)
    config = LongformerConfig()
    config._attn_implementation = "eager"  # pyright: ignore[reportPrivateUsage]
    zero_one_two = torch.ones(work.batch, work.length)
    is_global = work.is_global()
    if is_global is not None:
        zero_one_two[is_global] = 2

    def call() -> Tensor:
        full = create_bidirectional_mask(
            config=config,
            inputs_embeds=_rows(inputs.q),
            attention_mask=zero_one_two.clamp(0, 1),
            allow_is_bidirectional_skip=False,
        )
        mask = full[:, 0, 0, :]  # pyright: ignore[reportOptionalSubscript]
        mask[zero_one_two == 2] = torch.finfo(inputs.q.dtype).max
        return core(mask)

    return call


def _hugging_face(work: Workload, inputs: Inputs) -> tuple[Callable[[Tensor], Tensor], Tensor]:
    from transformers.models.longformer import LongformerConfig
    from transformers.models.longformer.modeling_longformer import LongformerSelfAttention

    if not work.window or work.length % work.window:
        raise ValueError(
            f"length is {work.length}; Hugging Face needs a multiple of the window, {work.window}"
        )
    if work.dilation != 1:
        raise ValueError(f"dilation is {work.dilation}; Hugging Face has no dilation")
    config = LongformerConfig(
        hidden_size=work.heads * work.head_dim,
        num_attention_heads=work.heads,
        attention_window=[work.window],
        attention_probs_dropout_prob=0.0,
    )
    layer = LongformerSelfAttention(config, layer_id=0)
    # Its transposed layout, as the projections would return it.
    k, v = _rows(inputs.k).transpose(0, 1), _rows(inputs.v).transpose(0, 1)
    # The query is divided in place, so it needs a copy of its own; the others do not, and a copy
    # of them would be held against Hugging Face for nothing.
    layer.query = _Cloned()  # pyright: ignore[reportAttributeAccessIssue]
    layer.key = layer.key_global = _Given(k)  # pyright: ignore[reportAttributeAccessIssue]
    layer.value = layer.value_global = _Given(v)  # pyright: ignore[reportAttributeAccessIssue]
    layer.query_global = nn.Identity()  # pyright: ignore[reportAttributeAccessIssue]
    is_global = work.is_global()
    attention_mask = torch.zeros(work.batch, work.length, dtype=inputs.q.dtype)
    if is_global is not None:
        attention_mask[is_global] = torch.finfo(inputs.q.dtype).max

    def call(mask: Tensor) -> Tensor:
        out = layer(
            _rows(inputs.q),
            attention_mask=mask,
            is_index_masked=mask < 0,
            is_index_global_attn=mask > 0,
            is_global_attn=is_global is not None,
        )[0]
        return out.view(work.batch, work.length, work.heads, work.head_dim).transpose(1, 2)

    return call, attention_mask


class _Cloned(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.clone()


class _Given(nn.Module):
    """A projection whose result is known beforehand."""

    def __init__(self, result: Tensor) -> None:
        super().__init__()
        self.result = result

    def forward(self, x: Tensor) -> Tensor:
        return self.result


def _rows(x: Tensor) -> Tensor:
    """[batch, heads, length, head_dim] as [batch, length, hidden], a view of a model's layout."""
    return x.transpose(1, 2).flatten(2)


def _sdpa_full(work: Workload, inputs: Inputs) -> Call:
    return lambda: F.scaled_dot_product_attention(inputs.q, inputs.k, inputs.v)


def _sdpa_band(work: Workload, inputs: Inputs) -> Call:
    position = torch.arange(work.length)
    mask = _seen(work, position[:, None], position)
    return lambda: F.scaled_dot_product_attention(inputs.q, inputs.k, inputs.v, attn_mask=mask)


def _seen(work: Workload, query: Tensor, key: Tensor) -> Tensor:
    """One mask for window, global keys and global rows; possible since they share projections here."""
    return work.pattern.allows(query, key) | (key < work.num_globals) | (query < work.num_globals)


def _flex(work: Workload, inputs: Inputs) -> Call:
    from torch.nn.attention.flex_attention import BlockMask, flex_attention

    size = 128
    blocks = math.ceil(work.length / size)
    first = torch.arange(blocks) * size
    query, key = first[:, None], first
    # Blocks are chosen here because create_block_mask looks at every pair, which is quadratic.
    corners = [_seen(work, query + a, key + b) for a in (0, size - 1) for b in (0, size - 1)]
    near = (key - query).abs() <= (work.window // 2) * work.dilation + size
    some = near | (key < work.num_globals) | (query < work.num_globals)
    whole = torch.stack(corners).all(0) & near & (query >= work.num_globals) & (key >= work.num_globals)
    # Four corners say nothing about the inside of a dilated block, or of the last, incomplete one.
    whole &= (work.dilation == 1) & (torch.maximum(query, key) + size <= work.length)
    part = some & ~whole

    def mask_mod(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        return _seen(work, q_idx, kv_idx)

    block_mask = BlockMask.from_kv_blocks(
        *_block_list(part),
        *_block_list(whole),
        BLOCK_SIZE=size,
        mask_mod=mask_mod,
        seq_lengths=(work.length, work.length),
    )
    # A dynamic recompile generates C++ that does not compile (torch 2.13).
    compiled: Any = torch.compile(flex_attention, dynamic=False)
    q, k, v = inputs.q.detach(), inputs.k.detach(), inputs.v.detach()
    return lambda: compiled(q, k, v, block_mask=block_mask)


def _block_list(chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Counts [1, 1, rows] and indices [1, 1, rows, columns], the chosen ones first."""
    order = chosen.int().argsort(dim=1, descending=True, stable=True)
    return chosen.sum(1).int()[None, None], order.int()[None, None]


def _local_attention(work: Workload, inputs: Inputs) -> Call:
    from local_attention import LocalAttention

    layer = LocalAttention(
        work.window // 2, look_backward=1, look_forward=1, exact_windowsize=True, autopad=True
    )
    return lambda: layer(inputs.q, inputs.k, inputs.v)


def _loop(work: Workload, inputs: Inputs) -> Call:
    """One offset at a time, as the paper's memory-efficient but slow version (section 3.2)."""
    length, num_globals = work.length, work.num_globals
    scale = 1.0 / math.sqrt(work.head_dim)
    reach = work.window // 2
    offsets = [o * work.dilation for o in range(-reach, reach + 1) if abs(o * work.dilation) < length]
    position = torch.arange(length)

    def call() -> Tensor:
        q, k, v = inputs.q, inputs.k, inputs.v
        columns = [q @ k[:, :, :num_globals].transpose(-1, -2) * scale]
        for offset in offsets:
            low, high = max(0, -offset), length - max(0, offset)
            score = (q[:, :, low:high] * k[:, :, low + offset : high + offset]).sum(-1) * scale
            score = F.pad(score, (low, length - high), value=-torch.inf)
            columns.append(score.masked_fill(position + offset < num_globals, -torch.inf)[..., None])
        probabilities = torch.cat(columns, -1).softmax(-1)
        out = probabilities[..., :num_globals] @ v[:, :, :num_globals]
        for column, offset in enumerate(offsets, start=num_globals):
            low, high = max(0, -offset), length - max(0, offset)
            part = probabilities[:, :, low:high, column, None] * v[:, :, low + offset : high + offset]
            out = out + F.pad(part, (0, 0, low, length - high))
        rows = F.scaled_dot_product_attention(q[:, :, :num_globals], k, v)
        return torch.cat([rows, out[:, :, num_globals:]], 2)

    return call


CONTESTANTS = (
    Contestant(
        name="native", label="longspan, native kernel", claims="longformer", prepare=_longspan("native")
    ),
    Contestant(
        name="blocked", label="longspan, plain PyTorch", claims="longformer", prepare=_longspan("blocked")
    ),
    Contestant(
        name="hf",
        label="Hugging Face Longformer, mask patched out",
        claims="longformer",
        prepare=hugging_face_core,
        needs="transformers",
        note="LongformerSelfAttention without its projections",
    ),
    Contestant(
        name="hf-mask",
        label="Hugging Face Longformer, as shipped",
        claims="longformer",
        prepare=hugging_face_with_mask,
        needs="transformers",
        note="plus the quadratic mask of LongformerModel, built once per forward pass whatever the depth",
    ),
    Contestant(
        name="sdpa-full",
        label="SDPA, full attention",
        claims="full",
        prepare=_sdpa_full,
        note="full attention: another function, for scale",
    ),
    Contestant(
        name="sdpa-band",
        label="SDPA, dense band mask",
        claims="longformer",
        prepare=_sdpa_band,
        note="mask made beforehand; its memory is counted",
    ),
    Contestant(
        name="flex",
        label="FlexAttention, compiled",
        claims="longformer",
        prepare=_flex,
        trains=False,
        compiles=True,
        note="forward only on CPUs; compilation is not in the times",
    ),
    Contestant(
        name="local-attention",
        label="local-attention (no global tokens)",
        claims="window",
        prepare=_local_attention,
        needs="local-attention",
        note="has no global tokens, so it does less",
    ),
    Contestant(
        name="loop",
        label="naive loop over offsets",
        claims="longformer",
        prepare=_loop,
        note="the paper's memory-efficient PyTorch version",
    ),
)


def claimed_pattern(contestant: Contestant, work: Workload) -> tuple[Pattern, int]:
    """The window and the number of global tokens that the contestant really computes."""
    if contestant.claims == "full":
        return Pattern(left=None, right=None), 0
    return work.pattern, work.num_globals if contestant.claims == "longformer" else 0
