"""Late chunking: a document is read in one pass, and the vectors of its passages are taken from that.

A document is ``<s> passage </s> <s> passage </s> ...``. In the lower layers every token sees what stands
around it in the document, as far as the window reaches; in the upper layers only its own passage, and the
state of the passage's ``<s>`` is its vector. (The upper layers of a model that was trained to embed texts
make all tokens that see each other alike: if these saw the document, its passages would hardly differ.)

Positions begin anew with every passage: a document of any length needs no more of them than a passage does. A
passage that is read alone is a document of one passage; so is a query.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from longspan.models.longformer import LongformerModel
from longspan.nn.layout import Layout

Tokens = Sequence[int]
"""Of a passage, without special ones."""
Progress = Callable[[float], None]
_BATCH_TOKENS = 16384
"""Of several documents that are read together; a longer document is read alone, at once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PassageEncoder:
    """A model, and how it reads passages."""

    model: LongformerModel
    begin: int
    """The token that a passage begins with."""
    end: int
    """The token that it ends with."""
    late_layers: int
    """How many layers, from the lowest, see the whole document; with 0 each passage is read alone."""
    bf16: bool = False
    """Whether `encode` computes products in half precision."""

    def vectors(self, documents: Sequence[Sequence[Tokens]], progress: Progress | None = None) -> Tensor:
        """Reads documents at once, each in one pass.

        Args:
            documents: the passages of each; a document must have one.
            progress: called with what is done, 0 to 1, as layers finish.

        Returns:
            [passages of all documents, hidden_size] fp32, of length 1.
        """
        assert documents and all(documents), "a document has passages"
        model, device = self.model, self.model.device
        passages = [one for document in documents for one in document]
        lengths = torch.tensor([len(one) + 2 for one in passages], device=device)
        passage_starts = functional.pad(lengths.cumsum(0), (1, 0))
        counts = torch.tensor([len(document) for document in documents], device=device)
        document_starts = passage_starts[functional.pad(counts.cumsum(0), (1, 0))]
        tokens = [token for one in passages for token in (self.begin, *one, self.end)]
        x = model.embeddings(torch.tensor([tokens], device=device), None, None, self._positions(lengths))
        for at, layer in enumerate(model.encoder.layer):
            starts = document_starts if at < self.late_layers else passage_starts
            x = layer(x, Layout(document_starts=starts), False).context
            if progress is not None:
                progress((at + 1) / len(model.encoder.layer))
        return functional.normalize(x[0, passage_starts[:-1]].float(), dim=-1)

    def encode(
        self, documents: Sequence[Sequence[Tokens]], progress: Progress | None = None
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Reads any number of documents, as many at once as make a good batch.

        Args:
            documents: the passages of each; a document without any has no vectors.
            progress: called with what is done, 0 to 1, as layers finish; what it raises ends the reading.

        Yields:
            A document's place, in order, and [passages, hidden_size] fp32.
        """
        lengths = [sum(len(one) + 2 for one in document) for document in documents]
        whole, done = max(sum(lengths), 1), 0
        for piece in _batches(lengths):
            some = [at for at in piece if documents[at]]
            tokens = sum(lengths[at] for at in piece)
            tell = None if progress is None else _part_of(progress, done / whole, tokens / whole)
            found = np.zeros((0, self.model.config.hidden_size), np.float32)
            if some:
                half = torch.autocast(self.model.device.type, torch.bfloat16, enabled=self.bf16)
                with torch.inference_mode(), half:
                    found = self.vectors([documents[at] for at in some], tell).cpu().numpy()
            ends = np.cumsum([len(documents[at]) for at in piece])
            yield from zip(piece, np.split(found, ends[:-1]), strict=True)
            done += tokens

    def _positions(self, lengths: Tensor) -> Tensor:
        """[1, tokens]: from the first, in every passage.

        Args:
            lengths: [passages], in tokens.
        """
        config = self.model.config
        first = (config.pad_token_id or 0) + 1
        starts = (lengths.cumsum(0) - lengths).repeat_interleave(lengths)
        places = torch.arange(len(starts), device=lengths.device) - starts
        # A passage longer than the table begins it again, as `lengthen` would have copied it.
        return (first + places % (config.max_position_embeddings - first))[None]


def _part_of(progress: Progress, begin: float, share: float) -> Progress:
    """Tells of a part of the work: where it begins, and its share of all."""
    return lambda done: progress(min(begin + share * done, 1.0))


def _batches(lengths: Iterable[int]) -> Iterator[list[int]]:
    """Documents in their order, as many as have few enough tokens together."""
    batch: list[int] = []
    tokens = 0
    for at, length in enumerate(lengths):
        if batch and tokens + length > _BATCH_TOKENS:
            yield batch
            batch, tokens = [], 0
        batch.append(at)
        tokens += length
    if batch:
        yield batch
