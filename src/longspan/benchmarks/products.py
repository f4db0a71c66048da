"""Products of square matrices, torch.mm: the rate that models and steps are held against."""

from collections.abc import Callable

import torch
from torch import Tensor

from longspan.benchmarks.workload import DTYPES

PRODUCTS = 4
"""In one call: a single one is short beside a model."""


def products(size: int, dtype: str = "float32") -> Callable[[], Tensor]:
    """A call of so many products of two matrices with sides of ``size``."""
    a, b = (torch.randn(size, size).to(DTYPES[dtype]) for _ in range(2))

    def call() -> Tensor:
        for _ in range(PRODUCTS - 1):
            torch.mm(a, b)
        return torch.mm(a, b)

    return call


def product_flops(size: int) -> float:
    """FLOPs of such a call."""
    return PRODUCTS * 2.0 * size**3
