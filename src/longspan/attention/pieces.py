"""How `blocked.py` cuts a call into pieces of bounded size.

A piece is a run of query blocks of some heads, and the keys they can reach. Heads with the same
pattern go together. A dilation of d splits the sequence into d phases that never meet, each an
undilated problem on every d-th position. Within a phase neighbouring blocks share most of their
keys, so a piece is two strided slices, of the queries and of the keys: nothing of size
length x window is ever gathered.

Nothing here decides who sees whom: a piece only has to hold every key that its queries can reach.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from longspan.attention.pattern import Pattern
from longspan.attention.request import Request

Heads = slice | list[int]


@dataclass(frozen=True, kw_only=True, slots=True)
class HeadGroup:
    """The query heads that share a pattern, and the key/value heads that they read."""

    pattern: Pattern
    heads: Heads
    """Query heads; all of them as a slice, which is a view and not a copy."""
    kv_heads: Heads
    """Key/value heads that ``heads`` read, each once."""
    spread: list[int] | None
    """For each query head its place in ``kv_heads``; None where they correspond one to one."""
    size: int
    """How many query heads."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """``blocks`` blocks of ``block`` queries, each against ``width`` keys, ``step`` apart.

    Row i of the piece is row ``rows.start + i * step`` of the queries; the last block may be ragged.
    """

    group: HeadGroup
    rows: slice
    count: int
    block: int
    blocks: int
    keys: slice
    first: int | None
    """The window of block j begins ``first + j * block`` steps after the first key of the piece and may
    stick out on either side. None: there is one block, and its window is the keys of the piece."""
    width: int
    step: int


def head_groups(request: Request) -> list[HeadGroup]:
    """Heads by equal pattern, in the order of their first head."""
    by_pattern: dict[Pattern, list[int]] = {}
    for head, pattern in enumerate(request.patterns):
        by_pattern.setdefault(pattern, []).append(head)
    groups: list[HeadGroup] = []
    for pattern, heads in by_pattern.items():
        kv_of = [head // request.group_size for head in heads]
        kv_heads = sorted(set(kv_of))
        groups.append(
            HeadGroup(
                pattern=pattern,
                heads=slice(None) if len(heads) == request.q.shape[1] else heads,
                kv_heads=slice(None) if len(kv_heads) == request.k.shape[1] else kv_heads,
                spread=None if len(kv_heads) == len(heads) else [kv_heads.index(kv) for kv in kv_of],
                size=len(heads),
            )
        )
    return groups


def pieces(request: Request, group: HeadGroup, extra_keys: int, budget: int | None) -> Iterator[Piece]:
    """The pieces that serve the heads of ``group``.

    Args:
        request: the call.
        group: its heads.
        extra_keys: how many scores a query has beside those of its window.
        budget: how many scores a piece should hold. None makes one piece of each phase, whatever
            its size, without a look at the lengths: the form in which a graph can be traced.
    """
    if budget is not None and request.k.shape[2] == 0:
        return
    if request.offset is None:
        # The queries stand anywhere, so any of them may reach any key.
        per_row = request.q.shape[0] * group.size * (request.k.shape[2] + extra_keys)
        queries = request.q.shape[2]
        count = queries if budget is None else max(1, budget // max(per_row, 1))
        for start in (0,) if budget is None else range(0, queries, count):
            stop = queries if budget is None else min(start + count, queries)
            yield Piece(
                group=group,
                rows=slice(start, stop, 1),
                count=stop - start,
                block=stop - start,
                blocks=1,
                keys=slice(0, request.k.shape[2], 1),
                first=None,
                width=request.k.shape[2],
                step=1,
            )
        return
    step = group.pattern.dilation
    for phase in range(step):
        row = (phase - request.offset) % step
        queries = _every(request.q.shape[2] - row, step)
        keys = _every(request.k.shape[2] - phase, step)
        before = (request.offset + row) // step
        if budget is None:
            yield _whole_phase(group, phase, row, queries, keys, before)
        elif queries > 0:
            scale = request.q.shape[0] * group.size
            yield from _cut_phase(
                group, phase, row, queries, keys, before, extra_keys, budget // max(scale, 1)
            )


def _whole_phase(group: HeadGroup, phase: int, row: int, queries: int, keys: int, before: int) -> Piece:
    left, right, step = group.pattern.left, group.pattern.right, group.pattern.dilation
    if left is None or right is None:
        block, blocks, first, width = queries, 1, None, keys
    else:
        block = _block_size(left + right)
        # One or two blocks too many: an exporter has to know that there are more than one.
        blocks, first, width = queries // block + 2, before - left, block + left + right
    return Piece(
        group=group,
        rows=slice(row, None, step),
        count=queries,
        block=block,
        blocks=blocks,
        keys=slice(phase, None, step),
        first=first,
        width=width,
        step=step,
    )


def _cut_phase(
    group: HeadGroup, phase: int, row: int, queries: int, keys: int, before: int, extra_keys: int, budget: int
) -> Iterator[Piece]:
    """Pieces of about ``budget`` scores a head, trimmed to the keys that they reach."""
    pattern, step = group.pattern, group.pattern.dilation
    left = keys if pattern.left is None else min(pattern.left, keys)
    right = keys if pattern.right is None else min(pattern.right, keys)
    if left + right >= keys:
        block, most = max(16, budget // (keys + extra_keys)), 1
    else:
        block = _block_size(left + right)
        most = max(1, budget // (block * (block + left + right + extra_keys)))
    for start in range(0, queries, block * most):
        count = min(block * most, queries - start)
        blocks = _every(count, block)
        at = before + start
        low = max(at - left, 0)
        high = min(at + (count if blocks == 1 else blocks * block) + right, keys)
        yield Piece(
            group=group,
            rows=slice(row + start * step, row + (start + count) * step, step),
            count=count,
            block=count if blocks == 1 else block,
            blocks=blocks,
            keys=slice(phase + low * step, phase + high * step, step),
            first=None if blocks == 1 else at - left - low,
            width=high - low if blocks == 1 else block + left + right,
            step=step,
        )


def _block_size(window: int) -> int:
    """Half the window: large enough for fast products, small enough to waste little on the corners."""
    return min(max(window // 32 * 16, 16), 128)


def _every(length: int, step: int) -> int:
    """How many of ``length`` places there are, taking every ``step``-th."""
    return (length + step - 1) // step
