"""Kinds of attention beside each other, and beside the packages of the same names: time and memory against
length.

A contestant is a whole self-attention layer, projections included, from hidden states to hidden states; where
a design is about several layers, a small stack of them. First every one of ours is checked against its slow
form, and the packages against ours with the same weights; then memory is measured in a fresh process for
each, growing until a limit; then all that are left at a length take turns. Those of the bars take turns
among themselves, in more rounds.
"""

import gc
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from longspan.benchmarks import machine
from longspan.benchmarks.bars import DIRECTIONS, Result, result
from longspan.benchmarks.gate import WrongResultError
from longspan.benchmarks.growth import Growth, Notify, Record, memory_pass, until_a_limit
from longspan.benchmarks.measure import ForeignLoad, interleaved, limit_memory, peak_extra_bytes
from longspan.checks import at_least
from longspan.nn.kinds.kind import Drawn, LayerShape, settings_of
from longspan.nn.kinds.registry import KINDS
from longspan.nn.long_range_attention import LongRangeAttention, Reading
from longspan.nn.pooling import Pooling

LENGTHS = (1024, 2048, 4096, 8192, 16384, 32768)
QUICK_LENGTHS = (256, 512)
PACKAGES = {"linformer-package": "linformer", "performer-package": "performer-pytorch"}
"""Layers of PyPI packages, by the name of the contestant."""
SETTINGS: dict[str, dict[str, Any]] = {
    "window": {"window": 512},
    "linformer": {"rank": 256, "sharing": "headwise"},
    "performer": {"features": 256},
    "sparse": {"form": "fixed", "stride": 128, "summary": 8},
    "blockwise": {"blocks": 2},
    "bigbird": {"block": 64, "random_blocks": 3},
    "routing": {"clusters": 16, "size": 256},
    "reformer": {"chunk": 64, "rounds": 2},
    "adaptive-span": {"max_span": 512, "initial": 1.0},
    "bp": {"nodes": 16},
}
CAUSAL = ("adaptive-span",)
"""Those that are measured looking back, since they have no other form."""
STACKS = {"funnel": 3}
"""Designs of several layers, and how many are measured: Funnel's are one of each of three blocks."""
TOLERANCE = 1e-4
PACKAGE_EPSILON = 1e-4
"""What performer-pytorch adds to every feature, and ours does not."""
RIVALS = {
    "window, times as fast as linformer": ("window", "linformer"),
    "linformer, times as fast as the package": ("linformer", "linformer-package"),
    "performer, times as fast as the package": ("performer", "performer-package"),
}
"""Who is compared with whom, by the name of the bar."""
JUDGED_LENGTHS = (4096, 16384)
_ROUNDS_SECONDS = 15.0
"""What the rounds at one length may take, but for contestants with a bar."""
_SLOW_SECONDS = 3.0
"""A call that takes longer is not repeated."""


class WrongKindError(WrongResultError):
    """A contestant does not compute what it should."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan(Growth):
    """What to measure."""

    kinds: tuple[str, ...] = (*KINDS, *STACKS, *PACKAGES)
    lengths: tuple[int, ...] = LENGTHS
    heads: int = 8
    head_dim: int = 64
    max_seconds: float = 20.0

    def __post_init__(self) -> None:
        known = (*KINDS, *STACKS, *PACKAGES)
        for name in self.kinds:
            if name not in known:
                raise ValueError(f"kinds has {name!r}; it must be among {', '.join(known)}")
        Growth.__post_init__(self)
        at_least(1, heads=self.heads, head_dim=self.head_dim)


@dataclass(slots=True)
class _Layer:
    """A layer, and how it is called."""

    module: nn.Module
    call: Callable[[Tensor], Tensor]


def layer(name: str, length: int, *, heads: int, head_dim: int, impl: Any = "auto") -> _Layer:
    """A contestant for inputs of one length.

    Args:
        name: a kind, or one of `STACKS` or `PACKAGES`.
        length: tokens.
        heads: of attention.
        head_dim: of a head.
        impl: the implementation of `attend`, for kinds that use it.
    """
    torch.manual_seed(0)
    size = heads * head_dim
    if name == "linformer-package":
        from linformer import LinformerSelfAttention  # pyright: ignore[reportMissingImports]

        module: Any = LinformerSelfAttention(dim=size, seq_len=length, k=min(256, length), heads=heads)
        module.to_out.bias = None  # ours has none either
        return _Layer(module, module)
    if name == "performer-package":
        with warnings.catch_warnings():  # of how it compares versions
            warnings.simplefilter("ignore", DeprecationWarning)
            from performer_pytorch import SelfAttention  # pyright: ignore[reportMissingImports]

        module = SelfAttention(
            dim=size, heads=heads, dim_head=head_dim, nb_features=256, causal=False, attn_out_bias=False
        )
        return _Layer(module, module)
    if name in STACKS:
        return _funnel([_attention("full", length, heads, head_dim) for _ in range(STACKS[name])], impl)
    ours = _attention(name, length, heads, head_dim)
    extra = ours.kind.extra_states(length)
    reading = Reading(causal=name in CAUSAL, extra=extra, impl=impl)
    return _Layer(ours, lambda x: ours(F.pad(x, (0, 0, 0, extra)), reading)[:, :length])


def _attention(name: str, length: int, heads: int, head_dim: int) -> LongRangeAttention:
    causal = name in CAUSAL
    shape = LayerShape(heads=heads, head_dim=head_dim, causal=causal, max_length=length)
    kind = KINDS[name](shape, settings_of(KINDS[name], SETTINGS.get(name, {})))
    for part in kind.modules():
        if isinstance(part, Drawn):
            part.draw_weights()
    return LongRangeAttention(heads * head_dim, kind, positions="none")


def _funnel(layers: Sequence[LongRangeAttention], impl: Any) -> _Layer:
    """A layer of each block; all but the first halve the length."""
    pooling, reading = Pooling(separate_first=True), Reading(causal=False, impl=impl)

    def call(x: Tensor) -> Tensor:
        x = layers[0](x, reading)
        for layer in layers[1:]:
            queries = pooling.spread(pooling.pool(x), x.shape[1])
            x = pooling.first(layer(queries, reading, key_input=x))
        return x

    return _Layer(nn.ModuleList(layers), call)


def check(plan: Plan) -> dict[str, float]:
    """The greatest difference of each of ours from its slow form, relative to the output.

    Kinds that run through `attend` are compared with the dense reference. The others are compared with the
    same layer in fp64; that they are what they should be is the tests' business. A package is compared with
    ours, which gets its weights; where the two differ by design, each with a form that is written out here.

    Raises:
        WrongKindError: it is too great.
    """
    errors: dict[str, float] = {}
    for name in available(plan.kinds)[0]:
        if name in PACKAGES:
            errors[name] = _package_error(name, plan)
            if not errors[name] < TOLERANCE:
                raise WrongKindError(f"{name} differs from ours by {errors[name]:.2g}")
            continue
        x = torch.randn(1, 320, plan.heads * plan.head_dim)
        with torch.no_grad():
            fast = layer(name, 320, heads=plan.heads, head_dim=plan.head_dim)
            slow = layer(name, 320, heads=plan.heads, head_dim=plan.head_dim, impl="reference")
            said = fast.call(x)
            slow.module.double()
            expected = slow.call(x.double())
        errors[name] = float((said.double() - expected).norm() / expected.norm())
        if not errors[name] < TOLERANCE:
            raise WrongKindError(f"{name} differs from its slow form by {errors[name]:.2g}")
    return errors


def _package_error(name: str, plan: Plan) -> float:
    theirs = layer(name, 320, heads=plan.heads, head_dim=plan.head_dim)
    ours = layer(name.removesuffix("-package"), 320, heads=plan.heads, head_dim=plan.head_dim)
    given, made = cast(Any, theirs.module), cast(Any, ours.module)
    with torch.no_grad():
        for one, other in (("to_q", "query"), ("to_k", "key"), ("to_v", "value"), ("to_out", "output")):
            getattr(made, other).weight.copy_(getattr(given, one).weight)
        if name == "linformer-package":
            made.kind.summaries.weight.copy_(torch.stack([given.proj_k.T, given.proj_v.T])[:, None])
        else:
            made.kind.directions.copy_(given.fast_attention.projection_matrix)
        x = torch.randn(1, 320, plan.heads * plan.head_dim)
        pairs = [(theirs.call(x), ours.call(x))]
        if name == "performer-package":
            written = [_favor(made, x, epsilon) for epsilon in (PACKAGE_EPSILON, 0.0)]
            pairs = list(zip(pairs[0], written, strict=True))
    return max(float((one - other).norm() / other.norm()) for one, other in pairs)


def _favor(made: LongRangeAttention, x: Tensor, epsilon: float) -> Tensor:
    """A Performer's layer written out, quadratic, with ``epsilon`` added to every feature."""
    projections = (made.query, cast(nn.Linear, made.key), made.value)
    q, k, v = (one(x).unflatten(2, (made.heads, -1)).transpose(1, 2) for one in projections)
    weights: list[Tensor] = []
    for one, largest_over in ((q, (-1,)), (k, (-1, -2))):
        one = one * one.shape[-1] ** -0.25
        along = one @ cast(Tensor, made.kind.directions).T
        half = one.square().sum(-1, keepdim=True) / 2
        weights.append((along - half - along.amax(largest_over, keepdim=True)).exp() + epsilon)
    scores = weights[0] @ weights[1].transpose(-1, -2)
    read = scores @ v / scores.sum(-1, keepdim=True)
    return made.output(read.transpose(1, 2).flatten(2))


def steps(plan: Plan) -> int:
    """How often `run` notifies, for a progress bar."""
    chosen = len(available(plan.kinds)[0])
    return 2 * chosen * len(plan.lengths) * len(plan.directions)


def available(names: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The contestants that can run here, and why the others cannot."""
    missing = {
        name: f"the package {PACKAGES[name]} is not installed"
        for name in names
        if name in PACKAGES and machine.version_of(PACKAGES[name]) is None
    }
    return [name for name in names if name not in missing], missing


def run(plan: Plan, notify: Notify = lambda what: None) -> dict[str, Any]:
    """Checks, measures memory, then time.

    Args:
        plan: what to measure.
        notify: told what has just been done.

    Returns:
        What goes into the JSON file, as `longspan.plots.scaling` draws it.

    Raises:
        WrongKindError: a kind does not compute what it should.
    """
    names, missing = available(plan.kinds)
    with ForeignLoad() as load:
        errors = check(plan)
        records = [record for name in names for record in _memory_pass(name, plan, notify)]
        _time_pass(plan, records, notify)
    rows = [asdict(record) for record in records]
    return {
        "machine": machine.describe(),
        "workload": {
            "batch": 1,
            "heads": plan.heads,
            "head_dim": plan.head_dim,
            "window": 512,
            "num_globals": 0,
            "dtype": "float32",
        },
        "settings": {name: SETTINGS.get(name, {}) for name in names if name not in PACKAGES},
        "limits": {"max_seconds": plan.max_seconds, "max_bytes": plan.max_bytes},
        "repetitions": plan.repetitions,
        "foreign_load": round(load.share, 3),
        "missing": missing,
        "contestants": [
            {"name": name, "label": _label(name), "gate_error": errors.get(name)} for name in names
        ],
        "records": rows,
        "results": [one.record() for one in results(rows)],
    }


def results(records: Sequence[Mapping[str, Any]]) -> list[Result]:
    """The bars that can be judged: the worst of the judged lengths, where both were measured.

    Args:
        records: as `run` returns them.
    """
    times = {
        (one["contestant"], one["direction"], one["length"]): one["seconds"]
        for one in records
        if not one["stopped"]
    }
    found: list[Result] = []
    for name, (ours, rival) in RIVALS.items():
        for direction in DIRECTIONS:
            ratios: dict[int, float] = {}
            for _, _, length in sorted({key for key in times if key[:2] == (ours, direction)}):
                mine, others = (times.get((one, direction, length)) for one in (ours, rival))
                if mine and others:
                    ratios[length] = others / mine
            judged = {length: ratio for length, ratio in ratios.items() if length in JUDGED_LENGTHS}
            if judged:
                detail = ", ".join(f"{ratio:.2f} at {length:,}" for length, ratio in judged.items())
                series = {str(length): ratio for length, ratio in ratios.items()}
                found.append(result(name, direction, min(judged.values()), detail, series=series))
    return found


def _label(name: str) -> str:
    if name in PACKAGES:
        return f"{PACKAGES[name]} (PyPI)"
    if name in STACKS:
        return f"{name} ({STACKS[name]} layers)"
    return f"{name} (causal)" if name in CAUSAL else name


def _call(name: str, length: int, direction: str, plan: Plan) -> Callable[[], Tensor]:
    """One pass of a contestant; with gradients of the input and of the weights, in training."""
    made = layer(name, length, heads=plan.heads, head_dim=plan.head_dim)
    x = torch.randn(1, length, plan.heads * plan.head_dim)
    if direction == "forward":
        made.module.eval()

        def forward() -> Tensor:
            with torch.no_grad():
                return made.call(x)

        return forward
    x.requires_grad_()
    made.module.train()

    def train() -> Tensor:
        out = made.call(x)
        torch.autograd.backward(out.sum())
        made.module.zero_grad()
        x.grad = None
        return out

    return train


def _memory_pass(name: str, plan: Plan, notify: Notify) -> list[Record]:
    arguments = {"name": name, "plan": asdict(plan), "threads": torch.get_num_threads()}
    function = "longspan.benchmarks.kinds:measure_memory"
    return memory_pass(function, arguments, plan, name=name, label=name, notify=notify)


def measure_memory(*, name: str, plan: dict[str, Any], threads: int) -> Iterator[dict[str, Any]]:
    """In a fresh process: one contestant's peak at growing lengths, until a limit."""
    torch.set_num_threads(threads)
    tuples = ("kinds", "lengths", "directions")
    fields: dict[str, Any] = {key: tuple(plan[key]) if key in tuples else plan[key] for key in plan}
    given = Plan(**fields)
    # The limit is on address space, so it is loose; it only keeps the machine alive.
    limit_memory(int(3 * given.max_bytes))
    for direction in given.directions:
        # A short call first, so that libraries, threads and code are not counted.
        _call(name, min(given.lengths), direction, given)()
        yield from until_a_limit(
            name,
            direction,
            given.lengths,
            lambda record: _measure_one(record, given),
            max_seconds=given.max_seconds,
            max_bytes=given.max_bytes,
        )


def _measure_one(record: Record, plan: Plan) -> None:
    """Fills in the peak of one call and its seconds; those of a second call, unless the first was slow."""

    def timed() -> object:
        begin = time.perf_counter()
        out = call()
        record.seconds = time.perf_counter() - begin
        return out

    try:
        call = _call(record.contestant, record.length, record.direction, plan)
        record.extra_bytes = peak_extra_bytes(timed)
        if cast(float, record.seconds) < _SLOW_SECONDS:
            timed()
    except (MemoryError, RuntimeError) as error:
        record.stopped = " ".join(str(error).split())[:80] or "out of memory"


def _time_pass(plan: Plan, records: list[Record], notify: Notify) -> None:
    """Replaces the seconds of single calls by medians; slow calls keep theirs."""
    with_bar = {name for pair in RIVALS.values() for name in pair}
    for direction in plan.directions:
        for length in plan.lengths:
            here = {
                record.contestant: record
                for record in records
                if (record.direction, record.length) == (direction, length) and not record.stopped
            }
            judged = with_bar & set(here) if length in JUDGED_LENGTHS else set[str]()
            for names in (judged, set(here) - judged):
                _take_turns(
                    [here[name] for name in plan.kinds if name in names], plan, is_judged=names is judged
                )
            for name in here:
                notify(f"time of {name}, {direction}, {length} tokens")


def _take_turns(records: list[Record], plan: Plan, *, is_judged: bool) -> None:
    if not is_judged:
        records = [one for one in records if cast(float, one.seconds) < _SLOW_SECONDS]
    if not records:
        return
    rounds = plan.repetitions
    if not is_judged:
        once = sum(cast(float, one.seconds) for one in records)
        rounds = max(1, min(rounds, int(_ROUNDS_SECONDS / once) - 1))
    calls = {one.contestant: _call(one.contestant, one.length, one.direction, plan) for one in records}
    timings = interleaved(calls, repetitions=rounds, warmups=int(rounds > 1))
    for one in records:
        one.seconds, one.spread = timings[one.contestant].median, timings[one.contestant].spread
    del calls
    gc.collect()
