"""Seeded splits: disjoint, stratified, and the same for any order of the examples.

An example's place follows from the seed and its id alone, so that a file written in another order
gives the same split. No generator of random numbers, whose stream could change, is in it.
"""

import hashlib
import heapq
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from math import isclose
from typing import Generic, NamedTuple, Protocol, TypeVar


class HasId(Protocol):
    """What can be split by its id."""

    @property
    def id(self) -> str: ...


E = TypeVar("E", bound=HasId)


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
    return Splits(*split(examples, (0.8, 0.1, 0.1), seed=seed, stratum=stratum, group=group))


def split(
    examples: Iterable[E],
    fractions: Sequence[float],
    *,
    seed: int,
    stratum: Callable[[E], str] | None = None,
    group: Callable[[E], str] | None = None,
) -> tuple[tuple[E, ...], ...]:
    """Examples dealt out to parts of given sizes.

    In every stratum the size of a part is its fraction's, rounded up or down; what rounding leaves goes
    where most is missing over all strata so far. A group that does not fit makes its part larger.

    Args:
        examples: with an id of their own each.
        fractions: the parts' sizes, above 0 and 1 together.
        seed: any integer; another one gives another split.
        stratum: what each part shall have the same share of; a group has that of its smallest id.
        group: what must not be in two parts; by default every example is its own.

    Returns:
        One tuple a part, shuffled.

    Raises:
        ValueError: two examples have one id, or the fractions are not those of a whole.
    """
    if not all(fraction > 0 for fraction in fractions) or not isclose(sum(fractions), 1):
        raise ValueError(f"fractions is {tuple(fractions)}; they must be above 0 and 1 together")
    strata: dict[str, list[list[E]]] = defaultdict(list)
    for together in _groups(examples, group):
        strata["" if stratum is None else stratum(together[0])].append(together)
    parts: list[list[E]] = [[] for _ in fractions]
    dealt = 0
    for name in sorted(strata):
        shuffled = sorted(strata[name], key=lambda together: _order(seed, together[0].id))
        count = sum(map(len, shuffled))
        dealt += count
        wanted = [fraction * dealt - len(part) for fraction, part in zip(fractions, parts, strict=True)]
        ends = list(accumulate(_sizes(count, fractions, wanted)))
        place = 0
        for together in shuffled:
            parts[bisect_right(ends, place)].extend(together)
            place += len(together)
    return tuple(tuple(sorted(part, key=lambda example: _order(seed, example.id))) for part in parts)


def sample(examples: Iterable[E], count: int, *, seed: int) -> list[E]:
    """So many of the examples, as if drawn by lot: files are often sorted by label.

    Args:
        examples: with an id of their own each; only ``count`` are held at a time.
        count: at least 1; where there are fewer examples, all.
        seed: any integer; another one gives other examples.

    Raises:
        ValueError: ``count`` is less than 1.
    """
    if count < 1:
        raise ValueError(f"count is {count}; it must be at least 1")
    return heapq.nsmallest(count, examples, key=lambda example: _order(seed, example.id))


def _groups(examples: Iterable[E], group: Callable[[E], str] | None) -> list[list[E]]:
    """Examples that stay together, by their ids."""
    groups: dict[str, list[E]] = defaultdict(list)
    ids: set[str] = set()
    for example in examples:
        if example.id in ids:
            raise ValueError(f"id {example.id!r} is there twice; ids must be unique to split by them")
        ids.add(example.id)
        groups[example.id if group is None else group(example)].append(example)
    return [sorted(together, key=lambda example: example.id) for together in groups.values()]


def _sizes(count: int, fractions: Sequence[float], wanted: Sequence[float]) -> list[int]:
    """A whole number for each fraction of ``count``, rounded up where most is wanted beyond it."""
    sizes = [int(fraction * count) for fraction in fractions]
    neediest = sorted(range(len(sizes)), key=lambda at: (sizes[at] - wanted[at], at))
    for at in neediest[: count - sum(sizes)]:
        sizes[at] += 1
    return sizes


def _order(seed: int, id: str) -> bytes:
    return hashlib.blake2b(f"{seed} {id}".encode(), digest_size=16).digest()
