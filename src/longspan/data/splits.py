"""Seeded splits: disjoint, stratified, and the same for any order of the examples.

An example's place follows from the seed and its id alone, so that a file written in another order
gives the same split. No generator of random numbers, whose stream could change, is in it.

`places` and `sample` hold ids and numbers, never examples: a corpus larger than memory is read twice, once
to find out and once to take what was chosen. `split` has all parts in memory.
"""

import hashlib
import heapq
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from math import isclose
from typing import Generic, NamedTuple, Protocol, TypeVar


class HasId(Protocol):
    """What can be split by its id."""

    @property
    def id(self) -> str: ...


E = TypeVar("E", bound=HasId)

FRACTIONS = (0.8, 0.1, 0.1)
"""Of train, dev and test, where nothing is official."""


class Splits(NamedTuple, Generic[E]):
    """The three usual parts."""

    train: tuple[E, ...]
    dev: tuple[E, ...]
    test: tuple[E, ...]


def train_dev_test(
    examples: Iterable[E],
    *,
    seed: int,
    stratum: Callable[[E], str] | None = None,
    group: Callable[[E], str] | None = None,
) -> Splits[E]:
    """80, 10 and 10 percent.

    Args:
        examples: with an id of their own each.
        seed: any integer; another one gives another split.
        stratum: what each part shall have the same share of, such as the label.
        group: what must not be in two parts, such as the source of several examples.
    """
    return Splits(*split(examples, FRACTIONS, seed=seed, stratum=stratum, group=group))


def split(
    examples: Iterable[E],
    fractions: Sequence[float],
    *,
    seed: int,
    stratum: Callable[[E], str] | None = None,
    group: Callable[[E], str] | None = None,
) -> tuple[tuple[E, ...], ...]:
    """Examples dealt out to parts of given sizes, all of them in memory; see `places`.

    Returns:
        One tuple a part, shuffled.
    """
    held = list(examples)
    place = places(held, fractions, seed=seed, stratum=stratum, group=group)
    parts: list[list[E]] = [[] for _ in fractions]
    for example in sorted(held, key=lambda example: _order(seed, example.id)):
        parts[place[example.id]].append(example)
    return tuple(map(tuple, parts))


def places(
    examples: Iterable[E],
    fractions: Sequence[float],
    *,
    seed: int,
    stratum: Callable[[E], str] | None = None,
    group: Callable[[E], str] | None = None,
) -> dict[str, int]:
    """The part that each example is dealt out to, by its id; only ids are held.

    In every stratum the size of a part is its fraction's, rounded up or down; what rounding leaves goes
    where most is missing over all strata so far. A group that does not fit makes its part larger.

    Args:
        examples: with an id of their own each.
        fractions: the parts' sizes, above 0 and 1 together.
        seed: any integer; another one gives another split.
        stratum: what each part shall have the same share of; a group has that of its smallest id.
        group: what must not be in two parts; by default every example is its own.

    Raises:
        ValueError: two examples have one id, or the fractions are not those of a whole.
    """
    if not all(fraction > 0 for fraction in fractions) or not isclose(sum(fractions), 1):
        raise ValueError(f"fractions is {tuple(fractions)}; they must be above 0 and 1 together")
    strata: dict[str, list[list[str]]] = defaultdict(list)
    for name, ids in _groups(examples, stratum, group):
        strata[name].append(ids)
    place: dict[str, int] = {}
    sizes = [0] * len(fractions)
    for name in sorted(strata):
        shuffled = sorted(strata[name], key=lambda ids: _order(seed, ids[0]))
        count = sum(map(len, shuffled))
        dealt = sum(sizes) + count
        wanted = [fraction * dealt - size for fraction, size in zip(fractions, sizes, strict=True)]
        ends = list(accumulate(_sizes(count, fractions, wanted)))
        at = 0
        for ids in shuffled:
            part = bisect_right(ends, at)
            place.update(dict.fromkeys(ids, part))
            sizes[part] += len(ids)
            at += len(ids)
    return place


def sample(read: Callable[[], Iterable[E]], count: int, *, seed: int) -> Iterator[E]:
    """So many of the examples, as if drawn by lot, in their order: files are often sorted by label.

    Args:
        read: begins to read the examples; called twice, so that only numbers are held.
        count: at least 1; where there are fewer examples, all.
        seed: any integer; another one gives other examples.

    Raises:
        ValueError: ``count`` is less than 1.
    """
    if count < 1:
        raise ValueError(f"count is {count}; it must be at least 1")
    # By number, as published data sets may have an id twice.
    lots = ((_order(seed, example.id), at) for at, example in enumerate(read()))
    chosen = {at for _, at in heapq.nsmallest(count, lots)}
    return (example for at, example in enumerate(read()) if at in chosen)


def _groups(
    examples: Iterable[E], stratum: Callable[[E], str] | None, group: Callable[[E], str] | None
) -> Iterator[tuple[str, list[str]]]:
    """The ids that stay together, sorted, with the stratum of the first."""
    groups: dict[bytes | str, list[tuple[str, str]]] = defaultdict(list)
    ids: set[str] = set()
    for example in examples:
        if example.id in ids:
            raise ValueError(f"id {example.id!r} is there twice; ids must be unique to split by them")
        ids.add(example.id)
        # What tells groups apart may be a long text.
        key = example.id if group is None else hashlib.blake2b(group(example).encode()).digest()
        groups[key].append((example.id, "" if stratum is None else stratum(example)))
    for together in groups.values():
        together.sort()
        yield together[0][1], [id for id, _ in together]


def _sizes(count: int, fractions: Sequence[float], wanted: Sequence[float]) -> list[int]:
    """A whole number for each fraction of ``count``, rounded up where most is wanted beyond it."""
    sizes = [int(fraction * count) for fraction in fractions]
    neediest = sorted(range(len(sizes)), key=lambda at: (sizes[at] - wanted[at], at))
    for at in neediest[: count - sum(sizes)]:
        sizes[at] += 1
    return sizes


def _order(seed: int, id: str) -> bytes:
    return hashlib.blake2b(f"{seed} {id}".encode(), digest_size=16).digest()
