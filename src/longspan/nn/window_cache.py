"""The keys and values that a causal window can still see: what a layer keeps of a text while it reads on.

A layer that sees ``reach`` positions back never needs an older key again. So time and memory of a new token
do not depend on how much came before. For inference only: nothing here is differentiable.
"""

import torch
from torch import Tensor


class WindowCache:
    """The last keys and values of one layer, in order and contiguous.

    They stand in a buffer with as much room behind them. New ones are written behind the old ones; when the
    room is used up, what is still visible moves to the front of a new buffer. That copies ``reach`` positions
    once in ``reach`` tokens, and a call of attention gets plain views, oldest key first.

    Args:
        reach: how many positions before a query are ever seen: window times dilation.
    """

    def __init__(self, reach: int) -> None:
        if reach < 0:
            raise ValueError(f"reach is {reach}; it must be at least 0")
        self.reach = reach
        self.seen = 0
        """Tokens that were read so far: the position of the next one."""
        self.position_keys: Tensor | None = None
        """[heads, distances, head_dim], farthest first: the layer's relative positions, which depend on its
        weights alone; kept here so that a new token does not compute them again."""
        self._buffer: Tensor | None = None  # [2, batch, heads, room, head_dim]: keys, then values
        self._begin, self._end = 0, 0

    def __len__(self) -> int:
        """How many positions are kept."""
        return self._end - self._begin

    def extend(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Adds new positions, and returns all that their queries may see.

        Args:
            k: [batch, heads, new, head_dim].
            v: [batch, heads, new, head_dim].

        Returns:
            Keys and values, [batch, heads, kept + new, head_dim] each, oldest first; good until the
            next call.
        """
        new = k.shape[2]
        self.seen += new
        buffer = self._buffer
        if buffer is None or self._end + new > buffer.shape[3]:
            kept = k.new_empty(2, *k.shape[:2], 0, k.shape[3]) if buffer is None else self._view(buffer)
            joined = torch.cat([kept, torch.stack([k, v])], 3)
            self._keep(joined)
            return joined[0], joined[1]
        buffer[0, :, :, self._end : self._end + new] = k
        buffer[1, :, :, self._end : self._end + new] = v
        self._end += new
        every = self._view(buffer)
        self._begin = max(self._begin, self._end - self.reach)
        return every[0], every[1]

    def select(self, examples: Tensor) -> None:
        """Takes other examples, in another order, as beam search does.

        Args:
            examples: [new batch] int64.
        """
        if self._buffer is not None:
            self._buffer = self._buffer.index_select(1, examples.to(self._buffer.device))

    def reset(self) -> None:
        """Forgets everything: the weights may be others for the next text."""
        self.seen = self._begin = self._end = 0
        self._buffer = self.position_keys = None

    def _view(self, buffer: Tensor) -> Tensor:
        return buffer[:, :, :, self._begin : self._end]

    def _keep(self, every: Tensor) -> None:
        """A new buffer with the newest positions of ``every``, [2, batch, heads, positions, head_dim]."""
        kept = every[:, :, :, max(0, every.shape[3] - self.reach) :]
        self._begin, self._end = 0, kept.shape[3]
        # A short text needs no room for a long window; one that was read whole may be all there is.
        room = min(2 * self._end, self.reach + self._end) + 1
        self._buffer = every.new_empty(*every.shape[:3], room, every.shape[4])
        self._view(self._buffer).copy_(kept)
