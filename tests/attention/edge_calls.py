"""Calls of the native kernel that reach its corners: several runs, ring wrap-around, odd sizes.

Run as a program it checks them all against the reference, in the dtypes that it is given; the tests do so
under other builds of the kernel, named by LONGSPAN_NATIVE_LIBRARY.
"""

import sys
from typing import Any

import torch

from longspan import Pattern

from .agreement import assert_matches_reference
from .cases import Call


def edge_calls() -> dict[str, Call]:
    """Named calls, small enough for the dense reference."""
    generator = torch.Generator().manual_seed(0)

    def tensor(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    def call(
        pattern: Any,
        *,
        queries: int = 700,
        keys: int | None = None,
        heads: int = 2,
        kv_heads: int | None = None,
        head_dim: int = 16,
        **more: Any,
    ) -> Call:
        keys = queries if keys is None else keys
        kv_shape = (1, keys, kv_heads or heads, head_dim)
        return {
            "q": tensor(1, queries, heads, head_dim).transpose(1, 2),
            "k": tensor(*kv_shape).transpose(1, 2),
            "v": tensor(*kv_shape).transpose(1, 2),
            "pattern": pattern,
            **more,
        }

    def mask(length: int, *positions: int) -> torch.Tensor:
        found = torch.zeros(1, length, dtype=torch.bool)
        found[:, list(positions)] = True
        return found

    window = Pattern(left=40, right=40)
    tail = mask(1300, *range(900, 1300))
    return {
        "several runs": call(window, queries=1300),
        "wide window, several runs": call(Pattern(left=300, right=260), queries=1500),
        "window wider than the panel": call(Pattern(left=900, right=700), queries=2100, heads=1),
        "ring wraps": call(Pattern(left=64, right=0), queries=900),
        "window of one": call(Pattern(left=0, right=0)),
        "causal": call(Pattern(left=None, right=0), queries=300),
        "full": call(Pattern(left=None, right=None), queries=300),
        "dilated": call(Pattern(left=33, right=20, dilation=3), queries=1900),
        "mixed heads": call([window, Pattern(left=3, right=0, dilation=4)]),
        "one query, many keys": call(Pattern(left=20, right=0), queries=1, keys=700, query_offset=699),
        "split sequence": call(window, queries=130, keys=700, query_offset=257),
        "globals": call(window, queries=1300, is_global=mask(1300, 0, 1, 77, 640, 1299)),
        "many globals": call(window, queries=700, is_global=mask(700, *range(0, 700, 3))),
        "all global": call(window, queries=200, is_global=mask(200, *range(200))),
        "causal globals": call(Pattern(left=9, right=0), is_global=mask(700, 5, 300, 301)),
        "mutual globals": call(
            window, queries=1300, is_global=mask(1300, 0, 77, 1299), is_padding=tail, mutual_globals=True
        ),
        "many mutual globals": call(
            window, queries=700, is_global=mask(700, *range(0, 700, 3)), mutual_globals=True
        ),
        "mutual globals of grouped, dilated, causal heads": call(
            Pattern(left=9, right=0, dilation=2),
            heads=6,
            kv_heads=2,
            head_dim=20,
            is_global=mask(700, 5, 300, 301),
            document_starts=torch.tensor([0, 4, 302, 700]),
            mutual_globals=True,
        ),
        "padding": call(window, queries=1300, is_padding=tail, is_global=mask(1300, 0)),
        "documents": call(window, queries=1300, document_starts=torch.tensor([0, 1, 1, 500, 511, 1300])),
        "grouped heads": call(window, heads=6, kv_heads=2, is_global=mask(700, 0)),
        "dropout": call(window, dropout=0.3, seed=11, is_global=mask(700, 3)),
        "head_dim 1": call(window, head_dim=1, queries=130),
        "head_dim 20": call(window, head_dim=20, queries=130),
        "head_dim 72": call(window, head_dim=72, queries=130),
        "head_dim 130": call(window, head_dim=130, queries=130),
        "bias": call(window, queries=1300, bias=tensor(2, 61)),
        "dilated bias": call(
            Pattern(left=20, right=9, dilation=2), bias=tensor(2, 41), is_global=mask(700, 0)
        ),
        "relative": call(
            window,
            queries=1300,
            position_query=tensor(1, 2, 1300, 16),
            position_keys=tensor(2, 81, 16),
            is_global=mask(1300, 0),
        ),
        "relative, full causal": call(
            Pattern(left=None, right=0),
            queries=200,
            position_query=tensor(1, 2, 200, 16),
            position_keys=tensor(2, 401, 16),
        ),
    }


if __name__ == "__main__":
    for name, one in edge_calls().items():
        for dtype in sys.argv[1:]:
            assert_matches_reference(one, "native", getattr(torch, dtype))
        print(name, flush=True)
    print("all agree")
