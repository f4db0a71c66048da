"""`longspan bench`: attention beside its alternatives; the kernel and whole models against their bars."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from longspan.cli.bars import at_least_one, chosen, measure_bars, measure_scaling, require_native, show_bars
from longspan.cli.errors import require, user_mistakes

app = App(name="bench", help="Measure speed and memory.")

Impl = Literal["native", "blocked", "reference"]


@app.command
def attention(
    *,
    quick: bool = False,
    output: Path = Path("bench-results"),
    lengths: Annotated[tuple[int, ...], Parameter(consume_multiple=True)] = (),
    contestants: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = (),
    training: bool | None = None,
    dtype: Literal["float32", "bfloat16"] = "float32",
    heads: int = 12,
    head_dim: int = 64,
    window: int = 512,
    num_globals: int = 1,
    threads: int | None = None,
    repetitions: int | None = None,
    max_seconds: float | None = None,
    max_gigabytes: float | None = None,
) -> None:
    """Compare attention with its alternatives: time and memory against length.

    Every contestant is first checked against a dense reference. Writes attention.json,
    attention.csv and pictures (PNG and SVG), one for each direction.

    Args:
        quick: up to 4096 tokens, forward only, without the slowest; takes less than a minute.
        output: directory for the files.
        lengths: sequence lengths; by default 1024 to 65536, doubling.
        contestants: those to compare, instead of all: native, blocked, hf, hf-mask, sdpa-full,
            sdpa-band, flex, local-attention, loop.
        training: measure forward and backward too; on, unless quick.
        dtype: of the inputs.
        heads: attention heads.
        head_dim: components of a head.
        window: keys that a token sees, both sides together.
        num_globals: global tokens.
        threads: of torch; by default torch decides.
        repetitions: samples per median.
        max_seconds: a contestant grows no further once a call takes longer.
        max_gigabytes: or once it needs more memory beyond its inputs.
    """
    require("matplotlib", extra="plots")
    import torch

    from longspan.benchmarks import attention as benchmark
    from longspan.benchmarks.workload import Workload

    measure_training = not quick if training is None else training
    everyone = benchmark.Plan().contestants
    usual = tuple(name for name in everyone if not (quick and name in benchmark.QUICK_LEAVES_OUT))
    with user_mistakes():
        plan = benchmark.Plan(
            work=Workload(
                heads=heads, head_dim=head_dim, window=window, num_globals=num_globals, dtype=dtype
            ),
            lengths=tuple(sorted(set(lengths))) or (benchmark.QUICK_LENGTHS if quick else benchmark.LENGTHS),
            contestants=contestants or usual,
            directions=("forward", "training") if measure_training else ("forward",),
            repetitions=(3 if quick else 5) if repetitions is None else repetitions,
            max_seconds=(1.5 if quick else 60.0) if max_seconds is None else max_seconds,
            max_bytes=((2.0 if quick else 6.0) if max_gigabytes is None else max_gigabytes) * 1e9,
        )
        if threads is not None:
            at_least_one(threads=threads)
            torch.set_num_threads(threads)
    measure_scaling(
        output, "attention", lambda notify: benchmark.run(plan, notify), steps=benchmark.steps(plan)
    )


@app.command
def kernel(
    *,
    output: Path = Path("bench-results"),
    only: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = (),
    repetitions: int = 7,
    threads: int = 2,
    length: int = 4096,
    heads: int = 12,
    head_dim: int = 64,
    window: int = 512,
    impl: Impl = "native",
) -> None:
    """Measure the native kernel against its bars.

    Args:
        output: directory for kernel.json.
        only: groups to measure, instead of all: shares, bf16, hugging-face, globals, dilation,
            memory, time-per-token, dropout, masks, ragged.
        repetitions: samples per median.
        threads: of torch.
        length: tokens; memory is measured at 16 times as many, time per token up to 256 times.
        heads: attention heads.
        head_dim: components of a head.
        window: keys that a token sees, both sides together.
        impl: the implementation to measure.
    """
    require("transformers", extra="bench")
    from dataclasses import asdict

    import torch

    from longspan.benchmarks import kernel as measurements
    from longspan.benchmarks.workload import Workload

    with user_mistakes():
        work = Workload(length=length, heads=heads, head_dim=head_dim, window=window)
        groups = chosen(only, tuple(measurements.GROUPS))
        at_least_one(repetitions=repetitions, threads=threads)
    require_native(impl)
    torch.set_num_threads(threads)
    setting = measurements.Setting(work=work, impl=impl, repetitions=repetitions)
    measure_bars(
        output / "kernel.json",
        {group: lambda group=group: measurements.GROUPS[group](setting) for group in groups},
        check=lambda: measurements.check_core(setting),
        setting=asdict(setting),
    )


@app.command
def training(
    *,
    output: Path = Path("bench-results"),
    only: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = (),
    source: str | None = None,
    repetitions: int = 3,
    threads: int = 2,
    documents: int = 4,
    length: int = 4096,
    product_size: int = 2048,
    profile: Annotated[bool, Parameter(negative="")] = False,
    impl: Impl = "native",
) -> None:
    """Measure a step of masked language modelling, ours beside Hugging Face's, against its bars.

    Args:
        output: directory for training.json.
        only: groups to measure, instead of both: fp32, bf16.
        source: a short model to lengthen; by default random weights of granite-30m's shape.
        repetitions: samples per median.
        threads: of torch.
        documents: of a step.
        length: tokens of each.
        product_size: side of the matrices of torch.mm.
        profile: also show where the time of our step goes.
        impl: the implementation of our model's attention.
    """
    require("transformers", extra="bench")
    from dataclasses import asdict

    import torch

    from longspan.benchmarks import report
    from longspan.benchmarks import training as measurements

    with user_mistakes():
        groups = chosen(only, tuple(measurements.GROUPS))
        at_least_one(repetitions=repetitions, threads=threads, documents=documents, length=length)
    require_native(impl)
    torch.set_num_threads(threads)
    setting = measurements.Setting(
        source=source,
        documents=documents,
        length=length,
        impl=impl,
        repetitions=repetitions,
        product_size=product_size,
    )
    measure_bars(
        output / "training.json",
        {group: lambda group=group: measurements.GROUPS[group](setting) for group in groups},
        check=lambda: measurements.check(setting),
        setting=asdict(setting),
    )
    for group in groups if profile else ():
        shares = measurements.breakdown(setting, group)
        report.console().print(measurements.breakdown_table(shares))


@app.command
def model(
    *,
    output: Path = Path("bench-results"),
    only: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = (),
    repetitions: int = 3,
    threads: int = 2,
    length: int = 4096,
    layers: int = 12,
    hidden_size: int = 768,
    heads: int = 12,
    intermediate_size: int = 3072,
    window: int = 512,
    vocabulary: int = 50265,
    document_lengths: Annotated[tuple[int, ...], Parameter(consume_multiple=True)] = (),
    product_size: int = 2048,
    impl: Impl = "native",
) -> None:
    """Measure whole Longformers, ours beside Hugging Face's, against their bars.

    Outputs and gradients are first compared with Hugging Face's. In full it takes well over half an hour.

    Args:
        output: directory for model.json.
        only: groups to measure, instead of all: hugging-face (with speed_up), bf16, memory,
            documents, long-document.
        repetitions: samples per median.
        threads: of torch.
        length: tokens; memory is measured at 4 times as many, the long document has 64 times.
        layers: of the model; half for the long document.
        hidden_size: of the model; half for the long document.
        heads: attention heads.
        intermediate_size: of the feed-forward network; half for the long document.
        window: keys that a token sees, both sides together.
        vocabulary: number of tokens that there are.
        document_lengths: of the ragged batch; by default typical reviews of IMDB.
        product_size: side of the matrices of torch.mm.
        impl: the implementation of our model's attention.
    """
    require("transformers", extra="bench")
    from dataclasses import asdict

    import torch

    from longspan.benchmarks import model as measurements
    from longspan.benchmarks.model_shape import ModelShape

    with user_mistakes():
        shape = ModelShape(
            layers=layers,
            hidden_size=hidden_size,
            heads=heads,
            intermediate_size=intermediate_size,
            window=window,
            vocabulary=vocabulary,
        )
        groups = chosen(only, tuple(measurements.GROUPS))
        at_least_one(repetitions=repetitions, threads=threads, product_size=product_size)
        setting = measurements.Setting(
            shape=shape,
            length=length,
            document_lengths=document_lengths or measurements.IMDB_LENGTHS,
            impl=impl,
            repetitions=repetitions,
            product_size=product_size,
        )
    require_native(impl)
    torch.set_num_threads(threads)
    measure_bars(
        output / "model.json",
        {group: lambda group=group: measurements.GROUPS[group](setting) for group in groups},
        check=lambda: measurements.check(setting),
        setting=asdict(setting),
    )


@app.command
def char_lm(
    *,
    quick: bool = False,
    output: Path = Path("bench-results"),
    only: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = (),
    source: str | None = None,
    repetitions: int | None = None,
    threads: int = 2,
    impl: Impl = "native",
) -> None:
    """Measure the autoregressive model against its bars.

    Attention and reading in pieces are first compared with the reference. In full it takes some minutes.

    Args:
        quick: tiny sizes, to see that all works; the values say nothing.
        output: directory for char_lm_speed.json.
        only: groups to measure, instead of all: positions (relative and rotary against none, in attention),
            kinds (rotary against relative, in a model), training (long texts against short ones),
            generation (long contexts against short ones, and GPT-2).
        source: the model: char-lm-mini (default), char-lm-small or char-lm-large.
        repetitions: samples per median.
        threads: of torch.
        impl: the implementation of attention.
    """
    require("transformers", extra="bench")
    from dataclasses import asdict, replace

    import torch

    from longspan.benchmarks import char_lm as measurements
    from longspan.models.causal_lm_config import LongformerCausalLMConfig

    with user_mistakes():
        groups = chosen(only, tuple(measurements.GROUPS))
        usual = measurements.QUICK if quick else measurements.Setting()
        setting = replace(
            usual,
            source=usual.source if source is None else source,
            repetitions=usual.repetitions if repetitions is None else repetitions,
            impl=impl,
        )
        LongformerCausalLMConfig.named(setting.source)
        at_least_one(threads=threads)
    require_native(impl)
    torch.set_num_threads(threads)
    measure_bars(
        output / "char_lm_speed.json",
        {group: lambda group=group: measurements.GROUPS[group](setting) for group in groups},
        check=lambda: measurements.check(setting),
        setting=asdict(setting),
    )


@app.command
def led(
    *,
    quick: bool = False,
    output: Path = Path("bench-results"),
    only: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = (),
    length: int | None = None,
    layers: int | None = None,
    repetitions: int | None = None,
    threads: int = 2,
    impl: Impl = "native",
) -> None:
    """Measure LED, ours beside Hugging Face's, against its bars.

    Encoder, logits and gradients are first compared with Hugging Face's. In full it takes some minutes, and
    Hugging Face's model some gigabytes.

    Args:
        quick: tiny sizes, to see that all works; the values say nothing.
        output: directory for led.json.
        only: groups to measure, instead of all: encoder, writing (first token, tokens per second), memory,
            growth (with documents and outputs, with and without a window in the decoder).
        length: tokens of the document, 16,384 by default.
        layers: of each side, 6 by default.
        repetitions: samples per median.
        threads: of torch.
        impl: the implementation of our model's attention.
    """
    require("transformers", extra="bench")
    from dataclasses import asdict, replace

    import torch

    from longspan.benchmarks import led as measurements

    with user_mistakes():
        groups = chosen(only, tuple(measurements.GROUPS))
        usual = measurements.QUICK if quick else measurements.Setting()
        setting = replace(
            usual,
            length=usual.length if length is None else length,
            layers=usual.layers if layers is None else layers,
            repetitions=usual.repetitions if repetitions is None else repetitions,
            impl=impl,
        )
        at_least_one(threads=threads)
    require_native(impl)
    torch.set_num_threads(threads)
    measure_bars(
        output / "led.json",
        {group: lambda group=group: measurements.GROUPS[group](setting) for group in groups},
        check=lambda: measurements.check(setting),
        setting=asdict(setting),
    )


@app.command
def kinds(
    *,
    quick: bool = False,
    output: Path = Path("bench-results"),
    lengths: Annotated[tuple[int, ...], Parameter(consume_multiple=True)] = (),
    only: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = (),
    training: bool | None = None,
    heads: int = 8,
    head_dim: int = 64,
    threads: int | None = None,
    repetitions: int | None = None,
    max_seconds: float | None = None,
    max_gigabytes: float | None = None,
) -> None:
    """Compare kinds of attention, and the packages linformer and performer-pytorch: time and memory.

    A contestant is a self-attention layer with its projections. Every kind is first checked against its
    slow form, and the packages against ours. Shows the bars, which are judged at 4,096 and 16,384 tokens, and
    writes kinds_speed.json, kinds_speed.csv and pictures (PNG and SVG), one for each direction.

    Args:
        quick: tiny lengths, forward only, to see that all works; the values say nothing.
        output: directory for the files.
        lengths: sequence lengths; by default 1024 to 32768, doubling.
        only: kinds to compare, instead of all.
        training: measure forward and backward too; on, unless quick.
        heads: attention heads.
        head_dim: components of a head.
        threads: of torch; by default torch decides.
        repetitions: samples per median.
        max_seconds: a contestant grows no further once a call takes longer.
        max_gigabytes: or once a call needs more memory beyond its inputs.
    """
    require("matplotlib", extra="plots")
    import torch

    from longspan.benchmarks import kinds as benchmark

    measure_training = not quick if training is None else training
    with user_mistakes():
        plan = benchmark.Plan(
            kinds=only or benchmark.Plan().kinds,
            lengths=tuple(sorted(set(lengths))) or (benchmark.QUICK_LENGTHS if quick else benchmark.LENGTHS),
            directions=("forward", "training") if measure_training else ("forward",),
            heads=heads,
            head_dim=head_dim,
            repetitions=(1 if quick else 5) if repetitions is None else repetitions,
            max_seconds=20.0 if max_seconds is None else max_seconds,
            max_bytes=(6.0 if max_gigabytes is None else max_gigabytes) * 1e9,
        )
        if threads is not None:
            at_least_one(threads=threads)
            torch.set_num_threads(threads)
    found = measure_scaling(
        output, "kinds_speed", lambda notify: benchmark.run(plan, notify), steps=benchmark.steps(plan)
    )
    show_bars(benchmark.results(found["records"]))
