"""Correctness before speed, for whole models: one that differs from Hugging Face's is not timed."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from longspan.benchmarks.gate import WrongResultError
from longspan.benchmarks.model_contestants import hidden_states, loss_against_noise
from longspan.benchmarks.model_shape import ModelShape, make_batch

TOLERANCE = 1e-4


def gate_lengths(window: int) -> tuple[int, int]:
    """Two documents: whole windows, and not; the second one is padded."""
    return (2 * window, window + window // 2 + 1)


def check_models(models: Mapping[str, nn.Module], shape: ModelShape) -> dict[str, float]:
    """Compares models with the first of them, without dropout, on two short documents.

    Args:
        models: with the same weights and names of parameters; the first is right.
        shape: theirs.

    Returns:
        The error of each other one: the largest of the hidden states' relative to the largest hidden
        state, or that of all gradients relative to their norm, whichever is larger.

    Raises:
        WrongResultError: one is above the tolerance.
    """
    (_, right), *others = models.items()
    batch = make_batch(shape, gate_lengths(shape.window))
    expected, expected_gradients = _outcome(right, batch)
    errors: dict[str, float] = {}
    for name, model in others:
        hidden, gradients = _outcome(model, batch)
        distances = [
            (hidden - expected).abs().max() / expected.abs().max(),
            _norm([gradients[key] - value for key, value in expected_gradients.items()])
            / _norm(list(expected_gradients.values())),
        ]
        # Unlike Python's, torch's maximum of a NaN and a number is NaN.
        errors[name] = float(torch.stack(distances).max())
        if not errors[name] <= TOLERANCE:
            raise WrongResultError(
                f"the model {name!r} differs from Hugging Face's by {errors[name]:.1e} "
                f"(at most {TOLERANCE:.0e} allowed)"
            )
    return errors


def _outcome(model: nn.Module, batch: Mapping[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
    """The hidden states of the tokens, [tokens, hidden_size], and the gradients by parameter."""
    model.eval()
    model.zero_grad(set_to_none=True)
    # What models give for padding is their own affair.
    hidden = hidden_states(model, batch)[batch["attention_mask"] != 0]
    loss_against_noise(hidden).backward()
    # Some leave out what has no influence, some compute its zeros.
    gradients = {
        name: torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        for name, parameter in model.named_parameters()
    }
    model.zero_grad(set_to_none=True)
    return hidden.detach(), gradients


def _norm(tensors: list[Tensor]) -> Tensor:
    return torch.stack([tensor.double().square().sum() for tensor in tensors]).sum().sqrt()
