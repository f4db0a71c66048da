"""The two attentions of an encoder-decoder's decoder: to what it has written, and to the document.

The first sees all that was written, or a window of it. The second sees all of the document, whose keys and
values several beams share: their queries stand beside each other, and nothing is repeated for each of them.
Parameters have the names and the order of BART's.
"""

from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from longspan.attention.attend import Attention, Implementation, attend
from longspan.attention.pattern import Pattern
from longspan.nn.global_rows import split_heads
from longspan.nn.window_cache import WindowCache

_EVERYTHING_BEFORE = Pattern(left=None, right=0)


class Attended(NamedTuple):
    """What an attention computes; the probabilities only when they were asked for."""

    context: Tensor
    """[rows, queries, hidden_size]."""
    probabilities: Tensor | None
    """[rows, heads, queries, keys], before dropout."""


class DocumentKeys(NamedTuple):
    """Keys and values of documents, for all tokens that will be written about them."""

    keys: Tensor
    """[documents, heads, length, head_dim]."""
    values: Tensor
    """[documents, heads, length, head_dim]."""


class _Projections(nn.Module):
    """The four projections that both kinds have."""

    def __init__(self, hidden_size: int, heads: int, dropout: float) -> None:
        super().__init__()
        if hidden_size % heads:
            raise ValueError(f"hidden_size is {hidden_size}; it must be a multiple of {heads} heads")
        self.heads = heads
        self.dropout = dropout
        self.k_proj = nn.Linear(hidden_size, hidden_size)
        self.v_proj = nn.Linear(hidden_size, hidden_size)
        self.q_proj = nn.Linear(hidden_size, hidden_size)
        self.out_proj = nn.Linear(hidden_size, hidden_size)

    @property
    def _rate(self) -> float:
        return self.dropout if self.training else 0.0


class DecoderSelfAttention(_Projections):
    """Every token sees itself and those before it: all of them, or a window.

    Args:
        hidden_size: of the tokens.
        heads: number of heads.
        pattern: the window, which looks only back; None is everything before a token.
        dropout: of the attention probabilities, in training.
        impl: the implementation of windowed attention.
    """

    def __init__(
        self,
        hidden_size: int,
        heads: int,
        *,
        pattern: Pattern | None = None,
        dropout: float = 0.0,
        impl: Implementation = "auto",
    ) -> None:
        super().__init__(hidden_size, heads, dropout)
        if pattern is not None and not pattern.is_causal:
            raise ValueError(f"pattern is {pattern}; it must look only back: right=0")
        self.pattern = pattern
        self.impl: Implementation = impl

    def forward(
        self,
        x: Tensor,
        *,
        is_padding: Tensor | None = None,
        cache: WindowCache | None = None,
        return_probabilities: bool = False,
    ) -> Attended:
        """Attention of every token of ``x``.

        Args:
            x: [rows, length, hidden_size].
            is_padding: [rows, at least the keys] bool; its end is that of the tokens.
            cache: what was written before; gets these tokens too.
            return_probabilities: also return who looked at whom; quadratic, for inspection.
        """
        q, k, v = (split_heads(project(x), self.heads) for project in (self.q_proj, self.k_proj, self.v_proj))
        if cache is not None:
            k, v = cache.extend(k, v)
        if is_padding is not None:
            is_padding = is_padding[:, is_padding.shape[1] - k.shape[2] :]
        probabilities = None
        if self.pattern is None and not return_probabilities:
            out = self._see_everything(q, k, v, is_padding)
        else:
            attention = attend(
                q,
                k,
                v,
                self.pattern or _EVERYTHING_BEFORE,
                is_padding=is_padding,
                query_offset=k.shape[2] - q.shape[2],
                dropout=self._rate,
                return_lse=True,
                return_probabilities=return_probabilities,
                impl="auto" if return_probabilities else self.impl,
            )
            out, _, probabilities = cast(Attention, attention)
        return Attended(self.out_proj(out.transpose(1, 2).flatten(2)), probabilities)

    def _see_everything(self, q: Tensor, k: Tensor, v: Tensor, is_padding: Tensor | None) -> Tensor:
        """[rows, heads, queries, head_dim]: the queries stand at the end of the keys."""
        queries, keys = q.shape[2], k.shape[2]
        if is_padding is None and queries in (1, keys):
            return F.scaled_dot_product_attention(q, k, v, dropout_p=self._rate, is_causal=queries > 1)
        seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device).tril(keys - queries)
        if is_padding is not None:
            seen = seen & ~is_padding[:, None, None]
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen, dropout_p=self._rate)

    def extra_repr(self) -> str:
        """The window, for ``print(model)``."""
        return f"heads={self.heads}, pattern={self.pattern or _EVERYTHING_BEFORE}"


class CrossAttention(_Projections):
    """Every token sees all of the document that it is written about.

    Args:
        hidden_size: of the tokens.
        heads: number of heads.
        dropout: of the attention probabilities, in training.
    """

    def __init__(self, hidden_size: int, heads: int, *, dropout: float = 0.0) -> None:
        super().__init__(hidden_size, heads, dropout)

    def document_keys(self, encoded: Tensor) -> DocumentKeys:
        """What the tokens of documents, [documents, length, hidden_size], show to the decoder."""
        return DocumentKeys(
            split_heads(self.k_proj(encoded), self.heads), split_heads(self.v_proj(encoded), self.heads)
        )

    def forward(
        self,
        x: Tensor,
        document: DocumentKeys,
        *,
        is_padding: Tensor | None = None,
        return_probabilities: bool = False,
    ) -> Attended:
        """Attention of every token of ``x`` to its row's document.

        Args:
            x: [rows, length, hidden_size]; as many rows for every document, those of a document together.
            document: of `document_keys`.
            is_padding: [documents, length of the documents] bool.
            return_probabilities: also return who looked at whom.
        """
        rows, length = x.shape[:2]
        documents = document.keys.shape[0]
        q = split_heads(self.q_proj(x).reshape(documents, rows // documents * length, -1), self.heads)
        seen = None if is_padding is None else ~is_padding[:, None, None]
        probabilities = None
        if return_probabilities:
            scores = (q * q.shape[-1] ** -0.5) @ document.keys.transpose(2, 3)
            if seen is not None:
                scores = scores.masked_fill(~seen, torch.finfo(scores.dtype).min)
            probabilities = scores.softmax(-1)
            out = F.dropout(probabilities, self._rate) @ document.values
            probabilities = probabilities.unflatten(2, (-1, length)).transpose(1, 2).flatten(0, 1)
        else:
            out = F.scaled_dot_product_attention(
                q, document.keys, document.values, attn_mask=seen, dropout_p=self._rate
            )
        context = out.transpose(1, 2).flatten(2).reshape(rows, length, -1)
        return Attended(self.out_proj(context), probabilities)

    def extra_repr(self) -> str:
        """The heads, for ``print(model)``."""
        return f"heads={self.heads}"
