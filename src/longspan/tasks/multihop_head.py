"""The head for questions over several paragraphs: four classifiers over the states of one encoder.

What is said of a paragraph or a sentence rests on its marker, as in the paper, and beside it on its words and
on how they agree with the question's. A marker that sees every token has to learn first which of them are its
own; words tell from the start, so that some hundred questions teach what else takes many thousands.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

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
        self.norm = nn.LayerNorm(hidden_size)
        self.relevant = _two_layers(3 * hidden_size, hidden_size, 1)
        self.support = _two_layers(3 * hidden_size, hidden_size, 1)
        self.kind = _two_layers(hidden_size, hidden_size, len(KINDS))

    def forward(self, hidden: Tensor, batch: dict[str, Tensor]) -> MultiHopLogits:
        """The kind is read off the first token, paragraphs and sentences off their markers and their words.

        Args:
            hidden: [batch, length, hidden_size].
            batch: with "attention_mask" and "text" [batch, length], the number of each token's title or
                sentence, negative where it has none; "title_at" [batch, paragraphs] and "sentence_at" [batch,
                sentences], negative where there is none.
        """
        start, end = self.span(hidden).float().unbind(-1)
        text, title_at, sentence_at = (batch[name].long() for name in ("text", "title_at", "sentence_at"))
        # What is in no title or sentence: the question, and the tokens at both ends.
        in_question = (text < 0) & batch["attention_mask"].bool()
        question = self.norm(_means(hidden, in_question[:, None]))
        paragraphs = self._about(hidden, question, title_at, _in_paragraph(text, title_at))
        sentences = self._about(hidden, question, sentence_at, _in_sentence(text, sentence_at))
        return MultiHopLogits(
            start,
            end,
            self.relevant(paragraphs).float().squeeze(-1),
            self.support(sentences).float().squeeze(-1),
            self.kind(hidden[:, 0]).float(),
        )

    def _about(self, hidden: Tensor, question: Tensor, marker_at: Tensor, inside: Tensor) -> Tensor:
        """[batch, places, 3 * hidden_size]: marker, mean of the words, its agreement with the question.

        Args:
            hidden: [batch, length, hidden_size].
            question: [batch, 1, hidden_size], normed.
            marker_at: [batch, places], negative where there is none.
            inside: bool [batch, places, length], the tokens of each place.
        """
        marker = hidden.gather(1, marker_at.clamp(min=0)[:, :, None].expand(-1, -1, hidden.shape[-1]))
        words = self.norm(_means(hidden, inside))
        return torch.cat([marker, words, words * question], -1)


def _two_layers(inputs: int, hidden_size: int, outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, hidden_size), nn.GELU(), nn.Linear(hidden_size, outputs))


def _in_paragraph(text: Tensor, title_at: Tensor) -> Tensor:
    """bool [batch, paragraphs, length]: the tokens from a marker [batch, paragraphs] to the next one."""
    number = torch.arange(title_at.shape[1], device=text.device)
    is_title = torch.zeros_like(text).scatter_add_(1, title_at.clamp(min=0), (title_at >= 0).long())
    paragraph = is_title.cumsum(1) - 1
    return (paragraph[:, None] == number[:, None]) & (text >= 0)[:, None]


def _in_sentence(text: Tensor, sentence_at: Tensor) -> Tensor:
    """bool [batch, sentences, length]: the tokens of the text that a marker [batch, sentences] ends."""
    own = text.gather(1, sentence_at.clamp(min=0))
    return (text[:, None] == own[:, :, None]) & (text >= 0)[:, None]


def _means(hidden: Tensor, inside: Tensor) -> Tensor:
    """[batch, places, hidden_size]: the mean of the states of each place.

    Args:
        hidden: [batch, length, hidden_size].
        inside: bool [batch, places, length]; a place without tokens gets 0.
    """
    return inside.to(hidden.dtype) @ hidden / inside.sum(-1, keepdim=True).clamp(min=1)
