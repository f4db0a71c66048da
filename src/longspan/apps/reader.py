"""Answers to questions about documents of any length, with their places and how sure they are.

The model is from a run of the task `qa`, or any of transformers' with a head for question answering. A
Longformer reads each document in one pass, however long: where a text is longer than its table of positions,
positions begin again, as `lengthen` would have copied them. Other models read windows. Documents never see
each other; their answers are compared by how far each exceeds "no answer" in its own input. What a span has
around it of the question's words is added to its score.
"""

import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from longspan.apps.answers import Candidate, distinct, sentences_around
from longspan.apps.calibration import Calibration, Probabilities, read_calibration, uncalibrated
from longspan.apps.given import Given, documents_of
from longspan.apps.other_windows import window_of, with_window
from longspan.apps.precision import bf16_is_faster
from longspan.apps.sources import run_of, tokenizer_of
from longspan.apps.surroundings import Surroundings, surroundings
from longspan.apps.watching import Shares, after, global_attention
from longspan.data.examples import Document, Question
from longspan.embedded import READER
from longspan.models.hub import class_of, model_fields
from longspan.models.longformer import LongformerModel
from longspan.tasks.extractive_qa import ExtractiveQA, ExtractiveQASettings
from longspan.tasks.models import ModelSettings, inputs_of
from longspan.tasks.spans import disjoint_spans
from longspan.tasks.task import Batch, Feature
from longspan.tasks.windows import text_tokens
from longspan.training.batches import padded_pieces
from longspan.training.inference import load_trained
from longspan.training.run_folder import RunFolder

Precision = Literal["auto", "fp32", "bf16"]
_BATCH_TOKENS = 16384
"""Of several documents that are read together; a longer document is read alone, at once."""
_SPANS = 4
"""Spans that are looked at for every answer wanted: some say the same."""
_ATTENTION_LAYERS = 2
"""The last layers, whose attention is shown."""
_WHOLE = 2**31


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """A part of a document that answers."""

    text: str
    """As it stands in the document."""
    confidence: float
    """The probability that it is right, 0..1."""
    document: int
    """Which of the documents, counted from 0."""
    name: str
    """Of the document: a file's path, or what it was called; a text without a name has its number."""
    start: int
    """Its first character in that document."""
    end: int
    """The character after its last."""
    position: float
    """How far through the document it begins, 0..1."""
    sentence: str
    """The sentence, or the sentences, that it is in."""
    sentence_start: int
    """The first character of them in the document."""
    sentence_end: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """What a reader found."""

    answers: tuple[Answer, ...]
    """Best first. Answers that overlap, or say the same, are here once. Empty when nothing answers."""
    no_answer: float
    """The probability that the documents do not answer."""
    tokens: int
    """That were read, those of the question with every document included."""
    seconds: float
    attention: tuple[float, ...]
    """The share of the question's attention that goes to each of equal parts of all documents' characters,
    one document after the other; they sum to 1, and a document weighs as much as it has tokens. Tokens at
    copies of the first position count as none. Empty where it was not asked for, or the model has no global
    tokens."""


class Candidates(NamedTuple):
    """The best spans of documents, with their scores."""

    spans: list[Candidate]
    """Best first."""
    tokens: int
    """That were read."""
    attention: tuple[float, ...]
    """As in `Reading`."""


class Reader:
    """A model that answers questions about documents.

    Args:
        source: folder of a run of the task `qa`, of a model, or a name on the Hub; None for the one that
            comes with longspan.
        precision: bf16 computes products in half precision; auto does where the processor is faster with it.
        words: what is added to the score of a span that has all words of the question near it, compared with
            one that has none, and once more for its paragraph, as `surroundings` counts them. None for the
            weight that the model's confidence was fitted with, which is 0 where it was not. With another one
            confidence is a softmax, often too sure.

    Raises:
        ValueError: there is no such model, or it does not answer questions; an argument is wrong.
    """

    def __init__(
        self,
        source: str | Path | None = None,
        *,
        precision: Precision = "auto",
        words: float | None = None,
    ) -> None:
        if precision not in ("auto", "fp32", "bf16"):
            raise ValueError(f"precision is {precision!r}; it must be auto, fp32 or bf16")
        if words is not None and not 0 <= words < math.inf:
            raise ValueError(f"words is {words}; it must be at least 0")
        if source is None and not READER.exists():
            raise ValueError("no reader comes with this installation of longspan; name a model")
        source = str(READER if source is None else source)
        run, checkpoint = run_of(source)
        task, model = _trained(run, checkpoint) if run is not None else _pretrained(source)
        calibration = read_calibration(run / checkpoint if run else Path(source))
        fitted = calibration.words if calibration is not None else 0.0
        self.words = fitted if words is None else words
        # It was fitted to scores, and with another weight these are others.
        self.calibration: Calibration | None = calibration if self.words == fitted else None
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._model = model.eval().to(self._device)
        self._encoder = next((one for one in model.modules() if isinstance(one, LongformerModel)), None)
        settings = replace(task.settings, max_windows=None, join_documents=False)
        if self._encoder is not None:
            settings = replace(settings, max_length=_WHOLE)
        self.task = ExtractiveQA(settings, task.tokenizer)
        self._bf16 = precision == "bf16" or (precision == "auto" and bf16_is_faster(self._device))
        # Progress and attention are seen by hooks, which several readings at a time would share.
        self._turn = threading.Lock()

    def read(
        self,
        documents: Given | Iterable[Given],
        question: str,
        *,
        top: int = 3,
        bins: int = 0,
        progress: Callable[[float], None] | None = None,
        anyway: bool = False,
        window: int | None = None,
    ) -> Reading:
        """Looks for answers in documents.

        Args:
            documents: texts, files and folders, of any number and length.
            question: in words; a question mark is not needed.
            top: the most answers.
            bins: parts for ``attention``; 0 for none.
            progress: called with what is done, 0 to 1, as layers finish; what it raises ends the reading.
            anyway: whether the best answers are given even where it is likelier that there is none.
            window: tokens that a token sees, both sides together; None for the model's own.

        Raises:
            ValueError: an argument is wrong, a file cannot be read, or the question is too long.
            ModuleNotFoundError: what reads a kind of file is not installed.
        """
        if top < 1:
            raise ValueError(f"top is {top}; it must be at least 1")
        named = tuple(documents_of(documents))
        texts = [one.text for one in named]
        begun = time.perf_counter()
        # One more than is wanted, since how sure the last one is depends on the next.
        found = self.candidates(texts, question, top + 1, bins=bins, progress=progress, window=window)
        probabilities = self._probabilities([one.margin for one in found.spans], found.tokens)
        is_silent = not anyway and probabilities.no_answer > 0.5
        kept = () if is_silent else zip(found.spans, probabilities.answers, strict=True)
        return Reading(
            answers=tuple(_answer(one, named[one.document], p) for one, p in kept)[:top],
            no_answer=probabilities.no_answer,
            tokens=found.tokens,
            attention=found.attention,
            seconds=time.perf_counter() - begun,
        )

    def candidates(
        self,
        documents: Sequence[str],
        question: str,
        count: int,
        *,
        bins: int = 0,
        progress: Callable[[float], None] | None = None,
        window: int | None = None,
    ) -> Candidates:
        """The best spans with their scores: what `read` makes answers and probabilities of.

        Args:
            documents: their texts.
            question: in words.
            count: the most spans.
            bins: parts for ``attention``; 0 for none.
            progress: called with what is done, 0 to 1, as layers finish; what it raises ends the reading.
            window: as in `read`.

        Raises:
            ValueError: an argument is wrong, or the question is too long.
        """
        if isinstance(documents, str):
            raise ValueError("documents is a text; it must be a list of texts")
        if bins < 0:
            raise ValueError(f"bins is {bins}; it must be at least 0")
        self._check(question)
        self._check_window(window)
        texts = tuple(Document(id=str(at), text=text) for at, text in enumerate(documents))
        example = Question(
            id="question", question=question, documents=texts, answers=(), spans=(), is_impossible=False
        )
        features = list(self.task.features(example, training=False)) if texts else []
        lengths = np.array([len(one["input_ids"]) for one in features], dtype=np.int64)
        shares = Shares([len(text) for text in documents], bins)
        wants_attention = bins > 0 and self.task.settings.global_tokens
        around = surroundings(documents, question) if self.words else []
        spans: list[Candidate] = []
        done, whole = 0, int(lengths.sum())

        def advance(tokens: int, part: float) -> None:
            if progress is not None:
                progress((done + tokens * part) / whole)

        with self._turn, self._seeing(window):
            order = np.argsort(-lengths, kind="stable").tolist()
            for piece in padded_pieces(order, lengths, _BATCH_TOKENS):
                inputs = [features[at] for at in piece]
                tokens = int(lengths[piece].sum())
                found, seen = self._run(inputs, around, count * _SPANS, wants_attention, tokens, advance)
                spans += found
                for one, share in zip(inputs, seen, strict=False):
                    shares.add(one, share.masked_fill(self._like_the_first(len(share)), 0.0))
                done += tokens
        return Candidates(distinct(spans, documents, count), whole, shares.whole())

    @property
    def window(self) -> int | None:
        """Tokens that a token sees, both sides together; None for a model whose window cannot be chosen."""
        return None if self._encoder is None else window_of(self._encoder)

    def count_tokens(self, text: str) -> int:
        """Tokens of a text, for the model."""
        return len(text_tokens(self.task.tokenizer, text, plain=True).ids)

    def _check_window(self, window: int | None) -> None:
        if window is not None and self.window is None:
            raise ValueError(f"window is {window}; this model's window cannot be chosen")
        if window is not None and window < 2:
            raise ValueError(f"window is {window}; it must be at least 2")

    def _seeing(self, window: int | None) -> AbstractContextManager[None]:
        if window is None:
            return nullcontext()
        assert self._encoder is not None
        return with_window(self._encoder, window)

    def _check(self, question: str) -> None:
        if not question.strip():
            raise ValueError("question is empty; it must ask something")
        most = self.task.settings.max_question_tokens
        asked = self.count_tokens(question)
        if asked > most:
            raise ValueError(f"question has {asked} tokens; the model reads at most {most}")

    def _probabilities(self, margins: Sequence[float], tokens: int) -> Probabilities:
        may_be_absent = bool(self.task.settings.answer_may_be_absent)
        if self.calibration is None or not may_be_absent:
            return uncalibrated(margins, may_be_absent=may_be_absent)
        return self.calibration.probabilities(margins, tokens)

    def _run(
        self,
        features: Sequence[Feature],
        around: Sequence[Surroundings],
        count: int,
        wants_attention: bool,
        tokens: int,
        advance: Callable[[int, float], None],
    ) -> tuple[list[Candidate], Sequence[Tensor]]:
        """The best spans of some inputs, and the attention to the tokens of each."""
        batch = self.task.collate(features, range(len(features)))
        batch = {name: x.to(self._device) for name, x in batch.items()}
        layers = [] if self._encoder is None else [*cast(Any, self._encoder.encoder.layer)]
        # A packed row and a batch without padding alike are the inputs one after the other.
        lengths = [len(one["input_ids"]) for one in features]
        with ExitStack() as hooks:
            for at, layer in enumerate(layers):
                hooks.enter_context(after(layer, lambda at=at: advance(tokens, (at + 1) / len(layers))))
            watched = layers[-_ATTENTION_LAYERS:] if wants_attention else []
            seen = [hooks.enter_context(global_attention(layer)) for layer in watched]
            hooks.enter_context(torch.inference_mode())
            hooks.enter_context(torch.autocast(self._device.type, torch.bfloat16, enabled=self._bf16))
            said = self._model(**inputs_of(self._model, batch), **self._positions(batch), return_dict=True)
        if not layers:
            advance(tokens, 1.0)
        shares = sum((one[0].flatten() for one in seen), start=torch.zeros(())).cpu() / max(len(seen), 1)
        found = [
            candidate
            for row in range(len(features))
            for candidate in self._candidates(said, batch, row, lengths[row], around, count)
        ]
        return found, shares.split(lengths) if seen else ()

    def _positions(self, batch: Batch) -> dict[str, Tensor]:
        """Positions that begin again where the model's table ends: the rows that `lengthen` would copy."""
        if self._encoder is None:
            return {}
        places = torch.arange(batch["input_ids"].shape[1], device=self._device)
        return {"position_ids": self._encoder.embeddings.rows_of(places)[None]}

    def _like_the_first(self, length: int) -> Tensor:
        """[length] bool: places of an input that the model cannot tell from the first one.

        The first token of a text gets most of the attention that has nowhere to go, and where positions are
        copies, so do those that stand at its copies, whatever they say.
        """
        assert self._encoder is not None
        table = self._encoder.embeddings.position_embeddings
        if table is None:
            return torch.zeros(length, dtype=torch.bool)
        rows = table.weight[self._encoder.embeddings.rows_of(torch.arange(length, device=self._device))]
        return (rows == rows[:1]).all(1).cpu()

    def _candidates(
        self,
        said: Any,
        batch: Batch,
        row: int,
        length: int,
        around: Sequence[Surroundings],
        count: int,
    ) -> list[Candidate]:
        """The best spans of an input."""
        start, end = (said[name][row, :length].float().cpu() for name in ("start_logits", "end_logits"))
        document, first, last = (
            batch[name][row, :length].cpu() for name in ("document", "first_character", "end_character")
        )
        # An answer may contain white space, but neither begin nor end with it.
        blank = first == last
        no_answer = float(start[0] + end[0])
        if around:
            start = start + self.words * _scores_of_places(around, document, first)
        spans = disjoint_spans(
            start.masked_fill(blank, -torch.inf),
            end.masked_fill(blank, -torch.inf),
            document >= 0,
            self.task.settings.max_answer_tokens,
            count,
        )
        return [
            Candidate(
                one.score - no_answer, int(document[one.start]), int(first[one.start]), int(last[one.end])
            )
            for one in spans
        ]


def _scores_of_places(around: Sequence[Surroundings], document: Tensor, first: Tensor) -> Tensor:
    """[length] fp32: of the surroundings of each token; 0 for tokens that are of no document."""
    scores = torch.zeros(len(document))
    for at in document[document >= 0].unique().tolist():
        here = document == at
        scores[here] = torch.from_numpy(around[at].at(first[here].numpy())).float()
    return scores


def _trained(run: Path, checkpoint: Literal["best", "last"]) -> tuple[ExtractiveQA, nn.Module]:
    task = RunFolder(run).recipe().task
    if task != ExtractiveQA.name:
        raise ValueError(f"{run} is a run of the task {task}; a reader needs one of {ExtractiveQA.name}")
    trained = load_trained(run, checkpoint)
    return cast(ExtractiveQA, trained.task), trained.model


def _pretrained(source: str) -> tuple[ExtractiveQA, nn.Module]:
    """A model without a run."""
    fields = model_fields(source)
    kind = class_of(fields)
    if not kind.endswith("ForQuestionAnswering"):
        raise ValueError(f"{source!r} is {kind}; a reader needs a model for question answering")
    # Two rows of a table may be for no position, as RoBERTa's are.
    most = int(fields.get("max_position_embeddings") or 514) - 2
    settings = ExtractiveQASettings(max_length=most, stride=min(128, most // 4), answer_may_be_absent=True)
    task = ExtractiveQA(settings, tokenizer_of(source))
    return task, task.build(ModelSettings(source=source))


def _answer(one: Candidate, document: Document, confidence: float) -> Answer:
    text = document.text
    sentence_start, sentence_end = sentences_around(text, one.start, one.end)
    return Answer(
        text=text[one.start : one.end],
        confidence=confidence,
        document=one.document,
        name=document.id,
        start=one.start,
        end=one.end,
        position=one.start / len(text),
        sentence=text[sentence_start:sentence_end],
        sentence_start=sentence_start,
        sentence_end=sentence_end,
    )
