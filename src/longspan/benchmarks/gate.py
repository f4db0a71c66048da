"""Correctness before speed: a contestant that is wrong is not timed."""

from dataclasses import replace

import torch
from torch import Tensor

from longspan.benchmarks.contestants import Contestant, claimed_pattern
from longspan.benchmarks.longformer_core import longformer_core
from longspan.benchmarks.workload import Inputs, Workload, make_inputs

# Generous, since these are other people's algorithms: the tests of `attend` hold ours to less.
TOLERANCE = {"float32": 2e-5, "bfloat16": 4e-2}


class WrongResultError(RuntimeError):
    """A contestant does not compute what it claims."""


def check(contestant: Contestant, work: Workload, *, training: bool) -> float:
    """Compares a contestant with the dense reference on a small workload like ``work``.

    Args:
        contestant: what to check, against the semantics that it claims.
        work: its heads, window, length and batch are made small; the rest stays.
        training: compare the gradients too.

    Returns:
        The largest error relative to the largest value, over the output and the gradients.

    Raises:
        WrongResultError: it is above the tolerance.
    """
    window = min(work.window, 32)
    # Hugging Face needs whole windows.
    small = replace(
        work, batch=1, heads=2, length=max(4 * window, 8), window=window, num_globals=min(work.num_globals, 3)
    )
    training = training and contestant.trains
    inputs = make_inputs(small, training=training)
    ours = _outcome(contestant.prepare(small, inputs)(), inputs, training)
    pattern, num_globals = claimed_pattern(contestant, small)
    is_global = replace(small, num_globals=num_globals).is_global()
    exact = make_inputs(small, training=training)
    expected = longformer_core(exact.q, exact.k, exact.v, pattern, is_global, impl="reference")
    pairs = zip(ours, _outcome(expected, exact, training), strict=True)
    # Unlike Python's, torch's maximum of a NaN and a number is NaN.
    error = float(torch.stack([relative_error(value, right) for value, right in pairs]).max())
    if not error <= TOLERANCE[work.dtype]:
        raise WrongResultError(
            f"{contestant.label} differs from the reference by {error:.1e} ({work.dtype}, "
            f"at most {TOLERANCE[work.dtype]:.0e} allowed)"
        )
    return error


def _outcome(out: Tensor, inputs: Inputs, training: bool) -> list[Tensor]:
    """The output, and the gradients of q, k and v."""
    if not training:
        return [out]
    out.backward(inputs.grad)
    leaves = (inputs.q, inputs.k, inputs.v)
    return [out.detach(), *(torch.zeros_like(x) if x.grad is None else x.grad for x in leaves)]


def relative_error(value: Tensor, expected: Tensor) -> Tensor:
    """[]: the largest error against the largest value; NaN where one is."""
    return (value.double() - expected.double()).abs().max() / expected.double().abs().max()
