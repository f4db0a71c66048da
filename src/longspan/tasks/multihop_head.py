"""The head for questions over several paragraphs: four classifiers over the states of one encoder."""

from typing import NamedTuple

from torch import Tensor, nn

from longspan.tasks.markers import states_at, two_layers
from longspan.tasks.multihop_features import KINDS


class MultiHopLogits(NamedTuple):
    """What the head says, in fp32."""

    start: Tensor
    """[batch, length]: whether the answer begins at a token."""
    end: Tensor
    """[batch, length]: whether it ends there."""
    relevant: Tensor
    """[batch, paragraphs]: whether a paragraph is relevant; of padding, anything."""
    support: Tensor
    """[batch, sentences]: whether a sentence is a supporting fact; of padding, anything."""
    kind: Tensor
    """[batch, 3]: span, yes or no."""


class MultiHopHead(nn.Module):
    """A linear layer for the span, and two layers each for paragraphs, sentences and the kind of answer.

    Args:
        hidden_size: of the encoder.
    """

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.span = nn.Linear(hidden_size, 2)
        self.relevant = two_layers(hidden_size, 1)
        self.support = two_layers(hidden_size, 1)
        self.kind = two_layers(hidden_size, len(KINDS))

    def forward(self, hidden: Tensor, batch: dict[str, Tensor]) -> MultiHopLogits:
        """The kind is read off the first token, paragraphs and sentences off their markers.

        Args:
            hidden: [batch, length, hidden_size].
            batch: with "title_at" [batch, paragraphs] and "sentence_at" [batch, sentences], negative where
                there is none.
        """
        start, end = self.span(hidden).float().unbind(-1)
        return MultiHopLogits(
            start,
            end,
            self.relevant(states_at(hidden, batch["title_at"])).float().squeeze(-1),
            self.support(states_at(hidden, batch["sentence_at"])).float().squeeze(-1),
            self.kind(hidden[:, 0]).float(),
        )
