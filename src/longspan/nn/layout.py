"""Where padding, documents and global tokens are in a batch: worked out once, used by every layer."""

from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from longspan.attention.positions import global_positions


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """What the attention layers of one forward pass need to know about the tokens.

    Letters in shapes: B examples, N tokens of an example, G the most global tokens of an example.
    """

    is_padding: Tensor | None = None
    """[B, N] bool."""
    is_global: Tensor | None = None
    """[B, N] bool."""
    global_positions: Tensor | None = None
    """[B, G] int64, rising, -1 where an example has fewer; given with ``is_global``."""
    document_starts: Tensor | None = None
    """[documents + 1] int64: the borders of documents that share the only row."""

    def to(self, device: torch.device) -> "Layout":
        """The layout on another device, where a layer of a model that is spread over several may be."""
        return Layout(
            **{
                field.name: None if (value := getattr(self, field.name)) is None else value.to(device)
                for field in fields(self)
            }
        )


def lay_out(is_padding: Tensor | None, is_global: Tensor | None) -> Layout:
    """The layout of a padded batch; a padded token is not global.

    Args:
        is_padding: [batch, length] bool, or None for no padding.
        is_global: [batch, length] bool, or None for no global tokens.
    """
    layout = Layout(is_padding=is_padding)
    if is_global is not None and is_padding is not None:
        is_global = is_global & ~is_padding
    return lay_out_globals(layout, is_global)


def lay_out_globals(layout: Layout, is_global: Tensor | None) -> Layout:
    """``layout`` with global tokens.

    Args:
        layout: without any.
        is_global: [batch, length] bool of its rows, or None for none.
    """
    if is_global is None:
        return layout
    return replace(layout, is_global=is_global, global_positions=global_positions(is_global))


@dataclass(frozen=True, kw_only=True, slots=True)
class Packing:
    """A ragged batch as one row without padding, and the way back."""

    shape: tuple[int, int]
    """Of the padded batch: examples, length."""
    token: Tensor
    """[tokens] int64: the places of the real tokens in the flattened batch, rising."""
    document_starts: Tensor
    """[documents + 1] int64; examples without a token are left out."""

    def pack(self, x: Tensor) -> Tensor:
        """[batch, length, ...] -> [1, tokens, ...]."""
        return x.flatten(0, 1)[self.token][None]

    def unpack(self, x: Tensor) -> Tensor:
        """[1, tokens, ...] -> [batch, length, ...], 0 where there is padding."""
        padded = x.new_zeros(self.shape[0] * self.shape[1], *x.shape[2:])
        return padded.index_copy(0, self.token.to(x.device), x[0]).view(*self.shape, *x.shape[2:])

    def lay_out(self, is_global: Tensor | None) -> Layout:
        """The layout of the packed row.

        Args:
            is_global: [batch, length] bool of the padded batch, or None.
        """
        layout = Layout(document_starts=self.document_starts)
        return lay_out_globals(layout, None if is_global is None else self.pack(is_global))


def pack_examples(is_padding: Tensor) -> Packing | None:
    """How to pack a batch; None if nothing or all is padded, or if padding stands between real tokens.

    Distances between tokens must stay what they are, so only padding at the ends can be left out.

    Args:
        is_padding: [batch, length] bool.
    """
    if not is_padding.any() or is_padding.all():
        return None
    real = ~is_padding
    begins = real & torch.nn.functional.pad(is_padding, (1, 0), value=True)[:, :-1]
    if (begins.sum(1) > 1).any():
        return None
    lengths = real.sum(1)
    ends = lengths[lengths > 0].cumsum(0)
    return Packing(
        shape=(is_padding.shape[0], is_padding.shape[1]),
        token=real.flatten().nonzero().squeeze(1),
        document_starts=torch.cat([ends.new_zeros(1), ends]),
    )
