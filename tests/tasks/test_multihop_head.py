"""The head for questions over several paragraphs, against loops over its places."""

from typing import Any

import torch
from torch import Tensor

from longspan.data.examples import MultiHopQuestion
from longspan.tasks.multihop_features import MARKERS
from longspan.tasks.multihop_head import MultiHopHead
from longspan.tasks.multihop_qa import MultiHopQA
from longspan.tasks.task import Batch
from tests.tasks.multihop_cases import EXAMPLES, question, task

SIZE = 8


def _batch(*examples: MultiHopQuestion) -> tuple[MultiHopQA, Batch]:
    own = task()
    features = [one for example in examples for one in own.features(example, training=False)]
    return own, own.collate(features, [0] * len(features))


def _slow(
    head: MultiHopHead, hidden: Tensor, batch: Batch, row: int, marker_at: int, tokens: list[int]
) -> Tensor:
    """The three parts of one place, joined."""
    mask = batch["attention_mask"][row].bool()
    in_question = [at for at in range(len(mask)) if mask[at] and batch["text"][row, at] < 0]
    asked = head.places.norm(hidden[row, in_question].mean(0))
    words = head.places.norm(hidden[row, tokens].mean(0))
    return torch.cat([hidden[row, marker_at], words, words * asked])


def test_paragraphs_and_sentences_are_judged_by_their_own_tokens() -> None:
    torch.manual_seed(0)
    own, batch = _batch(*EXAMPLES)
    tokenizer: Any = own.tokenizer
    title = tokenizer.convert_tokens_to_ids(MARKERS[2])
    head = MultiHopHead(SIZE).double()
    hidden = torch.randn(*batch["input_ids"].shape, SIZE, dtype=torch.float64)
    logits = head(hidden, batch)
    for row in range(len(hidden)):
        text = batch["text"][row].tolist()
        ids = batch["input_ids"][row].tolist()
        paragraph, paragraph_of = -1, []
        for token, number in zip(ids, text, strict=True):
            paragraph += token == title
            paragraph_of.append(paragraph if number >= 0 else None)
        places = [at for at in batch["title_at"][row].tolist() if at >= 0]
        for number, at in enumerate(places):
            tokens = [one for one, of in enumerate(paragraph_of) if of == number]
            slow = head.relevant(_slow(head, hidden, batch, row, at, tokens))
            torch.testing.assert_close(logits.relevant[row, number], slow[0].float())
        for number, at in enumerate(one for one in batch["sentence_at"][row].tolist() if one >= 0):
            tokens = [one for one, of in enumerate(text) if of == text[at]]
            slow = head.support(_slow(head, hidden, batch, row, at, tokens))
            torch.testing.assert_close(logits.support[row, number], slow[0].float())


def test_a_question_without_paragraphs_has_no_places() -> None:
    _, batch = _batch(question())
    logits = MultiHopHead(SIZE)(torch.randn(*batch["input_ids"].shape, SIZE), batch)
    assert logits.relevant.shape == logits.support.shape == (1, 0)
    assert logits.kind.isfinite().all()


def test_padding_changes_nothing() -> None:
    torch.manual_seed(0)
    _, alone = _batch(EXAMPLES[1])
    _, together = _batch(*EXAMPLES)
    head = MultiHopHead(SIZE)
    hidden = torch.randn(*together["input_ids"].shape, SIZE)
    length = alone["input_ids"].shape[1]
    one = head(hidden[1:2, :length], alone)
    many = head(hidden, together)
    torch.testing.assert_close(one.relevant[0], many.relevant[1, : one.relevant.shape[1]])
    torch.testing.assert_close(one.support[0], many.support[1, : one.support.shape[1]])
