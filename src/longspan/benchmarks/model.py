"""The measurements behind the bars of whole models, each a ratio within one run.

Ours, Hugging Face's Longformer and Hugging Face's after `speed_up` have the same weights, read the same
documents, whose first token is global, and take turns in one process. What must hold is in `bars.py`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from copy import deepcopy
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import torch

from longspan.attention.attend import Implementation
from longspan.benchmarks import fresh_process, machine
from longspan.benchmarks.bars import DIRECTIONS, Result, result
from longspan.benchmarks.measure import interleaved, limit_memory, peak_extra_bytes
from longspan.benchmarks.model_contestants import (
    EVERYONE,
    Call,
    Who,
    make_model,
    make_models,
    model_both_ways,
    one_row_mask,
)
from longspan.benchmarks.model_gate import check_models, gate_lengths
from longspan.benchmarks.model_shape import ModelShape, make_batch
from longspan.benchmarks.products import product_flops, products
from longspan.checks import at_least

# A batch of reviews from the test set of IMDB (Maas et al. 2011), in tokens of RoBERTa, special ones
# included: of 500 batches of eight, drawn at random, the one with the median share of padding.
IMDB_LENGTHS = (153, 156, 208, 242, 283, 294, 666, 676)
MEMORY_GROWTH = 4
SHORT_GROWTH, LONG_GROWTH = 2, 64


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """What all groups share; smaller values are for tests."""

    shape: ModelShape = field(default_factory=ModelShape)
    length: int = 4096
    document_lengths: tuple[int, ...] = IMDB_LENGTHS
    impl: Implementation = "native"
    repetitions: int = 3
    product_size: int = 2048
    """Side of the square matrices of torch.mm."""

    def __post_init__(self) -> None:
        at_least(1, length=self.length)
        if not self.document_lengths or min(self.document_lengths) < 1:
            raise ValueError(f"document_lengths is {self.document_lengths}; each must be at least 1")
        if self.shape.hidden_size % (2 * self.shape.heads):
            raise ValueError(
                f"hidden_size is {self.shape.hidden_size}; it must be a multiple of twice the heads, "
                f"{2 * self.shape.heads}, since the long document is read by a model half as wide"
            )


def hugging_face(setting: Setting) -> Iterator[Result]:
    """Against Hugging Face's model, with `speed_up` too, and against the matrix products alone."""
    arguments = _arguments(setting) | {
        "names": EVERYONE,
        "lengths": (setting.length,),
        "directions": DIRECTIONS,
        "product_size": setting.product_size,
    }
    for suffix, seconds in _with_each_allocator("time_models", arguments):
        for direction in DIRECTIONS:
            theirs = seconds[f"stock {direction}"]
            for who, name in (("ours", "model"), ("speed_up", "speed_up")):
                taken = seconds[f"{who} {direction}"]
                yield result(
                    f"{name}, times as fast as Hugging Face{suffix}",
                    direction,
                    theirs / taken,
                    f"{theirs:.3g} s against {taken:.3g} s",
                )
            flops, taken = setting.shape.flops((setting.length,), direction), seconds[f"ours {direction}"]
            rate = product_flops(setting.product_size) / seconds["product"]
            detail = (
                f"{taken:.3g} s; {flops / 1e9:.0f} GFLOP at {rate / 1e9:.0f} GFLOP/s are {flops / rate:.3g} s"
            )
            name = f"model, time against its products at the rate of torch.mm{suffix}"
            yield result(name, direction, taken * rate / flops, detail)


def documents(setting: Setting) -> Iterator[Result]:
    """Ragged documents: Hugging Face computes the padding, ours packs what is real."""
    lengths = setting.document_lengths
    arguments = _arguments(setting) | {"names": ("stock", "ours"), "lengths": lengths}
    arguments |= {"directions": ("forward",)}
    for suffix, seconds in _with_each_allocator("time_models", arguments):
        theirs, ours = seconds["stock forward"], seconds["ours forward"]
        padded = len(lengths) * _whole_windows(max(lengths), setting.shape.window)
        detail = f"{theirs:.3g} s against {ours:.3g} s; {sum(lengths)} tokens, {padded} with padding"
        name = f"8 reviews, times as fast as Hugging Face{suffix}"
        yield result(name, "forward", theirs / ours, detail)


def time_models(
    *,
    shape: dict[str, Any],
    names: Sequence[Who],
    lengths: Sequence[int],
    directions: Sequence[str],
    impl: Implementation,
    repetitions: int,
    threads: int,
    product_size: int | None = None,
) -> Iterator[dict[str, float]]:
    """In a fresh process: seconds of each model in each direction, and of the matrix products."""
    torch.set_num_threads(threads)
    size = ModelShape(**shape)
    candidates: dict[str, Call] = {}
    if product_size is not None:
        candidates["product"] = products(product_size)
    batch = make_batch(size, lengths)
    for name, model in make_models(tuple(names), size, length=max(lengths), impl=impl).items():
        calls = model_both_ways(name, model, batch)
        candidates |= {f"{name} {direction}": calls[f"{name} {direction}"] for direction in directions}
    # The first call of each pays for lazy initialisation; one cold round is enough to be rid of it.
    times = interleaved(candidates, repetitions=repetitions, warmups=1)
    yield {name: timing.median for name, timing in times.items()}


def bf16(setting: Setting) -> Iterator[Result]:
    """Our model in bf16 against the same in fp32."""
    shape, length, repetitions, remark = setting.shape, setting.length, setting.repetitions, ""
    if not machine.has_bf16_products():
        # Its matrix products are a hundred times slower there: little work, once.
        shape, length, repetitions = replace(shape, layers=1), min(length, shape.window), 1
        remark = f"; {length} tokens, 1 layer, once: no bf16 instructions here"
    model = make_model("ours", shape, length=length, impl=setting.impl)
    batch = make_batch(shape, (length,))
    candidates = {
        **model_both_ways("fp32", model, batch),
        **model_both_ways("bf16", deepcopy(model).to(torch.bfloat16), batch),
    }
    times = interleaved(candidates, repetitions=repetitions)
    for direction in DIRECTIONS:
        wide, narrow = (times[f"{dtype} {direction}"].median for dtype in ("fp32", "bf16"))
        yield result(
            "model, bf16, times as fast as fp32",
            direction,
            wide / narrow,
            f"{wide:.3g} s against {narrow:.3g} s{remark}",
            judged=not remark,
        )


def memory(setting: Setting) -> Iterator[Result]:
    """Peak of a training step beyond the weights, gradients included, in a fresh process each."""
    length = setting.length * MEMORY_GROWTH
    layers = layers_that_fit(setting.shape, length, available_bytes())
    shape = replace(setting.shape, layers=layers)
    extra: dict[str, int] = {}
    for who in ("stock", "ours"):
        arguments = {"shape": asdict(shape), "length": length, "who": who, "impl": setting.impl}
        arguments |= {"threads": torch.get_num_threads()}
        (extra[who],) = fresh_process.answers("longspan.benchmarks.model:training_memory", arguments)
    detail = f"{extra['stock'] / 1e9:.3g} GB against {extra['ours'] / 1e9:.3g} GB at {length} tokens"
    if layers < setting.shape.layers:
        detail += f", {layers} of {setting.shape.layers} layers: more of Hugging Face's do not fit here"
    name = "model, memory, times less than Hugging Face without its mask"
    yield result(name, "training", extra["stock"] / extra["ours"], detail)


def training_memory(
    *, shape: dict[str, Any], length: int, who: Who, impl: Implementation, threads: int
) -> Iterator[int]:
    """In a fresh process: bytes beyond the weights."""
    torch.set_num_threads(threads)
    size = ModelShape(**shape)
    model = make_model(who, size, length=length, impl=impl)
    with one_row_mask() if who == "stock" else nullcontext():
        # A short step first, so that libraries, threads and code are not counted.
        short = min(length, size.window)
        model_both_ways("", model, make_batch(size, (short,)))[" training"]()
        model.zero_grad(set_to_none=True)
        step = model_both_ways("", model, make_batch(size, (length,)))[" training"]
        # On address space, so it is loose; a step that is too large should not end other processes.
        limit_memory(available_bytes())
        yield peak_extra_bytes(step)


def layers_that_fit(shape: ModelShape, length: int, available: int) -> int:
    """How many of the layers Hugging Face's training step has memory for, at least 1.

    An estimate: what a layer keeps for the backward pass is about four numbers for each pair of the
    window (softmax, dropout, padded copies), 20 for each hidden one, and two for each of the
    feed-forward network's; while it is computed there are about eight more for each pair.
    """
    pairs = shape.heads * (shape.window + 1)
    kept = 4 * length * (4 * pairs + 20 * shape.hidden_size + 2 * shape.intermediate_size)
    passing = 4 * length * 8 * pairs
    return max(1, min(shape.layers, int((0.85 * available - passing) / kept)))


def available_bytes() -> int:
    """Memory that new processes can have without swapping; a lot where the system does not say."""
    with suppress(OSError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 2**60


def long_document(setting: Setting) -> Iterator[Result]:
    """A model half as wide and half as deep reads one very long document."""
    shape = replace(
        setting.shape,
        layers=max(1, setting.shape.layers // 2),
        hidden_size=setting.shape.hidden_size // 2,
        intermediate_size=max(1, setting.shape.intermediate_size // 2),
    )
    short, long = setting.length * SHORT_GROWTH, setting.length * LONG_GROWTH
    arguments = _arguments(replace(setting, shape=shape)) | {"short": short, "long": long}
    (found,) = fresh_process.answers(
        "longspan.benchmarks.model:read_long_document",
        arguments,
        environment={"THP_MEM_ALLOC_ENABLE": None},
    )
    rate = {length: length / found[name] for name, length in (("short", short), ("long", long))}
    sizes = f"{shape.layers} x {shape.hidden_size}"
    detail = f"{rate[long]:.0f} per second at {long} tokens, {rate[short]:.0f} at {short}; {sizes}"
    name = "long document, tokens per second against a short one"
    yield result(name, "forward", rate[long] / rate[short], detail)
    yield result(
        "long document, extra memory in GB", "forward", found["extra_bytes"] / 1e9, f"{long} tokens; {sizes}"
    )


def read_long_document(
    *, shape: dict[str, Any], short: int, long: int, impl: Implementation, repetitions: int, threads: int
) -> Iterator[dict[str, float]]:
    """In a fresh process: seconds of a short and a long document, and bytes beyond the weights."""
    torch.set_num_threads(threads)
    size = ModelShape(**shape)
    # Sinusoids have no table that ends.
    model = make_model("ours", size, length=1, impl=impl, position_kind="sinusoidal")
    lengths = {"short": short, "long": long}
    candidates = {
        name: model_both_ways(name, model, make_batch(size, (length,)))[f"{name} forward"]
        for name, length in lengths.items()
    }
    # Both have been called before they are timed.
    candidates["short"]()
    extra = peak_extra_bytes(candidates["long"])
    times = interleaved(candidates, repetitions=repetitions, warmups=0)
    yield {"extra_bytes": float(extra), **{name: timing.median for name, timing in times.items()}}


GROUPS: dict[str, Callable[[Setting], Iterable[Result]]] = {
    "hugging-face": hugging_face,
    "bf16": bf16,
    "memory": memory,
    "documents": documents,
    "long-document": long_document,
}


def check(setting: Setting) -> dict[str, float]:
    """Correctness first: outputs and gradients against Hugging Face's.

    Raises:
        WrongResultError: a model is wrong, so its speed means nothing.
    """
    shape = setting.shape
    length = max(gate_lengths(shape.window))
    return check_models(make_models(EVERYONE, shape, length=length, impl=setting.impl), shape)


def _arguments(setting: Setting) -> dict[str, Any]:
    """What the functions that run in fresh processes have in common."""
    return {
        "shape": asdict(setting.shape),
        "impl": setting.impl,
        "repetitions": setting.repetitions,
        "threads": torch.get_num_threads(),
    }


def _with_each_allocator(function: str, arguments: dict[str, Any]) -> Iterator[tuple[str, dict[str, float]]]:
    """Answers of a function of this module: as torch is by default, and with huge pages for everybody."""
    for suffix, huge_pages in (("", None), (", with huge pages", "1")):
        (answer,) = fresh_process.answers(
            f"longspan.benchmarks.model:{function}",
            arguments,
            environment={"THP_MEM_ALLOC_ENABLE": huge_pages},
        )
        yield suffix, cast("dict[str, float]", answer)


def _whole_windows(length: int, window: int) -> int:
    """What Hugging Face pads ``length`` to."""
    return -(-length // window) * window
