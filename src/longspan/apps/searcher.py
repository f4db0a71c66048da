"""Passages of long documents, found by what they mean and by the words that they share with a query.

A document is read once, in one pass, and the vectors of its passages are taken from that
(`late_chunking.py`), so that a passage knows its surroundings. A query is compared with all passages: by the
cosine of vectors, and by how much of its words a passage has (`shared_words.py`). A model whose configuration
does not say that it learned to read documents reads each passage alone.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from longspan.apps import passages
from longspan.apps import words as wording
from longspan.apps.given import Given, documents_of
from longspan.apps.late_chunking import PassageEncoder, Progress, Tokens
from longspan.apps.precision import bf16_is_faster
from longspan.apps.shared_words import PassageWords
from longspan.apps.sources import tokenizer_of
from longspan.apps.vector_store import Vectors, VectorStore, key_of
from longspan.conversion.into_longformer import into_longformer
from longspan.conversion.loading import load_source
from longspan.data.examples import Document
from longspan.embedded import SEARCHER
from longspan.models.hub import model_fields
from longspan.models.longformer import LongformerModel

LATE_LAYERS = "late_layers"
"""In what a model's configuration says of how it was made: how many layers learned to see documents."""
WORDS = 0.4
"""What words count beside meaning: chosen for the model that comes with longspan, on dev parts."""
_VERSION = "2"
"""Of all that makes vectors of a text, other than the model; another one makes them anew."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Passage:
    """A part of a document that a search found."""

    document: int
    """Which of the documents, counted from 0."""
    name: str
    """Of the document: a file's path, or what it was called; a text without a name has its number."""
    start: int
    """Its first character in the document."""
    end: int
    """The character after its last."""
    text: str
    """As it stands in the document."""
    score: float
    """How near it is to the query in meaning and words. Only the order of scores means something."""


class Searcher:
    """A model that finds passages.

    Args:
        source: folder of a model, or a name on the Hub; None for the one that comes with longspan.
        late: whether documents are read in one pass, or each passage alone; None is what the model learned.
        most: characters of a passage.
        words: what the words that query and passage share count, 0 to 1; the rest is meaning. With 0 a score
            is the cosine.
        store: a file that keeps the vectors, so that what was read once is not read again; None keeps them in
            memory.

    Raises:
        ValueError: there is no such model, it is no encoder that can be a Longformer, or has no tokenizer; a
            number is out of range; or the store is something else.
    """

    def __init__(
        self,
        source: str | Path | None = None,
        *,
        late: bool | None = None,
        most: int = passages.MOST,
        words: float = WORDS,
        store: Path | None = None,
    ) -> None:
        if most < 1:
            raise ValueError(f"most is {most}; a passage must have at least 1 character")
        if not 0 <= words <= 1:
            raise ValueError(f"words is {words}; it must be from 0, meaning alone, to 1, words alone")
        source = str(SEARCHER if source is None else source)
        model = _load(source)
        self.tokenizer: PreTrainedTokenizerBase = tokenizer_of(source)
        learned = (getattr(model.config, "longspan", None) or {}).get(LATE_LAYERS, 0)
        if late and not learned:
            raise ValueError(f"late is True, but {source!r} learned to read each passage alone")
        self.most = most
        self.words = words
        self.encoder = PassageEncoder(
            model=model,
            begin=_special(self.tokenizer, "cls_token_id", source),
            end=_special(self.tokenizer, "sep_token_id", source),
            late_layers=0 if late is False else learned,
            bf16=bf16_is_faster(model.device),
        )
        self.documents: tuple[Document, ...] = ()
        self._vectors: list[Vectors] = []
        self._words = PassageWords.joined([])
        self._maker = self._fingerprint()
        self.store = VectorStore(store)

    def index(
        self,
        documents: Given | Iterable[Given],
        *,
        progress: Progress | None = None,
        unreadable: Callable[[str], None] | None = None,
    ) -> tuple[Document, ...]:
        """Reads documents; searches are among these from now on.

        Args:
            documents: texts, files and folders, of any number and length.
            progress: called with what is done, 0 to 1; what it raises ends the reading. What was read until
                then is kept in the store, and searches are among the documents from before.
            unreadable: called with the reason for every file of a folder that cannot be read, which is left
                out then; by default it is an error, as a file that is named always is.

        Returns:
            The documents, as they are counted in `Passage`.

        Raises:
            ValueError: a file cannot be read, or the store cannot be written.
            ModuleNotFoundError: what reads a kind of file is not installed.
        """
        found = tuple(documents_of(documents, read=self.store.read, unreadable=unreadable))
        keys = [key_of(one.text) for one in found]
        known = {key: self.store.vectors(key, self._maker) for key in keys}
        texts = {key: one.text for key, one in zip(keys, found, strict=True) if known[key] is None}
        for key, made in self._encode(texts, progress):
            self.store.put(key, self._maker, made)
            known[key] = made
        self.documents = found
        self._vectors = [cast(Vectors, known[key]) for key in keys]
        self._words = PassageWords.joined([one.words for one in self._vectors])
        return found

    def search(self, query: str, *, top: int = 5) -> tuple[Passage, ...]:
        """The passages that are nearest to a query.

        Args:
            query: a question, or what is looked for.
            top: the most passages.

        Returns:
            Best first; of equally good ones the first in the documents. None where there are no documents.

        Raises:
            ValueError: an argument is wrong.
        """
        if top < 1:
            raise ValueError(f"top is {top}; it must be at least 1")
        if not query.strip():
            raise ValueError("query is empty; it must say what is looked for")
        if not self.documents:
            return ()
        scores = self.scores(query)
        document = np.repeat(np.arange(len(scores)), [len(one) for one in scores])
        number = np.concatenate([np.arange(len(one)) for one in scores])
        best = np.argsort(-np.concatenate(scores), kind="stable")[:top]
        return tuple(
            self._passage(int(document[at]), int(number[at]), float(scores[document[at]][number[at]]))
            for at in best
        )

    def scores(self, query: str) -> list[np.ndarray]:
        """How near every passage is to a query: [passages] fp32 for each document."""
        ((_, vector),) = self.encoder.encode([self._tokens([query])])
        cosines = [
            one.vectors.astype(np.float32) @ vector[0] if len(one.places) else np.zeros(0, np.float32)
            for one in self._vectors
        ]
        ends = np.cumsum([len(one) for one in cosines], dtype=np.int64)
        shares = np.split(self._words.shares(query), ends)[:-1]
        return [
            (1 - self.words) * cosine + self.words * share
            for cosine, share in zip(cosines, shares, strict=True)
        ]

    def places(self, document: int) -> list[tuple[int, int]]:
        """The first character of every passage of a document, and the one after its last."""
        return [(int(start), int(end)) for start, end in self._vectors[document].places]

    def _passage(self, document: int, number: int, score: float) -> Passage:
        one = self.documents[document]
        start, end = self.places(document)[number]
        return Passage(
            document=document, name=one.id, start=start, end=end, text=one.text[start:end], score=score
        )

    def _encode(self, texts: dict[str, str], progress: Progress | None) -> Iterator[tuple[str, Vectors]]:
        keys = list(texts)
        places = [np.array(passages.cut(texts[key], self.most), np.int64).reshape(-1, 2) for key in keys]
        cut = [
            [texts[key][start:end] for start, end in spans] for key, spans in zip(keys, places, strict=True)
        ]
        tokens = [self._tokens(one) for one in cut]
        for at, vectors in self.encoder.encode(tokens, progress):
            yield keys[at], Vectors(places[at], vectors.astype(np.float16), PassageWords.of(cut[at]))

    def _tokens(self, texts: Sequence[str]) -> list[Tokens]:
        if not texts:
            return []
        how: dict[str, Any] = {"add_special_tokens": False, "split_special_tokens": True, "verbose": False}
        return cast(list[Tokens], self.tokenizer(list(texts), **how)["input_ids"])

    def _fingerprint(self) -> str:
        """Of all that the vectors of a text depend on."""
        model = self.encoder.model
        windows = [model.config.patterns(layer) for layer in range(model.config.num_hidden_layers)]
        said = (
            _VERSION,
            passages.VERSION,
            wording.VERSION,
            self.most,
            self.encoder.late_layers,
            self.encoder.bf16,
            windows,
            sorted(self.tokenizer.get_vocab()),
        )
        made = hashlib.blake2b(repr(said).encode(), digest_size=16)
        for name, weight in model.state_dict().items():
            made.update(name.encode())
            made.update(weight.detach().float().cpu().contiguous().numpy().data)
        return made.hexdigest()


def _load(source: str) -> LongformerModel:
    """The encoder, as a Longformer; what is no model at all is refused first, with a plainer reason."""
    learned = LATE_LAYERS in (model_fields(source).get("longspan") or {})
    model = load_source(source, **({"add_pooling_layer": False} if learned else {}))
    if not isinstance(model, LongformerModel):
        # Passages are read alone then, and all their tokens see each other.
        length = getattr(model.config, "max_position_embeddings", 512)
        model = into_longformer(cast(PreTrainedModel, model.base_model), max_length=length, window=2 * length)
    assert isinstance(model, LongformerModel)
    return model.float().eval()


def _special(tokenizer: PreTrainedTokenizerBase, name: str, source: str) -> int:
    value = getattr(tokenizer, name, None)
    if not isinstance(value, int):
        raise ValueError(
            f"the tokenizer of {source!r} has no {name}; passages must begin and end with a token"
        )
    return value
