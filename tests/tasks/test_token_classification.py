"""Tags of words: at the right tokens, in windows of whole words, learned and scored."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, normalizers, pre_tokenizers
from tokenizers.models import WordLevel
from tokenizers.processors import TemplateProcessing
from torch import nn
from transformers import PreTrainedTokenizerFast

from longspan.data.examples import TaggedSentence
from longspan.tasks.models import ModelSettings, call
from longspan.tasks.task import Feature
from longspan.tasks.token_classification import (
    TokenClassification,
    TokenClassificationSettings,
    WordTags,
    word_windows,
)
from tests.tasks.tiny import learn, predictions, tiny_longformer, tiny_roberta, tiny_tokenizer

LABELS = ("B-LOC", "B-PER", "I-PER", "O")


def sentence(text: str, id: str = "s") -> TaggedSentence:
    """Of words and tags as in "Ada/B-PER sings/O"."""
    pairs = [word.rsplit("/", 1) for word in text.split()]
    return TaggedSentence(id=id, words=tuple(w for w, _ in pairs), tags=tuple(t for _, t in pairs))


ADA = sentence("Ada/B-PER Lovelace/I-PER lived/O in/O London/B-LOC ,/O near/O the/O river/O ./O", "ada")
LONG = sentence(
    " ".join(
        f"{name}/B-PER King/I-PER saw/O {place}/B-LOC and/O then/O 日本/B-LOC ,/O"
        for name, place in zip(("Ada", "Bo", "Cy", "Di"), ("Paris", "Lima", "Rome", "Vienna"), strict=True)
    ),
    "long",
)


def make(**changes: Any) -> TokenClassification:
    """The task with the tiny tokenizer."""
    usual: dict[str, Any] = {"labels": LABELS, "max_length": 64, "overlap": 16}
    return TokenClassification(TokenClassificationSettings(**(usual | changes)), tiny_tokenizer())


def slow_first_token(words: tuple[str, ...], at: int) -> int:
    """Where a word begins: after <s> and all that the words before it are. Words begin with their space."""
    return 1 + len(tiny_tokenizer()(" ".join(words[:at]), add_special_tokens=False)["input_ids"])


@pytest.mark.parametrize("example", [ADA, LONG, sentence("Ada/B-PER")], ids=["short", "long", "one word"])
def test_the_first_token_of_each_word_has_its_label(example: TaggedSentence) -> None:
    (feature,) = make(max_length=512).features(example, training=True)
    expected = [slow_first_token(example.words, at) for at in range(len(example.words))]
    assert feature["first_tokens"].tolist() == expected
    assert [LABELS[label] for label in feature["labels"]] == list(example.tags)
    assert feature["input_ids"].tolist() == tiny_tokenizer()(" ".join(example.words))["input_ids"]


def test_windows_have_whole_words_and_each_word_is_learned_once() -> None:
    task = make(max_length=40, overlap=12)
    features = list(task.features(LONG, training=True))
    assert len(features) > 2
    whole = tiny_tokenizer()(" ".join(LONG.words), add_special_tokens=False)["input_ids"]
    starts = [slow_first_token(LONG.words, at) - 1 for at in range(len(LONG.words))] + [len(whole)]
    word = 0
    for feature in features:
        ids = feature["input_ids"].tolist()
        assert len(ids) <= 40 and ids[0] == 0 and ids[-1] == 2
        # Which tokens these are follows from where the window's first own word is.
        begin = starts[word] - (int(feature["first_tokens"][0]) - 1)
        assert begin in starts and begin + len(ids) - 2 in starts
        assert ids[1:-1] == whole[begin : begin + len(ids) - 2]
        for place, label in zip(feature["first_tokens"], feature["labels"], strict=True):
            assert begin + place - 1 == starts[word]
            assert LABELS[label] == LONG.tags[word]
            word += 1
    assert word == len(LONG.words)


@given(st.lists(st.integers(1, 9), max_size=60), st.integers(9, 30), st.integers(0, 40))
def test_word_windows_against_brute_force(sizes: list[int], capacity: int, overlap: int) -> None:
    windows = word_windows(sizes, capacity, overlap)
    assert [word for window in windows for word in window.own] == list(range(len(sizes)))
    for before, after in zip(windows, windows[1:], strict=False):
        shared = sizes[after.words.start : before.words.stop]
        assert sum(shared) <= overlap and before.words.start < after.words.start
        assert before.words.stop < after.words.stop
    for window in windows:
        assert sum(sizes[word] for word in window.words) <= capacity
        for word in window.own:
            assert context(sizes, window.words, word) == max(
                context(sizes, other.words, word) for other in windows if word in other.words
            )


def context(sizes: list[int], words: range, word: int) -> float:
    """Tokens between a word and the nearer place where the window cuts the text."""
    left = sum(sizes[words.start : word]) if words.start > 0 else np.inf
    right = sum(sizes[word + 1 : words.stop]) if words.stop < len(sizes) else np.inf
    return min(left, right)


def test_a_word_longer_than_a_window_is_cut() -> None:
    example = TaggedSentence(
        id="url", words=("Ada", "xyz" * 50, "in", "Rome"), tags=("B-PER", "O", "O", "B-LOC")
    )
    features = list(make(max_length=10, overlap=4).features(example, training=True))
    assert all(len(feature["input_ids"]) <= 10 for feature in features)
    labels = [LABELS[label] for feature in features for label in feature["labels"]]
    assert labels == list(example.tags)


@pytest.mark.parametrize("word", ["", " ", "\n\t", "<s>", "<mask>", "a b", "\u200b", "🎻", "'s"])
def test_every_word_has_a_first_token_of_its_own(word: str) -> None:
    example = TaggedSentence(id="odd", words=("Ada", word, word, "Rome"), tags=("O",) * 4)
    (feature,) = make().features(example, training=True)
    places = feature["first_tokens"].tolist()
    assert len(places) == 4 and places == sorted(set(places))
    assert places[0] == 1 and places[-1] < len(feature["input_ids"]) - 1


def dropping_tokenizer(unknown: str | None) -> PreTrainedTokenizerFast:
    """One that knows two words and drops stars."""
    tokenizer = Tokenizer(WordLevel({"[C]": 0, "[S]": 1, "[U]": 2, "ada": 3, "rome": 4}, unk_token="[U]"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Replace("*", ""), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = TemplateProcessing(
        single="[C] $A [S]", pair="[C] $A [S] $B [S]", special_tokens=[("[C]", 0), ("[S]", 1)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, cls_token="[C]", sep_token="[S]", unk_token=unknown
    )


def test_a_word_that_the_tokenizer_drops_becomes_the_unknown_token() -> None:
    settings = TokenClassificationSettings(labels=LABELS)
    example = TaggedSentence(id="d", words=("Ada", "**", "R*ome"), tags=("B-PER", "O", "B-LOC"))
    (feature,) = TokenClassification(settings, dropping_tokenizer("[U]")).features(example, training=True)
    assert feature["input_ids"].tolist() == [0, 3, 2, 4, 1]
    assert feature["first_tokens"].tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match=r"d: the tokenizer makes no token of the word '\*\*'"):
        list(TokenClassification(settings, dropping_tokenizer(None)).features(example, training=True))


def test_nothing_to_read() -> None:
    task = make()
    empty = TaggedSentence(id="empty", words=(), tags=())
    assert list(task.features(empty, training=True)) == []
    (feature,) = task.features(empty, training=False)
    assert feature["input_ids"].tolist() == [0, 2] and len(feature["first_tokens"]) == 0
    (full,) = task.features(ADA, training=False)
    assert {name: x.dtype for name, x in feature.items()} == {name: x.dtype for name, x in full.items()}
    assert task.prediction(empty, [WordTags([])]) == {"id": "empty", "words": [], "tags": []}


def test_tags_that_are_not_known() -> None:
    task = make()
    strange = sentence("Ada/B-PER rests/I-ACT")
    with pytest.raises(ValueError, match="s: a tag is 'I-ACT'; settings.labels are B-LOC, B-PER, I-PER, O"):
        list(task.features(strange, training=True))
    (feature,) = task.features(strange, training=False)
    assert feature["labels"].tolist() == [1, -1]
    untagged = TaggedSentence(id="u", words=ADA.words, tags=())
    (feature,) = task.features(untagged, training=False)
    assert feature["labels"].tolist() == [-1] * 10
    with pytest.raises(ValueError, match="u: there are 0 tags and 10 words"):
        list(task.features(untagged, training=True))


def test_labels_are_those_of_the_examples_unless_given() -> None:
    resolved = TokenClassification.resolved(TokenClassificationSettings(), iter([LONG, ADA]))
    assert resolved.labels == LABELS
    given_labels = TokenClassificationSettings(labels=("O", "B-X"))
    assert TokenClassification.resolved(given_labels, [ADA]) is given_labels


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"overlap": -1}, "settings.overlap is -1; it must be from 0 to 63"),
        (
            {"overlap": 64},
            "settings.overlap is 64; it must be from 0 to 63, because settings.max_length is 64",
        ),
        ({"max_length": 4}, "settings.max_length is 4"),
        ({"labels": ("O", "NOUN")}, "settings.labels has 'NOUN'"),
        ({"labels": ("O", "B-")}, "settings.labels has 'B-'"),
        ({"labels": ("O", "B-X", "O")}, "settings.labels is O, B-X, O; a tag may be there only once"),
    ],
)
def test_wrong_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(**settings)


@pytest.fixture(params=[tiny_roberta, tiny_longformer], ids=["short", "long"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A tiny pretrained model's."""
    save: Callable[[Path], Path] = request.param
    return save(tmp_path / "pretrained")


def build(task: TokenClassification, folder: Path, **settings: Any) -> nn.Module:
    """The task's model, for evaluation."""
    torch.manual_seed(1)
    return task.build(ModelSettings(source=str(folder), **settings)).eval()


def logits_of(task: TokenClassification, model: nn.Module, feature: Feature) -> torch.Tensor:
    """[words, labels]: the window alone, without padding."""
    batch = task.collate([feature], [0])
    with torch.no_grad():
        return call(model, batch).logits[0, feature["first_tokens"]]


def test_loss_is_the_sum_over_words(folder: Path) -> None:
    task = make(max_length=40, overlap=12)
    model = build(task, folder)
    features = [one for example in (LONG, ADA) for one in task.features(example, training=True)]
    features += list(task.features(TaggedSentence(id="u", words=("so", "it", "is"), tags=()), training=False))
    total, targets = 0.0, 0
    for feature in features:
        for row, label in zip(logits_of(task, model, feature), feature["labels"], strict=True):
            if label >= 0:
                total -= float(row.log_softmax(0)[label])
                targets += 1
    assert targets == len(LONG.words) + len(ADA.words)
    loss = task.loss(model, task.collate(features, [0] * len(features)))
    assert int(loss.targets) == targets
    assert float(loss.total.detach()) == pytest.approx(total, rel=1e-5)


def test_loss_without_targets_is_zero(folder: Path) -> None:
    task = make()
    model = build(task, folder)
    empty = list(task.features(TaggedSentence(id="e", words=(), tags=()), training=False))
    loss = task.loss(model, task.collate(empty, [0]))
    loss.total.backward()
    assert float(loss.total.detach()) == 0 and int(loss.targets) == 0
    assert task.outputs(model, task.collate(empty, [0])) == [WordTags([])]


def test_prediction_is_that_of_each_words_window(folder: Path) -> None:
    task = make(max_length=40, overlap=12)
    model = build(task, folder)
    tags: list[str] = []
    for feature in task.features(LONG, training=False):
        tags += [LABELS[int(row.argmax())] for row in logits_of(task, model, feature)]
    assert predictions(task, model, [LONG]) == [{"id": "long", "words": list(LONG.words), "tags": tags}]
    assert len(set(tags)) > 1


def test_score_counts_spans() -> None:
    said = [
        {"tags": ["B-PER", "I-PER", "O", "O", "O", "O", "O", "O", "O", "O"]},
        {"tags": ["B-PER", "O"]},
    ]
    scores = make().score([ADA, sentence("Bo/B-LOC sat/O")], said)
    # Three gold spans, two said, one of them right.
    assert scores == pytest.approx({"precision": 1 / 2, "recall": 1 / 3, "f1": 0.4})


@pytest.mark.parametrize(
    ("save", "settings", "max_length"),
    [
        (tiny_roberta, {}, 40),
        (tiny_longformer, {}, 512),
        (tiny_roberta, {"max_length": 256, "window": 16}, 256),
    ],
    ids=["short in windows", "long", "lengthened"],
)
def test_learns_a_few_sentences_by_heart(
    save: Callable[[Path], Path], settings: dict[str, Any], max_length: int, tmp_path: Path
) -> None:
    task = make(max_length=max_length, overlap=12)
    model = build(task, save(tmp_path), **settings)
    examples = [ADA, LONG]
    before = task.score(examples, predictions(task, model, examples))
    learn(task, model, examples, steps=40)
    after = task.score(examples, predictions(task, model, examples))
    assert before["f1"] < 0.5 and after["f1"] == 1.0


def test_saved_and_loaded_it_says_the_same(folder: Path, tmp_path: Path) -> None:
    task = make(max_length=40)
    model = build(task, folder)
    saved = tmp_path / "saved"
    saved.mkdir()
    task.save(model, saved)
    loaded = task.load(saved).eval()
    assert type(loaded) is type(model)
    for feature in task.features(LONG, training=False):
        assert torch.equal(logits_of(task, loaded, feature), logits_of(task, model, feature))
    names: Any = loaded.config
    assert names.id2label == dict(enumerate(LABELS))
