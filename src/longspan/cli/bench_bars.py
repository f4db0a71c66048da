"""The commands of `longspan bench` that hold something against its bars: the kernel, steps, whole models."""

from longspan.cli.bars import USUAL, WithBars, chosen, measure_bars
from longspan.cli.errors import require, user_mistakes
from longspan.cli.options import Flag, Numbers, at_least_one, named


def kernel(
    *,
    repetitions: int = 7,
    length: int = 4096,
    heads: int = 12,
    head_dim: int = 64,
    window: int = 512,
    options: WithBars = USUAL,
) -> None:
    """Measure the native kernel against its bars.

    Args:
        repetitions: samples per median.
        length: tokens; memory is measured at 16 times as many, time per token up to 256 times.
        heads: attention heads.
        head_dim: components of a head.
        window: keys that a token sees, both sides together.
        options: of every benchmark with bars.
        options.out: directory for kernel.json.
        options.only: groups to measure, instead of all: shares, bf16, hugging-face, globals, dilation,
            memory, time-per-token, dropout, masks, ragged.
        options.impl: the implementation to measure.
    """
    require("transformers", extra="bench")
    from longspan.benchmarks import kernel as measurements
    from longspan.benchmarks.workload import Workload

    with user_mistakes():
        work = Workload(length=length, heads=heads, head_dim=head_dim, window=window)
        at_least_one(repetitions=repetitions)
        setting = measurements.Setting(work=work, impl=options.impl, repetitions=repetitions)
    measure_bars(
        options.out / "kernel.json",
        measurements.GROUPS,
        check=measurements.check_core,
        setting=setting,
        options=options,
    )


def training(
    *,
    source: str | None = None,
    repetitions: int = 3,
    documents: int = 4,
    length: int = 4096,
    product_size: int = 2048,
    profile: Flag = False,
    options: WithBars = USUAL,
) -> None:
    """Measure a step of masked language modelling, ours beside Hugging Face's, against its bars.

    Args:
        source: a short model to lengthen; by default random weights of granite-30m's shape.
        repetitions: samples per median.
        documents: of a step.
        length: tokens of each.
        product_size: side of the matrices of torch.mm.
        profile: also show where the time of our step goes.
        options: of every benchmark with bars.
        options.out: directory for training.json.
        options.only: groups to measure, instead of both: fp32, bf16.
    """
    require("transformers", extra="bench")
    from longspan.benchmarks import report
    from longspan.benchmarks import training as measurements

    with user_mistakes():
        at_least_one(repetitions=repetitions, documents=documents, length=length, product_size=product_size)
        setting = measurements.Setting(
            source=source,
            documents=documents,
            length=length,
            impl=options.impl,
            repetitions=repetitions,
            product_size=product_size,
        )
    measure_bars(
        options.out / "training.json",
        measurements.GROUPS,
        check=measurements.check,
        setting=setting,
        options=options,
    )
    for group in chosen(options.only, measurements.GROUPS) if profile and not options.as_json else ():
        shares = measurements.breakdown(setting, group)
        report.console().print(measurements.breakdown_table(shares))


def model(
    *,
    repetitions: int = 3,
    length: int = 4096,
    layers: int = 12,
    hidden_size: int = 768,
    heads: int = 12,
    intermediate_size: int = 3072,
    window: int = 512,
    vocabulary: int = 50265,
    document_lengths: Numbers = (),
    product_size: int = 2048,
    options: WithBars = USUAL,
) -> None:
    """Measure whole Longformers, ours beside Hugging Face's, against their bars.

    Outputs and gradients are first compared with Hugging Face's. In full it takes well over half an hour.

    Args:
        repetitions: samples per median.
        length: tokens; memory is measured at 4 times as many, the long document has 64 times.
        layers: of the model; half for the long document.
        hidden_size: of the model; half for the long document.
        heads: attention heads.
        intermediate_size: of the feed-forward network; half for the long document.
        window: keys that a token sees, both sides together.
        vocabulary: number of tokens that there are.
        document_lengths: of the ragged batch; by default typical reviews of IMDB.
        product_size: side of the matrices of torch.mm.
        options: of every benchmark with bars.
        options.out: directory for model.json.
        options.only: groups to measure, instead of all: hugging-face (with speed_up), bf16, memory,
            documents, long-document.
    """
    require("transformers", extra="bench")
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
        at_least_one(repetitions=repetitions, product_size=product_size)
        setting = measurements.Setting(
            shape=shape,
            length=length,
            document_lengths=document_lengths or measurements.IMDB_LENGTHS,
            impl=options.impl,
            repetitions=repetitions,
            product_size=product_size,
        )
    measure_bars(
        options.out / "model.json",
        measurements.GROUPS,
        check=measurements.check,
        setting=setting,
        options=options,
    )


def char_lm(
    *,
    quick: Flag = False,
    source: str | None = None,
    repetitions: int | None = None,
    options: WithBars = USUAL,
) -> None:
    """Measure the autoregressive model against its bars.

    Attention and reading in pieces are first compared with the reference. In full it takes some minutes.

    Args:
        quick: tiny sizes, to see that all works; the values say nothing.
        source: the model: char-lm-mini (default), char-lm-small or char-lm-large.
        repetitions: samples per median.
        options: of every benchmark with bars.
        options.out: directory for char_lm_speed.json.
        options.only: groups to measure, instead of all: positions (relative and rotary against none, in
            attention), kinds (rotary against relative, in a model), training (long texts against short ones),
            generation (long contexts against short ones, and GPT-2).
        options.impl: the implementation of attention.
    """
    require("transformers", extra="bench")
    from dataclasses import replace

    from longspan.benchmarks import char_lm as measurements
    from longspan.models.causal_lm_config import LongformerCausalLMConfig

    with user_mistakes():
        usual = measurements.QUICK if quick else measurements.Setting()
        setting = replace(usual, impl=options.impl, **named(source=source, repetitions=repetitions))
        LongformerCausalLMConfig.named(setting.source)
    measure_bars(
        options.out / "char_lm_speed.json",
        measurements.GROUPS,
        check=measurements.check,
        setting=setting,
        options=options,
    )


def led(
    *,
    quick: Flag = False,
    length: int | None = None,
    layers: int | None = None,
    repetitions: int | None = None,
    options: WithBars = USUAL,
) -> None:
    """Measure LED, ours beside Hugging Face's, against its bars.

    Encoder, logits and gradients are first compared with Hugging Face's. In full it takes some minutes, and
    Hugging Face's model some gigabytes.

    Args:
        quick: tiny sizes, to see that all works; the values say nothing.
        length: tokens of the document, 16,384 by default.
        layers: of each side, 6 by default.
        repetitions: samples per median.
        options: of every benchmark with bars.
        options.out: directory for led.json.
        options.only: groups to measure, instead of all: encoder, writing (first token, tokens per second),
            memory, growth (with documents and outputs, with and without a window in the decoder).
    """
    require("transformers", extra="bench")
    from dataclasses import replace

    from longspan.benchmarks import led as measurements

    with user_mistakes():
        usual = measurements.QUICK if quick else measurements.Setting()
        given = named(length=length, layers=layers, repetitions=repetitions)
        setting = replace(usual, impl=options.impl, **given)
    measure_bars(
        options.out / "led.json",
        measurements.GROUPS,
        check=measurements.check,
        setting=setting,
        options=options,
    )
