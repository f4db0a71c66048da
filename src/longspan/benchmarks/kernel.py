"""The measurements behind the kernel's bars, each a ratio within one run.

"Core" is `longformer_core`: windows, global keys, global rows in their place. FLOPs are those of
pairs that exist, windows cut at the ends of the sequence; forward and backward together count 3.5
times the forward pass. What must hold is in `bars.py`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import accumulate
from typing import Any, cast

import torch
from torch import Tensor

from longspan.attention.attend import Implementation, attend
from longspan.benchmarks import fresh_process, machine
from longspan.benchmarks.bars import DIRECTIONS, Result, result
from longspan.benchmarks.contestants import Call, Contestant, hugging_face_core
from longspan.benchmarks.gate import check
from longspan.benchmarks.longformer_core import longformer_core
from longspan.benchmarks.measure import Timing, interleaved, peak_extra_bytes
from longspan.benchmarks.workload import (
    DTYPES,
    TRAINING_FACTOR,
    Inputs,
    Workload,
    both_ways,
    local_pairs,
    make_inputs,
)

DROPOUT = 0.1
PADDED_SHARE = 0.1
DOCUMENTS = 8
# Of the longest document; ragged as real batches are.
RAGGED = (1.0, 0.83, 0.61, 0.5, 0.37, 0.26, 0.15, 0.09)
MEMORY_GROWTH = 16
LENGTH_GROWTH = {"forward": 256, "training": 64}


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """What all groups share; smaller values are for tests."""

    work: Workload = field(default_factory=Workload)
    impl: Implementation = "native"
    repetitions: int = 7
    product_size: int = 2048
    """Side of the square matrices of torch.mm."""


def shares(setting: Setting) -> Iterator[Result]:
    """Rates in fp32 as a share of the rate of torch.mm."""
    base = setting.work
    works = {
        "fp32, share of torch.mm": base,
        "window 64, share of torch.mm": replace(base, window=min(64, base.window)),
        "head_dim 32, share of torch.mm": replace(base, head_dim=min(32, base.head_dim)),
    }
    product, product_flops = _product(setting, "float32")
    times = _time({"product": product, **_cores(works, setting)}, setting)
    product_rate = product_flops / times["product"].median
    for name, work in works.items():
        for direction in DIRECTIONS:
            seconds = times[f"{name} {direction}"].median
            rate = _flops(work, direction) / seconds
            detail = f"{seconds * 1e3:.1f} ms, {rate / 1e9:.0f} of {product_rate / 1e9:.0f} GFLOP/s"
            yield result(name, direction, rate / product_rate, detail)


def bf16(setting: Setting) -> Iterator[Result]:
    """bf16 against the matrix product in bf16 and against our own fp32."""
    works = {"bf16": replace(setting.work, dtype="bfloat16"), "fp32": setting.work}
    product, product_flops = _product(setting, "bfloat16")
    times = _time({"product": product, **_cores(works, setting)}, setting)
    product_rate = product_flops / times["product"].median
    emulated = "" if machine.has_bf16_products() else "; no bf16 instructions here, a small product"
    for direction in DIRECTIONS:
        seconds = times[f"bf16 {direction}"].median
        rate = _flops(works["bf16"], direction) / seconds
        detail = f"{seconds * 1e3:.1f} ms, {rate / 1e9:.0f} of {product_rate / 1e9:.0f} GFLOP/s{emulated}"
        yield result("bf16, share of torch.mm", direction, rate / product_rate, detail)
    for direction in DIRECTIONS:
        ratio = times[f"fp32 {direction}"].median / times[f"bf16 {direction}"].median
        yield result("bf16, times as fast as fp32", direction, ratio)


def hugging_face(setting: Setting) -> Iterator[Result]:
    """Against Hugging Face's core, both with the default allocator and both with huge pages."""
    for dtype, short in (("float32", "fp32"), ("bfloat16", "bf16")):
        emulated = dtype == "bfloat16" and not machine.has_bf16_products()
        work = replace(setting.work, dtype=dtype)
        if emulated:
            # Its matrix products are a hundred times slower there: a shorter sequence, once.
            work = replace(work, length=max(work.length // 4, 2 * work.window))
        arguments = {
            "work": asdict(work),
            "impl": setting.impl,
            "repetitions": 1 if emulated else setting.repetitions,
            "threads": torch.get_num_threads(),
        }
        for suffix, huge_pages in (("", None), (", both with huge pages", "1")):
            name = f"{short}, times as fast as Hugging Face{suffix}"
            (seconds,) = fresh_process.answers(
                "longspan.benchmarks.kernel:time_beside_hugging_face",
                arguments,
                environment={"THP_MEM_ALLOC_ENABLE": huge_pages},
            )
            for direction in DIRECTIONS:
                theirs, ours = seconds[f"theirs {direction}"], seconds[f"ours {direction}"]
                detail = f"{theirs * 1e3:.0f} ms against {ours * 1e3:.1f} ms"
                detail += f" at {work.length} tokens, once: no bf16 instructions here" if emulated else ""
                yield result(name, direction, theirs / ours, detail, judged=not emulated)


def time_beside_hugging_face(
    *, work: dict[str, Any], impl: Implementation, repetitions: int, threads: int
) -> Iterator[dict[str, float]]:
    """In a fresh process: seconds of both cores, forward and training."""
    torch.set_num_threads(threads)
    load = Workload(**work)
    inputs = make_inputs(load, training=True)
    theirs = hugging_face_core(load, inputs)
    candidates = {
        **both_ways("theirs", theirs, inputs),
        **both_ways("ours", _core(load, inputs, impl), inputs),
    }
    # The first call of each pays for lazy initialisation; one cold round is enough to be rid of it.
    times = interleaved(candidates, repetitions=repetitions, warmups=1)
    yield {name: timing.median for name, timing in times.items()}


def global_tokens(setting: Setting) -> Iterator[Result]:
    """64 global tokens: no loss of rate, their extra FLOPs counted."""
    works = {
        "1": replace(setting.work, num_globals=1),
        "64": replace(setting.work, num_globals=min(64, setting.work.length)),
    }
    times = _time(_cores(works, setting), setting)
    for direction in DIRECTIONS:
        rate = {
            name: _flops(work, direction) / times[f"{name} {direction}"].median
            for name, work in works.items()
        }
        detail = " against ".join(
            f"{times[f'{name} {direction}'].median * 1e3:.1f} ms" for name in ("64", "1")
        )
        yield result("64 globals, rate against 1 global", direction, rate["64"] / rate["1"], detail)


def dilation(setting: Setting) -> Iterator[Result]:
    """Gaps in the window cost nothing."""
    works = {str(d): replace(setting.work, dilation=d) for d in (1, 2, 4)}
    times = _time(_cores(works, setting), setting)
    for gap in ("2", "4"):
        for direction in DIRECTIONS:
            ratio = times[f"{gap} {direction}"].median / times[f"1 {direction}"].median
            yield result(f"dilation {gap}, time against 1", direction, ratio)


def memory(setting: Setting) -> Iterator[Result]:
    """Peak beyond the inputs, in a fresh process each: of `attend` alone, and of the core."""
    work = replace(setting.work, length=setting.work.length * MEMORY_GROWTH)
    for prefix, global_rows in (("attend: ", False), ("", True)):
        for direction in DIRECTIONS:
            (extra,) = fresh_process.answers(
                "longspan.benchmarks.kernel:extra_memory",
                {
                    "work": asdict(work),
                    "impl": setting.impl,
                    "direction": direction,
                    "global_rows": global_rows,
                    "threads": torch.get_num_threads(),
                },
            )
            detail = f"{extra / 1e6:.0f} MB at {work.length} tokens; q has {work.tensor_bytes / 1e6:.0f} MB"
            name = f"{prefix}extra memory, in tensors like q"
            yield result(name, direction, extra / work.tensor_bytes, detail)


def extra_memory(
    *, work: dict[str, Any], impl: Implementation, direction: str, global_rows: bool, threads: int
) -> Iterator[int]:
    """In a fresh process: bytes beyond q, k, v and the gradient that arrives."""
    torch.set_num_threads(threads)
    load = Workload(**work)

    def prepared(work: Workload, training: bool) -> Call:
        inputs = make_inputs(work, training=training)
        call = (_core if global_rows else _attend)(work, inputs, impl)
        return both_ways("", call, inputs)[f" {direction}"]

    # A small call first, so that libraries, threads and code are not counted.
    prepared(replace(load, length=min(256, load.length)), True)()
    yield peak_extra_bytes(prepared(load, direction == "training"))


def time_per_token(setting: Setting) -> Iterator[Result]:
    """The cost of a token does not depend on the length: of the core, and of `attend` alone."""
    for prefix, make in (("", _core), ("attend: ", _attend)):
        for direction in DIRECTIONS:
            per_token: dict[int, float] = {}
            growth = 1
            while growth <= LENGTH_GROWTH[direction]:
                work = replace(setting.work, length=setting.work.length * growth)
                inputs = make_inputs(work, training=direction == "training")
                call = both_ways("", make(work, inputs, setting.impl), inputs)[f" {direction}"]
                # Few repetitions of the long ones: they average over their own length.
                repetitions = max(2, setting.repetitions // growth)
                per_token[work.length] = _time({"": call}, setting, repetitions)[""].median / work.length
                growth *= 4
            shortest, longest = per_token[min(per_token)], per_token[max(per_token)]
            detail = ", ".join(f"{length}: {seconds * 1e6:.2f} us" for length, seconds in per_token.items())
            name = f"{prefix}time per token, longest against shortest"
            yield result(name, direction, longest / shortest, detail)


def dropout(setting: Setting) -> Iterator[Result]:
    """Dropout inside of the operation."""
    inputs = make_inputs(setting.work, training=True)
    candidates = {
        **both_ways("none", _core(setting.work, inputs, setting.impl), inputs),
        **both_ways("some", _core(setting.work, inputs, setting.impl, dropout=DROPOUT, seed=1), inputs),
    }
    times = _time(candidates, setting)
    for direction in DIRECTIONS:
        ratio = times[f"some {direction}"].median / times[f"none {direction}"].median
        yield result("dropout 0.1, time against none", direction, ratio)


def masks(setting: Setting) -> Iterator[Result]:
    """Padding and packing, per pair that is seen."""
    work = setting.work
    inputs = make_inputs(work, training=True)
    visible = max(1, round(work.length * (1 - PADDED_SHARE)))
    padding = (torch.arange(work.length) >= visible).expand(work.batch, -1).contiguous()
    starts = torch.linspace(0, work.length, DOCUMENTS + 1).long()
    first = torch.zeros(work.batch, work.length, dtype=torch.bool)
    first[:, starts[:-1]] = True
    impl = setting.impl
    candidates = {
        **both_ways("none", _core(work, inputs, impl), inputs),
        **both_ways("padded", _core(work, inputs, impl, is_padding=padding), inputs),
        **both_ways("packed", _core(work, inputs, impl, is_global=first, document_starts=starts), inputs),
    }
    times = _time(candidates, setting)
    pairs = {
        "none": _pairs(work, [work.length]),
        "padded": _pairs(work, [visible]),
        # One global token in each document.
        "packed": _pairs(replace(work, num_globals=1), starts.diff().tolist()),
    }
    names = {
        "padded": "padded tail, time per pair against none",
        "packed": "8 documents packed, time per pair against one",
    }
    for key, name in names.items():
        for direction in DIRECTIONS:
            cost = {k: times[f"{k} {direction}"].median / pairs[k] for k in ("none", key)}
            yield result(
                name, direction, cost[key] / cost["none"], f"{pairs[key] / pairs['none']:.2f} of the pairs"
            )


def ragged(setting: Setting) -> Iterator[Result]:
    """The same documents of different lengths in one row, and in a padded batch."""
    lengths = [max(1, round(setting.work.length * share)) for share in RAGGED]
    ends = list(accumulate(lengths))
    starts = torch.tensor([0, *ends])
    packed_work = replace(setting.work, length=ends[-1])
    padded_work = replace(setting.work, batch=len(lengths), length=max(lengths))
    packed, padded = make_inputs(packed_work, training=True), make_inputs(padded_work, training=True)
    first = torch.zeros(1, ends[-1], dtype=torch.bool)
    first[0, starts[:-1]] = True
    padding = torch.arange(max(lengths)) >= torch.tensor(lengths)[:, None]
    candidates = {
        **both_ways(
            "packed",
            _core(packed_work, packed, setting.impl, is_global=first, document_starts=starts),
            packed,
        ),
        **both_ways("padded", _core(padded_work, padded, setting.impl, is_padding=padding), padded),
    }
    times = _time(candidates, setting)
    for direction in DIRECTIONS:
        seconds = {key: times[f"{key} {direction}"].median for key in ("padded", "packed")}
        detail = f"{seconds['padded'] * 1e3:.1f} ms against {seconds['packed'] * 1e3:.1f} ms"
        ratio = seconds["padded"] / seconds["packed"]
        yield result("8 ragged documents, padded time against packed", direction, ratio, detail)


GROUPS: dict[str, Callable[[Setting], Iterable[Result]]] = {
    "shares": shares,
    "bf16": bf16,
    "hugging-face": hugging_face,
    "globals": global_tokens,
    "dilation": dilation,
    "memory": memory,
    "time-per-token": time_per_token,
    "dropout": dropout,
    "masks": masks,
    "ragged": ragged,
}


def check_core(setting: Setting) -> None:
    """Correctness first, in both dtypes.

    Raises:
        WrongResultError: the implementation is wrong, so its speed means nothing.
    """
    core = Contestant(
        name=setting.impl,
        label=f"longspan, {setting.impl}",
        claims="longformer",
        prepare=lambda work, inputs: _core(work, inputs, setting.impl),
    )
    for dtype in DTYPES:
        check(core, replace(setting.work, dtype=dtype), training=True)


def _core(work: Workload, inputs: Inputs, impl: Implementation, **options: Any) -> Call:
    is_global: Tensor | None = options.pop("is_global", work.is_global())
    return lambda: longformer_core(
        inputs.q, inputs.k, inputs.v, work.pattern, is_global, impl=impl, **options
    )


def _attend(work: Workload, inputs: Inputs, impl: Implementation) -> Call:
    """Without the rows of the global tokens."""
    is_global = work.is_global()
    return lambda: cast(
        Tensor, attend(inputs.q, inputs.k, inputs.v, work.pattern, is_global=is_global, impl=impl)
    )


def _cores(works: dict[str, Workload], setting: Setting) -> dict[str, Call]:
    """The core of each workload, forward and training."""
    calls: dict[str, Call] = {}
    for name, work in works.items():
        inputs = make_inputs(work, training=True)
        calls |= both_ways(name, _core(work, inputs, setting.impl), inputs)
    return calls


def _product(setting: Setting, dtype: str) -> tuple[Call, float]:
    """torch.mm of two square matrices, and its FLOPs."""
    emulated = dtype == "bfloat16" and not machine.has_bf16_products()
    size = min(setting.product_size, 256) if emulated else setting.product_size
    a, b = (torch.randn(size, size).to(getattr(torch, dtype)) for _ in range(2))
    return lambda: torch.mm(a, b), 2.0 * size**3


def _time(candidates: dict[str, Call], setting: Setting, repetitions: int | None = None) -> dict[str, Timing]:
    return interleaved(candidates, repetitions=repetitions or setting.repetitions)


def _flops(work: Workload, direction: str) -> float:
    return work.flops() * (1.0 if direction == "forward" else TRAINING_FACTOR)


def _pairs(work: Workload, lengths: Sequence[int]) -> int:
    """Pairs of separate documents, the first ``num_globals`` tokens of each being global."""
    return sum(local_pairs(work.pattern, n, work.num_globals) + work.num_globals * n for n in lengths)
