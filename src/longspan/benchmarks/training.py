"""One step of masked language modelling beside Hugging Face's: the measurements, and where the time goes.

A step is forward with dropout, loss at the masked tokens, backward and AdamW, over a batch of whole
documents without global tokens. Both models begin with the same weights and take turns in one process.
Hugging Face's step is given what helps it: logits at masked tokens only, and the batch in parts where it
does not fit into memory at once.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from longspan.attention.attend import Implementation
from longspan.benchmarks import fresh_process, machine
from longspan.benchmarks.bars import Bound, Result
from longspan.benchmarks.gate import WrongResultError
from longspan.benchmarks.measure import interleaved
from longspan.benchmarks.model import available_bytes, layers_that_fit
from longspan.benchmarks.model_contestants import Call
from longspan.benchmarks.model_gate import TOLERANCE, gate_lengths
from longspan.benchmarks.model_shape import DROPOUT, ModelShape, make_batch
from longspan.benchmarks.products import product_flops, products
from longspan.benchmarks.workload import DTYPES
from longspan.checks import at_least

if TYPE_CHECKING:
    from rich.table import Table
    from transformers import PreTrainedModel

GRANITE = ModelShape(layers=6, hidden_size=384, heads=12, intermediate_size=1536)
"""The shape of granite-embedding-30m-english."""
PRECISIONS = {"fp32": "float32", "bf16": "bfloat16"}
MASK_SHARE = 0.15

_FASTER = "MLM step, {}, times as fast as Hugging Face"
_PRODUCTS = "MLM step, {}, time against its products at the rate of torch.mm"
_RATE = "MLM step, {}, tokens per second"
_HUGE_PAGES = ", with huge pages"
BOUNDS: dict[str, dict[str, Bound]] = {
    **{_FASTER.format(name): {"training": Bound(4.0, True)} for name in PRECISIONS},
    **{_PRODUCTS.format(name): {"training": Bound(2.0, False)} for name in PRECISIONS},
    # Shown, not judged.
    **{_RATE.format(name): {} for name in PRECISIONS},
    **{what.format(name) + _HUGE_PAGES: {} for what in (_FASTER, _PRODUCTS, _RATE) for name in PRECISIONS},
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """What all groups share; smaller values are for tests."""

    source: str | None = None
    """A short model to lengthen, a folder or a name on the Hub; None is random weights of ``shape``."""
    shape: ModelShape = GRANITE
    """Of a source only the window counts."""
    documents: int = 4
    length: int = 4096
    """Tokens of each document."""
    impl: Implementation = "native"
    repetitions: int = 3
    product_size: int = 2048
    """Side of the square matrices of torch.mm."""

    def __post_init__(self) -> None:
        for name in ("documents", "length", "repetitions", "product_size"):
            at_least(1, **{name: getattr(self, name)})


def measure(setting: Setting, precision: str) -> Iterator[Result]:
    """The step in "fp32", or in "bf16" by autocast: with torch's allocator, and with huge pages."""
    remark = ""
    if precision == "bf16" and not machine.has_bf16_products():
        # Its matrix products are a hundred times slower there: little work, once.
        shape = replace(setting.shape, layers=1)
        setting = replace(setting, shape=shape, documents=1, length=shape.window, source=None, repetitions=1)
        remark = f"; {shape.window} tokens, 1 layer, once: no bf16 instructions here"
    arguments = _arguments(setting) | {"dtype": PRECISIONS[precision]}
    for suffix, huge_pages in (("", None), (_HUGE_PAGES, "1")):
        (found,) = fresh_process.answers(
            "longspan.benchmarks.training:time_steps",
            arguments,
            environment={"THP_MEM_ALLOC_ENABLE": huge_pages},
        )
        yield from _results(setting, precision, suffix, found, remark)


def _results(
    setting: Setting, precision: str, suffix: str, found: dict[str, float], remark: str
) -> Iterator[Result]:
    def result(name: str, value: float, detail: str) -> Result:
        bound = None if remark else BOUNDS[name].get("training")
        return Result(name=name, direction="training", value=value, bound=bound, detail=detail + remark)

    theirs, ours = found["stock"], found["ours"]
    parts = "" if found["parts"] == 1 else f", in {found['parts']:.0f} parts, which fit into memory"
    yield result(
        _FASTER.format(precision) + suffix, theirs / ours, f"{theirs:.3g} s{parts}, against {ours:.3g} s"
    )
    flops = found["flops"]
    rate = product_flops(setting.product_size) / found["product"]
    detail = f"{ours:.3g} s; {flops / 1e9:.0f} GFLOP at {rate / 1e9:.0f} GFLOP/s are {flops / rate:.3g} s"
    yield result(_PRODUCTS.format(precision) + suffix, ours * rate / flops, detail)
    tokens = setting.documents * setting.length
    detail = f"{setting.documents} x {setting.length} tokens, {found['targets']:.0f} of them masked"
    yield result(_RATE.format(precision) + suffix, tokens / ours, detail)


def time_steps(
    *, setting: dict[str, Any], dtype: str, threads: int, parts: int | None = None
) -> Iterator[dict[str, float]]:
    """In a fresh process: seconds of both steps and of matrix products, and what was counted.

    Args:
        setting: fields of a `Setting`.
        dtype: of autocast and of the products.
        threads: of torch.
        parts: of the batch in Hugging Face's step; as few as fit into memory by default.
    """
    torch.set_num_threads(threads)
    chosen = _setting(setting)
    models = make_models(chosen)
    shape = shape_of(models["ours"])
    batch = masked_batch(shape, [chosen.length] * chosen.documents)
    targets = int((batch["labels"] >= 0).sum())
    if parts is None:
        parts = parts_that_fit(shape, chosen.documents, chosen.length, available_bytes())
    candidates: dict[str, Call] = {
        "product": products(chosen.product_size, dtype),
        "stock": training_step(models["stock"], batch, dtype=dtype, parts=parts),
        "ours": training_step(models["ours"], batch, dtype=dtype),
    }
    # The first step of each pays for lazy initialisation and makes the state of the optimizer.
    times = interleaved(candidates, repetitions=chosen.repetitions, warmups=1)
    yield {name: timing.median for name, timing in times.items()} | {
        "targets": float(targets),
        "parts": float(parts),
        "flops": step_flops(shape, [chosen.length] * chosen.documents, targets),
    }


def make_models(setting: Setting) -> "dict[str, PreTrainedModel]":
    """Hugging Face's model and ours, with the same weights in memory of their own.

    Raises:
        ValueError: the source cannot be loaded or lengthened.
    """
    import transformers

    import longspan
    from longspan.tasks.models import ModelSettings, load_model

    torch.manual_seed(0)
    if setting.source is None:
        config = longspan.LongformerConfig(**setting.shape.fields(setting.length))
        weights = longspan.LongformerForMaskedLM(config).state_dict()
    else:
        given = ModelSettings(
            source=setting.source, max_length=setting.length, window=setting.shape.window, dropout=DROPOUT
        )
        loaded = load_model(given, "MaskedLM")
        # Anything else would have been lengthened in place; a step of that is not measured here.
        if not isinstance(loaded, longspan.LongformerForMaskedLM):
            raise ValueError(f"source is {setting.source!r}, which cannot become a Longformer")
        config, weights = deepcopy(loaded.config), loaded.state_dict()
    fields = config.to_dict()
    fields.pop("model_type")
    config.attention_impl = setting.impl
    models: dict[str, PreTrainedModel] = {
        "stock": transformers.LongformerForMaskedLM(transformers.LongformerConfig(**fields)),
        "ours": longspan.LongformerForMaskedLM(config),
    }
    for model in models.values():
        model.load_state_dict(weights)
        for name, parameter in model.named_parameters():
            # As the task does it: nothing is global, so nothing could train them.
            parameter.requires_grad_("_global." not in name)
    return models


def shape_of(model: "PreTrainedModel") -> ModelShape:
    """The size of one of our Longformers, which has the same window in all layers."""
    config: Any = model.config
    window = config.attention_window
    return ModelShape(
        layers=config.num_hidden_layers,
        hidden_size=config.hidden_size,
        heads=config.num_attention_heads,
        intermediate_size=config.intermediate_size,
        window=window[0] if isinstance(window, list) else window,
        vocabulary=config.vocab_size,
    )


def masked_batch(shape: ModelShape, lengths: list[int]) -> dict[str, Tensor]:
    """Random documents with words masked as the task does it: ids, mask and labels, [documents, longest]."""
    from longspan.tasks.masked_lm import Masker
    from longspan.tasks.task import NO_LABEL

    batch = make_batch(shape, lengths)
    is_real = batch["attention_mask"] == 1
    # Any token will do for a mask: the last one, which then is no word.
    masker = Masker(mask=shape.vocabulary - 1, words=np.arange(5, shape.vocabulary - 1), share=MASK_SHARE)
    ids, labels = batch["input_ids"].clone(), torch.full_like(batch["input_ids"], NO_LABEL)
    for row, real in enumerate(is_real):
        given, wanted = masker(ids[row, real].numpy(), seed=row)
        ids[row, real], labels[row, real] = torch.from_numpy(given), torch.from_numpy(wanted)
    return {"input_ids": ids, "attention_mask": batch["attention_mask"], "labels": labels}


def training_step(model: nn.Module, batch: dict[str, Tensor], *, dtype: str, parts: int = 1) -> Call:
    """A call that trains ``model`` for one step, and returns the mean loss.

    Args:
        model: with a head for masked words, in fp32.
        batch: of `masked_batch`.
        dtype: "bfloat16" runs the forward pass under autocast.
        parts: of the batch, one after the other; gradients are those of all.
    """
    from longspan.tasks.masked_lm import masked_loss

    optimizer = torch.optim.AdamW(
        [p for p in model.parameters() if p.requires_grad], lr=1e-5, weight_decay=0.01, fused=True
    )
    documents, targets = len(batch["labels"]), int((batch["labels"] >= 0).sum())
    size = -(-documents // parts)

    def step() -> Tensor:
        model.train()
        optimizer.zero_grad(set_to_none=True)
        total = torch.zeros(())
        for at in range(0, documents, size):
            part = {name: x[at : at + size] for name, x in batch.items()}
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=DTYPES[dtype] == torch.bfloat16):
                loss = masked_loss(model, part).total / targets
            loss.backward()
            total += loss.detach()
        optimizer.step()
        return total

    return step


def step_flops(shape: ModelShape, lengths: list[int], targets: int) -> float:
    """Floating-point operations of a step: the encoder's, and the head's two products a masked token."""
    h = shape.hidden_size
    # Each product has two in the backward pass.
    head = 3 * 2.0 * targets * (h * h + h * shape.vocabulary)
    return shape.flops(lengths, "training") + head


def parts_that_fit(shape: ModelShape, documents: int, length: int, available: int) -> int:
    """Into how many parts Hugging Face's step must cut the batch, by the estimate of `layers_that_fit`."""
    # Weights, gradients and two moments of both models, most of which are embeddings.
    weights = 2 * 16 * (shape.vocabulary + length + 12 * shape.layers * shape.hidden_size) * shape.hidden_size
    for parts in range(1, documents):
        tokens = -(-documents // parts) * length
        # Logits, their logarithms and their gradient.
        logits = 3 * 4 * int(MASK_SHARE * tokens) * shape.vocabulary
        # One layer too many is asked for, as at least one always fits.
        one_more = replace(shape, layers=shape.layers + 1)
        if layers_that_fit(one_more, tokens, available - weights - logits) >= shape.layers:
            return parts
    return documents


def check(setting: Setting) -> dict[str, float]:
    """Correctness first: loss and gradients in fp32 against Hugging Face's, without dropout.

    The weights are random, also where there is a source: pretrained ones can lose digits in any code.

    Returns:
        The error of ours: of the loss, or that of all gradients relative to their norm, the larger one.

    Raises:
        WrongResultError: it is above the tolerance.
    """
    from longspan.tasks.masked_lm import masked_loss

    lengths = list(gate_lengths(setting.shape.window))
    models = make_models(replace(setting, source=None, length=max(lengths)))
    batch = masked_batch(setting.shape, lengths)
    outcomes: dict[str, tuple[Tensor, Tensor]] = {}
    for name, model in models.items():
        loss = masked_loss(model.eval(), batch).total
        loss.backward()
        # Some leave out what has no influence, some compute its zeros.
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]
        outcomes[name] = (loss.detach(), torch.cat([gradient.flatten() for gradient in gradients]).double())
    (loss, gradient), (expected_loss, expected) = outcomes["ours"], outcomes["stock"]
    distances = [(loss - expected_loss).abs() / expected_loss, (gradient - expected).norm() / expected.norm()]
    # Unlike Python's, torch's maximum of a NaN and a number is NaN.
    error = float(torch.stack([distance.double() for distance in distances]).max())
    if not error <= TOLERANCE:
        raise WrongResultError(
            f"our step differs from Hugging Face's by {error:.1e} (at most {TOLERANCE:.0e} allowed)"
        )
    return {"ours": error}


GROUPS: dict[str, Callable[[Setting], Iterable[Result]]] = {
    "fp32": lambda setting: measure(setting, "fp32"),
    "bf16": lambda setting: measure(setting, "bf16"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """What one kind of work takes of our step."""

    kind: str
    seconds: float
    share: float
    """Of the step's time."""
    calls: int
    largest: str
    """The operator of this kind that takes the most."""


_KINDS = {
    "matrix products": r"^aten::(mm|addmm|bmm|baddbmm|_?mkldnn_.*|mkl_linear.*)$",
    "attention": r"longspan(::|_)attend",
    "dropout": r"longspan(::|_)dropout|aten::(native_dropout.*|dropout|bernoulli_?)$",
    "gelu": r"^aten::gelu",
    "layer norm": r"layer_norm",
    "loss": r"log_softmax|nll_loss|cross_entropy",
    "optimizer": r"adam|Optimizer",
    "embeddings": r"^aten::embedding",
    "masked tokens and packing": r"^aten::(_?index.*|nonzero|gather|scatter.*)$",
    "casts and copies": r"^aten::(copy_|_to_copy|to|clone|contiguous|cat)$",
    "sums": r"^aten::(add_?|sum|mul_?|div_?)$",
    "zeros": r"^aten::(fill_|zero_|zeros.*)$",
}
"""Kinds of work, and what the names of their operators look like; the first that fits counts."""


def breakdown(setting: Setting, precision: str) -> list[Share]:
    """Where our step spends its time, by torch's profiler: the largest kind first.

    Args:
        setting: of the step.
        precision: "fp32" or "bf16".
    """
    from torch.profiler import ProfilerActivity, profile

    model = make_models(setting)["ours"]
    batch = masked_batch(shape_of(model), [setting.length] * setting.documents)
    step = training_step(model, batch, dtype=PRECISIONS[precision])
    step()
    with profile(activities=[ProfilerActivity.CPU], acc_events=True) as profiler:
        for _ in range(setting.repetitions):
            step()
    found: dict[str, list[tuple[float, int, str]]] = {}
    for event in profiler.key_averages():
        seconds = event.self_cpu_time_total / 1e6 / setting.repetitions
        found.setdefault(kind_of(event.key), []).append((seconds, event.count, event.key))
    total = sum(seconds for events in found.values() for seconds, _, _ in events)
    shares = [
        Share(
            kind=kind,
            seconds=sum(seconds for seconds, _, _ in events),
            share=sum(seconds for seconds, _, _ in events) / total,
            calls=sum(count for _, count, _ in events) // setting.repetitions,
            largest=max(events)[2],
        )
        for kind, events in found.items()
    ]
    return sorted(shares, key=lambda share: share.seconds, reverse=True)


def kind_of(operator: str) -> str:
    """The kind of work that an operator of the profiler is."""
    return next((kind for kind, pattern in _KINDS.items() if re.search(pattern, operator)), "other")


def breakdown_table(shares: Iterable[Share]) -> "Table":
    """For the screen."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("kind")
    for column in ("ms", "share", "calls"):
        table.add_column(column, justify="right")
    table.add_column("largest", style="dim")
    for share in shares:
        table.add_row(
            share.kind, f"{share.seconds * 1e3:.1f}", f"{share.share:.1%}", str(share.calls), share.largest
        )
    return table


def _arguments(setting: Setting) -> dict[str, Any]:
    return {"setting": asdict(setting), "threads": torch.get_num_threads()}


def _setting(fields: dict[str, Any]) -> Setting:
    """A setting that was JSON."""
    shape: Any = ModelShape(**fields["shape"])
    return Setting(**(fields | {"shape": shape}))
