"""Trains the model that searches: a small embedding model learns to read passages within their documents.

python recipes/search_model.py --data data --model models/granite-30m-english --out runs/searcher

A step has a part of an article of SQuAD and a document of joined paragraphs of HotpotQA, with questions about
both. A question must be nearer to the passages that answer it than to all other passages of the step: most of
these are of the same document, so that what a passage learns from its surroundings must not make it like
them. Passages are of any size, by lot. Word embeddings stay what they are. ``--late-layers 0`` trains the
same model to read each passage alone, for comparison. Nothing here is from dev or test parts.
"""

import argparse
import random
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from search_data import Asked, Searched, articles, gold_passages, hotpotqa, joined
from torch import Tensor
from transformers import PreTrainedTokenizerBase

import longspan
from longspan.apps.late_chunking import PassageEncoder
from longspan.apps.passages import cut
from longspan.apps.searcher import LATE_LAYERS
from longspan.conversion.compact import compact
from longspan.conversion.loading import load_tokenizer
from longspan.models.longformer import LongformerModel

SIZES = (300, 500, 800, 1200)
"""Characters of passages."""
EXCERPT = 12_000
"""Characters of an article in a step."""
ASKED = 40
"""Questions about it, at most."""
JOINED = 2
"""Questions of HotpotQA in a step."""
TEMPERATURE = 0.05


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """Passages of documents, and questions with the passages that answer them."""

    documents: list[list[str]]
    questions: list[str]
    gold: list[list[list[int]]]
    """For each question, and each part to be found, the passages that count, among those of all documents."""


def step_of(texts: list[Searched], most: int, lot: random.Random) -> Step:
    """Documents as passages, with some of their questions."""
    step = Step(documents=[], questions=[], gold=[])
    before = 0
    for one in texts:
        places = cut(one.text, most)
        step.documents.append([one.text[start:end] for start, end in places])
        for asked in lot.sample(one.questions, min(ASKED, len(one.questions))):
            step.questions.append(asked.question)
            step.gold.append([[before + at for at in gold_passages(places, part)] for part in asked.gold])
        before += len(places)
    return step


def excerpt(article: Searched, lot: random.Random) -> Searched:
    """Some paragraphs of an article, and the questions that they answer; it begins anywhere, by lot."""
    begins = [0, *(at + 1 for at, letter in enumerate(article.text) if letter == "\n")][:-1]
    begin = lot.choice(begins)
    end = next((at for at in begins if at >= begin + EXCERPT), len(article.text))
    asked = tuple(
        Asked(question=one.question, gold=tuple((start - begin, stop - begin) for start, stop in one.gold))
        for one in article.questions
        if all(begin <= start and stop <= end for start, stop in one.gold)
    )
    return Searched(name=article.name, text=article.text[begin:end], questions=asked)


def loss_of(scores: Tensor, gold: list[list[list[int]]]) -> Tensor:
    """The mean cross-entropy of finding each part among all passages that are not gold.

    Args:
        scores: [questions, passages].
        gold: as in `Step`.
    """
    losses: list[Tensor] = []
    for row, parts in zip(scores, gold, strict=True):
        is_gold = torch.zeros_like(row, dtype=torch.bool)
        is_gold[[at for part in parts for at in part]] = True
        others = row.masked_fill(is_gold, float("-inf")).logsumexp(0)
        for part in parts:
            right = row[part].logsumexp(0)
            losses.append(torch.logaddexp(right, others) - right)
    return torch.stack(losses).mean()


def encoder_of(source: str, window: int, late_layers: int) -> tuple[PassageEncoder, PreTrainedTokenizerBase]:
    """The embedding model as one that reads documents in its lower layers and passages in the upper ones."""
    made = longspan.lengthen(source, 512, window)
    tokenizer = load_tokenizer(source)
    assert isinstance(made, LongformerModel) and tokenizer is not None
    config = made.config
    # In a passage all tokens see each other.
    alone = config.num_hidden_layers - late_layers
    config.attention_window = [window] * late_layers + [2 * 512] * alone
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
    config.longspan |= {LATE_LAYERS: late_layers, "window": window}
    model = LongformerModel(config, add_pooling_layer=False)
    model.load_state_dict(made.state_dict())
    for module in (model.embeddings.word_embeddings, model.embeddings.position_embeddings):
        assert module is not None
        module.requires_grad_(False)
    begin, end = tokenizer.cls_token_id, tokenizer.sep_token_id
    assert isinstance(begin, int) and isinstance(end, int)
    return PassageEncoder(
        model=model.float().eval(), begin=begin, end=end, late_layers=late_layers
    ), tokenizer


def train(
    encoder: PassageEncoder,
    tokenizer: PreTrainedTokenizerBase,
    data: Path,
    *,
    steps: int,
    lr: float,
    seed: int,
) -> None:
    """Trains the model of ``encoder`` in place."""
    torch.manual_seed(seed)
    lot = random.Random(seed)
    texts, questions = articles(data, "train"), hotpotqa(data, "train")
    learned = [one for one in encoder.model.parameters() if one.requires_grad]
    optimizer = torch.optim.AdamW(learned, lr, weight_decay=0.01)
    warmup = max(steps // 10, 1)

    def tokens(passages: list[str]) -> list[list[int]]:
        return tokenizer(passages, add_special_tokens=False, split_special_tokens=True, verbose=False)[
            "input_ids"
        ]

    begun = time.process_time()
    for number in range(steps):
        rate = lr * min((number + 1) / warmup, (steps - number) / max(steps - warmup, 1))
        for group in optimizer.param_groups:
            group["lr"] = rate
        both = [excerpt(lot.choice(texts), lot), joined(lot.sample(questions, JOINED), f"step {number}")]
        step = step_of(both, lot.choice(SIZES), lot)
        with torch.autocast("cpu", torch.bfloat16):
            passages = encoder.vectors([tokens(one) for one in step.documents])
            asked = encoder.vectors([[one] for one in tokens(step.questions)])
        loss = loss_of(asked @ passages.T / TEMPERATURE, step.gold)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(learned, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if number % 10 == 9:
            print(f"step {number + 1}: loss {loss:.3f}, {time.process_time() - begun:.0f} s", flush=True)


def save(encoder: PassageEncoder, tokenizer: PreTrainedTokenizerBase, out: Path) -> None:
    """Writes the folder, with compact weights; a README.md stays."""
    card = out / "README.md"
    said = card.read_bytes() if card.is_file() else None
    with tempfile.TemporaryDirectory() as scratch:
        encoder.model.save_pretrained(scratch)
        tokenizer.save_pretrained(scratch)
        made = compact(scratch, out, overwrite=True)
    if said is not None:
        card.write_bytes(said)
    print(f"{out}: {made.bytes_after / 1e6:.1f} MB of {made.bytes_before / 1e6:.1f} MB")


def main() -> None:
    """Trains, and writes the folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--model", default="models/granite-30m-english")
    parser.add_argument("--out", type=Path, default=Path("runs/searcher"), help="what is there is replaced")
    parser.add_argument("--window", type=int, default=256)
    parser.add_argument("--late-layers", type=int, default=3)
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--lr", type=float, default=5e-5)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    encoder, tokenizer = encoder_of(asked.model, asked.window, asked.late_layers)
    train(encoder, tokenizer, asked.data, steps=asked.steps, lr=asked.lr, seed=asked.seed)
    save(encoder, tokenizer, asked.out)


if __name__ == "__main__":
    main()
