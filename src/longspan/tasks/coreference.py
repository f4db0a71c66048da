"""Coreference (section 6.1 of the paper, OntoNotes): mentions of the same thing, in clusters.

The encoder reads a document in segments of ``max_length``, each on its own: one, mostly, with a long model;
many with a short one, as in Joshi et al. (2019). Mentions and their antecedents are those of the whole
document. No token is global, as in the paper.

The model of Lee et al. says nothing of mentions that nothing else means, which OntoNotes does not mark but
others do, LitBank for one. With ``singletons``, the scores of mentions are trained too, and a span whose
score is over 0 is a cluster, if only of one.

Mentions wider than ``max_span_width``, or across sentences where these may not be, cannot be found, and
count as missed in the scores.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from longspan.data.examples import CoreferenceDocument, Mention
from longspan.metrics.coreference import score_coreference
from longspan.tasks.coreference_documents import (
    PADDING,
    TokenDocument,
    documents_of,
    encoder_batch,
    hidden_of_documents,
    random_part,
    segment_borders,
    speaker_numbers,
)
from longspan.tasks.coreference_head import (
    CoreferenceHead,
    HeadShape,
    SpanLinks,
    best_antecedents,
    linked_clusters,
    marginal_loss,
)
from longspan.tasks.models import EncoderWithHead, ModelSettings, call, load_model
from longspan.tasks.task import Batch, Feature, Loss, Task, TaskSettings, padded


@dataclass(frozen=True, kw_only=True, slots=True)
class CoreferenceSettings(TaskSettings):
    """What this task can be told."""

    max_length: int = 4096
    """The most tokens of a segment; a longer document has several."""
    global_tokens: bool = False
    """Whether the first token of a segment is global."""
    max_span_width: int = 30
    """The most words of a mention."""
    cross_sentences: bool = False
    """Whether a mention may begin in one sentence and end in another."""
    spans_per_word: float = 0.4
    """How many spans are kept, as a share of a document's words."""
    antecedents: int = 50
    """How many antecedents of a span are looked at closely."""
    refinements: int = 1
    """How often spans are refined by what their antecedents say; 0 is the first-order model."""
    ffnn_size: int = 512
    """Of the hidden layers of the scores."""
    similarity_size: int = 256
    """Of the projections whose products are compared."""
    feature_size: int = 20
    """Of the embeddings of widths, distances and speakers."""
    head_dropout: float = 0.3
    """Of the hidden layers."""
    singletons: bool | None = None
    """Whether mentions that nothing else means are learned and predicted; None looks whether the
    training examples have any."""
    max_training_segments: int | None = None
    """Train on so many consecutive segments of a document, drawn anew each time; None on all."""

    def __post_init__(self) -> None:
        TaskSettings.__post_init__(self)
        for name in ("max_span_width", "antecedents", "ffnn_size", "similarity_size", "feature_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"settings.{name} is {getattr(self, name)}; it must be at least 1")
        if self.spans_per_word <= 0:
            raise ValueError(f"settings.spans_per_word is {self.spans_per_word}; it must be over 0")
        if self.refinements < 0:
            raise ValueError(f"settings.refinements is {self.refinements}; it must be 0 or more")
        if not 0 <= self.head_dropout < 1:
            raise ValueError(f"settings.head_dropout is {self.head_dropout}; it must be from 0 to below 1")
        if self.max_training_segments is not None and self.max_training_segments < 1:
            raise ValueError(
                f"settings.max_training_segments is {self.max_training_segments}; it must be at least 1"
            )

    @property
    def head(self) -> HeadShape:
        """What the head must know of them."""
        return HeadShape(
            max_span_width=self.max_span_width,
            cross_sentences=self.cross_sentences,
            spans_per_word=self.spans_per_word,
            antecedents=self.antecedents,
            refinements=self.refinements,
            ffnn_size=self.ffnn_size,
            similarity_size=self.similarity_size,
            feature_size=self.feature_size,
            dropout=self.head_dropout,
        )


class LinkedSpans(NamedTuple):
    """The kept spans of a document, and the best link of each."""

    spans: list[Mention]
    antecedents: list[int]
    """An earlier span each, -1 for none."""
    mention_scores: list[float]


class Coreference(Task[CoreferenceDocument, LinkedSpans]):
    """Clusters of mentions; one feature is one whole document."""

    Settings = CoreferenceSettings
    name = "coreference"
    formats = ("coreference", "conll-2012", "ontogum")
    best_score = "conll_f1"

    settings: CoreferenceSettings

    @classmethod
    def resolved(
        cls, settings: CoreferenceSettings, examples: Iterable[CoreferenceDocument]
    ) -> CoreferenceSettings:
        """With singletons, if there is a cluster of one mention."""
        if settings.singletons is not None:
            return settings
        found = any(len(cluster) == 1 for example in examples for cluster in example.clusters)
        return replace(settings, singletons=found)

    def features(self, example: CoreferenceDocument, *, training: bool) -> Iterator[Feature]:
        """The document: its tokens, those of each word, and the gold mentions.

        Nothing is learned from a document without words.
        """
        if training and not example.words:
            return
        sentence = [at for at, words in enumerate(example.sentences) for _ in words]
        before, after = self._special_tokens
        room = self.settings.max_length - len(before) - len(after)
        pieces = [piece[:room] for piece in self._pieces(example.words)]
        tokens: list[int] = []
        marks: list[bool] = []
        segments: list[int] = []
        first: list[int] = []
        last: list[int] = []
        for begin, end in segment_borders([len(piece) for piece in pieces], sentence, room):
            segment = list(before)
            for piece in pieces[begin:end]:
                first.append(len(tokens) + len(segment))
                segment += piece
                last.append(len(tokens) + len(segment) - 1)
            segment += after
            segments.append(len(segment))
            marks += [self.settings.global_tokens] + [False] * (len(segment) - 1)
            tokens += segment
        mentions = [(*mention, at) for at, cluster in enumerate(example.clusters) for mention in cluster]
        starts, ends, clusters = np.array(mentions, dtype=np.int32).reshape(-1, 3).T
        numbers = {
            "input_ids": tokens,
            "segments": segments,
            "first": first,
            "last": last,
            "sentence": sentence,
            "speaker": speaker_numbers(example),
            "starts": starts,
            "ends": ends,
            "clusters": clusters,
        }
        yield {
            "is_global": np.array(marks, dtype=bool),
            **{name: np.array(values, dtype=np.int32) for name, values in numbers.items()},
        }

    def collate(self, features: Sequence[Feature], seeds: Sequence[int]) -> Batch:
        """With the other fields of features, [batch, longest], filled up with -1, and "seed" [batch]."""
        names = [name for name in features[0] if name not in ("input_ids", "is_global")]
        fields = {name: padded([one[name] for one in features], PADDING).long() for name in names}
        # Seeds may be unsigned numbers of 64 bits, which tensors do not hold.
        seed = torch.tensor([one % 2**63 for one in seeds])
        return super().collate(features, seeds) | fields | {"seed": seed}

    def build(self, model: ModelSettings) -> nn.Module:
        """The encoder and a new head."""
        encoder = load_model(model, None, global_tokens=self.settings.global_tokens)
        return EncoderWithHead(encoder, CoreferenceHead(encoder.config.hidden_size, self.settings.head))

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        """The marginal likelihood of right antecedents, and with singletons, of being a mention.

        A target is a kept span, not a document as in the paper. The sum over a batch is the same; its mean
        does not grow with the length of documents, so that clipped gradients and the numbers in a log
        mean the same for a page and for a book.
        """
        documents = list(documents_of(batch))
        most = self.settings.max_training_segments
        if model.training and most is not None:
            seeds = batch["seed"].tolist()
            documents = [random_part(one, most, seed) for one, seed in zip(documents, seeds, strict=True)]
        linking = mentions = batch["input_ids"].new_zeros((), dtype=torch.float32)
        targets = 0
        head = cast(CoreferenceHead, cast(EncoderWithHead, model).head)
        for document, scored in zip(documents, self._links(model, documents), strict=True):
            clusters = clusters_of_spans(scored.starts, scored.ends, document)
            linking = linking + marginal_loss(scored.links, scored.antecedents, clusters)
            targets += len(clusters)
            if self.settings.singletons:
                mentions = mentions + self._mention_loss(head, scored, clusters, document)
        parts = {"links": linking.detach(), "mentions": mentions.detach()} if self.settings.singletons else {}
        return Loss(linking + mentions, batch["input_ids"].new_tensor(targets), parts)

    def outputs(self, model: nn.Module, batch: Batch) -> list[LinkedSpans]:
        """The kept spans of each document, linked."""
        documents = list(documents_of(batch))
        return [
            LinkedSpans(
                list(zip(one.starts.tolist(), one.ends.tolist(), strict=True)),
                best_antecedents(one.links, one.antecedents),
                one.mention.tolist(),
            )
            for one in self._links(model, documents)
        ]

    def prediction(self, example: CoreferenceDocument, outputs: Sequence[LinkedSpans]) -> dict[str, Any]:
        """{"id", "clusters": [[[start, end], ...], ...], "mentions": [[text, ...], ...]}, the ends
        exclusive."""
        (found,) = outputs
        words = example.words
        clusters = [
            [found.spans[span] for span in cluster]
            for cluster in linked_clusters(found.antecedents)
            if len(cluster) > 1 or (self.settings.singletons and found.mention_scores[cluster[0]] > 0)
        ]
        return {
            "id": example.id,
            "clusters": [[[start, end] for start, end in cluster] for cluster in clusters],
            "mentions": [[" ".join(words[start:end]) for start, end in cluster] for cluster in clusters],
        }

    def score(
        self, examples: Sequence[CoreferenceDocument], predictions: Sequence[Mapping[str, Any]]
    ) -> dict[str, float]:
        """F1 of MUC, B³, CEAF, their mean, and of the mentions; gold singletons count as they come."""
        # Ids of different files may be the same.
        names = [f"{at}: {example.id}" for at, example in enumerate(examples)]
        found = [[[tuple(mention) for mention in one] for one in each["clusters"]] for each in predictions]
        scores = score_coreference(
            dict(zip(names, found, strict=True)),
            {name: example.clusters for name, example in zip(names, examples, strict=True)},
        )
        return {
            "muc_f1": scores.muc.f1,
            "b3_f1": scores.b_cubed.f1,
            "ceaf_f1": scores.ceaf_e.f1,
            "conll_f1": scores.conll,
            "mention_f1": scores.mentions.f1,
        }

    @cached_property
    def _special_tokens(self) -> tuple[list[int], list[int]]:
        """Those before a text and those after it."""
        encoding = self.tokenizer("a", return_special_tokens_mask=True)
        ids, mask = encoding["input_ids"], encoding["special_tokens_mask"]
        inside = [at for at, special in enumerate(mask) if not special]
        return ids[: inside[0]], ids[inside[-1] + 1 :]

    def _pieces(self, words: Sequence[str]) -> list[list[int]]:
        """The tokens of each word, at least one: a word that has none of its own becomes a question mark."""
        if not words:
            return []
        # As in running text, where a space is before a word.
        spaced = [f" {word}" for word in (*words, "?")]
        *pieces, mark = self.tokenizer(
            spaced, add_special_tokens=False, split_special_tokens=True, verbose=False
        )["input_ids"]
        return [piece or mark for piece in pieces]

    def _links(self, model: nn.Module, documents: Sequence[TokenDocument]) -> Iterator[SpanLinks]:
        """The scores of each document, whose segments the encoder reads as rows."""
        both = cast(EncoderWithHead, model)
        rows = encoder_batch(documents, self.tokenizer.pad_token_id or 0)
        hidden = call(both.encoder, rows).last_hidden_state
        states = hidden_of_documents(hidden, rows["attention_mask"], documents)
        for document, state in zip(documents, states, strict=True):
            yield both.head(state, document.first, document.last, document.sentence, document.speaker)

    def _mention_loss(
        self, head: CoreferenceHead, scored: SpanLinks, clusters: Tensor, document: TokenDocument
    ) -> Tensor:
        """Cross entropy of being a gold mention, of kept spans and of gold mentions that were not kept."""
        kept = F.binary_cross_entropy_with_logits(scored.mention, (clusters >= 0).float(), reduction="sum")
        size = len(document.first) + 1
        found = document.starts * size + document.ends
        missed = ~torch.isin(found, scored.starts * size + scored.ends)
        missed &= document.ends - document.starts <= self.settings.max_span_width
        logits = head.mention_scores(scored.words, document.starts[missed], document.ends[missed])
        return kept + F.softplus(-logits).sum()


def clusters_of_spans(starts: Tensor, ends: Tensor, document: TokenDocument) -> Tensor:
    """[spans]: the number of the gold cluster that each of the spans is a mention of, -1 for none.

    Args:
        starts: [spans], first words.
        ends: [spans], the words after the last ones.
        document: with the gold mentions.
    """
    golds = (document.starts.tolist(), document.ends.tolist(), document.clusters.tolist())
    of_mention = {(start, end): cluster for start, end, cluster in zip(*golds, strict=True)}
    spans = zip(starts.tolist(), ends.tolist(), strict=True)
    return torch.tensor([of_mention.get(span, -1) for span in spans], dtype=torch.int64, device=starts.device)
