"""Autoregressive language modelling (section 4 of the paper): say which byte, or token, comes next.

Without a tokenizer bytes are learned as they are; with one, texts. To learn, texts are cut into windows side
by side. To be scored, they are read in one go with a cache, or in windows that slide, as the paper does it;
both at constant memory. The models are those of `causal_models.py`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedTokenizerBase

from longspan.conversion.loading import load_tokenizer
from longspan.data.examples import ByteDocument
from longspan.data.files import decode
from longspan.metrics.language import score_language
from longspan.models.byte_tokenizer import byte_tokenizer, is_byte_tokenizer
from longspan.models.causal_lm import LongformerForCausalLM
from longspan.models.causal_lm_config import BYTES, NAMED, growing_windows
from longspan.tasks.causal_models import CausalModel, cache_of, causal_model, check_streams, training_states
from longspan.tasks.models import ModelSettings
from longspan.tasks.own_losses import with_own_losses
from longspan.tasks.task import NO_LABEL, Batch, Feature, Loss, Task, TaskSettings, padded
from longspan.tasks.windows import LEAST_TOKENS, text_tokens, windows

# What `ModelSettings` has for models that are lengthened, or that have global tokens.
_NOT_CAUSAL = ("max_length", "window", "positions", "separate_global_projections")


@dataclass(frozen=True, kw_only=True, slots=True)
class CausalLMSettings(TaskSettings):
    """What this task can be told."""

    evaluation: Literal["streaming", "sliding"] = "streaming"
    """Documents read once, every token with all that came before it; or in overlapping windows."""
    evaluation_length: int = 32256
    """Sliding: tokens of a window."""
    evaluation_step: int = 512
    """Sliding: tokens from one window to the next; so many are scored at the end of each."""
    evaluation_limit: int | None = None
    """Only the first so many tokens of a document are scored."""

    def __post_init__(self) -> None:
        # By name: slots make a new class, which the short form of super() does not find.
        TaskSettings.__post_init__(self)
        if not 1 <= self.evaluation_step <= self.evaluation_length:
            raise ValueError(
                f"settings.evaluation_step is {self.evaluation_step}; it must be from 1 to "
                f"evaluation_length = {self.evaluation_length}"
            )
        if self.evaluation_limit is not None and self.evaluation_limit < 2:
            raise ValueError(f"settings.evaluation_limit is {self.evaluation_limit}; it must be at least 2")


class TextScores(NamedTuple):
    """How well the tokens of a window were said."""

    loss: float
    """The sum of -ln p."""
    tokens: int
    bytes: int
    """That they spell."""
    characters: int


class CausalLM(Task[ByteDocument, TextScores]):
    """The next token, all along a document; its very first one is given."""

    Settings = CausalLMSettings
    name = "causal-lm"
    formats = ("bytes", "enwik8", "text8")
    best_score = "bits_per_byte"
    higher_is_better = False

    settings: CausalLMSettings

    def __init__(self, settings: CausalLMSettings, tokenizer: PreTrainedTokenizerBase) -> None:
        super().__init__(settings, tokenizer)
        self.reads_bytes = is_byte_tokenizer(tokenizer)
        # Bytes are only cut. One document may be all of enwik8, or overlap 63 times in windows that slide.
        self.worth_processes = not self.reads_bytes

    @classmethod
    def load_tokenizer(cls, source: str) -> PreTrainedTokenizerBase | None:
        """That of the model; bytes, where it has none."""
        if source in NAMED:
            return byte_tokenizer()
        folder = Path(source).parent if source.endswith(".json") else source
        return load_tokenizer(folder) or byte_tokenizer()

    def features(self, example: ByteDocument, *, training: bool) -> Iterator[Feature]:
        """Windows, each with the token "after" it, if there is one, and how many tokens at its beginning
        are "unscored". Where tokens are not bytes, "bytes" and "characters" say how many each spells."""
        tokens = self._tokens(example)
        count = len(tokens["input_ids"])
        if training:
            for window in windows(count, self.settings.max_length, overlap=0):
                if len(window) >= min(LEAST_TOKENS, self.settings.max_length):
                    yield _window(tokens, window.start, window.stop, unscored=0)
            return
        # The last token is only said, not read.
        read = max(0, min(count, self.settings.evaluation_limit or count) - 1)
        is_sliding = self.settings.evaluation == "sliding"
        step = self.settings.evaluation_step if is_sliding else max(1, read)
        scored = 0
        for end in (*range(step, read, step), read):
            begin = max(0, end - self.settings.evaluation_length) if is_sliding else 0
            yield _window(tokens, begin, end, unscored=scored - begin)
            scored = end

    def _tokens(self, example: ByteDocument) -> Feature:
        if self.reads_bytes:
            return {"input_ids": np.frombuffer(example.content, dtype=np.uint8)}
        text = decode(example.content, example.id)
        tokens = text_tokens(self.tokenizer, text, plain=True)
        ends = np.maximum.accumulate(tokens.ends)
        # What the tokenizer left out at the end belongs to the last token.
        ends[-1:] = len(text)
        points = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
        sizes = 1 + (points >= 0x80).astype(np.int64) + (points >= 0x800) + (points >= 0x10000)
        bytes_before = np.concatenate([[0], np.cumsum(sizes)])
        return {
            "input_ids": tokens.ids,
            "characters": np.diff(ends, prepend=0).astype(np.int32),
            "bytes": np.diff(bytes_before[ends], prepend=0).astype(np.int32),
        }

    def collate(self, features: Sequence[Feature], seeds: Sequence[int]) -> Batch:
        """ "input_ids" and "labels", [batch, length]: the next token, `NO_LABEL` where it is not scored; and
        "counts", [batch, 3]: the labels of each row, and the bytes and characters that they spell.

        A row may be a whole document, so that both have the smallest dtype that holds them.
        """
        kind = np.int16 if self.reads_bytes else np.int32
        rows: list[np.ndarray] = []
        counts: list[tuple[int, int, int]] = []
        for feature in features:
            ids, first = feature["input_ids"], int(feature["unscored"][0])
            following = np.concatenate([ids[1:], feature["after"]])
            labels = np.full(len(ids), NO_LABEL, dtype=kind)
            labels[first : len(following)] = following[first:]
            rows.append(labels)
            scored = following[first:]
            if self.reads_bytes:
                # Every character of UTF-8 has one byte that does not begin with the bits 10.
                spelled = len(scored), int(np.count_nonzero(scored & 0xC0 != 0x80))
            else:
                inside = slice(first + 1, len(following) + 1)
                spelled = int(feature["bytes"][inside].sum()), int(feature["characters"][inside].sum())
            counts.append((len(scored), *spelled))
        return {
            "input_ids": padded([feature["input_ids"] for feature in features], 0),
            "labels": padded(rows, NO_LABEL),
            "counts": torch.tensor(counts),
        }

    def build(self, model: ModelSettings) -> CausalModel:
        """A new model, of a name in `NAMED` or of a configuration in a ``.json`` file, or a trained one."""
        usual = ModelSettings(source=model.source)
        for name in _NOT_CAUSAL:
            if getattr(model, name) != getattr(usual, name):
                raise ValueError(
                    f"model.{name} is {getattr(model, name)!r}; a causal model reads any length, and its "
                    "configuration or phases.windows say how far it sees: leave it out"
                )
        changes: dict[str, Any] = {}
        if model.dropout is not None:
            changes = {"hidden_dropout_prob": model.dropout, "attention_probs_dropout_prob": model.dropout}
        built = causal_model(model.source, changes)
        if self.settings.evaluation == "streaming":
            check_streams(built)
        # A compression learns nothing from inputs that are too short to overflow a memory.
        self.trains_everything = isinstance(built, LongformerForCausalLM)
        if self.reads_bytes and built.config.vocab_size < BYTES:
            raise ValueError(
                f"model.source is {model.source!r}, whose vocab_size is {built.config.vocab_size}; "
                f"a model of bytes needs {BYTES}"
            )
        if model.gradient_checkpointing:
            built.gradient_checkpointing_enable()
        return built

    def widen(self, model: nn.Module, windows: Sequence[int]) -> None:
        """Two windows for more than two layers are those of the lowest and the highest, with even steps."""
        if not isinstance(model, LongformerForCausalLM):
            super().widen(model, windows)
            return
        decoder = model.model
        layers = decoder.config.num_hidden_layers
        grow = len(windows) == 2
        decoder.set_windows(growing_windows(windows[0], windows[1], layers) if grow else windows)

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        """Cross entropy of the next tokens, and what the model's attention and memory add."""
        states = training_states(model, batch["input_ids"].long())
        losses = _losses(model, states.hidden, batch["labels"].long())
        return with_own_losses(losses.sum(), batch["counts"][:, 0].sum(), states.losses)

    def outputs(self, model: nn.Module, batch: Batch) -> list[TextScores]:
        """Reads the batch in pieces, each with what is kept of those before it, or at once without a
        cache."""
        decoder = cast(CausalModel, model).model
        cache = cache_of(model)
        size = max(1, batch["input_ids"].shape[1]) if cache is None else cache.piece_length
        sums = torch.zeros(len(batch["input_ids"]), dtype=torch.float64, device=batch["input_ids"].device)
        pieces = (batch[name].split(size, 1) for name in ("input_ids", "labels"))
        for ids, labels in zip(*pieces, strict=True):
            if not ids.shape[1]:  # documents of one token, which have nothing to say
                continue
            hidden = decoder(ids.long(), past_key_values=cast(Any, cache)).last_hidden_state
            if (labels != NO_LABEL).any():
                sums += _losses(model, hidden, labels.long()).double().sum(1)
        counts = batch["counts"].tolist()
        return [TextScores(loss, *row) for loss, row in zip(sums.tolist(), counts, strict=True)]

    def prediction(self, example: ByteDocument, outputs: Sequence[TextScores]) -> dict[str, Any]:
        """The sums over the document."""
        sums = [sum(column) for column in zip(*outputs, strict=True)]
        return {"id": example.id} | dict(zip(TextScores._fields, sums, strict=True))

    def score(
        self, examples: Sequence[ByteDocument], predictions: Sequence[Mapping[str, Any]]
    ) -> dict[str, float]:
        """Bits per byte, which the paper calls bits per character, per character and per token; perplexity.

        Raises:
            ValueError: the documents have no two tokens.
        """
        loss, tokens, num_bytes, characters = (
            sum(one[name] for one in predictions) for name in TextScores._fields
        )
        if not tokens:
            raise ValueError(
                f"none of these {len(examples)} documents has two tokens, so there is nothing to score"
            )
        scores = score_language(loss, tokens=tokens, num_bytes=num_bytes)
        assert scores.bits_per_byte is not None
        # Bytes that are not UTF-8 may be no character at all.
        return {
            "bits_per_byte": scores.bits_per_byte,
            "bits_per_character": scores.bits_per_byte * num_bytes / max(characters, 1),
            "bits_per_token": scores.bits_per_token,
            "perplexity": scores.perplexity,
        }


def _window(tokens: Feature, begin: int, end: int, *, unscored: int) -> Feature:
    ids = tokens["input_ids"]
    # One more of what tokens spell than of tokens: that of the one after.
    spelled = {name: x[begin : end + 1] for name, x in tokens.items() if name != "input_ids"}
    return {
        "input_ids": ids[begin:end],
        # A document of one token is empty: that token is given.
        "after": ids[end : end + 1] if end > begin else ids[:0],
        "unscored": np.array([unscored], dtype=np.int32),
        **spelled,
    }


def _losses(model: nn.Module, hidden: Tensor, labels: Tensor) -> Tensor:
    """[batch, length] fp32: -ln p of each label, 0 where there is none."""
    wanted = labels != NO_LABEL
    logits = cast(CausalModel, model).lm_head(hidden[wanted]).float()
    losses = F.cross_entropy(logits, labels[wanted], reduction="none")
    return torch.zeros(labels.shape, dtype=losses.dtype, device=losses.device).masked_scatter(wanted, losses)
