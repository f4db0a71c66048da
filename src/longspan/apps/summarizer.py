"""Summaries of documents, by any model that makes some: trained here or elsewhere.

A run of the task `extractive-summarization` chooses sentences, one of `summarization` writes; so does any
encoder-decoder that transformers knows, without a run. Each document has a summary of its own; what a model
does not read of one is said.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import fields as fields_of
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch
from transformers import GenerationConfig

from longspan.apps.given import Given, document_of_one, documents_of
from longspan.apps.sources import run_of, tokenizer_of
from longspan.data.examples import SummarizedDocument
from longspan.embedded import SUMMARIZER
from longspan.models.hub import model_fields
from longspan.tasks.extractive_summarization import ExtractiveSummarization
from longspan.tasks.models import ModelSettings
from longspan.tasks.summarization import Summarization, SummarizationSettings
from longspan.tasks.task import Feature
from longspan.training.inference import load_trained
from longspan.training.run_folder import RunFolder

_MOST_TOKENS = 16384
"""That are read at once by models whose positions set no limit."""
_KINDS: Mapping[str, Any] = {kind.name: kind for kind in (ExtractiveSummarization, Summarization)}
_ARGUMENTS = {
    "summary_words": "words",
    "summary_sentences": "sentences",
    "num_beams": "beams",
    "max_summary_length": "max_tokens",
}
_LENGTHS = ("max_encoder_position_embeddings", "max_position_embeddings")


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """What a model says about a document."""

    name: str
    """Of the document: a file's path, or what it was called; a text without a name has its number."""
    text: str
    sentences: tuple[int, ...] | None
    """Places of the sentences that were chosen; None where the model wrote its own."""
    tokens: int
    """Of the document."""
    tokens_read: int
    """Of these, from the beginning."""


class Summarizer:
    """A model that summarises documents.

    Args:
        source: folder of a run, or of a model, or a name on the Hub; None for the one that comes with
            longspan, which chooses sentences.
        words: about how many words; for models that choose sentences.
        sentences: the most sentences; for models that choose them.
        beams: how many summaries are written beside each other; for models that write.
        max_tokens: the most tokens that are written; for models that write.

    Raises:
        ValueError: there is no such model, it makes no summaries, or it cannot be told this.
    """

    def __init__(
        self,
        source: str | Path | None = None,
        *,
        words: int | None = None,
        sentences: int | None = None,
        beams: int | None = None,
        max_tokens: int | None = None,
    ) -> None:
        wanted = {
            "summary_words": words,
            "summary_sentences": sentences,
            "num_beams": beams,
            "max_summary_length": max_tokens,
        }
        given = {name: value for name, value in wanted.items() if value is not None}
        source = str(SUMMARIZER if source is None else source)
        run, checkpoint = run_of(source)
        if run is not None:
            self.task, self.model = _trained(run, checkpoint, given)
        else:
            self.task, self.model = _pretrained(source, given)
        self.model.eval()

    def __call__(
        self, document: Given, query: str = "", *, progress: Callable[[float], None] | None = None
    ) -> Summary:
        """A summary of one document, or of what a query asks of it.

        Args:
            document: a text, a file, or a text with a name.
            query: what the summary is to say; empty where it is one of the whole.
            progress: called with what is done, 0 to 1; what it raises ends the work.

        Raises:
            ValueError: a file cannot be read, or the query is too long, among others.
        """
        given = document_of_one(document)
        example = SummarizedDocument(id=given.id, text=given.text, query=query)
        features = list(self.task.features(example, training=False))
        outputs: list[Any] = []
        with torch.inference_mode():
            for done, feature in enumerate(features, start=1):
                outputs += self.task.outputs(self.model, self.task.collate([feature], [0]))
                if progress is not None:
                    progress(done / len(features))
        said = self.task.prediction(example, outputs)
        chosen = said.get("sentences")
        is_whole = chosen is not None or len(features[0]["input_ids"]) < self.task.settings.max_length
        tokens = self._count(given.text)
        return Summary(
            name=given.id,
            text=said["summary"],
            sentences=None if chosen is None else tuple(chosen),
            tokens=tokens,
            tokens_read=tokens if is_whole else min(self._read(features, query), tokens),
        )

    def summarize(self, documents: Given | Iterable[Given], query: str = "") -> tuple[Summary, ...]:
        """A summary of each document.

        Args:
            documents: texts, files and folders, of any number and length.
            query: what the summaries are to say; empty where they are of the whole.

        Raises:
            ValueError: a file cannot be read, or the query is too long, among others.
        """
        return tuple(self(one, query) for one in documents_of(documents))

    def _read(self, features: Sequence[Feature], query: str) -> int:
        """How many tokens of a document the inputs have, without the query and special tokens."""
        special = self.task.tokenizer.all_special_ids
        asked = self._count(query)
        return sum(int((~np.isin(one["input_ids"], special)).sum()) - asked for one in features)

    def _count(self, text: str) -> int:
        """Tokens of a text, by any kind of tokenizer, special ones aside."""
        given = {"add_special_tokens": False, "split_special_tokens": True, "verbose": False}
        return len(self.task.tokenizer(text, **given)["input_ids"])


def _trained(run: Path, checkpoint: Literal["best", "last"], given: dict[str, int]) -> tuple[Any, Any]:
    task = RunFolder(run).recipe().task
    if task not in _KINDS:
        raise ValueError(f"{run} is a run of the task {task}; it must be one of {' or '.join(_KINDS)}")
    _check(given, task, str(run))
    # What is asked for is the only limit then.
    free = [name for name in ("summary_words", "summary_sentences") if given and name not in given]
    overrides = [f"--settings.{name}={value}" for name, value in given.items()]
    if task == ExtractiveSummarization.name:
        # A recipe may have cut documents, to train on more of them; here all of one is wanted.
        overrides += [f"--settings.{name}=null" for name in (*free, "max_windows")]
    trained = load_trained(run, checkpoint, overrides)
    return trained.task, trained.model


def _pretrained(source: str, given: dict[str, int]) -> tuple[Any, Any]:
    """A model without a run, which must be one that writes."""
    fields = model_fields(source)
    if not fields.get("is_encoder_decoder"):
        raise ValueError(
            f"{source!r} is a {fields.get('model_type')} without a decoder; it must be an encoder-decoder, "
            f"or the folder of a run of {ExtractiveSummarization.name}"
        )
    _check(given, Summarization.name, source)
    tokenizer = tokenizer_of(source)
    usual = SummarizationSettings(
        max_length=next((fields[n] for n in _LENGTHS if fields.get(n)), _MOST_TOKENS)
    )
    positions = (fields.get(name) for name in ("max_decoder_position_embeddings", "max_position_embeddings"))
    most = next((count for count in positions if count), _MOST_TOKENS)
    settings = replace(usual, max_summary_length=min(most, usual.max_summary_length))
    settings = replace(settings, **cast(Any, given))
    model: Any = Summarization(settings, tokenizer).build(ModelSettings(source=source))
    own = {n: value for n, value in _of_authors(model.generation_config, most).items() if n not in given}
    longest = own.get("max_summary_length", settings.max_summary_length)
    own["min_summary_length"] = min(own.get("min_summary_length", 0), longest)
    return Summarization(replace(settings, **own), tokenizer), model


def _of_authors(own: GenerationConfig, most: int) -> dict[str, Any]:
    """What a model's authors say of how it writes, as settings; nothing where they are silent.

    Args:
        own: of the model.
        most: tokens that it can write.
    """
    said = {
        "num_beams": own.num_beams,
        "length_penalty": own.length_penalty,
        "no_repeat_ngram_size": own.no_repeat_ngram_size,
    }
    # transformers counts the token that a text begins with too.
    if own.max_length is not None:
        said["max_summary_length"] = min(max(own.max_length - 1, 3), most)
    if own.min_length:
        said["min_summary_length"] = own.min_length - 1
    return {name: value for name, value in said.items() if value is not None}


def _check(given: Iterable[str], task: str, source: str) -> None:
    """Refuses what a task cannot be told."""
    known = {one.name for one in fields_of(_KINDS[task].Settings)}
    for name in given:
        if name not in known:
            kind = "writes" if task == Summarization.name else "chooses sentences"
            raise ValueError(f"{_ARGUMENTS[name]} is given, but {source} {kind}, which has no such limit")
