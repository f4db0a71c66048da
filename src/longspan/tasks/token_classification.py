"""A tag for every word (CoNLL-2003 and its like), read at the word's first token.

A sentence that is longer than ``max_length`` is read in windows of whole words that overlap. Every word
belongs to one window, the one that shows most of what is around it: there it is learned, and there it is
tagged. No token is global, as in the paper's other task on words, coreference.

Tags are IOB, because spans are scored; other schemes are refused.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor, nn
from torch.nn import functional as F

from longspan.data.examples import TaggedSentence
from longspan.metrics.tagging import score_tags
from longspan.tasks.models import ModelSettings, call, load_model
from longspan.tasks.task import Batch, Feature, Loss, Task, TaskSettings, padded
from longspan.tasks.windows import text_tokens

UNKNOWN = -1
"""The label of a word whose tag is not known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenClassificationSettings(TaskSettings):
    """What this task can be told."""

    labels: tuple[str, ...] = ()
    """The tags, in order; empty takes those of the training examples."""
    overlap: int = 128
    """The most tokens that a window shares with the one before it."""

    def __post_init__(self) -> None:
        TaskSettings.__post_init__(self)
        if not 0 <= self.overlap < self.max_length:
            raise ValueError(
                f"settings.overlap is {self.overlap}; it must be from 0 to {self.max_length - 1}, "
                f"because settings.max_length is {self.max_length}"
            )
        for label in self.labels:
            if label != "O" and not (label[:2] in ("B-", "I-") and len(label) > 2):
                raise ValueError(
                    f"settings.labels has {label!r}; spans are scored, so that a tag is 'O', 'B-type' "
                    "or 'I-type'"
                )
        if len(set(self.labels)) < len(self.labels):
            raise ValueError(f"settings.labels is {', '.join(self.labels)}; a tag may be there only once")


class WordTags(NamedTuple):
    """The tags of a window's own words."""

    labels: list[int]
    """Places in ``settings.labels``."""


class WordWindow(NamedTuple):
    """Words that are read together."""

    words: range
    """All of them."""
    own: range
    """Those that no other window shows with more around them."""


class TokenClassification(Task[TaggedSentence, WordTags]):
    """One tag for each word."""

    Settings = TokenClassificationSettings
    name = "tagging"
    formats = ("tagging", "conll-tags")
    best_score = "f1"

    settings: TokenClassificationSettings

    @classmethod
    def resolved(
        cls, settings: TokenClassificationSettings, examples: Iterable[TaggedSentence]
    ) -> TokenClassificationSettings:
        """With the tags of the examples, sorted."""
        if settings.labels:
            return settings
        return replace(settings, labels=tuple(sorted({tag for example in examples for tag in example.tags})))

    def features(self, example: TaggedSentence, *, training: bool) -> Iterator[Feature]:
        """One window, or several: "first_tokens", of the words that are the window's own, and "labels".

        Without training, there may be no tags.
        """
        if training:
            self._check_tags(example)
        elif not example.words:
            yield self._feature([], range(0), ())
        tags = example.tags or ("",) * len(example.words)
        tokens = self._word_tokens(example)
        capacity = self.settings.max_length - sum(map(len, self._frame))
        tokens = [ids[:capacity] for ids in tokens]
        for words, own in word_windows([len(ids) for ids in tokens], capacity, self.settings.overlap):
            if own:
                shown = range(own.start - words.start, own.stop - words.start)
                yield self._feature(tokens[words.start : words.stop], shown, tags[own.start : own.stop])

    def collate(self, features: Sequence[Feature], seeds: Sequence[int]) -> Batch:
        """With "first_tokens" and "labels" [batch, most words of a feature], both -1 for padding."""
        return super().collate(features, seeds) | {
            "first_tokens": padded([one["first_tokens"] for one in features], -1),
            "labels": padded([one["labels"] for one in features], UNKNOWN),
        }

    def build(self, model: ModelSettings) -> nn.Module:
        """The model with a classifier of as many classes as there are tags."""
        labels = dict(enumerate(self.settings.labels))
        ids = {label: at for at, label in labels.items()}
        return load_model(
            model,
            "TokenClassification",
            global_tokens=False,
            num_labels=len(ids),
            id2label=labels,
            label2id=ids,
        )

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        """Cross entropy, a target a word."""
        logits = _at_first_tokens(call(model, batch).logits, batch["first_tokens"])
        labels = batch["labels"]
        total = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=UNKNOWN, reduction="sum")
        return Loss(total, (labels != UNKNOWN).sum())

    def outputs(self, model: nn.Module, batch: Batch) -> list[WordTags]:
        """The most likely tags."""
        first_tokens = batch["first_tokens"]
        tags = _at_first_tokens(call(model, batch).logits, first_tokens).argmax(2).tolist()
        counts = (first_tokens >= 0).sum(1).tolist()
        return [WordTags(row[:count]) for row, count in zip(tags, counts, strict=True)]

    def prediction(self, example: TaggedSentence, outputs: Sequence[WordTags]) -> dict[str, Any]:
        """{"id", "words", "tags"}."""
        tags = [self.settings.labels[at] for window in outputs for at in window.labels]
        assert len(tags) == len(example.words), "the outputs are not of this example's features"
        return {"id": example.id, "words": list(example.words), "tags": tags}

    def score(
        self, examples: Sequence[TaggedSentence], predictions: Sequence[Mapping[str, Any]]
    ) -> dict[str, float]:
        """Precision, recall and F1 of spans."""
        scores = score_tags([one["tags"] for one in predictions], [example.tags for example in examples])
        return {"precision": scores.precision, "recall": scores.recall, "f1": scores.f1}

    def _check_tags(self, example: TaggedSentence) -> None:
        labels = self.settings.labels
        if len(example.tags) != len(example.words):
            raise ValueError(
                f"{example.id}: there are {len(example.tags)} tags and {len(example.words)} words; "
                f"learning needs a tag for each"
            )
        for tag in example.tags:
            if tag not in labels:
                raise ValueError(f"{example.id}: a tag is {tag!r}; settings.labels are {', '.join(labels)}")

    def _word_tokens(self, example: TaggedSentence) -> list[np.ndarray]:
        """The tokens of each word, at least one, as they are in the words joined by spaces."""
        words = example.words
        ends = np.cumsum([len(word) + 1 for word in words]) - 1
        text = text_tokens(self.tokenizer, " ".join(words), plain=True)
        # A token is the word's that its last character is in. The space before a word is that word's.
        of_word = np.searchsorted(ends, np.maximum(text.ends - 1, text.starts), side="right")
        borders = np.searchsorted(np.maximum.accumulate(of_word), np.arange(len(words) + 1))
        borders[-1:] = len(text.ids)
        tokens = [text.ids[start:end] for start, end in zip(borders[:-1], borders[1:], strict=True)]
        unknown = self.tokenizer.unk_token_id
        for at, ids in enumerate(tokens):
            if not len(ids):
                # Characters that the tokenizer drops; the word needs a place all the same.
                if unknown is None:
                    raise ValueError(
                        f"{example.id}: the tokenizer makes no token of the word {words[at]!r}, and has no "
                        f"unknown token to put there"
                    )
                tokens[at] = np.array([unknown], dtype=np.int32)
        return tokens

    @cached_property
    def _frame(self) -> tuple[list[int], list[int]]:
        """The special tokens before and after a text."""
        framed = self.tokenizer("a", return_special_tokens_mask=True)
        ids, mask = framed["input_ids"], framed["special_tokens_mask"]
        before = mask.index(0)
        after = len(mask) - mask[::-1].index(0)
        return ids[:before], ids[after:]

    def _feature(self, tokens: Sequence[np.ndarray], own: range, tags: Sequence[str]) -> Feature:
        """Args:
        tokens: of the words of a window.
        own: which of the words are its own.
        tags: of its own words.
        """
        before, after = self._frame
        lengths = np.array([len(before), *map(len, tokens)])
        places = {label: at for at, label in enumerate(self.settings.labels)}
        return {
            "input_ids": np.concatenate([before, *tokens, after]).astype(np.int32),
            "first_tokens": np.cumsum(lengths)[own.start : own.stop].astype(np.int64),
            "labels": np.array([places.get(tag, UNKNOWN) for tag in tags], dtype=np.int64),
        }


def word_windows(sizes: Sequence[int], capacity: int, overlap: int) -> list[WordWindow]:
    """Windows of whole words that together have all of them.

    Args:
        sizes: tokens of each word, at most ``capacity``.
        capacity: the most tokens of a window.
        overlap: the most tokens that a window shares with the one before it. It shares less where that
            would leave no room for the next word.
    """
    place = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    windows: list[range] = []
    start = stop = 0
    while stop < len(sizes):
        if windows:
            shared = min(overlap, capacity - sizes[stop])
            start = int(np.searchsorted(place, place[stop] - shared))
        stop = int(np.searchsorted(place, place[start] + capacity, side="right")) - 1
        windows.append(range(start, stop))

    most = np.full(len(sizes), -1.0)
    owner = np.zeros(len(sizes), dtype=np.int64)
    for number, window in enumerate(windows):
        words = slice(window.start, window.stop)
        # Only a border that cuts the text hides something.
        before = place[:-1][words] - place[window.start] if window.start else np.inf
        after = place[window.stop] - place[1:][words] if window.stop < len(sizes) else np.inf
        seen = np.broadcast_to(np.minimum(before, after), len(window))
        better = seen > most[words]
        most[words] = np.where(better, seen, most[words])
        owner[words] = np.where(better, number, owner[words])
    # Further on in the text, an earlier window never shows more again: what a window owns is in one piece.
    borders = np.searchsorted(owner, np.arange(len(windows) + 1)).tolist()
    return [WordWindow(window, range(borders[at], borders[at + 1])) for at, window in enumerate(windows)]


def _at_first_tokens(logits: Tensor, first_tokens: Tensor) -> Tensor:
    """[batch, words, labels] fp32 of [batch, length, labels]; anything at padding."""
    places = first_tokens.clamp(min=0)[:, :, None].expand(-1, -1, logits.shape[2])
    return logits.gather(1, places).float()
