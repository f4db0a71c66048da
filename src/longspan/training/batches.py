"""Which inputs make a step, and which of them a process computes.

A step is inputs of like length, up to a number of tokens over all processes. What it holds depends on the
seed and the epoch alone, not on how many processes there are, so that any number of them trains the same.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

# Steps whose inputs are sorted by length together: enough for little padding, few enough for variety.
_POOL = 32


class Micro(NamedTuple):
    """Inputs that a process computes at once."""

    indices: list[int]
    counts: bool
    """False for inputs that only keep a process in step with the others."""


def plan_epoch(
    lengths: np.ndarray, *, tokens: int, examples: int | None, seed: int, epoch: int
) -> list[list[int]]:
    """Every input once, cut into steps.

    Args:
        lengths: [inputs], in tokens.
        tokens: the most of a step; a longer input is a step of its own.
        examples: the most inputs of a step.
        seed: of the run.
        epoch: another one gives another order.
    """
    generator = np.random.default_rng((seed, epoch))
    order = generator.permutation(len(lengths))
    mean = max(1.0, float(lengths.mean())) if len(lengths) else 1.0
    per_step = max(1, min(int(tokens / mean), examples or len(lengths)))
    steps: list[list[int]] = []
    for begin in range(0, len(order), per_step * _POOL):
        pool = order[begin : begin + per_step * _POOL]
        pool = pool[np.argsort(lengths[pool], kind="stable")]
        steps += _cut(pool.tolist(), lengths, tokens, examples)
    return [steps[at] for at in generator.permutation(len(steps))]


def share_of(
    step: Sequence[int], lengths: np.ndarray, *, rank: int, processes: int, micro_tokens: int
) -> list[Micro]:
    """What one process computes of a step; all processes get as many pieces.

    Args:
        step: inputs, as `plan_epoch` gives them.
        lengths: [inputs].
        rank: of the process.
        processes: how many there are.
        micro_tokens: the most tokens of a piece, with its padding.
    """
    shares: list[list[int]] = [[] for _ in range(processes)]
    loads = [0] * processes
    for index in sorted(step, key=lambda at: (-int(lengths[at]), at)):
        to = loads.index(min(loads))
        shares[to].append(index)
        loads[to] += int(lengths[index])
    pieces = [list(padded_pieces(share, lengths, micro_tokens)) for share in shares]
    most = max(len(piece) for piece in pieces)
    mine = [Micro(piece, counts=True) for piece in pieces[rank]]
    # Processes meet in every piece: who has fewer computes the step's shortest input again, for nothing.
    shortest = min(step, key=lambda at: int(lengths[at]))
    return mine + [Micro([shortest], counts=False)] * (most - len(mine))


def padded_pieces(inputs: Iterable[int], lengths: np.ndarray, tokens: int) -> Iterator[list[int]]:
    """Inputs cut into pieces that have at most so many tokens when they are padded to their longest.

    Args:
        inputs: longest first, so that what does not fit in memory fails at once.
        lengths: [all inputs].
        tokens: the most of a piece; a longer input is a piece of its own.
    """
    piece: list[int] = []
    for index in inputs:
        if piece and (len(piece) + 1) * int(lengths[piece[0]]) > tokens:
            yield piece
            piece = []
        piece.append(index)
    if piece:
        yield piece


def feature_seed(seed: int, epoch: int, index: int) -> int:
    """A number for what is drawn at random in an input: its own in every epoch."""
    return int(np.random.SeedSequence((seed, epoch, index)).generate_state(1, np.uint64)[0] >> np.uint64(1))


def _cut(inputs: Sequence[int], lengths: np.ndarray, tokens: int, examples: int | None) -> list[list[int]]:
    pieces: list[list[int]] = []
    room = 0
    for index in inputs:
        full = not pieces or lengths[index] > room or (examples is not None and len(pieces[-1]) >= examples)
        if full:
            pieces.append([])
            room = tokens
        pieces[-1].append(index)
        room -= int(lengths[index])
    return pieces
