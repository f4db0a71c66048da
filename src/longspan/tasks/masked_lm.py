"""Masked language modelling (section 5 of the paper): say which words were masked.

Masks are RoBERTa's: drawn anew whenever a document is read. No token is global, as in the paper, unless
settings make the two ends of an input global: some models look there whenever they look at nothing. A
document that has masks itself is one with blanks to fill in: outside of training those are predicted and
nothing else.
Refused are tokenizers without a mask, and models whose head is not RoBERTa's or BERT's kind.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from longspan.data.examples import Document
from longspan.metrics.language import score_language
from longspan.tasks.models import (
    ModelSettings,
    call,
    copy_global_projections,
    load_model,
)
from longspan.tasks.own_losses import own_losses, with_own_losses
from longspan.tasks.task import NO_LABEL, Batch, Feature, Loss, Task, TaskSettings, padded
from longspan.tasks.windows import LEAST_TOKENS, text_tokens, windows

MASKED, REPLACED = 0.8, 0.1
"""Of the tokens to predict, the shares that become a mask and that become another word; the rest stays."""
TOP_WORDS = 5
_HEADS = ("lm_head", "cls")


@dataclass(frozen=True, kw_only=True, slots=True)
class MaskedLMSettings(TaskSettings):
    """What this task can be told."""

    global_tokens: bool = False
    """Whether the first and the last token of an input are global."""
    mask_share: float = 0.15
    """Of the tokens that are not special, how many are to be predicted."""
    copy_global_projections: bool = True
    """Whether a saved Longformer's global projections are copies of the trained local ones; without a global
    token, this task would leave them as they were. With global tokens they are trained themselves."""

    def __post_init__(self) -> None:
        # By name: slots make a new class, which the short form of super() does not find.
        TaskSettings.__post_init__(self)
        if not 0 < self.mask_share <= 1:
            raise ValueError(f"settings.mask_share is {self.mask_share}; it must be above 0 and at most 1")


class WindowScores(NamedTuple):
    """How well the masked words of a window were said, and what was said for its blanks."""

    loss: float
    """The sum of -ln p over the masked tokens."""
    tokens: int
    """How many were masked."""
    right: int
    """For how many of them the most probable token is the right one."""
    characters: int
    """How many characters they spell."""
    blanks: list[list[tuple[int, float]]]
    """For each blank the most probable tokens, and their probabilities."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Masker:
    """Draws which tokens are to be predicted, and what stands in their place."""

    mask: int
    """The token that hides another."""
    words: np.ndarray
    """[words]: the tokens that are not special, in order: only they are predicted, or stand for others."""
    share: float = 0.15

    def __call__(self, ids: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Masks a window.

        Args:
            ids: [tokens].
            seed: decides everything that is drawn.

        Returns:
            What the model reads and what it is to say, `NO_LABEL` where nothing: both [tokens] int64.
            At least one token is to be said, if one of them is a word.
        """
        generator = np.random.default_rng(seed)
        given, labels = ids.astype(np.int64), np.full(len(ids), NO_LABEL, dtype=np.int64)
        places = np.flatnonzero(np.isin(ids, self.words))
        # The fraction that is left over is one more token as often as it says.
        count = max(1, int(self.share * len(places) + generator.random()))
        chosen = generator.choice(places, min(count, len(places)), replace=False)
        labels[chosen] = given[chosen]
        roll = generator.random(len(chosen))
        others = generator.choice(self.words, len(chosen))
        given[chosen] = np.where(
            roll < MASKED, self.mask, np.where(roll < MASKED + REPLACED, others, given[chosen])
        )
        return given, labels


class MaskedLM(Task[Document, WindowScores]):
    """The masked words of documents, which are read in windows of ``max_length`` side by side."""

    Settings = MaskedLMSettings
    name = "masked-lm"
    formats = ("text", "wikitext")
    best_score = "bits_per_character"
    higher_is_better = False

    settings: MaskedLMSettings

    def __init__(self, settings: MaskedLMSettings, tokenizer: PreTrainedTokenizerBase) -> None:
        super().__init__(settings, tokenizer)
        for name in ("mask_token", "cls_token", "sep_token"):
            if getattr(tokenizer, name, None) is None:
                raise ValueError(f"the tokenizer has no {name}; masked-lm needs one")
        words = np.setdiff1d(np.arange(len(self.tokenizer)), self.tokenizer.all_special_ids)
        self.masker = Masker(mask=self.tokenizer.mask_token_id, words=words, share=settings.mask_share)

    def features(self, example: Document, *, training: bool) -> Iterator[Feature]:
        """Windows side by side, each between the special tokens that begin and end a text.

        "characters" says how many characters each token spells, spaces before it included: over all
        tokens of a document every character counts once.
        """
        tokens = text_tokens(self.tokenizer, example.text)
        ends = np.maximum.accumulate(tokens.ends)
        # What the tokenizer left out at the end belongs to the last token.
        ends[-1:] = len(example.text)
        characters = np.diff(ends, prepend=0)
        has_blanks = not training and bool((tokens.ids == self.masker.mask).any())
        size = self.settings.max_length - 2
        first, last = self.tokenizer.cls_token_id, self.tokenizer.sep_token_id
        for window in windows(len(tokens.ids), size, overlap=0):
            if training and len(window) < min(LEAST_TOKENS, size):
                continue
            inside = slice(window.start, window.stop)
            yield {
                "input_ids": np.array([first, *tokens.ids[inside], last], dtype=np.int32),
                "is_global": np.array([True, *[False] * len(window), True]) & self.settings.global_tokens,
                "characters": np.array([0, *characters[inside], 0], dtype=np.int32),
                "has_blanks": np.array([has_blanks]),
            }

    def collate(self, features: Sequence[Feature], seeds: Sequence[int]) -> Batch:
        """With words masked, and, each [batch, length]: "labels", `NO_LABEL` where nothing is to be said,
        "characters", and "is_blank" for the masks of a text that has blanks."""
        masked: list[Feature] = []
        labels: list[np.ndarray] = []
        blanks: list[np.ndarray] = []
        for feature, seed in zip(features, seeds, strict=True):
            ids = feature["input_ids"]
            if feature["has_blanks"][0]:
                given, wanted = ids, np.full(len(ids), NO_LABEL, dtype=np.int64)
            else:
                given, wanted = self.masker(ids, seed)
            masked.append({"input_ids": given, "is_global": feature["is_global"]})
            labels.append(wanted)
            blanks.append((ids == self.masker.mask) & feature["has_blanks"])
        return super().collate(masked, seeds) | {
            "labels": padded(labels, NO_LABEL),
            "characters": padded([feature["characters"] for feature in features], 0).long(),
            "is_blank": padded(blanks, False),
        }

    def build(self, model: ModelSettings) -> nn.Module:
        """The model with a head for masked words: its own, or a new one on top of its embeddings.

        Without global tokens, projections for them are frozen: nothing here could train them.
        """
        loaded = load_model(model, "MaskedLM", global_tokens=self.settings.global_tokens)
        _head(loaded)
        return loaded

    def save(self, model: nn.Module, folder: Path) -> None:
        """As a Hugging Face model, the global projections as settings say."""
        if self.settings.copy_global_projections and not self.settings.global_tokens:
            copy_global_projections(model)
        super().save(model, folder)

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        """Cross entropy, a target a masked token."""
        return masked_loss(model, batch)

    def outputs(self, model: nn.Module, batch: Batch) -> list[WindowScores]:
        """Sums over the masked tokens, and the most probable tokens of blanks."""
        labels, is_blank = batch["labels"], batch["is_blank"]
        wanted = (labels != NO_LABEL) | is_blank
        logits = _logits(model, batch, wanted)
        losses = F.cross_entropy(logits, labels[wanted], ignore_index=NO_LABEL, reduction="none")
        sums = {
            "loss": losses,
            "tokens": labels[wanted] != NO_LABEL,
            "right": logits.argmax(-1) == labels[wanted],
            "characters": batch["characters"][wanted] * ~is_blank[wanted],
        }
        rows = wanted.nonzero()[:, 0]
        of_window = {name: _by_row(values, rows, len(labels)) for name, values in sums.items()}
        top = logits[is_blank[wanted]].softmax(-1).topk(min(TOP_WORDS, logits.shape[-1]))
        blanks: list[list[list[tuple[int, float]]]] = [[] for _ in labels]
        for row, ids, probabilities in zip(
            is_blank.nonzero()[:, 0].tolist(), top.indices.tolist(), top.values.tolist(), strict=True
        ):
            blanks[row].append(list(zip(ids, probabilities, strict=True)))
        return [
            WindowScores(
                loss=of_window["loss"][at],
                tokens=int(of_window["tokens"][at]),
                right=int(of_window["right"][at]),
                characters=int(of_window["characters"][at]),
                blanks=blanks[at],
            )
            for at in range(len(labels))
        ]

    def prediction(self, example: Document, outputs: Sequence[WindowScores]) -> dict[str, Any]:
        """{"id", "masks", "loss", "tokens", "right", "characters"}.

        "masks" has for each blank of the text, in their order, a list of {"token", "probability"}, the
        most probable first; a token comes with the space before it, if it has one. The rest are sums over
        the tokens that were masked for a measurement, 0 where there are blanks.
        """
        return {
            "id": example.id,
            "masks": [
                [
                    {"token": self.tokenizer.decode([token]), "probability": probability}
                    for token, probability in blank
                ]
                for window in outputs
                for blank in window.blanks
            ],
            "loss": sum(window.loss for window in outputs),
            "tokens": sum(window.tokens for window in outputs),
            "right": sum(window.right for window in outputs),
            "characters": sum(window.characters for window in outputs),
        }

    def score(
        self, examples: Sequence[Document], predictions: Sequence[Mapping[str, Any]]
    ) -> dict[str, float]:
        """Of the masked tokens: bits per character that they spell and per token, perplexity, accuracy.

        Raises:
            ValueError: no token was masked: the documents are empty, or have blanks to fill in.
        """
        loss, tokens, right, characters = (
            sum(one[name] for one in predictions) for name in ("loss", "tokens", "right", "characters")
        )
        if not tokens:
            raise ValueError(
                f"no token of these {len(examples)} documents was masked, so there is nothing to score; "
                f"they must have words, and no {self.tokenizer.mask_token}"
            )
        scores = score_language(loss, tokens=tokens, characters=characters)
        assert scores.bits_per_character is not None
        return {
            "bits_per_character": scores.bits_per_character,
            "bits_per_token": scores.bits_per_token,
            "perplexity": scores.perplexity,
            "accuracy": right / tokens,
        }


def masked_loss(model: nn.Module, batch: Batch) -> Loss:
    """Cross entropy at the tokens that have a label; only they are projected to the vocabulary.

    Args:
        model: with a head for masked words, ours or transformers'.
        batch: with "labels", [batch, length].
    """
    wanted = batch["labels"] != NO_LABEL
    said = call(cast(PreTrainedModel, model).base_model, batch)
    logits = _head(model)(said.last_hidden_state[wanted]).float()
    total = F.cross_entropy(logits, batch["labels"][wanted], reduction="sum")
    return with_own_losses(total, wanted.sum(), own_losses(said))


def _logits(model: nn.Module, batch: Batch, wanted: Tensor) -> Tensor:
    """[wanted tokens, vocabulary] fp32: what the model says at the tokens where ``wanted``."""
    hidden: Tensor = call(cast(PreTrainedModel, model).base_model, batch).last_hidden_state
    return _head(model)(hidden[wanted]).float()


def _head(model: nn.Module) -> nn.Module:
    """From hidden states to logits."""
    for name in _HEADS:
        head = getattr(model, name, None)
        if isinstance(head, nn.Module):
            return head
    raise ValueError(
        f"model.source is a {type(model).__name__}, which has no head called {' or '.join(_HEADS)}; "
        "masked-lm takes RoBERTa, BERT, Longformer, and what is built as they are"
    )


def _by_row(values: Tensor, rows: Tensor, count: int) -> list[float]:
    """[count]: the sums of the values that belong to each row."""
    sums = torch.zeros(count, dtype=torch.float64, device=values.device)
    return sums.index_add(0, rows, values.double()).tolist()
