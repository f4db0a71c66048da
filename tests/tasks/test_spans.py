"""The loss against probabilities added up one by one; the best spans against all spans."""

import math

import pytest
import torch
from torch import Tensor

from longspan.tasks.spans import ScoredSpan, best_spans, disjoint_spans, or_loss


def slow_loss(logits: Tensor, is_right: Tensor, allowed: Tensor) -> float:
    weights = [math.exp(x) for x in logits.double().tolist()]
    of_right = sum(x for x, right in zip(weights, is_right.tolist(), strict=True) if right)
    of_all = sum(x for x, there in zip(weights, allowed.tolist(), strict=True) if there)
    return -math.log(of_right / of_all)


def all_spans(start: Tensor, end: Tensor, allowed: Tensor, max_tokens: int) -> list[ScoredSpan]:
    spans = [
        ScoredSpan(float(start[i] + end[j]), i, j)
        for i in range(len(start))
        for j in range(i, len(start))
        if j < i + max_tokens and bool(allowed[i : j + 1].all())
    ]
    return sorted(spans, reverse=True)


def draw(seed: int, batch: int, length: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    start, end = torch.randn(2, batch, length, generator=generator) * 3
    return start, end, torch.rand(batch, length, generator=generator) > 0.15


def test_the_loss_is_that_of_added_probabilities() -> None:
    start, end, allowed = draw(0, 4, 21)
    is_start = allowed & (torch.rand(4, 21, generator=torch.Generator().manual_seed(1)) > 0.7)
    is_end = is_start.roll(1, 1) & allowed
    assert is_start.sum(1).min() > 1 and is_end.any(1).all()
    expected = [
        slow_loss(start[at], is_start[at], allowed[at]) + slow_loss(end[at], is_end[at], allowed[at])
        for at in range(4)
    ]
    torch.testing.assert_close(or_loss(start, end, is_start, is_end, allowed), torch.tensor(expected))


def test_one_right_place_is_cross_entropy() -> None:
    start, end, _ = draw(2, 3, 9)
    everywhere = torch.ones(3, 9, dtype=torch.bool)
    firsts, lasts = torch.tensor([0, 4, 8]), torch.tensor([2, 4, 8])
    is_start, is_end = torch.eye(9, dtype=torch.bool)[firsts], torch.eye(9, dtype=torch.bool)[lasts]
    expected = torch.nn.functional.cross_entropy(start, firsts, reduction="none")
    expected += torch.nn.functional.cross_entropy(end, lasts, reduction="none")
    torch.testing.assert_close(or_loss(start, end, is_start, is_end, everywhere), expected)


def test_a_feature_without_a_right_span_has_no_loss_and_no_gradient() -> None:
    start, end, allowed = draw(3, 3, 7)
    allowed[2] = False  # not even a place where an answer could be
    is_right = torch.zeros(3, 7, dtype=torch.bool)
    allowed[0, 3] = is_right[0, 3] = True
    start.requires_grad_()
    loss = or_loss(start, end, is_right, is_right, allowed)
    assert loss[0] > 0 and loss[1:].tolist() == [0.0, 0.0]
    loss.sum().backward()
    assert start.grad is not None and start.grad[0].any() and not start.grad[1:].any()
    assert not start.grad[0, ~allowed[0]].any()


def test_the_loss_of_half_precision_is_computed_in_full() -> None:
    start, end, allowed = draw(4, 2, 3000)
    half = start.bfloat16(), end.bfloat16()
    allowed[:, 5] = True
    is_right = torch.zeros_like(allowed)
    is_right[:, 5] = True
    loss = or_loss(*half, is_right, is_right, allowed)
    assert loss.dtype == torch.float32
    full = or_loss(half[0].float(), half[1].float(), is_right, is_right, allowed)
    assert torch.equal(loss, full)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    ("length", "max_tokens", "count"), [(17, 1, 5), (17, 4, 9), (17, 30, 300), (1, 3, 2)]
)
def test_best_spans_are_the_best_of_all_spans(seed: int, length: int, max_tokens: int, count: int) -> None:
    start, end, allowed = draw(seed, 3, length)
    found = best_spans(start, end, allowed, max_tokens, count)
    for at in range(3):
        assert found[at] == all_spans(start[at], end[at], allowed[at], max_tokens)[:count]


def test_a_span_never_contains_a_token_that_is_not_allowed() -> None:
    start, end = torch.tensor([[9.0, 0.0, 0.0]]), torch.tensor([[0.0, 0.0, 9.0]])
    allowed = torch.tensor([[True, False, True]])
    assert best_spans(start, end, allowed, 3, 4) == [[(9.0, 0, 0), (9.0, 2, 2)]]


def test_equal_scores_are_ordered_by_place() -> None:
    zeros = torch.zeros(1, 4)
    spans = best_spans(zeros, zeros, torch.ones(1, 4, dtype=torch.bool), 2, 3)[0]
    assert [(one.start, one.end) for one in spans] == [(0, 0), (0, 1), (1, 1)]


def test_no_spans_where_nothing_is_allowed_or_there() -> None:
    nothing = torch.zeros(2, 5, dtype=torch.bool)
    assert best_spans(torch.zeros(2, 5), torch.zeros(2, 5), nothing, 3, 2) == [[], []]
    empty = torch.zeros(2, 0)
    assert best_spans(empty, empty, empty.bool(), 3, 2) == [[], []]


def test_logits_that_need_gradients_are_taken_too() -> None:
    start = torch.zeros(1, 3, requires_grad=True)
    assert len(best_spans(start, start * 2, torch.ones(1, 3, dtype=torch.bool), 2, 9)[0]) == 5


@pytest.mark.parametrize(("max_tokens", "count"), [(0, 1), (1, 0)])
def test_spans_of_no_tokens_and_no_spans_are_refused(max_tokens: int, count: int) -> None:
    zeros = torch.zeros(1, 3)
    with pytest.raises(ValueError, match=f"max_tokens is {max_tokens} and count is {count}"):
        best_spans(zeros, zeros, zeros == 0, max_tokens, count)


@pytest.mark.parametrize("max_tokens", [1, 3, 50])
@pytest.mark.parametrize("length", [1, 2, 17, 40])
def test_disjoint_spans_are_the_best_of_what_is_left(length: int, max_tokens: int) -> None:
    (start,), (end,), (allowed,) = draw(length, 1, length)
    expected: list[ScoredSpan] = []
    for one in all_spans(start, end, allowed, max_tokens):
        if all(one.end < other.start or other.end < one.start for other in expected):
            expected.append(one)
    before = allowed.clone()
    assert disjoint_spans(start, end, allowed, max_tokens, 5) == expected[:5]
    assert disjoint_spans(start, end, allowed, max_tokens, 99) == expected
    assert allowed.equal(before)
