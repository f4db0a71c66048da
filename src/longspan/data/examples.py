"""What the readers give: one frozen class for each kind of task.

Every example has an ``id``. Texts are as in the source: nothing is normalised, cut or tokenized here.
Places in a text count characters, places in a document of words count words; ends are exclusive.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A text: of a corpus, or one that a question is asked about."""

    id: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ByteDocument:
    """A text as bytes, of any encoding or none."""

    id: str
    content: bytes | memoryview
    """A view of a file that is mapped into memory, where the text is one."""

    def __reduce__(self) -> tuple[object, ...]:
        # A view cannot be sent to another process.
        return _byte_document, (self.id, bytes(self.content))


def _byte_document(name: str, content: bytes) -> ByteDocument:
    return ByteDocument(id=name, content=content)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledDocument:
    """A text and its class."""

    id: str
    text: str
    label: str
    """Empty where nobody knows."""


class Span(NamedTuple):
    """Where an answer is written: ``documents[document].text[start:end]``."""

    document: int
    start: int
    end: int


class Turn(NamedTuple):
    """A question that was asked before, and what was answered."""

    question: str
    answer: str
    """Empty where there was none."""


AnswerRules: TypeAlias = Literal["squad", "triviaqa", "quac"]
"""Whose official script says how good an answer is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question that parts of documents answer."""

    id: str
    question: str
    documents: tuple[Document, ...]
    answers: tuple[str, ...]
    """All that count as right, as the annotators gave them; empty where nobody knows, or none exists."""
    spans: tuple[Span, ...]
    """Where the documents say an answer; may be empty though there are answers."""
    is_impossible: bool
    """Whether the documents are known not to answer it."""
    dialogue: str = ""
    """The dialogue that it is part of; empty where it stands alone."""
    history: tuple[Turn, ...] = ()
    """All that was asked before it in the dialogue, and answered."""
    scored_by: AnswerRules = "squad"
    """The rules of the data set that it is from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateQuestion:
    """A query with the answers to choose from, and the texts that decide."""

    id: str
    query: str
    candidates: tuple[str, ...]
    supports: tuple[str, ...]
    answer: int | None
    """The right one's place among the candidates; None where nobody knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paragraph:
    """Sentences under a title. Each brings the space before it, so that joined they are the text."""

    title: str
    sentences: tuple[str, ...]

    @property
    def text(self) -> str:
        """The sentences joined."""
        return "".join(self.sentences)


class SupportingFact(NamedTuple):
    """A sentence that the answer follows from: ``paragraphs[paragraph].sentences[sentence]``."""

    paragraph: int
    sentence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiHopQuestion:
    """A question whose answer follows from sentences of several paragraphs."""

    id: str
    question: str
    paragraphs: tuple[Paragraph, ...]
    supporting_facts: tuple[SupportingFact, ...]
    answer: str | None
    """Words of a paragraph, "yes" or "no"; None where nobody knows."""
    type: str | None
    """HotpotQA's "bridge" or "comparison"."""
    missing_facts: tuple[tuple[str, int], ...] = ()
    """Titles and numbers of supporting sentences that the paragraphs do not have. Nothing can be learned from
    them, but official scores count them."""

    @property
    def named_facts(self) -> tuple[tuple[str, int], ...]:
        """All supporting facts as titles and numbers of sentences, which is how they are scored."""
        found = ((self.paragraphs[fact.paragraph].title, fact.sentence) for fact in self.supporting_facts)
        return (*found, *self.missing_facts)


Mention: TypeAlias = tuple[int, int]
"""The words from the first number to before the second, counted through the whole document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreferenceDocument:
    """Words in sentences, and which of them mean the same."""

    id: str
    sentences: tuple[tuple[str, ...], ...]
    clusters: tuple[tuple[Mention, ...], ...]
    """The mentions of one entity each: in order of their places, as are the clusters."""
    speakers: tuple[tuple[str, ...], ...] | None
    """Who says each word, shaped as the sentences, "" for nobody; None where nothing says who."""

    @property
    def words(self) -> tuple[str, ...]:
        """All words, which is what the mentions count."""
        return tuple(word for sentence in self.sentences for word in sentence)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaggedSentence:
    """Words, and a tag for each."""

    id: str
    words: tuple[str, ...]
    tags: tuple[str, ...]
    """Empty where nobody knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SummarizedDocument:
    """A text and what is to be written about it."""

    id: str
    text: str
    query: str = ""
    """What the summary is to say; empty where it is one of the whole text."""
    summaries: tuple[str, ...] = ()
    """All that count as right; empty where nobody knows."""


Example: TypeAlias = (
    Document
    | ByteDocument
    | LabelledDocument
    | Question
    | CandidateQuestion
    | MultiHopQuestion
    | CoreferenceDocument
    | TaggedSentence
    | SummarizedDocument
)
