"""Routing Transformer (arXiv 2003.05997): tokens attend within clusters of like content.

Queries and keys are normalised; every centroid takes the ``size`` tokens nearest to it, and these attend to
each other. A token that several centroids take reads the mean of what it reads there; one that none takes
reads nothing. Centroids follow the tokens by a moving average, and a small loss draws tokens to their
centroids. Some heads have plain windows instead.

Which tokens a centroid takes depends on all of the input, later tokens too: as a causal model it lets that
much of the future through. It is refused there, unless the settings say that this is known (``accept_leak``).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from longspan.attention.attend import attend
from longspan.attention.pattern import Pattern
from longspan.checks import at_least
from longspan.nn.kinds.kind import Ability, Call, Kind, LayerShape
from longspan.nn.kinds.patterned import all_padding_to_zero, two_sides

LEAK = (
    "which tokens it lets attend to each other depends on later tokens too, so it is not strictly causal; "
    "give attention_settings accept_leak=true if that will do"
)

_AS_NEAR = 2.0**-12
"""Tokens whose products with a centroid, about the root of head_dim, differ by less are as near to it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RoutingSettings:
    """Of the Routing Transformer."""

    clusters: int = 16
    """Centroids of a head."""
    size: int = 128
    """Tokens that a centroid takes: the paper's w, near length / clusters."""
    local_heads: int = 0
    """Heads, the first ones, that have a plain window instead."""
    window: int = 128
    """Tokens that those heads see, both sides together, or before a token in a causal model."""
    decay: float = 0.999
    """Of the moving average of centroids."""
    commitment: float = 1e-4
    """Weight of the loss that draws tokens to their centroids."""
    accept_leak: bool = False
    """Whether a causal model may be not strictly causal."""

    def __post_init__(self) -> None:
        at_least(1, clusters=self.clusters, size=self.size, window=self.window)
        at_least(0, local_heads=self.local_heads, decay=self.decay, commitment=self.commitment)
        if self.decay > 1:
            raise ValueError(f"decay is {self.decay}; it must be at most 1")


class Routing(Kind):
    """Attention within clusters."""

    name = "routing"
    Settings = RoutingSettings
    has_losses = True
    cannot = {
        "cache": "which tokens attend to each other depends on the whole input",
        "cross-length": "queries and keys of one input are routed together",
        "relative": "tokens are gathered away from their positions",
        "learned": "tokens are gathered away from their positions",
        "rotary": "centroids are of contents, which turning would change with the position",
        "usage": "clusters are read apart",
    }

    settings: RoutingSettings
    centroids: Tensor
    pending_sums: Tensor
    pending_counts: Tensor

    def __init__(self, shape: LayerShape, settings: Any) -> None:
        super().__init__(shape, settings)
        self.routed = shape.heads - settings.local_heads
        if self.routed < 1:
            raise ValueError(
                f"local_heads is {settings.local_heads} of {shape.heads}; at least one head must be routed"
            )
        size = (self.routed, settings.clusters, shape.head_dim)
        self.register_buffer("centroids", _normalised(torch.randn(size)))
        # What a pass saw of each cluster; the next training pass moves the centroids by it.
        self.register_buffer("pending_sums", torch.zeros(size))
        self.register_buffer("pending_counts", torch.zeros(size[:2]))

    @classmethod
    def refusals(cls, settings: Any, *, causal: bool) -> Mapping[Ability, str]:
        """Causality too, unless its leak is accepted."""
        has_sides = settings.local_heads and not causal
        cannot: dict[Ability, str] = {**cls.cannot, **(two_sides(settings.window) if has_sides else {})}
        return cannot if settings.accept_leak else {**cannot, "causal": LEAK}

    @property
    def shares_keys(self) -> bool:
        """A causal model whose heads are all routed has no keys of its own: they are the queries."""
        return self.shape.causal and not self.settings.local_heads

    def begin_pass(self) -> None:
        """Moves the centroids by what the last pass saw."""
        counts = self.pending_counts[..., None]
        means = self.pending_sums / counts.clamp_min(1)
        decay = self.settings.decay
        moved = _normalised(decay * self.centroids + (1 - decay) * means)
        self.centroids = torch.where(counts > 0, moved, self.centroids)
        self.pending_sums = torch.zeros_like(self.pending_sums)
        self.pending_counts = torch.zeros_like(self.pending_counts)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, call: Call) -> Tensor:
        """See `Kind.forward`."""
        local = self.settings.local_heads
        outs: list[Tensor] = []
        if local:
            window = self.settings.window
            side = (
                Pattern(left=window, right=0) if call.causal else Pattern(left=window // 2, right=window // 2)
            )
            near = attend(
                q[:, :local],
                k[:, :local],
                v[:, :local],
                side,
                is_padding=call.is_padding,
                dropout=call.dropout,
                impl=call.impl,
            )
            outs.append(cast(Tensor, near))
        q, k, v = q[:, local:], k[:, local:], v[:, local:]
        # In a causal model a token is in the same clusters as query and as key.
        q = _normalised(q)
        k = q if call.causal else _normalised(k)
        if call.training and torch.is_grad_enabled():
            self._learn([q] if call.causal else [q, k], call)
        outs.append(all_padding_to_zero(self._routed(q, k, v, call), call.is_padding, 0))
        return torch.cat(outs, 1)

    def _routed(self, q: Tensor, k: Tensor, v: Tensor, call: Call) -> Tensor:
        """[B, H, N, D]. Letters: C centroids, w tokens of one."""
        dim = q.shape[3]
        at_q = self._taken(q, call.is_padding)  # [B, H, C, w]
        at_k = at_q if call.causal else self._taken(k, call.is_padding)
        q_c, k_c, v_c = (_gather(x, at) for x, at in ((q, at_q), (k, at_k), (v, at_k)))
        scores = (q_c @ k_c.transpose(-1, -2)) / dim**0.5
        if call.causal:
            scores = scores.masked_fill(at_k[..., None, :] > at_q[..., None], -torch.inf)
        counts = torch.ones(at_q.shape, dtype=q.dtype, device=q.device)
        if call.is_padding is not None:
            padding = call.is_padding[:, None, None]
            hidden = padding.expand(*at_k.shape[:3], -1).gather(3, at_k)
            scores = scores.masked_fill(hidden[..., None, :], torch.finfo(scores.dtype).min)
            counts = counts.masked_fill(padding.expand(*at_q.shape[:3], -1).gather(3, at_q), 0.0)
        read = F.dropout(scores.softmax(-1), call.dropout) @ v_c * counts[..., None]
        flat = at_q.flatten(2)
        index = flat[..., None].expand(-1, -1, -1, dim)
        total = torch.zeros_like(v).scatter_add(2, index, read.flatten(2, 3))
        times = torch.zeros_like(v[..., 0]).scatter_add(2, flat, counts.flatten(2))
        return total / times.clamp_min(1)[..., None]

    def _taken(self, x: Tensor, is_padding: Tensor | None) -> Tensor:
        """[B, H, C, w] int64, rising: the tokens nearest to each centroid."""
        near = self.centroids.to(x.dtype) @ x.detach().transpose(-1, -2)  # [B, H, C, N]
        # Equal tokens without positions are equally near, but for rounding. The first of them are taken:
        # which ones topk would take depends on the length, and so on padding.
        near = (near / _AS_NEAR).round().nan_to_num(nan=-torch.inf)
        if is_padding is not None:
            near = near.masked_fill(is_padding[:, None, None], -torch.inf)
        size = min(self.settings.size, x.shape[2])
        least = near.topk(size, dim=-1, sorted=False).values.amin(-1, keepdim=True)
        above, level = near > least, near == least
        room = size - above.sum(-1, keepdim=True)
        taken = above | (level & (level.cumsum(-1) <= room))
        return taken.nonzero()[:, -1].view(*near.shape[:3], size)

    def _learn(self, xs: list[Tensor], call: Call) -> None:
        """Notes what the clusters hold, padding left out, and adds the loss that draws tokens to them."""
        sums, counts = torch.zeros_like(self.pending_sums), torch.zeros_like(self.pending_counts)
        losses: list[Tensor] = []
        for x in xs:
            nearest = (x.detach() @ self.centroids.to(x.dtype).transpose(-1, -2)).argmax(-1)  # [B, H, N]
            member = F.one_hot(nearest, self.settings.clusters).to(x.dtype)
            if call.is_padding is not None:
                member = member.masked_fill(call.is_padding[:, None, :, None], 0.0)
            sums += torch.einsum("bhnc,bhnd->hcd", member, x.detach()).to(sums)
            counts += member.sum((0, 2)).to(counts)
            centre = member @ self.centroids.to(x.dtype)
            real = member.sum(-1, keepdim=True)
            losses.append(((x - centre).square() * real).sum() / (real.sum() * x.shape[-1]).clamp_min(1))
        # Written, not added: a pass that is computed again in the backward pass notes the same.
        self.pending_sums, self.pending_counts = sums, counts
        if self.settings.commitment:
            call.add_loss("commitment", self.settings.commitment * torch.stack(losses).sum())


def _normalised(x: Tensor) -> Tensor:
    """Layer norm without weights, over the last dimension."""
    return F.layer_norm(x, x.shape[-1:])


def _gather(x: Tensor, at: Tensor) -> Tensor:
    """[B, H, N, D] at [B, H, C, w] -> [B, H, C, w, D]."""
    flat = at.flatten(2)[..., None].expand(-1, -1, -1, x.shape[3])
    return x.gather(2, flat).unflatten(2, at.shape[2:])
