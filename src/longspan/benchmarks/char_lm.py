"""The measurements behind the bars of the autoregressive model, each a ratio within one run.

Four questions: what positions cost in attention, what rotary ones save a whole model, whether a token to
learn from costs the same in a long text, and whether a token to write does. Texts are random: time does not
depend on what they say. What must hold is in `bars.py`.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch
from torch import Tensor

from longspan.attention.attend import Implementation, attend
from longspan.attention.pattern import Pattern
from longspan.benchmarks.bars import DIRECTIONS, Result, result
from longspan.benchmarks.gate import TOLERANCE, WrongResultError, relative_error
from longspan.benchmarks.measure import interleaved
from longspan.benchmarks.workload import Inputs, Workload, both_ways, make_inputs
from longspan.checks import at_least
from longspan.nn.rotary import rotate, rotation

if TYPE_CHECKING:
    from longspan.models.causal_lm import LongformerForCausalLM

Call = Callable[[], Tensor]


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """What all groups share; smaller values are for tests."""

    source: str = "char-lm-mini"
    """The model, one of `LongformerCausalLMConfig.named`."""
    window: int = 256
    """Positions: keys before a query."""
    heads: int = 8
    head_dim: int = 64
    length: int = 8192
    """Positions: tokens."""
    lengths: tuple[int, ...] = (2048, 4096, 8192, 16384, 32768)
    """Training: tokens of a text. A step has as many tokens of each, those of the longest."""
    contexts: tuple[int, ...] = (1024, 32768, 262144)
    """Generation: tokens that were read before."""
    rival_context: int = 32768
    """The same for the stock model; one of ``contexts``."""
    new_tokens: int = 64
    """Generation: tokens of a sample."""
    impl: Implementation = "native"
    repetitions: int = 5

    def __post_init__(self) -> None:
        for name in ("window", "heads", "head_dim", "length", "new_tokens", "repetitions"):
            at_least(1, **{name: getattr(self, name)})
        wrong = [length for length in self.lengths if max(self.lengths) % length]
        if wrong:
            raise ValueError(f"lengths has {wrong[0]}; the longest, {max(self.lengths)}, must be a multiple")
        if self.rival_context not in self.contexts:
            raise ValueError(f"rival_context is {self.rival_context}; it must be one of {self.contexts}")


QUICK = Setting(
    window=32,
    heads=2,
    head_dim=16,
    length=128,
    lengths=(128, 512),
    contexts=(16, 300),
    rival_context=300,
    new_tokens=4,
    repetitions=1,
)
"""For tests, and to see that all works: its values say nothing."""


def positions(setting: Setting) -> Iterator[Result]:
    """Attention alone, through a causal window: with relative terms and with rotary ones, against neither."""
    work = Workload(heads=setting.heads, head_dim=setting.head_dim, length=setting.length, num_globals=0)
    inputs = make_inputs(work, training=True)
    calls: dict[str, Call] = {}
    for name, attention in _attentions(setting, inputs, setting.impl).items():
        calls |= both_ways(name, attention.call, inputs)
    times = interleaved(calls, repetitions=setting.repetitions)
    for name in ("relative", "rotary"):
        for direction in DIRECTIONS:
            seconds = {key: times[f"{key} {direction}"].median for key in (name, "plain")}
            detail = f"{seconds[name] * 1e3:.1f} ms against {seconds['plain'] * 1e3:.1f} ms"
            ratio = seconds[name] / seconds["plain"]
            yield result(f"{name} positions, time against none", direction, ratio, detail)


def training(setting: Setting) -> Iterator[Result]:
    """A step (forward, loss, backward; no optimizer) of as many tokens, in texts of different lengths."""
    model = make_model(setting).train()
    tokens = max(setting.lengths)
    calls = {str(length): _step(model, _text(tokens).view(-1, length)) for length in setting.lengths}
    times = interleaved(calls, repetitions=setting.repetitions)
    per_token = {str(length): times[str(length)].median / tokens * 1e6 for length in setting.lengths}
    detail = ", ".join(f"{length}: {microseconds:.1f} us" for length, microseconds in per_token.items())
    ratio = max(per_token.values()) / min(per_token.values())
    name = "training, time per token, slowest length against fastest"
    yield result(name, "training", ratio, detail, series=per_token)


def kinds(setting: Setting) -> Iterator[Result]:
    """Whole models, rotary against relative: a training step, a text that is read, a new token after it."""
    calls: dict[str, Call] = {}
    text = _text(setting.length)[None]
    for kind in ("relative", "rotary"):
        model = make_model(setting, position_kind=kind)
        # A model that learns has no cache, and one that writes no gradients: both can be the same one.
        calls[f"{kind} training"] = _step(model, text)
        calls[f"{kind} forward"] = _reading(model, text)
        calls[f"{kind} token"] = _writing(model, setting, setting.length)
    times = interleaved(calls, repetitions=setting.repetitions)
    for what in (*DIRECTIONS, "token"):
        ours, other = (times[f"{kind} {what}"].median for kind in ("rotary", "relative"))
        if what == "token":
            name, way, count = "time of a new token against the relative one", "forward", setting.new_tokens
        else:
            name, way, count = "time against the relative one", what, 1
        detail = f"{ours / count * 1e3:.2f} ms against {other / count * 1e3:.2f} ms"
        yield result(f"rotary model, {name}", way, ours / other, detail)


def generation(setting: Setting) -> Iterator[Result]:
    """Tokens that `generate` writes after contexts of different lengths, beside a GPT-2 of the same size.

    Our model has read each context. The stock model's cache is filled with random keys and values instead:
    full attention over the context would take far longer than all the rest, and what a cache holds does not
    change what a token costs.
    """
    model = make_model(setting).eval()
    calls = {f"{context:,}": _writing(model, setting, context) for context in setting.contexts}
    calls["stock"] = _stock_writing(setting)
    times = interleaved(calls, repetitions=setting.repetitions)
    rates = {name: setting.new_tokens / timing.median for name, timing in times.items()}
    ours = {name: rate for name, rate in rates.items() if name != "stock"}
    detail = ", ".join(f"{name}: {rate:.0f}/s" for name, rate in ours.items())
    ratio = max(ours.values()) / min(ours.values())
    series = {str(context): rates[f"{context:,}"] for context in setting.contexts}
    name = "generation, time per token, slowest context against fastest"
    yield result(name, "forward", ratio, detail, series=series)
    rival = f"{setting.rival_context:,}"
    detail = f"{rates[rival]:.0f}/s against {rates['stock']:.1f}/s after {rival} tokens"
    name = "generation, times as fast as a GPT-2 of the same size"
    series = {str(setting.rival_context): rates["stock"]}
    yield result(name, "forward", rates[rival] / rates["stock"], detail, series=series)
    longest = f"{max(setting.contexts):,}"
    yield result(
        "generation, tokens per second",
        "forward",
        rates[longest],
        f"after {longest}, {setting.source}",
    )


GROUPS: dict[str, Callable[[Setting], Iterable[Result]]] = {
    "positions": positions,
    "kinds": kinds,
    "training": training,
    "generation": generation,
}


def check(setting: Setting) -> dict[str, float]:
    """Correctness first: attention with either kind of positions, and the model that reads in pieces.

    Returns:
        The largest error of each, relative to the largest value.

    Raises:
        WrongResultError: one is above the tolerance.
    """
    errors = {"attention": _attention_error(setting), "reading in pieces": _reading_error(setting)}
    for name, error in errors.items():
        if not error <= TOLERANCE["float32"]:
            raise WrongResultError(
                f"{name}: {setting.impl} differs from the reference by {error:.1e} "
                f"(at most {TOLERANCE['float32']:.0e} allowed)"
            )
    return errors


def make_model(setting: Setting, **changes: Any) -> "LongformerForCausalLM":
    """The model with random weights, always the same ones; no dropout."""
    from longspan.models.causal_lm import LongformerForCausalLM
    from longspan.models.causal_lm_config import LongformerCausalLMConfig

    torch.manual_seed(0)
    fields = {"attention_impl": setting.impl, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return LongformerForCausalLM(LongformerCausalLMConfig.named(setting.source, **(fields | changes)))


class _Attention(NamedTuple):
    call: Call
    leaves: tuple[Tensor, ...]
    """What gets a gradient."""


def _attentions(setting: Setting, inputs: Inputs, impl: Implementation) -> dict[str, _Attention]:
    """Attention through a causal window, by the kind of positions."""
    pattern = Pattern(left=setting.window, right=0)
    generator = torch.Generator().manual_seed(1)
    qkv = (inputs.q, inputs.k, inputs.v)
    heads, length, head_dim = inputs.q.shape[1:]
    position_query = torch.empty_like(inputs.q).normal_(generator=generator).requires_grad_()
    position_keys = torch.empty(heads, 2 * setting.window + 1, head_dim).normal_(generator=generator)
    position_keys.requires_grad_()
    turn = rotation(torch.arange(length), head_dim)

    def plain() -> Tensor:
        return cast(Tensor, attend(*qkv, pattern, impl=impl))

    def relative() -> Tensor:
        # Like `Inputs.zero_grad`: nothing is added to the gradients of the last call.
        position_query.grad = position_keys.grad = None
        out = attend(*qkv, pattern, impl=impl, position_query=position_query, position_keys=position_keys)
        return cast(Tensor, out)

    def rotary() -> Tensor:
        q, k = (rotate(x, turn) for x in qkv[:2])
        return cast(Tensor, attend(q, k, inputs.v, pattern, impl=impl))

    return {
        "plain": _Attention(plain, qkv),
        "relative": _Attention(relative, (*qkv, position_query, position_keys)),
        "rotary": _Attention(rotary, qkv),
    }


def _attention_error(setting: Setting) -> float:
    """Of outputs and gradients, against the reference."""
    small = replace(setting, window=min(setting.window, 32))
    work = Workload(heads=2, head_dim=setting.head_dim, length=3 * small.window + 5, num_globals=0)
    outcomes: list[list[Tensor]] = []
    for impl in (setting.impl, "reference"):
        inputs = make_inputs(work, training=True)
        values: list[Tensor] = []
        for call, leaves in _attentions(small, inputs, impl).values():
            out = call()
            values += [out.detach(), *torch.autograd.grad(out, leaves, inputs.grad)]
        outcomes.append(values)
    return _largest(relative_error(value, right) for value, right in zip(*outcomes, strict=True))


@torch.no_grad()
def _reading_error(setting: Setting) -> float:
    """Of logits after a text that was read in pieces and byte by byte, against all of it at once."""
    from longspan.models.causal_lm_cache import LongformerCache

    model = make_model(setting, attention_window=8).eval()
    whole = make_model(setting, attention_window=8, attention_impl="reference").eval()
    text = _text(100)[None]
    cache = LongformerCache(model.config)
    sizes = [1, 40, 20, *[1] * 39]
    pieces = [model(piece, past_key_values=cache).logits for piece in text.split(sizes, 1)]
    return _largest([relative_error(torch.cat(pieces, 1), whole(text, use_cache=False).logits)])


def _largest(errors: Iterable[Tensor]) -> float:
    # Unlike Python's, torch's maximum of a NaN and a number is NaN.
    return float(torch.stack(list(errors)).max())


def _text(tokens: int) -> Tensor:
    """[tokens] random bytes."""
    from longspan.models.causal_lm_config import BYTES

    return torch.randint(BYTES, (tokens,), generator=torch.Generator().manual_seed(0))


def _step(model: "LongformerForCausalLM", ids: Tensor) -> Call:
    """Forward, loss and backward over [texts, length]."""

    def step() -> Tensor:
        model.zero_grad(set_to_none=True)
        loss = cast(Tensor, model(ids, labels=ids).loss)
        loss.backward()
        return loss.detach()

    return step


def _reading(model: "LongformerForCausalLM", ids: Tensor) -> Call:
    """Reads [texts, length] in pieces, with a new cache, as a prompt is read."""
    from longspan.models.causal_lm_cache import LongformerCache

    @torch.no_grad()
    def read() -> Tensor:
        cache = LongformerCache(model.config)
        return cast(Tensor, model(ids, past_key_values=cache, logits_to_keep=1).logits)

    return read


def _writing(model: "LongformerForCausalLM", setting: Setting, context: int) -> Call:
    """A call that writes more after a context that the model has read."""
    from longspan.models.causal_lm_cache import LongformerCache

    ids = _text(context)[None]
    cache = LongformerCache(model.config)
    with torch.no_grad():
        # The last token is left for `generate` to read, which goes on from there.
        model(ids[:, :-1], past_key_values=cache, logits_to_keep=1)
    return _continued(model, ids, cache, setting)


def _stock_writing(setting: Setting) -> Call:
    """The same for a GPT-2 whose cache was filled with random keys and values."""
    import transformers

    ours = make_model(setting).config
    context, layers, heads = setting.rival_context, ours.num_hidden_layers, ours.num_attention_heads
    # A table of positions must be long enough for all that will be written.
    positions = context + setting.new_tokens * (setting.repetitions + 2)
    config = transformers.GPT2Config(
        vocab_size=ours.vocab_size,
        n_positions=positions,
        n_embd=ours.hidden_size,
        n_layer=layers,
        n_head=heads,
        n_inner=ours.intermediate_size,
        bos_token_id=None,
        eos_token_id=None,
    )
    model = transformers.GPT2LMHeadModel(config).eval()
    cache = transformers.DynamicCache(config=config)
    for layer in range(layers):
        keys, values = torch.randn(2, 1, heads, context - 1, ours.hidden_size // heads)
        cache.update(keys, values, layer)
    return _continued(model, _text(context)[None], cache, setting)


def _continued(model: Any, ids: Tensor, cache: Any, setting: Setting) -> Call:
    """A call that writes ``new_tokens`` after all that it was given and has written before."""

    def write() -> Tensor:
        nonlocal ids
        ids = cast(
            Tensor,
            model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                past_key_values=cache,
                max_new_tokens=setting.new_tokens,
                do_sample=False,
            ),
        )
        return ids

    return write
