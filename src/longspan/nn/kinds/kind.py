"""What a kind of attention is: how the queries of a layer read its keys and values.

A kind gets queries, keys and values with heads and returns what the queries read. Projections, positions,
memories and norms belong to the layer. What a kind cannot do it declares, with the reason, and whoever asks
for it gets that reason as an error: nothing is approximated silently.
"""

import dataclasses
import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, TypeAlias, cast, get_args, get_origin, get_type_hints

from torch import Tensor, nn

from longspan.attention.attend import Implementation

Ability: TypeAlias = Literal[
    "encoder",
    "causal",
    "padding",
    "variable length",
    "cache",
    "cross-length",
    "same length",
    "absolute",
    "relative",
    "learned",
    "rotary",
    "infused",
    "dropout",
    "usage",
]
"""Both directions; only looking back; padded inputs; inputs of other lengths than the longest; keys and
values kept from one piece of a text to the next; keys before the first query, as memories need them; no
farther back than a bound, wherever segments begin; each of the positions; dropout of attention; telling how
much each key was looked at."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerShape:
    """Where a kind stands."""

    heads: int
    head_dim: int
    causal: bool
    max_length: int
    """The most tokens of an input, where the kind has weights for each."""
    layer: int = 0
    layers: int = 1


class Relative(Protocol):
    """What relative positions add to scores, as `attend` takes it."""

    @property
    def query(self) -> Tensor:
        """[batch, heads, queries, head_dim]."""
        ...

    @property
    def keys(self) -> Tensor:
        """[heads, 2 * reach + 1, head_dim]; the middle is offset 0."""
        ...


class Cache(Protocol):
    """What a layer keeps of a text while it reads on."""

    seen: int

    def select(self, examples: Tensor) -> None:
        """Takes other examples, [new batch] int64, in another order."""
        ...

    def reset(self) -> None:
        """Forgets everything."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """What is asked of a kind, besides queries, keys and values.

    Letters in shapes: B examples, H heads, N queries, M keys, D head_dim.
    """

    causal: bool = False
    query_offset: int = 0
    """Position of the first query among the keys: M - N."""
    extra: int = 0
    """How many of the queries and keys, the last ones, are no tokens: see `Kind.extra_states`."""
    is_padding: Tensor | None = None
    """[B, M] bool; of the tokens alone where there are extra states."""
    is_global: Tensor | None = None
    """[B, M] bool: tokens that see all and that all see, for kinds that have such tokens."""
    relative: Relative | None = None
    span: int | None = None
    """No query sees keys farther away, whatever the kind; None: no bound."""
    dropout: float = 0.0
    cache: Cache | None = None
    """A state of the kind's own making; keys and values of a `WindowCache` are in k and v already."""
    shared: nn.Module | None = None
    """What `Kind.shared` made."""
    training: bool = False
    replay: dict[str, Tensor] = field(default_factory=dict)
    """What a kind decided: it writes it down, and decides the same where it finds it written."""
    impl: Implementation = "auto"
    losses: dict[str, list[Tensor]] = field(default_factory=dict)
    """Losses of the kind's own, each [], by name: it adds to them, the model hands them up."""

    def add_loss(self, name: str, value: Tensor) -> None:
        """Hands up a loss."""
        self.losses.setdefault(name, []).append(value)


@dataclass(frozen=True, kw_only=True, slots=True)
class NoSettings:
    """The settings of a kind that has none."""


class Drawn(nn.Module):
    """A module with parameters or buffers that torch's own modules do not draw."""

    def draw_weights(self) -> None:
        """Draws them, by functions of `torch.nn.init`."""


class Kind(Drawn):
    """A kind of attention, in one layer.

    Args:
        shape: of the layer.
        settings: an instance of ``Settings``.
    """

    name: ClassVar[str]
    """What configurations call it."""
    Settings: ClassVar[type] = NoSettings
    cannot: ClassVar[Mapping[Ability, str]] = {}
    """What it cannot do, each with the reason; it can do all else."""
    counts_from_start: ClassVar[bool] = False
    """Whether it matters at which position a text begins, so that padding must come last."""
    turns_matter: ClassVar[bool] = False
    """Whether that is so with rotary positions, where others see distances alone."""
    has_globals: ClassVar[bool] = False
    """Whether tokens that are marked as global see all, and all see them."""
    has_losses: ClassVar[bool] = False
    """Whether it has losses of its own."""
    has_extra_states: ClassVar[bool] = False
    """Whether it keeps states that are no token's, through all layers."""

    def __init__(self, shape: LayerShape, settings: Any) -> None:
        super().__init__()
        self.shape, self.settings = shape, settings

    @classmethod
    def refusals(cls, settings: Any, *, causal: bool) -> Mapping[Ability, str]:
        """What it cannot do with these settings; ``cannot``, if they make no difference."""
        return cls.cannot

    @classmethod
    def shared(cls, shape: LayerShape, settings: Any) -> nn.Module | None:
        """Weights that all layers share; the model owns them and every `Call` brings them."""
        return None

    @classmethod
    def extra_states(cls, length: int) -> int:
        """States that it keeps beside those of an input's tokens, through all layers.

        The model puts zeros after the tokens, its layers treat them as tokens, and in the end they are cut
        off.
        """
        return 0

    @property
    def shares_keys(self) -> bool:
        """Whether keys are the queries, so that the layer has no projection for keys."""
        return False

    @property
    def reach(self) -> int | None:
        """How many positions from a query its farthest key may be; None: no bound."""
        return None

    def new_cache(self) -> Cache | None:
        """A state for reading on, where that is not simply keys and values."""
        return None

    def begin_pass(self) -> None:
        """Called before each training pass, outside of what is computed again in the backward pass: the place
        for what changes from pass to pass."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, call: Call) -> Tensor:
        """What the queries read.

        Args:
            q: [B, H, N, D].
            k: [B, H, M, D].
            v: [B, H, M, D].
            call: the rest.

        Returns:
            [B, H, N, D]; rows of padded queries are 0.
        """
        raise NotImplementedError

    def usage(self, q: Tensor, k: Tensor, v: Tensor, call: Call) -> Tensor:
        """[B, M]: how much each key is looked at, the mean over heads and queries."""
        raise NotImplementedError

    def extra_repr(self) -> str:
        """The settings, for ``print(model)``."""
        return ", ".join(f"{name}={value}" for name, value in dataclasses.asdict(self.settings).items())


def settings_of(kind: type[Kind], fields: Mapping[str, Any]) -> Any:
    """The settings of a kind from a mapping, as a configuration holds them.

    Raises:
        ValueError: a field is unknown or has a value that it cannot have.
    """
    known = {one.name for one in dataclasses.fields(kind.Settings)}
    hints = get_type_hints(kind.Settings)
    for name, value in fields.items():
        where = f"attention_settings.{name}"
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            has = f"it has {', '.join(sorted(known))}" if known else "it has none"
            meant = f"; did you mean {close[0]}?" if close else ""
            raise ValueError(f"{where} is no setting of attention {kind.name!r}; {has}{meant}")
        _check(hints[name], value, where)
    try:
        return kind.Settings(**{name: _frozen(value) for name, value in fields.items()})
    except ValueError as error:
        raise ValueError(f"attention_settings.{error}") from error


def _frozen(value: Any) -> Any:
    return tuple(_frozen(one) for one in value) if isinstance(value, list | tuple) else value


def _check(hint: Any, value: Any, where: str) -> None:
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            raise ValueError(f"{where} is {value!r}; it must be one of {', '.join(map(str, get_args(hint)))}")
        return
    if get_origin(hint) is tuple:
        items = cast(Sequence[Any], value) if isinstance(value, list | tuple) else (None,)
        if not all(_is(get_args(hint)[0], item) for item in items):
            raise ValueError(f"{where} is {value!r}; it must be a list of integers")
        return
    among = get_args(hint) or (hint,)  # of a union, any
    if not any(_is(one, value) for one in among):
        right = {int: "an integer", float: "a number", bool: "true or false", type(None): "null"}
        raise ValueError(f"{where} is {value!r}; it must be {' or '.join(right[one] for one in among)}")


def _is(hint: type, value: Any) -> bool:
    """Whether a value is of a plain type; true and false are no numbers."""
    if isinstance(value, bool):
        return hint is bool
    return isinstance(value, (int, float) if hint is float else hint)
