"""Questions over several paragraphs as inputs of a model, with the markers that the paper has for HotpotQA.

An input is ``<s> [q] question [/q] <t> title </t> sentence [s] sentence [s] <t> title </t> ... </s>``. Global
are the question, from the first token to ``[/q]``, and every ``<t>`` and ``[s]``: what the model says of a
paragraph it says there, at the beginning, and what it says of a sentence at the end.

What does not fit into one input is read in several, each with the question in front. A paragraph stays whole
unless it alone is too long: then its sentences are shared out, under its title each time. Cut off are only
the ends of what alone leaves no room for the rest: of a question over half of an input, a title over a
third of what the question leaves, a sentence that fills more than an input.

An answer is looked for inside of one title or one sentence, not across; of HotpotQA's answers one in
seven thousand crosses sentences.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from longspan.data.examples import Document, MultiHopQuestion
from longspan.data.extractive_qa import occurrences
from longspan.tasks.markers import UNKNOWN
from longspan.tasks.task import Feature
from longspan.tasks.windows import TextTokens

MARKERS = ("[q]", "[/q]", "<t>", "</t>", "[s]")
"""Tokens that the vocabulary is extended by."""
KINDS = ("span", "yes", "no")
"""What an answer can be, in the order of the logits."""
SMALLEST_LENGTH = 32
"""Tokens of an input in which there is room for something of everything."""


class Text(NamedTuple):
    """A title or a sentence; its place in `texts` is its number."""

    paragraph: int
    sentence: int | None
    """None for the title."""
    text: str


def texts(example: MultiHopQuestion) -> list[Text]:
    """Everything that can be read besides the question: of each paragraph the title, then the sentences."""
    out: list[Text] = []
    for at, paragraph in enumerate(example.paragraphs):
        out.append(Text(at, None, paragraph.title))
        out += [Text(at, number, sentence) for number, sentence in enumerate(paragraph.sentences)]
    return out


class Targets(NamedTuple):
    """What is right, of all texts of an example."""

    is_right: list[int]
    """[texts]: of a title, whether its paragraph has a supporting fact; of a sentence, whether it is one."""
    answers: dict[int, list[tuple[int, int]]]
    """By the number of a text, the characters where it says the answer."""
    kind: int
    """A place in `KINDS`."""


def targets(example: MultiHopQuestion, all_texts: Sequence[Text]) -> Targets:
    """Answers count in paragraphs with supporting facts; in any, where those do not have the answer."""
    facts = set(example.supporting_facts)
    relevant = {fact.paragraph for fact in facts}
    if facts:
        is_right = [
            int(one.paragraph in relevant if one.sentence is None else (one.paragraph, one.sentence) in facts)
            for one in all_texts
        ]
    else:
        is_right = [UNKNOWN] * len(all_texts)
    if example.answer is None:
        return Targets(is_right, {}, UNKNOWN)
    short = example.answer.strip().lower()
    if short in KINDS[1:]:
        return Targets(is_right, {}, KINDS.index(short))
    documents = [Document(id=str(number), text=one.text) for number, one in enumerate(all_texts)]
    found = list(occurrences([example.answer], documents))
    chosen = [span for span in found if all_texts[span.document].paragraph in relevant] or found
    answers: dict[int, list[tuple[int, int]]] = {}
    for number, start, end in chosen:
        answers.setdefault(number, []).append((start, end))
    return Targets(is_right, answers, KINDS.index("span"))


class _Piece(NamedTuple):
    """A paragraph, or as many of its sentences as fit into an input."""

    title: int
    title_tokens: TextTokens
    sentences: list[tuple[int, TextTokens]]
    """Their numbers among the texts, and their tokens."""

    @property
    def length(self) -> int:
        return 2 + len(self.title_tokens.ids) + sum(len(tokens.ids) + 1 for _, tokens in self.sentences)


class MultiHopReader:
    """Makes features of questions.

    Args:
        tokenizer: a fast tokenizer. The markers that it lacks are added to it, in place.
        max_length: the most tokens of one input, at least `SMALLEST_LENGTH`.
        global_tokens: whether the tokens that are to be global are.
    """

    def __init__(self, tokenizer: Any, *, max_length: int, global_tokens: bool) -> None:
        tokenizer.add_tokens(list(MARKERS), special_tokens=True)
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.global_tokens = global_tokens
        self.question_begins, self.question_ends, self.title_begins, self.title_ends, self.sentence_ends = (
            tokenizer.convert_tokens_to_ids(list(MARKERS))
        )
        # The first call sets the tokenizer up, which must not happen while another thread is using it.
        self._tokenized([""])

    def features(self, example: MultiHopQuestion, paragraphs: Iterable[int]) -> Iterator[Feature]:
        """The question with these paragraphs: one feature or several, and one if there is no paragraph.

        Yields:
            "input_ids" int32, "is_global" bool, and of each token
            "text" int32: the number of its title or sentence, of which ``<t>`` and ``[s]`` are a part;
            "start", "end" int32: its characters in that, `UNKNOWN` for tokens that no answer can have;
            "is_start", "is_end" bool: whether an answer begins, ends there. Where the answer is known, but
            not to be found in this feature, the first token is both.

            Of each paragraph, "title_at" int32: its ``<t>``, and "is_relevant" int64. Of each sentence,
            "sentence_at" int32: its ``[s]``, and "is_support" int64. And "kind" int64 [1], `UNKNOWN` also
            in a feature without a relevant paragraph.
        """
        wanted = set(paragraphs)
        all_texts = texts(example)
        read = [one.text if one.paragraph in wanted else "" for one in all_texts]
        question, *tokens = self._tokenized([example.question, *read])
        question = _cut(question, self.max_length // 2 - 4)
        room = self.max_length - len(question.ids) - 4
        numbers = [number for number, one in enumerate(all_texts) if one.paragraph in wanted]
        pieces = _pieces(numbers, all_texts, tokens, room)
        right = targets(example, all_texts)
        for group in _packed(pieces, room):
            yield self._feature(question, group, right)

    def _tokenized(self, strings: list[str]) -> list[TextTokens]:
        """Without special tokens: what looks like a marker in a text is read as its letters.

        Each is read as if a space were before it, as words in the middle of a text have.
        """
        spaced = [f" {one}" if one and not one[0].isspace() else one for one in strings]
        encoded = self.tokenizer(
            spaced,
            add_special_tokens=False,
            split_special_tokens=True,
            return_offsets_mapping=True,
            return_attention_mask=False,
            return_token_type_ids=False,
            padding=False,
            truncation=False,
            verbose=False,
        )
        out: list[TextTokens] = []
        rows = zip(strings, spaced, encoded["input_ids"], encoded["offset_mapping"], strict=True)
        for string, longer, ids, characters in rows:
            offsets = np.array(characters, dtype=np.int64).reshape(-1, 2) - (len(longer) - len(string))
            starts, ends = offsets.clip(min=0).T
            out.append(TextTokens(np.array(ids, dtype=np.int32), starts, ends))
        return out

    def _feature(self, question: TextTokens, pieces: Sequence[_Piece], right: Targets) -> Feature:
        row = _Row()
        row.add([self.tokenizer.cls_token_id, self.question_begins, *question.ids, self.question_ends])
        row.is_global = [True] * len(row.ids)
        is_start, is_end = set[int](), set[int]()
        title_at: list[int] = []
        sentence_at: list[int] = []
        for piece in pieces:
            title_at.append(len(row.ids))
            row.add([self.title_begins], text=piece.title, is_global=True)
            for number, tokens in [(piece.title, piece.title_tokens), *piece.sentences]:
                for start, end in right.answers.get(number, ()):
                    # An answer of which a part is cut off cannot be given.
                    if (span := tokens.span(start, end)) and tokens.ends[span[1]] >= end:
                        is_start.add(len(row.ids) + span[0])
                        is_end.add(len(row.ids) + span[1])
                row.add(tokens.ids, text=number, starts=tokens.starts, ends=tokens.ends)
                if number == piece.title:
                    row.add([self.title_ends], text=number)
                else:
                    sentence_at.append(len(row.ids))
                    row.add([self.sentence_ends], text=number, is_global=True)
        row.add([self.tokenizer.sep_token_id])
        is_relevant = [right.is_right[row.text[at]] for at in title_at]
        if right.answers and not is_start:
            is_start, is_end = {0}, {0}
        return {
            "input_ids": np.array(row.ids, dtype=np.int32),
            "is_global": np.array(row.is_global, dtype=bool) & self.global_tokens,
            "text": np.array(row.text, dtype=np.int32),
            "start": np.array(row.starts, dtype=np.int32),
            "end": np.array(row.ends, dtype=np.int32),
            "is_start": _marked(is_start, len(row.ids)),
            "is_end": _marked(is_end, len(row.ids)),
            "title_at": np.array(title_at, dtype=np.int32),
            "is_relevant": np.array(is_relevant, dtype=np.int64),
            "sentence_at": np.array(sentence_at, dtype=np.int32),
            "is_support": np.array([right.is_right[row.text[at]] for at in sentence_at], dtype=np.int64),
            "kind": np.array([UNKNOWN if set(is_relevant) == {0} else right.kind], dtype=np.int64),
        }


class _Row:
    """The tokens of an input, and what is known of each."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.is_global: list[bool] = []
        self.text: list[int] = []
        self.starts: list[int] = []
        self.ends: list[int] = []

    def add(
        self,
        ids: Iterable[int],
        *,
        text: int = UNKNOWN,
        starts: Iterable[int] | None = None,
        ends: Iterable[int] | None = None,
        is_global: bool = False,
    ) -> None:
        before = len(self.ids)
        self.ids.extend(ids)
        nothing = [UNKNOWN] * (len(self.ids) - before)
        self.text += [text] * len(nothing)
        self.starts.extend(nothing if starts is None else starts)
        self.ends.extend(nothing if ends is None else ends)
        self.is_global += [is_global] * len(nothing)


def _cut(tokens: TextTokens, length: int) -> TextTokens:
    return TextTokens(*(array[:length] for array in tokens))


def _pieces(
    numbers: Iterable[int], all_texts: Sequence[Text], tokens: Sequence[TextTokens], room: int
) -> list[_Piece]:
    """The paragraphs of these texts, each as one piece of at most ``room`` tokens or, if need be, several."""
    pieces: list[_Piece] = []
    for number in numbers:
        if all_texts[number].sentence is None:
            pieces.append(_Piece(number, _cut(tokens[number], room // 3), []))
            continue
        sentence = _cut(tokens[number], room - 3 - len(pieces[-1].title_tokens.ids))
        if pieces[-1].length + len(sentence.ids) + 1 > room:
            pieces.append(pieces[-1]._replace(sentences=[]))
        pieces[-1].sentences.append((number, sentence))
    return pieces


def _packed(pieces: Iterable[_Piece], room: int) -> Iterator[list[_Piece]]:
    """Puts pieces, in their order, into as few inputs as hold them; at least one input."""
    group: list[_Piece] = []
    used = 0
    for piece in pieces:
        if group and used + piece.length > room:
            yield group
            group, used = [], 0
        group.append(piece)
        used += piece.length
    yield group


def _marked(places: Iterable[int], length: int) -> np.ndarray:
    out = np.zeros(length, dtype=bool)
    out[list(places)] = True
    return out
