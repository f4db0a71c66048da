"""FAVOR+: estimates without bias and with the paper's variance, and a past that the future cannot change."""

import math
from typing import Any, cast

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from longspan.nn.favor import (
    Features,
    Form,
    causal_linear_attention,
    draw_directions,
    features,
    linear_attention,
    query_weights,
)

EXACT: dict[str, Any] = {"atol": 1e-12, "rtol": 1e-9}


def vector(dim: int, length: float, seed: int) -> Tensor:
    x = torch.randn(dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return length * x / x.norm()


def estimate(x: Tensor, y: Tensor, directions: Tensor, form: Form) -> Tensor:
    """[draws]: exp(x . y), for directions [draws, m, d]; the features take head_dim ** -1/4 out again."""
    scale = x.shape[0] ** 0.25
    count = directions.shape[1] * (2 if form == "hyperbolic" else 1)
    made = [
        features(scale * one[None], w, form).relative_to(torch.zeros(()))[0]
        for one in (x, y)
        for w in directions
    ]
    half = len(made) // 2
    left, right = torch.stack(made[:half]), torch.stack(made[half:])
    return (left * right).sum(-1) / count


def mse(x: Tensor, y: Tensor, m: int, form: str) -> float:
    """Lemma 2 and theorem 2 of the paper, for independent directions."""
    softmax = float((x @ y).exp())
    plus, minus = float((x + y).square().sum()), float((x - y).square().sum())
    positive = math.exp(plus) * softmax**2 * (1 - math.exp(-plus)) / m
    if form == "trigonometric":
        return math.exp(plus) * softmax**-2 * (1 - math.exp(-minus)) ** 2 / (2 * m)
    return 0.5 * (1 - math.exp(-plus)) * positive if form == "hyperbolic" else positive


@pytest.mark.parametrize("form", ["positive", "hyperbolic", "trigonometric"])
def test_estimate_has_the_papers_mean_and_error(form: str) -> None:
    torch.manual_seed(0)
    x, y = vector(8, 0.35, 1), vector(8, 0.3, 2)
    m, draws = 16, 4000
    directions = draw_directions(m * draws, 8, orthogonal=False, dtype=torch.float64).view(draws, m, 8)
    said = estimate(x, y, directions, cast(Form, form))
    exact = float((x @ y).exp())
    expected = mse(x, y, m, form)
    assert float(said.mean()) == pytest.approx(exact, abs=4 * math.sqrt(expected / draws))
    assert float((said - exact).square().mean()) == pytest.approx(expected, rel=0.15)


@pytest.mark.parametrize("orthogonal", [True, False])
def test_estimate_is_unbiased_in_few_dimensions(orthogonal: bool) -> None:
    """Where a factor of QR as it comes would be off by several percent."""
    torch.manual_seed(0)
    x, y = vector(8, 1.0, 3), vector(8, 1.0, 4)
    draws = 20_000
    blocks = [draw_directions(8, 8, orthogonal=orthogonal, dtype=torch.float64) for _ in range(draws)]
    w = torch.stack(blocks)
    said = ((w @ (x + y)) - 0.5 * (x.square().sum() + y.square().sum())).exp().mean(-1)
    error = float(said.std()) / math.sqrt(draws)
    assert float(said.mean()) == pytest.approx(float((x @ y).exp()), abs=4 * error)
    assert error < 0.015 * float((x @ y).exp())


def test_orthogonal_directions_have_less_variance() -> None:
    torch.manual_seed(0)
    x, y = vector(8, 0.5, 5), vector(8, 0.5, 6)
    softmax, m, d = float((x @ y).exp()), 8, 8
    w = torch.stack([draw_directions(m, d, dtype=torch.float64) for _ in range(20_000)])
    said = ((w @ (x + y)) - 0.5 * (x.square().sum() + y.square().sum())).exp().mean(-1)
    less = 2 * (m - 1) / (m * (d + 2))
    less *= (softmax - math.exp(-0.5 * float(x.square().sum() + y.square().sum()))) ** 2
    measured = float((said - softmax).square().mean())
    # The paper's is a bound: at least this much less than independent ones.
    assert measured < (mse(x, y, m, "positive") - less) * 1.05


def test_regularised_directions_are_biased_low() -> None:
    torch.manual_seed(0)
    x, y = vector(16, 1.0, 7), vector(16, 1.0, 8)
    w = torch.stack([draw_directions(16, 16, regularised=True, dtype=torch.float64) for _ in range(4000)])
    assert torch.allclose(w.norm(dim=-1), torch.tensor(4.0, dtype=torch.float64))
    said = ((w @ (x + y)) - 0.5 * (x.square().sum() + y.square().sum())).exp().mean(-1)
    # Theorem 2: low, but by no more than this.
    assert 1 - 2 * 16 ** (-1 / 3) < float(said.mean()) / float((x @ y).exp()) < 1


def test_relu_features_are_their_kernel() -> None:
    """The mean of relu(w . x) relu(w . y) over all directions is known: an arc-cosine kernel."""
    torch.manual_seed(0)
    x, y = vector(8, 0.8, 9), vector(8, 1.3, 10)
    w = draw_directions(200_000, 8, orthogonal=False, dtype=torch.float64)
    left, right = (features(8**0.25 * one[None], w, "relu").relative_to(torch.zeros(()))[0] for one in (x, y))
    angle = torch.arccos(x @ y / (0.8 * 1.3))
    expected = 0.8 * 1.3 / (2 * math.pi) * (angle.sin() + (math.pi - angle) * angle.cos())
    # A thousandth is added to each feature, whose mean is |x| / sqrt(2 pi).
    expected += 1e-3 * (0.8 + 1.3) / math.sqrt(2 * math.pi) + 1e-6
    assert float((left * right).mean()) == pytest.approx(float(expected), rel=0.01)


def attention_and_estimate(m: int, orthogonal: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Scaled queries and keys of length 1/2 in 16 dimensions, values, and the error of what two dozen
    positions read when they look back."""
    q, k, v = torch.randn(3, 1, 1, 24, 16, dtype=torch.float64)
    x, y = (0.5 * one / one.norm(dim=-1, keepdim=True) for one in (q, k))
    q, k = x * 16**0.25, y * 16**0.25
    w = draw_directions(m, 16, orthogonal=orthogonal, dtype=torch.float64)
    said, _ = causal_linear_attention(
        query_weights(features(q, w, "positive")), features(k, w, "positive"), v
    )
    exact = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    return x[0, 0], y[0, 0], v[0, 0], (said - exact)[0, 0]


def expected_square(x: Tensor, y: Tensor, v: Tensor, m: int) -> float:
    """The expected squared error of attention with m independent features, to first order in 1 / m.

    The error is that of sum_j K_j u_j, K_j being the estimate of S_j = exp(x . y_j) and u_j = (v_j - out) /
    sum_j S_j. The moments of one feature are those of exponentials of a Gaussian: E[K_j K_l] is
    exp(|2 x + y_j + y_l|^2 / 2 - |x|^2 - (|y_j|^2 + |y_l|^2) / 2), and a mean over m has an m-th of its
    variance.
    """
    total, scores, own = 0.0, (x @ y.T).exp(), y.square().sum(-1)
    for i in range(len(x)):
        s, past = scores[i, : i + 1], slice(0, i + 1)
        u = (v[past] - s @ v[past] / s.sum()) / s.sum()
        both = (2 * x[i] + y[past, None] + y[None, past]).square().sum(-1)
        moment = (0.5 * both - x[i].square().sum() - 0.5 * (own[past, None] + own[None, past])).exp()
        total += float(((moment - s[:, None] * s) / m * (u @ u.T)).sum())
    return total


def squared_errors(m: int, orthogonal: bool, draws: int) -> Tensor:
    """[draws]: squared errors of attention, each divided by what is expected of independent features."""
    torch.manual_seed(0)
    ratios: list[float] = []
    for _ in range(draws):
        x, y, v, error = attention_and_estimate(m, orthogonal)
        ratios.append(float(error.square().sum()) / expected_square(x, y, v, m))
    return torch.tensor(ratios, dtype=torch.float64)


@pytest.mark.parametrize("m", [16, 64, 256, 1024])
def test_error_of_attention_is_the_theorys(m: int) -> None:
    """So it falls as 1 / sqrt(m); with orthogonal directions it is less."""
    draws = 100
    independent, orthogonal = (squared_errors(m, one, draws) for one in (False, True))
    uncertain = float(independent.std()) / math.sqrt(draws)
    assert uncertain < 0.08
    assert float(independent.mean()) == pytest.approx(1.0, abs=4 * uncertain)
    assert float(orthogonal.mean()) < 1 - 2 * float(orthogonal.std()) / math.sqrt(draws)


def dense(q: Tensor, k: Features, v: Tensor) -> Tensor:
    """Causal linear attention, written out."""
    weights = q @ k.relative_to(k.largest.amax()).transpose(-1, -2)
    weights = weights.tril()
    return weights @ v / weights.sum(-1, keepdim=True)


def inputs(length: int, form: Form, seed: int = 0) -> tuple[Tensor, Features, Tensor]:
    torch.manual_seed(seed)
    q, k, v = (torch.randn(2, 3, length, 8, dtype=torch.float64) for _ in range(3))
    w = draw_directions(20, 8, dtype=torch.float64)
    return query_weights(features(q, w, form)), features(k, w, form), v


@settings(max_examples=25)
@given(length=st.integers(1, 70), chunk=st.integers(1, 80))
def test_chunks_change_nothing(length: int, chunk: int) -> None:
    for form in ("positive", "hyperbolic", "relu"):
        q, k, v = inputs(length, cast(Form, form))
        said, _ = causal_linear_attention(q, k, v, chunk=chunk)
        torch.testing.assert_close(said, dense(q, k, v), **EXACT)


@pytest.mark.parametrize("form", ["positive", "hyperbolic", "trigonometric", "relu"])
def test_gradients_are_those_of_the_dense_form(form: str) -> None:
    grads: list[list[Tensor]] = []
    torch.manual_seed(0)
    given = [torch.randn(1, 2, 23, 8, dtype=torch.float64) for _ in range(3)]
    w = draw_directions(12, 8, dtype=torch.float64)
    weights = torch.randn(1, 2, 23, 8, dtype=torch.float64)
    for chunked in (True, False):
        q, k, v = (x.clone().requires_grad_() for x in given)
        made = query_weights(features(q, w, cast(Form, form))), features(k, w, cast(Form, form)), v
        out = causal_linear_attention(*made, chunk=5)[0] if chunked else dense(*made)
        (out * weights).sum().backward()
        grads.append([cast(Tensor, x.grad) for x in (q, k, v)])
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other, atol=1e-9, rtol=1e-7)


@pytest.mark.parametrize("length", [64, 256])
def test_prefix_sums_are_not_stored(length: int) -> None:
    """What is kept for the backward pass grows with positions, not with positions times features times
    values."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 1, length, 16, requires_grad=True) for _ in range(3))
    w = draw_directions(32, 16)
    kept: dict[int, int] = {}

    def pack(x: Tensor) -> Tensor:
        kept[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes() // 4
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        out, _ = causal_linear_attention(
            query_weights(features(q, w, "positive")), features(k, w, "positive"), v, chunk=1
        )
    # A few tensors of 32 features and of 16 values for a position; the sums alone would be 32 * 17 for each.
    assert sum(kept.values()) < length * (5 * 32 + 10 * 16)
    out.sum().backward()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_future_leaks_nothing_however_large(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 64, 64, dtype=dtype) for _ in range(3))
    w = draw_directions(256, 64, dtype=dtype)
    weights = query_weights(features(q, w, "positive"))
    base, _ = causal_linear_attention(weights, features(k, w, "positive"), v, chunk=16)
    for factor in (3.0, 30.0):
        large = k.clone()
        large[:, :, -1] *= factor
        said, _ = causal_linear_attention(weights, features(large, w, "positive"), v, chunk=16)
        assert torch.isfinite(said).all()
        assert torch.equal(said[:, :, :-1], base[:, :, :-1])


def test_state_goes_on() -> None:
    q, k, v = inputs(30, "positive")
    whole, _ = causal_linear_attention(q, k, v)
    state, said = None, list[Tensor]()
    with torch.no_grad():
        for piece in (slice(0, 7), slice(7, 8), slice(8, 30)):
            keys = Features(k.along[:, :, piece], k.shift[:, :, piece], None)
            out, state = causal_linear_attention(q[:, :, piece], keys, v[:, :, piece], chunk=4, state=state)
            said.append(out)
    torch.testing.assert_close(torch.cat(said, 2), whole, **EXACT)


@pytest.mark.parametrize("form", ["positive", "trigonometric", "relu"])
def test_padding_counts_for_nothing(form: str) -> None:
    q, k, v = inputs(20, cast(Form, form))
    is_padding = torch.zeros(2, 20, dtype=torch.bool)
    is_padding[:, :4] = True
    rest = Features(*(None if x is None else x[:, :, 4:] for x in k))  # pyright: ignore[reportArgumentType]
    for causal in (True, False):
        both = [
            causal_linear_attention(*call, chunk=3)[0] if causal else linear_attention(*call)
            for call in ((q, k, v, is_padding), (q[:, :, 4:], rest, v[:, :, 4:], None))
        ]
        torch.testing.assert_close(both[0][:, :, 4:], both[1], **EXACT)


@pytest.mark.parametrize("form", ["positive", "trigonometric", "relu"])
@pytest.mark.parametrize("causal", [True, False])
def test_nothing_but_padding_reads_nothing(form: str, causal: bool) -> None:
    torch.manual_seed(0)
    q, k, v = (100 * torch.randn(1, 2, 9, 8) for _ in range(3))
    k[:, :, 3], v[:, :, 3] = torch.nan, torch.inf
    k.requires_grad_()
    w = draw_directions(12, 8)
    weights, keys = (features(x, w, cast(Form, form)) for x in (q, k))
    is_padding = torch.ones(1, 9, dtype=torch.bool)
    call = query_weights(weights), keys, v, is_padding
    out = causal_linear_attention(*call, chunk=4)[0] if causal else linear_attention(*call)
    assert (out == 0).all()
    out.sum().backward()
    assert k.grad is not None and (k.grad[:, :, [0, 1, 2, 4, 5, 6, 7, 8]] == 0).all()
