"""The measurements behind the bars of LED, each a ratio within one run.

Ours and Hugging Face's have the same weights and read the same document of random tokens, whose first one is
global. Questions: how long until the first word, how fast the words after it, how much memory, and how memory
grows with the document and with what is written about it. What must hold is in `bars.py`.
"""

from collections.abc import Callable, Iterable, Iterator
from copy import copy
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any, Literal, cast

import torch
from torch import Tensor

from longspan.attention.attend import Implementation
from longspan.benchmarks import fresh_process
from longspan.benchmarks.bars import Result, result
from longspan.benchmarks.gate import WrongResultError, relative_error
from longspan.benchmarks.measure import interleaved, limit_memory, peak_extra_bytes
from longspan.benchmarks.model import available_bytes
from longspan.benchmarks.model_gate import TOLERANCE, gate_lengths
from longspan.checks import at_least

Who = Literal["stock", "ours"]
BOTH: tuple[Who, Who] = ("stock", "ours")
_PADDING = 1
_FIRST_TOKEN = 4
"""Special ones come before it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """What all groups share; the defaults are the shape of led-base-16384. Smaller values are for tests."""

    layers: int = 6
    """Of the encoder, and of the decoder."""
    d_model: int = 768
    heads: int = 12
    ffn: int = 3072
    window: int = 1024
    vocabulary: int = 50265
    length: int = 16384
    """Tokens of the document."""
    new_tokens: int = 32
    beams: int = 4
    document_lengths: tuple[int, ...] = (4096, 8192, 16384)
    """Of growth, each twice the one before; the output then has the first of ``output_lengths``."""
    output_lengths: tuple[int, ...] = (2048, 4096, 8192)
    """Of growth, each twice the one before; the document then has the first of ``document_lengths``."""
    few_words: int = 1024
    """The vocabulary of growth: a token's logits over all words would hide what attention takes."""
    causal_window: int = 256
    """Of the decoder, where it has one."""
    impl: Implementation = "native"
    repetitions: int = 3

    def __post_init__(self) -> None:
        for name in ("layers", "length", "new_tokens", "beams", "causal_window", "repetitions"):
            at_least(1, **{name: getattr(self, name)})
        if self.d_model % self.heads:
            raise ValueError(f"d_model is {self.d_model}; it must be a multiple of heads = {self.heads}")
        if self.window < 4 or self.window % 2:
            raise ValueError(f"window is {self.window}; Hugging Face needs an even one, at least 4")
        for name in ("document_lengths", "output_lengths"):
            lengths = getattr(self, name)
            doubled = [2 * length for length in lengths[:-1]]
            if len(lengths) < 3 or list(lengths[1:]) != doubled:
                raise ValueError(f"{name} is {lengths}; it must be at least three, each twice the one before")


QUICK = Setting(
    layers=1,
    d_model=32,
    heads=2,
    ffn=48,
    window=16,
    vocabulary=99,
    length=96,
    new_tokens=4,
    beams=2,
    document_lengths=(32, 64, 128),
    output_lengths=(8, 16, 32),
    few_words=99,
    causal_window=4,
    repetitions=1,
)
"""For tests, and to see that all works: its values say nothing."""


def encoder(setting: Setting) -> Iterator[Result]:
    """The encoder alone."""
    (seconds,) = _fresh("time_encoders", setting)
    theirs, ours = seconds["stock"], seconds["ours"]
    detail = f"{theirs:.3g} s against {ours:.3g} s at {setting.length} tokens"
    yield result("encoder, times as fast as Hugging Face", "forward", theirs / ours, detail)
    yield result("encoder, tokens per second", "forward", setting.length / ours, f"{setting.length} tokens")


def writing(setting: Setting) -> Iterator[Result]:
    """`generate`: until the first token, encoder included; then tokens after a document that was read."""
    (seconds,) = _fresh("time_writing", setting)
    for name, title in (
        ("first", "first token, times as fast as Hugging Face"),
        ("greedy", "writing, times as fast as Hugging Face"),
        ("beams", "writing with beams, times as fast as Hugging Face"),
    ):
        theirs, ours = seconds[f"stock {name}"], seconds[f"ours {name}"]
        if name == "first":
            detail = f"{theirs:.3g} s against {ours:.3g} s after {setting.length} tokens"
        else:
            rates = (setting.new_tokens / taken for taken in (theirs, ours))
            detail = " against ".join(f"{rate:.3g}" for rate in rates) + " tokens per second"
            detail += f", {setting.beams} beams" if name == "beams" else ""
        yield result(title, "forward", theirs / ours, detail)


def memory(setting: Setting) -> Iterator[Result]:
    """Peak of `generate` beyond the weights, encoder included, in a fresh process each."""
    extra: dict[str, int] = {}
    for who in BOTH:
        (extra[who],) = _fresh("writing_memory", setting, who=who)
    detail = f"{extra['stock'] / 1e9:.3g} GB against {extra['ours'] / 1e9:.3g} GB at {setting.length} tokens"
    name = "writing, memory, times less than Hugging Face"
    yield result(name, "forward", extra["stock"] / extra["ours"], detail)


def growth(setting: Setting) -> Iterator[Result]:
    """What a training step of ours takes more, over the lengths of documents and of outputs.

    With a window w and g global tokens, n_s tokens of the document and n_t of the output, attention may keep
    (w + g) n_s + n_s n_t + n_t^2 numbers, or w n_t in place of the last with a window in the decoder. Where
    nothing is kept for a pair of tokens, memory is linear in both lengths, with such a window or without, and
    the window saves time alone.
    """
    documents, outputs = setting.document_lengths, setting.output_lengths
    over_documents = {length: _step_bytes(setting, length, outputs[0]) for length in documents}
    yield _linear(over_documents, "document", f"{outputs[0]} tokens of the output")
    beside = f"{documents[0]} tokens of the document"
    over_outputs = {outputs[0]: over_documents[documents[0]]}
    over_outputs |= {length: _step_bytes(setting, documents[0], length) for length in outputs[1:]}
    yield _linear(over_outputs, "output", beside)
    windowed = {
        length: _step_bytes(setting, documents[0], length, setting.causal_window) for length in outputs
    }
    yield _linear(windowed, "output, window in the decoder", beside)
    yield _of_pairs(setting, over_documents, over_outputs)
    (seconds,) = _fresh("time_decoders", setting)
    detail = f"{seconds['full']:.3g} s against {seconds['window']:.3g} s, {outputs[-1]} tokens of the output"
    name = "window in the decoder, times as fast as none"
    yield result(name, "training", seconds["full"] / seconds["window"], f"{detail}, {beside}")


GROUPS: dict[str, Callable[[Setting], Iterable[Result]]] = {
    "encoder": encoder,
    "writing": writing,
    "memory": memory,
    "growth": growth,
}


def check(setting: Setting) -> dict[str, float]:
    """Correctness first: states of the encoder, logits and gradients against Hugging Face's.

    Returns:
        The largest error of each, relative to the largest value.

    Raises:
        WrongResultError: one is above the tolerance.
    """
    small = replace(setting, layers=1, length=max(gate_lengths(setting.window)))
    models = make_models(small)
    found = {who: _outcome(model, small) for who, model in models.items()}
    errors = {
        name: float(relative_error(found["ours"][name], right)) for name, right in found["stock"].items()
    }
    for name, error in errors.items():
        if not error <= TOLERANCE:
            raise WrongResultError(
                f"LED, {name}: ours differs from Hugging Face's by {error:.1e} "
                f"(at most {TOLERANCE:.0e} allowed)"
            )
    return errors


def make_models(setting: Setting, names: Iterable[Who] = BOTH, **fields: Any) -> dict[Who, Any]:
    """Models of the same random weights, in the same memory, without dropout.

    Args:
        setting: their shape.
        names: which.
        fields: further ones of our configuration.
    """
    import transformers

    import longspan

    shape: dict[str, Any] = {
        "vocab_size": setting.vocabulary,
        "d_model": setting.d_model,
        "encoder_layers": setting.layers,
        "decoder_layers": setting.layers,
        "encoder_attention_heads": setting.heads,
        "decoder_attention_heads": setting.heads,
        "encoder_ffn_dim": setting.ffn,
        "decoder_ffn_dim": setting.ffn,
        "attention_window": setting.window,
        "max_encoder_position_embeddings": _longest(setting),
        "max_decoder_position_embeddings": max(*setting.output_lengths, setting.new_tokens + 8),
        "dropout": 0.0,
        "pad_token_id": _PADDING,
        "init_std": 1 / setting.d_model**0.5,
    }
    models: dict[Who, Any] = {}
    for who in names:
        torch.manual_seed(0)
        if who == "ours":
            config = longspan.LEDConfig(**shape, attention_impl=setting.impl, **fields)
            models[who] = longspan.LEDForConditionalGeneration(config).eval()
        else:
            stock = transformers.LEDConfig(**shape)
            models[who] = transformers.LEDForConditionalGeneration(stock).eval()
    if len(models) > 1:
        models["ours"].load_state_dict(models["stock"].state_dict(), assign=True)
        models["ours"].tie_weights()
    return models


def make_document(setting: Setting, length: int) -> dict[str, Tensor]:
    """A document of random tokens, [1, length], whose first one is global."""
    generator = torch.Generator().manual_seed(length)
    ids = torch.randint(_FIRST_TOKEN, setting.vocabulary, (1, length), generator=generator)
    is_global = torch.zeros_like(ids)
    is_global[:, 0] = 1
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "global_attention_mask": is_global}


def time_encoders(*, setting: dict[str, Any], threads: int) -> Iterator[dict[str, float]]:
    """In a fresh process: seconds of each encoder."""
    size = _setting(setting, threads)
    document = make_document(size, size.length)
    calls = {str(who): _encoding(model, document) for who, model in make_models(size).items()}
    times = interleaved(calls, repetitions=size.repetitions)
    yield {name: timing.median for name, timing in times.items()}


def time_writing(*, setting: dict[str, Any], threads: int) -> Iterator[dict[str, float]]:
    """In a fresh process: seconds until the first token, and of the tokens after it, for each model."""
    size = _setting(setting, threads)
    document = make_document(size, size.length)
    calls: dict[str, Callable[[], Any]] = {}
    for who, model in make_models(size).items():
        read = _encoding(model, document)()
        known = {"encoder_outputs": read, "attention_mask": document["attention_mask"]}
        calls[f"{who} first"] = _writing(model, document, 1, 1)
        calls[f"{who} greedy"] = _writing(model, known, size.new_tokens, 1)
        calls[f"{who} beams"] = _writing(model, known, size.new_tokens, size.beams)
    times = interleaved(calls, repetitions=size.repetitions)
    yield {name: timing.median for name, timing in times.items()}


def writing_memory(*, setting: dict[str, Any], who: Who, threads: int) -> Iterator[int]:
    """In a fresh process: bytes that `generate` takes beyond the weights."""
    size = _setting(setting, threads)
    model = make_models(size, (who,))[who]
    # A short document first, so that libraries, threads and code are not counted.
    _writing(model, make_document(size, 2 * size.window), 2, size.beams)()
    write = _writing(model, make_document(size, size.length), 2, size.beams)
    limit_memory(available_bytes())
    yield peak_extra_bytes(write)


def training_memory(
    *, setting: dict[str, Any], lengths: list[int], causal_window: int | None, threads: int
) -> Iterator[int]:
    """In a fresh process: bytes that a training step of ours takes beyond weights and gradients.

    Args:
        setting: of the run.
        lengths: of the document and of the output.
        causal_window: of the decoder; None for none.
        threads: of torch.
    """
    size = _setting(setting, threads)
    model = make_models(size, ("ours",), causal_window=causal_window)["ours"].train()
    _training_step(model, size, 2 * size.window, 8)()
    step = _training_step(model, size, lengths[0], lengths[1])
    limit_memory(available_bytes())
    yield peak_extra_bytes(step)


def time_decoders(*, setting: dict[str, Any], threads: int) -> Iterator[dict[str, float]]:
    """In a fresh process: seconds of a training step about the longest output, with a window and without."""
    size = _setting({**setting, "vocabulary": setting["few_words"]}, threads)
    calls: dict[str, Callable[[], Tensor]] = {}
    for name, causal_window in (("full", None), ("window", size.causal_window)):
        model = make_models(size, ("ours",), causal_window=causal_window)["ours"].train()
        calls[name] = _training_step(model, size, size.document_lengths[0], size.output_lengths[-1])
    times = interleaved(calls, repetitions=size.repetitions)
    yield {name: timing.median for name, timing in times.items()}


def _step_bytes(setting: Setting, document: int, output: int, causal_window: int | None = None) -> int:
    small = replace(setting, vocabulary=setting.few_words)
    (found,) = _fresh("training_memory", small, lengths=(document, output), causal_window=causal_window)
    return found


def _linear(found: dict[int, int], of: str, beside: str) -> Result:
    """Memory a token in the last step over that in the first: 1 where growth is linear, 2 where quadratic.

    Args:
        found: bytes by length.
        of: which length.
        beside: the other length, which is the same in all of them.
    """
    (first, *_, last) = (
        (found[longer] - found[shorter]) / (longer - shorter) for shorter, longer in pairwise(found)
    )
    shown = ", ".join(f"{length}: {size / 1e9:.3g}" for length, size in found.items())
    detail = f"{last / 1e3:.0f} KB a token; GB at {shown}; {beside}"
    # Tiny sizes fit into memory that the process has already.
    ratio = last / max(first, 1.0)
    return result(f"memory a token of the {of}, last step against first", "training", ratio, detail)


def _of_pairs(setting: Setting, over_documents: dict[int, int], over_outputs: dict[int, int]) -> Result:
    """Bytes that both lengths together take beyond what each takes alone, for each of their pairs."""
    short, long = setting.document_lengths[0], setting.document_lengths[-1]
    few, many = setting.output_lengths[0], setting.output_lengths[-1]
    both = _step_bytes(setting, long, many) + over_documents[short]
    more = both - over_documents[long] - over_outputs[many]
    kept = 4 * setting.layers * setting.heads
    detail = f"{short} to {long} and {few} to {many} tokens; a number for each head would be {kept}"
    name = "memory of a pair of tokens, document and output, in bytes"
    return result(name, "training", more / ((long - short) * (many - few)), detail)


def _fresh(function: str, setting: Setting, **more: Any) -> list[Any]:
    arguments = {"setting": asdict(setting), "threads": torch.get_num_threads(), **more}
    return list(fresh_process.answers(f"longspan.benchmarks.led:{function}", arguments))


def _setting(fields: dict[str, Any], threads: int) -> Setting:
    """What `_fresh` sent; JSON has lists for tuples."""
    torch.set_num_threads(threads)
    changed: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()
    }
    return Setting(**changed)


def _longest(setting: Setting) -> int:
    return max(setting.length, *setting.document_lengths, max(gate_lengths(setting.window)))


def _encoding(model: Any, document: dict[str, Tensor]) -> Callable[[], Any]:
    def encode() -> Any:
        with torch.no_grad():
            return model.get_encoder()(**document, return_dict=True)

    return encode


def _writing(model: Any, given: dict[str, Any], tokens: int, beams: int) -> Callable[[], Tensor]:
    def write() -> Tensor:
        # Stock transformers repeats what was read for every beam, in place: each call has its own to spoil.
        own = {name: copy(value) for name, value in given.items()}
        return model.generate(
            **own, min_new_tokens=tokens, max_new_tokens=tokens, num_beams=beams, do_sample=False
        )

    return write


def _training_step(model: Any, setting: Setting, document: int, output: int) -> Callable[[], Tensor]:
    """Forward, loss and backward; gradients are there before, so that they are not counted."""
    batch = make_document(setting, document)
    labels = make_document(setting, output)["input_ids"]

    def step() -> Tensor:
        loss = model(**batch, labels=labels).loss
        loss.backward()
        return loss.detach()

    return step


def _outcome(model: Any, setting: Setting) -> dict[str, Tensor]:
    """What the gate compares, on a document of whole windows and one that is not."""
    out: dict[str, Tensor] = {}
    for at, length in enumerate(gate_lengths(setting.window)):
        document = make_document(setting, length)
        labels = make_document(setting, 7)["input_ids"]
        model.zero_grad(set_to_none=True)
        said = model(**document, labels=labels)
        said.loss.backward()
        out[f"states {at}"] = cast(Tensor, said.encoder_last_hidden_state).detach()
        out[f"logits {at}"] = said.logits.detach()
        out[f"gradients {at}"] = model.led.shared.weight.grad.detach().clone()
    model.zero_grad(set_to_none=True)
    return out
