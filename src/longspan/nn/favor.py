"""FAVOR+ (arXiv 2009.14794): softmax attention estimated by random features, and linear attention with
features.

A feature of x is a * exp(log), kept apart: the log may be far beyond what an exponential holds, and the
largest one is taken out before it becomes a number. For keys of a causal model that is the largest so far,
which only the past decides. With a maximum over all keys, a large key in the future would drown the past in
rounding or in an added epsilon: that is how published code lets the future through. Nothing is added here, so
nothing drowns.
"""

import math
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import torch
from torch import Tensor

Form: TypeAlias = Literal["positive", "hyperbolic", "trigonometric", "relu"]
_NOTHING = -1e30
"""In place of the log of 0: two of them differ by 0 rather than by NaN."""
_RELU_EPSILON = 1e-3


def draw_directions(
    count: int,
    dim: int,
    *,
    orthogonal: bool = True,
    regularised: bool = False,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Random directions, from torch's generator.

    Args:
        count: how many.
        dim: of the space.
        orthogonal: blocks of ``dim`` stand at right angles (section 3.3), which lowers the variance.
        regularised: all of length sqrt(dim) (SMREG), which lowers it further and biases the estimate;
            otherwise as long as Gaussian vectors are, and the estimate is unbiased.
        dtype: of the result; it is drawn in fp64.

    Returns:
        [count, dim].
    """
    gaussian = torch.randn(count, dim, dtype=torch.float64)
    if not orthogonal:
        directions = gaussian / gaussian.norm(dim=1, keepdim=True)
    else:
        blocks: list[Tensor] = []
        for _ in range(math.ceil(count / dim)):
            q, r = torch.linalg.qr(torch.randn(dim, dim, dtype=torch.float64))
            # The factor that QR returns prefers some rotations; with the signs of R all are as likely.
            blocks.append((q * r.diagonal().sign()).T)
        directions = torch.cat(blocks)[:count]
    lengths = gaussian.norm(dim=1, keepdim=True)
    if regularised:
        lengths = torch.full_like(lengths, math.sqrt(dim))
    return (directions * lengths).to(dtype)


class Features(NamedTuple):
    """Features factor * exp(along + shift) of vectors, up to a common factor.

    They are added where the exponential is taken: tensors with a number for every feature are large, and cost
    more to write than to compute.
    """

    along: Tensor
    """[..., N, features], or [..., N, 1] where all features of a vector have the same."""
    shift: Tensor
    """[..., N, 1]."""
    factor: Tensor | None
    """[..., N, features]; None is 1."""

    @property
    def largest(self) -> Tensor:
        """[..., N, 1]: the largest log of each vector; a constant, for it cancels wherever it is used."""
        return (self.along.detach().amax(-1, keepdim=True) + self.shift.detach()).clamp_min(_NOTHING)

    def relative_to(self, top: Tensor) -> Tensor:
        """[..., N, features]: factor * exp(along + shift - top), with ``top`` [..., N or 1, 1]."""
        scale = (self.along + (self.shift - top)).exp_()
        return scale if self.factor is None else self.factor * scale


def features(x: Tensor, directions: Tensor, form: Form) -> Features:
    """Random features of queries or keys whose products estimate exp(q . k / sqrt(D)).

    Args:
        x: [..., N, D].
        directions: [features, D].
        form: "positive" (lemma 1), "hyperbolic" (both signs of every direction, lower variance),
            "trigonometric" (sines and cosines; may be negative, and poor where attention is small) or "relu"
            (another kernel).
    """
    x = x * x.shape[-1] ** -0.25
    along = x @ directions.T.to(x.dtype)
    half = 0.5 * x.square().sum(-1, keepdim=True)
    if form == "positive":
        return Features(along, -half, None)
    if form == "hyperbolic":
        return Features(torch.cat([along, -along], -1), -half, None)
    nothing = torch.zeros_like(half)
    if form == "trigonometric":
        return Features(nothing, half, torch.cat([along.sin(), along.cos()], -1))
    return Features(nothing, nothing, along.relu() + _RELU_EPSILON)


class KeyState(NamedTuple):
    """The sums over the keys so far."""

    sums: Tensor
    """[..., features, D + 1]: of feature times (value, 1), relative to exp(top)."""
    top: Tensor
    """[..., 1, 1]: the largest log of a feature so far."""


def query_weights(q: Features) -> Tensor:
    """[..., N, features]: query features, each query's largest taken out: it cancels in the quotient."""
    return q.relative_to(q.largest)


def linear_attention(q: Tensor, k: Features, v: Tensor, is_padding: Tensor | None) -> Tensor:
    """Every query reads every key.

    Args:
        q: [B, H, N, F], of `query_weights`.
        k: features of M keys.
        v: [B, H, M, D].
        is_padding: [B, M] bool.

    Returns:
        [B, H, N, D].
    """
    k = _without_padding(k, is_padding)
    weights = k.relative_to(k.largest.amax(-2, keepdim=True))
    return _quotient(q @ (weights.transpose(-1, -2) @ _with_ones(v, is_padding)))


def causal_linear_attention(
    q: Tensor,
    k: Features,
    v: Tensor,
    is_padding: Tensor | None = None,
    *,
    chunk: int = 64,
    state: KeyState | None = None,
) -> tuple[Tensor, KeyState]:
    """Every query reads the keys up to its own place.

    Positions are read in chunks: pairs within a chunk one by one, and the sums over all chunks before it.
    Sums are not stored: the backward pass makes them again.

    Args:
        q: [B, H, N, F], of `query_weights`.
        k: features of N keys.
        v: [B, H, N, D].
        is_padding: [B, N] bool.
        chunk: positions read at once; changes the cost and nothing else.
        state: of the keys before; for reading without gradients.

    Returns:
        [B, H, N, D], and the state after the last key.
    """
    k = _without_padding(k, is_padding)
    largest = k.largest  # [B, H, N, 1]
    if state is not None:
        largest = torch.cat([state.top.expand(*largest.shape[:2], 1, 1), largest], 2)
    top = largest.cummax(2).values
    if state is not None:
        top = top[:, :, 1:]
    weights = k.relative_to(top)
    values = _with_ones(v, is_padding)
    if state is None and torch.is_grad_enabled():
        out = cast(Tensor, _CausalSums.apply(q, weights, values, top, chunk))
        return _quotient(out), KeyState(values.new_empty(0), top[:, :, -1:])
    out, after = _causal_sums(q, weights, values, top, chunk, state)
    return _quotient(out), after


def _with_ones(v: Tensor, is_padding: Tensor | None) -> Tensor:
    """[B, H, N, D + 1]: a column of ones behind the values, so that one product makes both sums."""
    if is_padding is not None:  # so that a NaN there cannot pass through 0 * NaN
        v = v.masked_fill(is_padding[:, None, :, None], 0.0)
    return torch.cat([v, torch.ones_like(v[..., :1])], -1)


def _without_padding(k: Features, is_padding: Tensor | None) -> Features:
    """Padded keys have no features, and no part in any maximum."""
    if is_padding is None:
        return k
    hidden = is_padding[:, None, :, None]
    # All three, so that a NaN there cannot pass through 0 * NaN.
    return Features(
        k.along.masked_fill(hidden, 0.0),
        k.shift.masked_fill(hidden, -torch.inf),
        None if k.factor is None else k.factor.masked_fill(hidden, 0.0),
    )


def _quotient(sums: Tensor) -> Tensor:
    """[..., D + 1] -> [..., D]: sums of values by sums of weights; 0 where nothing was read."""
    total = sums[..., -1:]
    is_nothing = total.abs() <= torch.finfo(sums.dtype).tiny
    return torch.where(is_nothing, 0.0, sums[..., :-1] / torch.where(is_nothing, 1.0, total))


def _causal_sums(
    q: Tensor, k: Tensor, v: Tensor, top: Tensor, chunk: int, state: KeyState | None
) -> tuple[Tensor, KeyState]:
    """out_i = sum over j <= i of (q_i . k_j) exp(top_j - top_i) v_j, and the state after the last."""
    if state is None:
        sums, before = q.new_zeros(*q.shape[:2], q.shape[3], v.shape[3]), top[:, :, :1]
    else:
        sums, before = state
    outs: list[Tensor] = []
    for begin in range(0, q.shape[2], chunk):
        part = slice(begin, begin + chunk)
        q_c, k_c, v_c, top_c = q[:, :, part], k[:, :, part], v[:, :, part], top[:, :, part]
        pairs = (q_c @ k_c.transpose(-1, -2)) * _past(top_c)
        outs.append(pairs @ v_c + (q_c @ sums) * (before - top_c).exp())
        after = top_c[:, :, -1:]
        sums = sums * (before - after).exp() + (k_c * (top_c - after).exp()).transpose(-1, -2) @ v_c
        before = after
    out = torch.cat(outs, 2) if outs else v[:, :, :0]
    return out, KeyState(sums, before)


def _past(top: Tensor) -> Tensor:
    """[B, H, n, n]: exp(top_j - top_i) for j <= i, 0 for the rest. Never above 1: tops do not fall."""
    n = top.shape[2]
    seen = torch.ones(n, n, dtype=torch.bool, device=top.device).tril()
    return torch.where(seen, top.transpose(-1, -2) - top, -torch.inf).exp()


class _CausalSums(torch.autograd.Function):
    """`_causal_sums` with a backward pass that makes the prefix sums again instead of storing them.

    ``top`` is a constant: it cancels in the quotient.
    """

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        q, k, v, top, chunk = inputs
        ctx.save_for_backward(q, k, v, top)
        ctx.chunk = chunk
        return _causal_sums(q, k, v, top, chunk, None)[0]

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        q, k, v, top = ctx.saved_tensors
        (d_out,) = grads
        chunk: int = ctx.chunk
        d_q, d_k, d_v = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        starts = range(0, q.shape[2], chunk)
        sums, before = q.new_zeros(*q.shape[:2], q.shape[3], v.shape[3]), top[:, :, :1]
        for begin in starts:
            part = slice(begin, begin + chunk)
            q_c, k_c, v_c, top_c, g_c = (x[:, :, part] for x in (q, k, v, top, d_out))
            past = _past(top_c)
            on_pairs = (g_c @ v_c.transpose(-1, -2)) * past
            pairs = (q_c @ k_c.transpose(-1, -2)) * past
            d_q[:, :, part] = on_pairs @ k_c + (g_c @ sums.transpose(-1, -2)) * (before - top_c).exp()
            d_k[:, :, part] = on_pairs.transpose(-1, -2) @ q_c
            d_v[:, :, part] = pairs.transpose(-1, -2) @ g_c
            after = top_c[:, :, -1:]
            sums = sums * (before - after).exp() + (k_c * (top_c - after).exp()).transpose(-1, -2) @ v_c
            before = after
        # What later chunks ask of earlier keys: sums over queries, from the last chunk on, relative to the
        # top at the end of the chunk that they are for.
        later = torch.zeros_like(sums)
        for begin in reversed(starts):
            part = slice(begin, begin + chunk)
            q_c, k_c, v_c, top_c, g_c = (x[:, :, part] for x in (q, k, v, top, d_out))
            after = top_c[:, :, -1:]
            here = (top_c - after).exp()
            d_k[:, :, part] += (v_c @ later.transpose(-1, -2)) * here
            d_v[:, :, part] += (k_c @ later) * here
            end_before = top[:, :, begin - 1 : begin] if begin else after
            later = (
                later * (end_before - after).exp()
                + (q_c * (end_before - top_c).exp()).transpose(-1, -2) @ g_c
            )
        return d_q, d_k, d_v, None, None
