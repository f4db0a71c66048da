"""The commands of `longspan bench` that hold something against its bars: the kernel, steps, whole models."""

from pathlib import Path
from typing import Literal

from longspan.cli.bars import chosen, measure_bars, require_native
from longspan.cli.errors import require, user_mistakes
from longspan.cli.options import AsJson, Flag, Names, Numbers, Out, at_least_one

Impl = Literal["native", "blocked", "reference"]


def kernel(
    *,
    out: Out = Path("bench-results"),
    only: Names = (),
    repetitions: int = 7,
    threads: int = 2,
    length: int = 4096,
    heads: int = 12,
    head_dim: int = 64,
    window: int = 512,
    impl: Impl = "native",
    as_json: AsJson = False,
) -> None:
    """Measure the native kernel against its bars.

    Args:
        out: directory for kernel.json.
        only: groups to measure, instead of all: shares, bf16, hugging-face, globals, dilation,
            memory, time-per-token, dropout, masks, ragged.
        repetitions: samples per median.
        threads: of torch.
        length: tokens; memory is measured at 16 times as many, time per token up to 256 times.
        heads: attention heads.
        head_dim: components of a head.
        window: keys that a token sees, both sides together.
        impl: the implementation to measure.
        as_json: print the results as one JSON object, instead of tables.
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
        out / "kernel.json",
        {group: lambda group=group: measurements.GROUPS[group](setting) for group in groups},
        check=lambda: measurements.check_core(setting),
        setting=asdict(setting),
        as_json=as_json,
    )


def training(
    *,
    out: Out = Path("bench-results"),
    only: Names = (),
    source: str | None = None,
    repetitions: int = 3,
    threads: int = 2,
    documents: int = 4,
    length: int = 4096,
    product_size: int = 2048,
    profile: Flag = False,
    impl: Impl = "native",
    as_json: AsJson = False,
) -> None:
    """Measure a step of masked language modelling, ours beside Hugging Face's, against its bars.

    Args:
        out: directory for training.json.
        only: groups to measure, instead of both: fp32, bf16.
        source: a short model to lengthen; by default random weights of granite-30m's shape.
        repetitions: samples per median.
        threads: of torch.
        documents: of a step.
        length: tokens of each.
        product_size: side of the matrices of torch.mm.
        profile: also show where the time of our step goes.
        impl: the implementation of our model's attention.
        as_json: print the results as one JSON object, instead of tables.
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
        out / "training.json",
        {group: lambda group=group: measurements.GROUPS[group](setting) for group in groups},
        check=lambda: measurements.check(setting),
        setting=asdict(setting),
        as_json=as_json,
    )
    for group in groups if profile and not as_json else ():
        shares = measurements.breakdown(setting, group)
        report.console().print(measurements.breakdown_table(shares))


def model(
    *,
    out: Out = Path("bench-results"),
    only: Names = (),
    repetitions: int = 3,
    threads: int = 2,
    length: int = 4096,
    layers: int = 12,
    hidden_size: int = 768,
    heads: int = 12,
    intermediate_size: int = 3072,
    window: int = 512,
    vocabulary: int = 50265,
    document_lengths: Numbers = (),
    product_size: int = 2048,
    impl: Impl = "native",
    as_json: AsJson = False,
) -> None:
    """Measure whole Longformers, ours beside Hugging Face's, against their bars.

    Outputs and gradients are first compared with Hugging Face's. In full it takes well over half an hour.

    Args:
        out: directory for model.json.
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
        as_json: print the results as one JSON object, instead of tables.
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
        out / "model.json",
        {group: lambda group=group: measurements.GROUPS[group](setting) for group in groups},
        check=lambda: measurements.check(setting),
        setting=asdict(setting),
        as_json=as_json,
    )


def char_lm(
    *,
    quick: Flag = False,
    out: Out = Path("bench-results"),
    only: Names = (),
    source: str | None = None,
    repetitions: int | None = None,
    threads: int = 2,
    impl: Impl = "native",
    as_json: AsJson = False,
) -> None:
    """Measure the autoregressive model against its bars.

    Attention and reading in pieces are first compared with the reference. In full it takes some minutes.

    Args:
        quick: tiny sizes, to see that all works; the values say nothing.
        out: directory for char_lm_speed.json.
        only: groups to measure, instead of all: positions (relative and rotary against none, in attention),
            kinds (rotary against relative, in a model), training (long texts against short ones),
            generation (long contexts against short ones, and GPT-2).
        source: the model: char-lm-mini (default), char-lm-small or char-lm-large.
        repetitions: samples per median.
        threads: of torch.
        impl: the implementation of attention.
        as_json: print the results as one JSON object, instead of tables.
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
        out / "char_lm_speed.json",
        {group: lambda group=group: measurements.GROUPS[group](setting) for group in groups},
        check=lambda: measurements.check(setting),
        setting=asdict(setting),
        as_json=as_json,
    )


def led(
    *,
    quick: Flag = False,
    out: Out = Path("bench-results"),
    only: Names = (),
    length: int | None = None,
    layers: int | None = None,
    repetitions: int | None = None,
    threads: int = 2,
    impl: Impl = "native",
    as_json: AsJson = False,
) -> None:
    """Measure LED, ours beside Hugging Face's, against its bars.

    Encoder, logits and gradients are first compared with Hugging Face's. In full it takes some minutes, and
    Hugging Face's model some gigabytes.

    Args:
        quick: tiny sizes, to see that all works; the values say nothing.
        out: directory for led.json.
        only: groups to measure, instead of all: encoder, writing (first token, tokens per second), memory,
            growth (with documents and outputs, with and without a window in the decoder).
        length: tokens of the document, 16,384 by default.
        layers: of each side, 6 by default.
        repetitions: samples per median.
        threads: of torch.
        impl: the implementation of our model's attention.
        as_json: print the results as one JSON object, instead of tables.
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
        out / "led.json",
        {group: lambda group=group: measurements.GROUPS[group](setting) for group in groups},
        check=lambda: measurements.check(setting),
        setting=asdict(setting),
        as_json=as_json,
    )
