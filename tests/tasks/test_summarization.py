"""Summaries: what is read and learned, what is written, how it is scored."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from longspan.conversion.in_place import has_window
from longspan.data.examples import SummarizedDocument
from longspan.models.led_heads import LEDForConditionalGeneration
from longspan.tasks.models import ModelSettings
from longspan.tasks.summarization import NO_LABEL, Summarization, SummarizationSettings, Written
from tests.tasks.tiny import learn, predictions, tiny_bart, tiny_led, tiny_longformer, tiny_tokenizer

DOCUMENTS = [
    SummarizedDocument(
        id="river", text="The river Inn flows to the Danube. " * 3, summaries=("A river flows.",)
    ),
    SummarizedDocument(
        id="film", text="It was a good film, the longest.", summaries=("Good film.", "Long film.")
    ),
    SummarizedDocument(id="asked", text="Ada wrote it.", query="Who wrote it?", summaries=("Ada.",)),
]


def make(**changes: Any) -> Summarization:
    """The task with the tiny tokenizer."""
    usual: dict[str, Any] = {"max_length": 64, "max_summary_length": 12, "num_beams": 2}
    return Summarization(SummarizationSettings(**(usual | changes)), tiny_tokenizer())


def test_documents_begin_with_a_global_token_and_queries_are_global() -> None:
    task = make()
    plain, asked = (next(task.features(DOCUMENTS[at], training=True)) for at in (1, 2))
    assert plain["is_global"].nonzero()[0].tolist() == [0]
    assert task.tokenizer.decode(asked["input_ids"]) == "<s>Who wrote it?</s></s>Ada wrote it.</s>"
    query = asked["input_ids"][asked["is_global"]]
    assert task.tokenizer.decode(query) == "<s>Who wrote it?</s>"
    assert not next(make(global_tokens=False).features(DOCUMENTS[2], training=True))["is_global"].any()


def test_every_reference_is_learned_and_long_texts_are_cut() -> None:
    task = make(max_length=16, max_summary_length=6)
    features = list(task.features(DOCUMENTS[1], training=True))
    assert len(features) == 2 and len(list(task.features(DOCUMENTS[1], training=False))) == 1
    for feature in features:
        assert len(feature["input_ids"]) <= 16 and len(feature["labels"]) <= 6
        assert feature["labels"][0] == 0 and feature["labels"][-1] == 2
    cut = next(task.features(DOCUMENTS[0], training=True))["input_ids"]
    assert len(cut) == 16 and cut[-1] == 2


def test_ends_of_lines_are_spaces_to_the_model() -> None:
    task = make(max_summary_length=50)
    one = SummarizedDocument(id="a", text="x", summaries=("One.\nTwo.",))
    assert task.tokenizer.decode(next(task.features(one, training=True))["labels"]) == "<s>One. Two.</s>"


def test_mistakes_are_named() -> None:
    with pytest.raises(ValueError, match="nothing: summaries is empty"):
        list(make().features(SummarizedDocument(id="nothing", text="x"), training=True))
    long = SummarizedDocument(id="long", text="x", query="who " * 50, summaries=("y",))
    with pytest.raises(ValueError, match=r"long: query has \d+ tokens; it must have at most half"):
        list(make().features(long, training=False))
    for name, value in (
        ("max_summary_length", 2),
        ("num_beams", 0),
        ("label_smoothing", 1.0),
        ("min_summary_length", 13),
        ("max_length", 7),
    ):
        with pytest.raises(ValueError, match=f"settings.{name} is {value}"):
            make(**{name: value})


def test_the_loss_is_that_of_the_model(tmp_path: Path) -> None:
    task = make()
    model: Any = task.build(ModelSettings(source=str(tiny_led(tmp_path)))).eval()
    assert isinstance(model, LEDForConditionalGeneration)
    features = [one for document in DOCUMENTS for one in task.features(document, training=True)]
    batch = task.collate(features, range(len(features)))
    loss = task.loss(model, batch)
    assert loss.targets == (batch["labels"] != NO_LABEL).sum()
    whole = model(
        input_ids=batch["input_ids"],
        attention_mask=batch["attention_mask"],
        global_attention_mask=batch["is_global"].long(),
        labels=batch["labels"],
    ).loss
    torch.testing.assert_close(loss.total / loss.targets, whole)
    smooth = make(label_smoothing=0.1).loss(model, batch)
    logits = model(
        input_ids=batch["input_ids"],
        attention_mask=batch["attention_mask"],
        global_attention_mask=batch["is_global"].long(),
        labels=batch["labels"],
    ).logits
    uniform = -logits.log_softmax(-1).mean(-1)[batch["labels"] != NO_LABEL].sum()
    torch.testing.assert_close(smooth.total, 0.9 * loss.total + 0.1 * uniform)


def test_what_the_decoder_begins_with_is_not_to_be_said(tmp_path: Path) -> None:
    """A decoder that begins with <s> says the first word next."""
    task = make()
    model: Any = task.build(ModelSettings(source=str(tiny_led(tmp_path, decoder_start_token_id=0)))).eval()
    batch = task.collate(list(task.features(DOCUMENTS[1], training=True)), [0, 0])
    loss = task.loss(model, batch)
    words = batch["labels"][:, 1:]
    assert bool((batch["labels"][:, 0] == 0).all()) and loss.targets == (words != NO_LABEL).sum()
    logits = model(
        input_ids=batch["input_ids"],
        attention_mask=batch["attention_mask"],
        global_attention_mask=batch["is_global"].long(),
        decoder_input_ids=batch["labels"][:, :-1].clamp(min=1).index_fill(1, torch.tensor([0]), 0),
    ).logits
    expected = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), words.flatten(), ignore_index=NO_LABEL, reduction="sum"
    )
    torch.testing.assert_close(loss.total, expected)


@pytest.mark.parametrize("start", [2, 0])
def test_an_led_learns_to_write(start: int, tmp_path: Path) -> None:
    task, documents = make(num_beams=3), [DOCUMENTS[0], DOCUMENTS[2]]
    model = task.build(ModelSettings(source=str(tiny_led(tmp_path, decoder_start_token_id=start))))
    learn(task, model, documents, steps=60, learning_rate=1e-2)
    said = predictions(task, model, documents)
    assert [one["summary"] for one in said] == ["A river flows.", "Ada."]
    assert task.score(documents, said)["rouge_lsum"] == 1.0


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({}, transformers.BartForConditionalGeneration),
        ({"max_length": 128, "window": 8}, LEDForConditionalGeneration),
    ],
    ids=["short", "lengthened"],
)
def test_bart_is_taken_as_it_is_or_lengthened(settings: dict[str, Any], kind: type, tmp_path: Path) -> None:
    task = make()
    model = task.build(ModelSettings(source=str(tiny_bart(tmp_path / "bart")), dropout=0.25, **settings))
    assert type(model) is kind
    assert model.config.dropout == model.config.attention_dropout == 0.25  # pyright: ignore
    said = predictions(task, model, DOCUMENTS)
    (tmp_path / "saved").mkdir()
    task.save(model, tmp_path / "saved")
    assert predictions(task, task.load(tmp_path / "saved"), DOCUMENTS) == said


def test_a_model_lengthened_in_place_writes_with_global_tokens(tmp_path: Path) -> None:
    config = transformers.MarianConfig(
        vocab_size=400,
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        max_position_embeddings=64,
        init_std=0.5,
        pad_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
        forced_eos_token_id=2,
    )
    torch.manual_seed(0)
    transformers.MarianMTModel(config).save_pretrained(tmp_path)
    task = make(max_length=100)
    model: Any = task.build(ModelSettings(source=str(tmp_path), max_length=128, window=4)).eval()
    assert has_window(model)
    batch = task.collate(list(task.features(DOCUMENTS[0], training=False)), [0])
    with torch.no_grad():
        local = task.loss(model, {**batch, "is_global": torch.zeros_like(batch["is_global"])}).total
        assert not torch.allclose(local, task.loss(model, batch).total)
    assert len(predictions(task, model, DOCUMENTS)) == 3


def test_settings_of_writing_are_kept(tmp_path: Path) -> None:
    model = make().build(ModelSettings(source=str(tiny_led(tmp_path)))).eval()
    task = make(min_summary_length=9, max_summary_length=10, no_repeat_ngram_size=1)
    batch = task.collate(list(task.features(DOCUMENTS[0], training=False)), [0])
    with torch.no_grad():
        tokens = task.outputs(model, batch)[0].tokens
    # The start token, which is the ending one too, is not counted.
    assert 10 <= len(tokens) <= 11
    words = tokens[1:-1]
    assert len(set(words)) == len(words)


def test_what_cannot_write_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="max_summary_length is 65; .* writes at most 64 tokens"):
        make(max_summary_length=65).build(ModelSettings(source=str(tiny_led(tmp_path / "led"))))
    with pytest.raises(ValueError, match="a Longformer, which has no decoder"):
        make().build(ModelSettings(source=str(tiny_longformer(tmp_path / "longformer"))))


def test_scores_compare_sentences_and_take_the_best_reference() -> None:
    task = make()
    written = task.prediction(DOCUMENTS[1], [Written(task.tokenizer("Long film.")["input_ids"])])
    assert written == {"id": "film", "summary": "Long film."}
    scores = task.score([DOCUMENTS[1]], [written])
    assert scores == {"rouge_1": 1.0, "rouge_2": 1.0, "rouge_l": 1.0, "rouge_lsum": 1.0}
    two = SummarizedDocument(id="two", text="", summaries=("It rained. We left.",))
    swapped = task.score([two], [{"id": "two", "summary": "We left. It rained."}])
    assert swapped["rouge_lsum"] == 1.0 > swapped["rouge_l"]
