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
_NOT_CAUSAL = ("layers", "max_length", "window", "positions", "separate_global_projections")
_CHUNK = 1 << 20


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
        # Tokenizers take whole texts: with one, a document has to fit into memory.
        text = decode(bytes(example.content), example.id)
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
        """ "input_ids", [batch, length]; "after", [batch]: the token after each row, `NO_LABEL` where there
        is none; "bounds", [batch, 2]: where the tokens begin and end whose next one is scored; and "counts",
        [batch, 3]: how many these are, and the bytes and characters that the next ones spell.

        A row may be a whole document, which may be larger than memory: alone it is not copied, and `labels`
        are made of pieces of it.
        """
        rows = [feature["input_ids"] for feature in features]
        after = [int(one["after"][0]) if len(one["after"]) else NO_LABEL for one in features]
        bounds = [
            (int(one["unscored"][0]), len(ids) - (following == NO_LABEL))
            for one, ids, following in zip(features, rows, after, strict=True)
        ]
        counts = [
            (max(0, end - begin), *self._spelled(feature, begin, end))
            for feature, (begin, end) in zip(features, bounds, strict=True)
        ]
        alone = len(rows) == 1 and rows[0].flags.writeable
        return {
            "input_ids": torch.from_numpy(rows[0])[None] if alone else padded(rows, 0),
            "after": torch.tensor(after),
            "bounds": torch.tensor(bounds),
            "counts": torch.tensor(counts),
        }

    def _spelled(self, feature: Feature, begin: int, end: int) -> tuple[int, int]:
        """The bytes and characters of the tokens after those from ``begin`` to ``end``."""
        inside = slice(begin + 1, end + 1)
        if not self.reads_bytes:
            return int(feature["bytes"][inside].sum()), int(feature["characters"][inside].sum())
        # Every character of UTF-8 has one byte that does not begin with the bits 10.
        count = sum(int(np.count_nonzero(one & 0xC0 != 0x80)) for one in feature["after"][: end > begin])
        ids = feature["input_ids"][inside]
        for at in range(0, len(ids), _CHUNK):
            count += int(np.count_nonzero(ids[at : at + _CHUNK] & 0xC0 != 0x80))
        return max(0, end - begin), count

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
        # No mask: what is padded comes last, where nobody sees it.
        states = training_states(model, batch["input_ids"].long())
        losses = _losses(model, states.hidden, labels(batch))
        return with_own_losses(losses.sum(), batch["counts"][:, 0].sum(), states.losses)

    def outputs(self, model: nn.Module, batch: Batch) -> list[TextScores]:
        """Reads the batch in pieces, each with what is kept of those before it, or at once without a
        cache."""
        decoder = cast(CausalModel, model).model
        cache = cache_of(model)
        size = max(1, batch["input_ids"].shape[1]) if cache is None else cache.piece_length
        sums = torch.zeros(len(batch["input_ids"]), dtype=torch.float64, device=batch["input_ids"].device)
        for begin in range(0, batch["input_ids"].shape[1], size):
            ids = batch["input_ids"][:, begin : begin + size]
            hidden = decoder(ids.long(), past_key_values=cast(Any, cache)).last_hidden_state
            wanted = labels(batch, begin, begin + size)
            if (wanted != NO_LABEL).any():
                sums += _losses(model, hidden, wanted).double().sum(1)
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

    def extent(self, predictions: Sequence[Mapping[str, Any]]) -> str:
        """How many tokens, if there is a limit."""
        limit = self.settings.evaluation_limit
        if limit is None:
            return ""
        tokens = sum(one["tokens"] for one in predictions)
        return (
            f"{tokens:,} tokens of {len(predictions):,} document{'s' if len(predictions) > 1 else ''}: "
            f"settings.evaluation_limit is {limit}"
        )


def labels(batch: Batch, begin: int = 0, end: int | None = None) -> Tensor:
    """[batch, length] int64: the next token at those from ``begin`` to ``end``, all by default; `NO_LABEL`
    where it is not scored."""
    ids = batch["input_ids"]
    end = ids.shape[1] if end is None else min(end, ids.shape[1])
    following = F.pad(ids[:, begin + 1 : end + 1].long(), (0, max(0, end + 1 - ids.shape[1])))
    first, last = batch["bounds"].unbind(1)
    at = torch.arange(begin, end, device=ids.device)
    # A row's last token is followed by one that is not in it.
    is_last = (at == (last - 1)[:, None]) & (batch["after"] != NO_LABEL)[:, None]
    following = torch.where(is_last, batch["after"][:, None], following)
    return following.masked_fill((at < first[:, None]) | (at >= last[:, None]), NO_LABEL)


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
