"""Every contestant computes what it claims; the gate notices one that does not."""

from dataclasses import replace

import pytest
import torch

from longspan.attention.pattern import Pattern
from longspan.benchmarks.attention import available
from longspan.benchmarks.contestants import CONTESTANTS, Contestant
from longspan.benchmarks.gate import WrongResultError, check
from longspan.benchmarks.longformer_core import longformer_core
from longspan.benchmarks.workload import Workload, make_inputs
from longspan.plots.scaling import LINES

PRESENT, MISSING = available([contestant.name for contestant in CONTESTANTS])
SMALL = Workload(heads=2, length=64, head_dim=16, window=16, num_globals=3)


@pytest.mark.parametrize(
    "contestant",
    [pytest.param(c, marks=pytest.mark.slow) if c.compiles else c for c in PRESENT],
    ids=lambda contestant: contestant.name,
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_contestant_passes_the_gate(contestant: Contestant) -> None:
    assert check(contestant, SMALL, training=True) < 1e-5


def test_missing_contestants_have_a_reason() -> None:
    assert {contestant.name for contestant in PRESENT} | set(MISSING) == {c.name for c in CONTESTANTS}
    assert all(MISSING.values())


def test_every_contestant_has_a_line_of_its_own() -> None:
    assert set(LINES) == {contestant.name for contestant in CONTESTANTS}
    assert len({(marker, style) for _, marker, style in LINES.values()}) == len(LINES)


def test_gate_stops_a_wrong_contestant() -> None:
    full = next(contestant for contestant in CONTESTANTS if contestant.name == "sdpa-full")
    with pytest.raises(WrongResultError, match="SDPA, full attention differs from the reference"):
        check(replace(full, claims="longformer"), SMALL, training=False)


def test_gate_stops_nan() -> None:
    nothing = Contestant(
        name="nan",
        label="NaN",
        claims="full",
        prepare=lambda work, inputs: lambda: inputs.q * torch.nan,
    )
    with pytest.raises(WrongResultError):
        check(nothing, SMALL, training=True)


def test_core_puts_global_rows_in_place_in_a_ragged_batch() -> None:
    work = replace(SMALL, batch=3, length=20)
    inputs = make_inputs(work, training=True)
    is_global = torch.zeros(3, 20, dtype=torch.bool)
    is_global[0, [0, 7]] = True
    is_global[1, 19] = True
    pattern = Pattern(left=2, right=3)
    out = longformer_core(inputs.q, inputs.k, inputs.v, pattern, is_global, impl="reference")
    position = torch.arange(20)
    mask = pattern.allows(position[:, None], position)[None] | is_global[:, None] | is_global[:, :, None]
    expected = torch.nn.functional.scaled_dot_product_attention(
        inputs.q, inputs.k, inputs.v, attn_mask=mask[:, None]
    )
    torch.testing.assert_close(out, expected)
    gradients = torch.autograd.grad(out, (inputs.q, inputs.k, inputs.v), inputs.grad)
    wanted = torch.autograd.grad(expected, (inputs.q, inputs.k, inputs.v), inputs.grad)
    torch.testing.assert_close(gradients, wanted)
    with torch.no_grad():
        again = longformer_core(inputs.q, inputs.k, inputs.v, pattern, is_global, impl="reference")
    torch.testing.assert_close(again, out)
