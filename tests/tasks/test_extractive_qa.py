"""Questions with answers in documents: what the inputs are, what is learned, and what is answered."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers.models import WordLevel
from tokenizers.processors import TemplateProcessing
from torch import Tensor, nn
from transformers import PreTrainedTokenizerFast

from longspan.data.examples import Document, Question, Span, Turn
from longspan.tasks.extractive_qa import ExtractiveQA, ExtractiveQASettings, WindowAnswer
from longspan.tasks.models import ModelSettings
from longspan.tasks.spans import or_loss
from longspan.tasks.task import Batch, Feature
from tests.tasks.qa_cases import RIVER, SHORT, question, task
from tests.tasks.tiny import tiny_longformer, tiny_roberta, tiny_tokenizer


def said(feature: Feature, example: Question, which: str) -> list[str]:
    """The words at the tokens that a mask marks."""
    return [
        example.documents[feature["document"][at]].text[
            feature["first_character"][at] : feature["end_character"][at]
        ]
        for at in np.flatnonzero(feature[which])
    ]


def test_an_input_is_the_tokenizers_own_pair() -> None:
    one = task(max_length=200)
    example = question("Where is the city?", RIVER, answers=("Passau",))
    (feature,) = one.features(example, training=True)
    expected = one.tokenizer("Where is the city?", RIVER)["input_ids"]
    assert feature["input_ids"].tolist() == expected
    before_separator = expected.index(2)
    assert feature["is_global"].tolist() == [at < before_separator for at in range(len(expected))]
    in_document = [place == 1 for place in one.tokenizer("Where is the city?", RIVER).sequence_ids(0)]
    assert (feature["document"] == 0).tolist() == in_document


def test_without_global_tokens_none_is() -> None:
    (feature,) = task(max_length=200, global_tokens=False).features(question("Who?", RIVER), training=False)
    assert not feature["is_global"].any()


def test_all_features_have_the_same_names_and_types() -> None:
    one = task(**SHORT, answer_may_be_absent=True)
    examples = [question("Where?", RIVER, "", answers=("Passau",)), question("Where?"), question("", "a")]
    features = [
        feature
        for example in examples
        for training in (True, False)
        for feature in one.features(example, training=training)
    ]
    assert len({tuple((name, x.dtype) for name, x in feature.items()) for feature in features}) == 1
    assert all(x.ndim == 1 and len(x) == len(one["input_ids"]) for one in features for x in one.values())


def test_bert_like_tokenizers_have_their_own_pair() -> None:
    words = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "who", "is", "ada", "here"]
    tokenizer = Tokenizer(WordLevel({word: at for at, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
    )
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]")
    example = question("who is", "ada is here", "here", answers=("ada",))
    settings = ExtractiveQASettings(join_documents=True)
    (feature,) = ExtractiveQA(settings, fast).features(example, training=True)
    assert feature["input_ids"].tolist() == [1, 4, 5, 2, 6, 5, 7, 2, 7, 2]
    assert feature["document"].tolist() == [-1, -1, -1, -1, 0, 0, 0, -1, 1, -1]
    assert feature["is_global"].tolist() == [True] * 3 + [False] * 7
    assert said(feature, example, "is_start") == said(feature, example, "is_end") == ["ada"]


def test_a_tokenizer_without_special_tokens_is_refused() -> None:
    tokenizer = Tokenizer(WordLevel({"a": 0}, unk_token="a"))
    with pytest.raises(ValueError, match="no special tokens before, between and after"):
        ExtractiveQA(ExtractiveQASettings(), PreTrainedTokenizerFast(tokenizer_object=tokenizer))


def test_every_occurrence_is_a_target() -> None:
    example = question(
        "Which river?", "The Inn. Not the inner city, the INN; the river Inn", answers=("Inn",)
    )
    (feature,) = task(max_length=200).features(example, training=True)
    starts, ends = np.flatnonzero(feature["is_start"]), np.flatnonzero(feature["is_end"])
    text = example.documents[0].text
    found = [
        (int(feature["first_character"][start]), int(feature["end_character"][end]))
        for start, end in zip(starts, ends, strict=True)
    ]
    assert [text[start:end] for start, end in found] == ["Inn", "INN", "Inn"]
    assert found == [(span.start, span.end) for span in example.spans]
    assert found[-1][1] == len(text)  # the last token before the end


def test_an_answer_is_a_target_where_a_window_has_all_of_it() -> None:
    text = RIVER * 6
    long_answer = "the city of Passau lies where they meet"
    example = question("What is it?", text, answers=(long_answer,))
    one = task(**SHORT)
    found = 0
    for feature in one.features(example, training=False):
        chars = feature["document"] == 0
        low, high = feature["first_character"][chars].min(), feature["end_character"].max()
        inside = [span for span in example.spans if low <= span.start and span.end <= high]
        is_start, is_end = feature["is_start"], feature["is_end"]
        if not inside:  # the others say that it is not here
            assert np.flatnonzero(is_start).tolist() == np.flatnonzero(is_end).tolist() == [0]
            continue
        starts = feature["first_character"][is_start].tolist()
        assert starts == [span.start for span in inside]
        assert feature["end_character"][is_end].tolist() == [span.end for span in inside]
        assert len(feature["input_ids"]) <= 48
        found += len(starts)
    assert found > 0


def test_windows_cover_a_document_and_overlap() -> None:
    text = RIVER * 6
    one = task(**SHORT)
    features = list(one.features(question("Where?", text), training=False))
    firsts = [feature["first_character"][feature["document"] == 0].tolist() for feature in features]
    assert len(features) > 3 and all(a[-8:] == b[:8] for a, b in zip(firsts, firsts[1:], strict=False))
    whole = one.tokenizer(text, add_special_tokens=False)["input_ids"]
    assert sum(map(len, firsts)) - 8 * (len(firsts) - 1) == len(whole)
    assert [len(feature["input_ids"]) for feature in features[:-1]] == [48] * (len(features) - 1)
    first_two = list(task(**SHORT, max_windows=2).features(question("Where?", text), training=False))
    for feature, same in zip(first_two, features[:2], strict=True):
        assert all(np.array_equal(feature[name], same[name]) for name in same)


def test_no_answer_is_learned_at_the_first_token_where_it_may_be() -> None:
    absent = question("Who?", RIVER, is_impossible=True)
    (feature,) = task(max_length=200, answer_may_be_absent=True).features(absent, training=True)
    assert np.flatnonzero(feature["is_start"]).tolist() == np.flatnonzero(feature["is_end"]).tolist() == [0]
    # Of a question with an answer, the windows without it.
    example = question(
        "Where?", "Passau lies here. " + RIVER.replace("Passau", "it") * 4, answers=("Passau",)
    )
    features = list(task(**SHORT, answer_may_be_absent=True).features(example, training=True))
    assert said(features[0], example, "is_start") and not features[0]["is_start"][0]
    assert len(features) > 1 and all(feature["is_start"][0] for feature in features[1:])


@pytest.mark.parametrize("may_be_absent", [None, False])
def test_a_question_without_an_answer_is_refused_where_there_may_be_none(may_be_absent: bool | None) -> None:
    one = task(max_length=200, answer_may_be_absent=may_be_absent)
    absent = question("Who?", RIVER, is_impossible=True)
    with pytest.raises(ValueError, match="q: is_impossible is true, but settings.answer_may_be_absent is"):
        list(one.features(absent, training=True))
    assert len(list(one.features(absent, training=False))) == 1


def test_windows_without_the_answer_teach_that_it_is_not_there() -> None:
    """Else nothing would make the scores of one window smaller than those of another."""
    far = question("Where?", "Passau lies here. " + RIVER.replace("Passau", "it") * 4, answers=("Passau",))
    features = list(task(**SHORT, answer_may_be_absent=False).features(far, training=True))
    assert len(features) == len(list(task(**SHORT).features(far, training=False))) > 1
    assert said(features[0], far, "is_start") and not features[0]["is_start"][0]
    assert all(np.flatnonzero(one["is_start"]).tolist() == [0] for one in features[1:])
    assert all(one["may_answer"][0] for one in features)
    # One window is compared with none, and is learned from as in the paper.
    (alone,) = task(**SHORT, max_windows=1, answer_may_be_absent=False).features(far, training=True)
    assert not alone["may_answer"][0]
    late = question("Where?", RIVER.replace("Passau", "it") * 4 + "Passau.", answers=("Passau",))
    assert list(task(**SHORT, max_windows=1).features(late, training=True)) == []


def test_unknown_answers_teach_nothing_but_are_asked() -> None:
    for settings in ({}, {"answer_may_be_absent": True}):
        one = task(max_length=200, **settings)
        unknown = question("Who?", RIVER)
        assert list(one.features(unknown, training=True)) == []
        (feature,) = one.features(unknown, training=False)
        assert not feature["is_start"].any() and not feature["is_end"].any()


def test_documents_have_windows_of_their_own_or_are_joined() -> None:
    example = question("Who?", "Ada wrote it.", "", "Yes, Ada said.", answers=("Ada",))
    apart = list(task(max_length=100, stride=8).features(example, training=False))
    assert [set(feature["document"].tolist()) for feature in apart] == [{-1, 0}, {-1}, {-1, 2}]
    (joined,) = task(max_length=100, join_documents=True, stride=8).features(example, training=True)
    tokenizer = tiny_tokenizer()
    ids = [
        tokenizer(text, add_special_tokens=False)["input_ids"] for text in ("Ada wrote it.", "Yes, Ada said.")
    ]
    front = tokenizer("Who?")["input_ids"] + [2]
    assert joined["input_ids"].tolist() == [*front, *ids[0], 2, 2, *ids[1], 2]
    starts = np.flatnonzero(joined["is_start"])
    assert [(joined["document"][at], joined["first_character"][at]) for at in starts] == [(0, 0), (2, 5)]


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("documents", [(), ("",), (" \n",), ("", "")])
def test_nothing_to_read_still_gives_an_input_and_no_answer(
    documents: tuple[str, ...], joined: bool, tmp_path: Path
) -> None:
    one = task(max_length=100, stride=8, join_documents=joined)
    example = question("", *documents)
    features = list(one.features(example, training=False))
    assert features
    model = one.build(ModelSettings(source=str(tiny_roberta(tmp_path)))).eval()
    outputs = one.outputs(model, one.collate(features, [0] * len(features)))
    answer = one.prediction(example, outputs)
    assert (answer["answer"], answer["document"], answer["start"], answer["end"]) == ("", None, None, None)
    assert np.isfinite(answer["score"])


def test_questions_are_cut() -> None:
    (feature,) = task(max_length=64, stride=8, max_question_tokens=5).features(
        question("Where is the city? " * 50, "Here."), training=False
    )
    assert feature["is_global"].sum() == 1 + 5 and len(feature["input_ids"]) <= 64


TURNS = (Turn("Who?", "Ada"), Turn("Where is the city?", ""), Turn("Why not?", "It was long."))


def test_the_last_turns_of_a_dialogue_come_before_the_question() -> None:
    example = dataclasses.replace(question("And then?", "Yes."), history=TURNS)

    def front(**settings: Any) -> str:
        one = task(**({"max_length": 200} | settings))
        (feature,) = one.features(example, training=False)
        ids = feature["input_ids"][feature["is_global"]]
        assert (feature["document"][feature["is_global"]] == -1).all()
        return one.tokenizer.decode(ids, skip_special_tokens=False)

    assert front() == "<s>Where is the city?</s></s>Why not?</s>It was long.</s>And then?"
    assert front(history=1) == "<s>Why not?</s>It was long.</s>And then?"
    assert front(history=0) == "<s>And then?"
    assert front(history=9).startswith("<s>Who?</s>Ada</s>Where is the city?</s></s>Why")


def test_the_oldest_words_of_a_dialogue_are_left_out() -> None:
    example = dataclasses.replace(question("And then?", "Yes."), history=TURNS)
    whole = list(task(max_length=200, max_question_tokens=64).features(example, training=False))[0]
    asked = len(tiny_tokenizer()("And then?", add_special_tokens=False)["input_ids"])
    for most in (asked - 1, asked, asked + 1, asked + 4):
        (feature,) = task(max_length=200, max_question_tokens=most).features(example, training=False)
        assert feature["is_global"].sum() == 1 + most
        expected = whole["input_ids"][whole["is_global"]][1:]
        expected = expected[len(expected) - max(most, asked) :][:most]
        assert feature["input_ids"][1 : 1 + most].tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"stride": -1}, "settings.stride is -1"),
        ({"max_question_tokens": 0}, "settings.max_question_tokens is 0"),
        ({"max_answer_tokens": 0}, "settings.max_answer_tokens is 0"),
        ({"max_windows": 0}, "settings.max_windows is 0"),
        ({"rules": "bleu"}, "settings.rules is 'bleu'; it must be one of squad, triviaqa, quac"),
        ({"history": -1}, "settings.history is -1; it must be at least 0"),
        ({"shift": -1}, "settings.shift is -1; it must be at least 0"),
        ({"max_length": 4}, "settings.max_length is 4"),
        ({"max_length": 196}, "settings.max_length is 196; .* must be at least 197"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        task(**settings)


class Fixed(nn.Module):
    """A model that says what it is told."""

    def __init__(self, start: Tensor, end: Tensor) -> None:
        super().__init__()
        self.start_logits, self.end_logits = start, end

    def forward(self, **_: Any) -> "Fixed":
        return self


def batch_of(one: ExtractiveQA, *examples: Question, training: bool) -> Batch:
    features = [feature for example in examples for feature in one.features(example, training=training)]
    return one.collate(features, [0] * len(features))


@pytest.mark.parametrize("may_be_absent", [False, True])
def test_the_loss_is_over_the_document_and_perhaps_the_first_token(may_be_absent: bool) -> None:
    one = task(max_length=200, answer_may_be_absent=may_be_absent)
    examples = [
        question("Which river is it?", RIVER, answers=("the", "Inn")),
        question("Who?", "Ada wrote.", answers=("Ada",)),
        question("Who?", RIVER, is_impossible=True),
    ]
    batch = batch_of(one, *examples, training=False)
    shape = batch["input_ids"].shape
    start, end = torch.randn(2, *shape, generator=torch.Generator().manual_seed(0))
    loss = one.loss(Fixed(start, end), batch)
    expected, targets = 0.0, 0
    for row in range(3):
        in_document = (batch["document"][row] == 0).nonzero()[:, 0].tolist()
        candidates = [0, *in_document] if may_be_absent else in_document
        if not batch["is_start"][row].any():
            continue
        targets += 1
        for logits, is_right in ((start, batch["is_start"]), (end, batch["is_end"])):
            probabilities = logits[row, candidates].softmax(0)
            expected -= float(probabilities[is_right[row, candidates]].sum().log())
    assert int(loss.targets) == targets == (3 if may_be_absent else 2)
    assert float(loss.total) == pytest.approx(expected, rel=1e-5)


def test_the_best_span_is_found_by_brute_force_too() -> None:
    one = task(max_length=100, stride=8, max_answer_tokens=3, join_documents=True)
    examples = [question("Who?", "Ada  wrote\n it.", "The dog"), question("Where?", RIVER)]
    batch = batch_of(one, *examples, training=False)
    shape = batch["input_ids"].shape
    for seed in range(20):
        start, end = torch.randn(2, *shape, generator=torch.Generator().manual_seed(seed))
        outputs = one.outputs(Fixed(start, end), batch)
        for row, example in enumerate(examples):
            scores: dict[tuple[int, int, int], float] = {}
            for i in range(shape[1]):
                for j in range(i, min(i + 3, shape[1])):
                    documents = set(batch["document"][row, i : j + 1].tolist())
                    first, last = int(batch["first_character"][row, i]), int(batch["end_character"][row, j])
                    if documents not in ({0}, {1}):
                        continue
                    text = example.documents[documents.pop()].text
                    own = [
                        text[batch["first_character"][row, at] : batch["end_character"][row, at]]
                        for at in (i, j)
                    ]
                    if all(own):
                        key = (int(batch["document"][row, i]), first, last)
                        scores[key] = max(scores.get(key, -9e9), float(start[row, i] + end[row, j]))
            best = max(scores, key=scores.__getitem__)
            assert outputs[row][2:] == best
            assert outputs[row].score == pytest.approx(scores[best])
            assert outputs[row].no_answer == pytest.approx(float(start[row, 0] + end[row, 0]))
            answer = one.prediction(example, outputs[row : row + 1])
            text = example.documents[answer["document"]].text
            assert answer["answer"] == text[answer["start"] : answer["end"]] == answer["answer"].strip() != ""


def test_the_best_window_answers_and_no_answer_must_win_in_all() -> None:
    example = question("Who?", "Ada wrote it.", "The dog barked.")
    outputs = [
        WindowAnswer(5.0, 3.0, 0, 0, 3),
        WindowAnswer(2.5, 4.0, 1, 4, 7),
        WindowAnswer(9.0, -np.inf, -1, 0, 0),
    ]
    found = {"id": "q", "answer": "dog", "document": 1, "start": 4, "end": 7, "score": 4.0}
    nothing = {"id": "q", "answer": "", "document": None, "start": None, "end": None, "score": 2.5}
    assert task().prediction(example, outputs) == found
    assert task(answer_may_be_absent=True).prediction(example, outputs) == found
    careful: Callable[[float], ExtractiveQA] = lambda threshold: task(  # noqa: E731
        answer_may_be_absent=True, no_answer_threshold=threshold
    )
    assert careful(-1.5).prediction(example, outputs) == found
    assert careful(-1.6).prediction(example, outputs) == nothing


def test_windows_are_compared_by_what_is_learned() -> None:
    """A constant added to all logits of a window changes no probability, and so no answer."""
    example = question("Who?", "Ada wrote it.", "The dog barked.")
    for shift in (-10.0, 0.0, 10.0):
        outputs = [WindowAnswer(1.0, 3.0, 0, 0, 3), WindowAnswer(4.0 + shift, 5.0 + shift, 1, 4, 7)]
        assert task().prediction(example, outputs)["answer"] == "Ada"


LESSONS = [
    question("Which river?", "Yes. " * 12 + "The Inn flows. " + "No. " * 12, answers=("Inn",), id="1"),
    question("Which city?", "It was long. " * 9 + "Passau is the city", answers=("Passau",), id="2"),
    question(
        "Who wrote it?", "The dog barked.", "Ada Lovelace wrote a book.", answers=("Ada Lovelace",), id="3"
    ),
    question("Who is it?", "Nobody had built a house. " * 2, is_impossible=True, id="4"),
]


def answered(one: ExtractiveQA, model: nn.Module) -> list[dict[str, Any]]:
    predictions: list[dict[str, Any]] = []
    with torch.no_grad():
        for example in LESSONS:
            batch = batch_of(one, example, training=False)
            predictions.append(one.prediction(example, one.outputs(model, batch)))
    return predictions


@pytest.mark.parametrize("kind", ["short, in windows", "long, joined"])
def test_a_tiny_model_learns_its_lessons_and_is_saved(kind: str, tmp_path: Path) -> None:
    make = tiny_roberta if kind.startswith("short") else tiny_longformer
    size: dict[str, Any] = SHORT if kind.startswith("short") else {"max_length": 400, "stride": 16}
    one = task(**size, answer_may_be_absent=True, join_documents="joined" in kind)
    torch.manual_seed(0)
    model = one.build(ModelSettings(source=str(make(tmp_path / "source"))))
    batch = batch_of(one, *LESSONS, training=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    losses: list[float] = []
    for _ in range(40):
        loss = one.loss(model, batch)
        mean = loss.total / loss.targets
        mean.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(mean.item())
    assert losses[-1] < 0.05 < losses[0]
    model.eval()
    predictions = answered(one, model)
    assert [prediction["answer"] for prediction in predictions] == ["Inn", "Passau", "Ada Lovelace", ""]
    assert one.score(LESSONS, predictions) == {"exact_match": 1.0, "f1": 1.0}

    (tmp_path / "saved").mkdir()
    one.save(model, tmp_path / "saved")
    assert answered(one, one.load(tmp_path / "saved").eval()) == predictions


def test_global_tokens_reach_the_model(tmp_path: Path) -> None:
    source = ModelSettings(source=str(tiny_longformer(tmp_path)))
    example = question("Which river is it?", RIVER * 4, answers=("Inn",))
    totals: list[float] = []
    for global_tokens in (True, False):
        one = task(max_length=400, global_tokens=global_tokens)
        torch.manual_seed(0)
        model = one.build(source).eval()
        totals.append(one.loss(model, batch_of(one, example, training=True)).total.item())
    assert abs(totals[0] - totals[1]) > 1e-4


def test_a_document_is_learned_from_as_if_a_text_stood_before_it(tmp_path: Path) -> None:
    model_of = ModelSettings(source=str(tiny_longformer(tmp_path)))
    example = question("Which river is it?", RIVER, answers=("Inn",))
    plain, shifting = task(max_length=200), task(max_length=200, shift=600)
    torch.manual_seed(0)
    model = shifting.build(model_of).eval()
    (feature,) = shifting.features(example, training=True)
    batch = shifting.collate([feature] * 40, range(40))
    shifts = batch["shift"].tolist()
    assert len(set(shifts)) > 30 and min(shifts) < 100 and 500 < max(shifts) <= 600
    assert shifting.collate([feature], [7])["shift"].tolist() == shifts[7:8], "a seed says all"
    table, question_ends = 512, int(np.flatnonzero(feature["document"] == 0)[0])
    for at in (0, shifts.index(max(shifts))):  # the largest goes beyond the table, where it begins again
        places = torch.arange(len(feature["input_ids"]))
        places[question_ends:] += shifts[at]
        said = model(
            input_ids=torch.from_numpy(feature["input_ids"])[None],
            global_attention_mask=torch.from_numpy(feature["is_global"])[None].long(),
            position_ids=places[None] % table + 2,
        )
        as_shifted = or_loss(
            said.start_logits,
            said.end_logits,
            *(batch[name][:1] for name in ("is_start", "is_end", "may_answer")),
        )
        lost = shifting.loss(model, shifting.collate([feature], [at])).total
        torch.testing.assert_close(lost, as_shifted.sum())
        assert abs(lost - plain.loss(model, batch_of(plain, example, training=True)).total) > 1e-5
    # What is asked stands where it stands.
    asked = batch_of(shifting, example, training=False)
    assert shifting.outputs(model, asked) == plain.outputs(model, asked)


def test_positions_of_other_models_stay(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="settings.shift is 9, but .* is a RobertaForQuestion"):
        task(max_length=200, shift=9).build(ModelSettings(source=str(tiny_roberta(tmp_path))))


def test_padding_changes_nothing(tmp_path: Path) -> None:
    one = task(max_length=400)
    torch.manual_seed(0)
    model = one.build(ModelSettings(source=str(tiny_longformer(tmp_path)))).eval()
    with torch.no_grad():
        together = one.outputs(model, batch_of(one, *LESSONS, training=False))
        apart = [
            answer
            for example in LESSONS
            for answer in one.outputs(model, batch_of(one, example, training=False))
        ]
    assert [answer[2:] for answer in together] == [answer[2:] for answer in apart]
    np.testing.assert_allclose([a[:2] for a in together], [a[:2] for a in apart], atol=1e-4)


def test_spans_outside_of_any_token_are_ignored() -> None:
    example = Question(
        id="q",
        question="Who?",
        documents=(Document(id="d", text="Ada  wrote"),),
        answers=("Ada",),
        spans=(Span(0, 0, 3), Span(0, 10, 10)),
        is_impossible=False,
    )
    (feature,) = task().features(example, training=True)
    assert feature["is_start"].sum() == feature["is_end"].sum() == 1
