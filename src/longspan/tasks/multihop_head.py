"""The head for questions over several paragraphs: four classifiers over the states of one encoder."""

from typing import NamedTuple

from torch import Tensor, nn

from longspan.tasks.markers import PlaceStates, classifier, from_marker_to_marker
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
        self.places = PlaceStates(hidden_size)
        self.relevant = classifier(3 * hidden_size, hidden_size, 1)
        self.support = classifier(3 * hidden_size, hidden_size, 1)
        self.kind = classifier(hidden_size, hidden_size, len(KINDS))

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
        in_paragraph = from_marker_to_marker(title_at, text >= 0)
        paragraphs = self.places(hidden, title_at, in_paragraph, in_question)
        sentences = self.places(hidden, sentence_at, _in_sentence(text, sentence_at), in_question)
        return MultiHopLogits(
            start,
            end,
            self.relevant(paragraphs).float().squeeze(-1),
            self.support(sentences).float().squeeze(-1),
            self.kind(hidden[:, 0]).float(),
        )


def _in_sentence(text: Tensor, sentence_at: Tensor) -> Tensor:
    """bool [batch, sentences, length]: the tokens of the text that a marker [batch, sentences] ends."""
    own = text.gather(1, sentence_at.clamp(min=0))
    return (text[:, None] == own[:, :, None]) & (text >= 0)[:, None]
