"""Answers about documents, by tiny readers."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import RobertaConfig, RobertaForQuestionAnswering

from longspan.apps.answers import Candidate
from longspan.apps.calibration import Calibration, Logistic, write_calibration
from longspan.apps.reader import Reader, Reading
from longspan.apps.surroundings import surroundings
from longspan.conversion.position_tables import extend
from longspan.models.longformer_heads import LongformerForQuestionAnswering
from longspan.tasks.extractive_qa import ExtractiveQA, ExtractiveQASettings
from longspan.tasks.models import call
from longspan.training.loop import train
from longspan.training.recipe import read_recipe
from tests.apps.tiny_reader import tiny_reader
from tests.tasks.qa_cases import RIVER, question
from tests.tasks.tiny import tiny_longformer, tiny_roberta, tiny_tokenizer

SAMPLES = Path(__file__).parents[2] / "samples"
FILMS = "It was a good film, a very good film. Nobody liked it, and nobody read the book to the end."
CITIES = "Paris is the capital of France, Vienna of Austria. Ada saw her house.\nLima is in Peru."
ASKED = "Where is the city?"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_reader(tmp_path_factory.mktemp("reader"))


@pytest.fixture(scope="module")
def reader(folder: Path) -> Reader:
    return Reader(str(folder), precision="fp32")


def places(reading: Reading) -> list[tuple[int, int, int]]:
    return [(one.document, one.start, one.end) for one in reading.answers]


def test_the_best_answer_is_the_tasks(folder: Path, reader: Reader) -> None:
    settings = ExtractiveQASettings(max_length=512, answer_may_be_absent=False)
    task = ExtractiveQA(settings, tiny_tokenizer())
    model = LongformerForQuestionAnswering.from_pretrained(folder).eval()
    example = question(ASKED, RIVER * 3, FILMS, CITIES)
    features = list(task.features(example, training=False))
    with torch.no_grad():
        said = task.prediction(example, task.outputs(model, task.collate(features, range(3))))
    reading = reader.read([RIVER * 3, FILMS, CITIES], ASKED, anyway=True)
    assert places(reading)[0] == (said["document"], said["start"], said["end"])
    assert reading.answers[0].text == said["answer"]
    assert reading.tokens == sum(len(one["input_ids"]) for one in features)


def test_answers_are_parts_of_their_documents(reader: Reader) -> None:
    documents = [RIVER * 5, FILMS, CITIES]
    reading = reader.read(documents, ASKED, top=5, anyway=True)
    assert len(reading.answers) == 5 and reading.seconds > 0
    confidences = [one.confidence for one in reading.answers]
    assert confidences == sorted(confidences, reverse=True)
    assert 0 < sum(confidences) + reading.no_answer < 1, "a further answer was compared with"
    for one in reading.answers:
        text = documents[one.document]
        assert one.text == text[one.start : one.end] == one.text.strip() != ""
        assert one.sentence_start <= one.start < one.end <= one.sentence_end <= len(text)
        assert "\n" not in text[one.sentence_start : one.sentence_end] or "\n" in one.text
        for other in reading.answers:
            same = one.document == other.document and one.start < other.end and other.start < one.end
            assert not same or one is other
    assert len({one.text.lower() for one in reading.answers}) == 5


def test_beyond_the_table_positions_begin_again(folder: Path, reader: Reader, tmp_path: Path) -> None:
    """As in the model that was made longer by copying."""
    model = LongformerForQuestionAnswering.from_pretrained(folder)
    embeddings: Any = model.longformer.embeddings
    longer = extend(embeddings.position_embeddings.weight, 2050, offset=2, method="copy")
    embeddings.position_embeddings = torch.nn.Embedding.from_pretrained(longer, padding_idx=1)
    model.config.max_position_embeddings = 2050
    model.save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    text = (RIVER + FILMS + " " + CITIES + " ") * 14
    wrapped = reader.read([text], ASKED, anyway=True)
    assert 2 * 512 < wrapped.tokens < 2048
    long = Reader(str(tmp_path), precision="fp32").read([text], ASKED, anyway=True)
    assert places(wrapped) == places(long)
    torch.testing.assert_close(
        [one.confidence for one in wrapped.answers], [one.confidence for one in long.answers]
    )


def test_words_of_the_question_draw_the_answer_near(folder: Path, reader: Reader) -> None:
    """Weighed heavily, they decide where the answer is; which of the spans there is the model's choice."""
    documents = [FILMS * 9, RIVER * 2 + CITIES + " " + RIVER * 3]
    asked = "Is Paris the capital of France?"
    around = surroundings(documents, asked)

    def score(one: Candidate) -> float:
        return float(around[one.document].at(np.array([one.start]))[0])

    heavy = Reader(str(folder), precision="fp32", words=1e6)
    best = heavy.candidates(documents, asked, 1).spans[0]
    assert best.document == 1 and score(best) == 0
    plain = {one[1:]: one.margin for one in reader.candidates(documents, asked, 50).spans}
    light = Reader(str(folder), precision="fp32", words=0.5)
    both = [one for one in light.candidates(documents, asked, 50).spans if one[1:] in plain]
    assert len(both) > 5 and any(score(one) < -0.1 for one in both)
    for one in both:
        assert one.margin == pytest.approx(plain[one[1:]] + 0.5 * score(one), abs=1e-4)
    assert reader.words == 0


def test_documents_do_not_see_each_other(reader: Reader) -> None:
    documents = [RIVER * 7, FILMS, "", CITIES, RIVER + FILMS]
    together = reader.read(documents, ASKED, top=1, anyway=True)
    alone = [reader.read([text], ASKED, top=1, anyway=True) for text in documents if text]
    best = [one.answers[0] for one in alone]
    found = together.answers[0]
    same = best[found.document - (found.document > 2)]
    assert (same.text, same.start, same.end) == (found.text, found.start, found.end)
    assert together.tokens > sum(one.tokens for one in alone), "the question is read with the empty one too"


@pytest.mark.parametrize("period", [None, 16])
def test_attention_is_what_global_tokens_see(folder: Path, period: int | None, tmp_path: Path) -> None:
    """But for what stands at copies of the first position, which looks like the first token."""
    bins = 5
    documents = [RIVER * 2, CITIES]
    model = LongformerForQuestionAnswering.from_pretrained(folder).eval()
    if period:
        table = model.longformer.embeddings.position_embeddings
        assert table is not None
        rows = torch.arange(table.num_embeddings - 2) % period + 2
        table.weight.data[2:] = table.weight.data[rows]
        model.save_pretrained(tmp_path)
        tiny_tokenizer().save_pretrained(tmp_path)
        folder = tmp_path
    reader = Reader(str(folder), precision="fp32")
    reading = reader.read(documents, ASKED, bins=bins)
    settings = ExtractiveQASettings(max_length=512, answer_may_be_absent=False)
    task = ExtractiveQA(settings, tiny_tokenizer())
    expected = [0.0] * bins
    for feature in task.features(question(ASKED, *documents), training=False):
        batch = task.collate([feature], [0])
        with torch.no_grad():
            model.config.output_attentions = True
            said = call(model, batch)
        # [batch, heads, length, globals] a layer; the tiny model has as many layers as are looked at.
        seen = torch.stack(said.global_attentions).mean((0, 1, 2, 4)) * len(feature["input_ids"])
        for at in range(len(feature["input_ids"])):
            document = int(feature["document"][at])
            if document >= 0 and (period is None or at % period):
                place = (document and len(documents[0])) + int(feature["first_character"][at])
                expected[place * bins // sum(map(len, documents))] += float(seen[at])
    torch.testing.assert_close(reading.attention, tuple(x / sum(expected) for x in expected))
    assert sum(reading.attention) == pytest.approx(1)
    assert reader.read(documents, ASKED).attention == ()


def test_progress_rises_and_may_end_the_reading(reader: Reader) -> None:
    done: list[float] = []
    expected = reader.read([RIVER * 30, FILMS], ASKED, progress=done.append, anyway=True)
    assert done == sorted(done) and done[-1] == 1 and len(done) >= 2

    def stop(part: float) -> None:
        raise TimeoutError(f"at {part}")

    with pytest.raises(TimeoutError, match=r"at 0\.5"):
        reader.read([RIVER * 30, FILMS], ASKED, progress=stop)
    again = reader.read([RIVER * 30, FILMS], ASKED, anyway=True)
    assert again.answers == expected.answers
    assert not any(one._forward_hooks or one._forward_pre_hooks for one in reader._model.modules())


def test_many_documents_are_read_in_batches(reader: Reader) -> None:
    documents = [RIVER * (1 + at % 3) + str(at) for at in range(400)]
    done: list[float] = []
    reading = reader.read(documents, ASKED, progress=done.append, anyway=True)
    assert len(done) > 2 * 2 and done[-1] == 1 and done == sorted(done)
    assert reading.answers


def test_feed_forward_in_parts_is_the_same(folder: Path, reader: Reader) -> None:
    other = Reader(str(folder), precision="fp32")
    assert other._encoder is not None
    for layer in other._encoder.encoder.layer:
        layer.chunk_size_feed_forward = 7  # type: ignore[assignment]
    first, second = (one.read([RIVER * 9], ASKED, anyway=True) for one in (reader, other))
    assert places(first) == places(second)


def test_half_precision_is_close(folder: Path, reader: Reader) -> None:
    half = Reader(str(folder), precision="bf16").read([RIVER], ASKED, anyway=True)
    full = reader.read([RIVER], ASKED, anyway=True)
    assert half.no_answer == pytest.approx(full.no_answer, abs=0.1)


def test_nothing_is_said_where_no_answer_is_likelier(folder: Path) -> None:
    reader = Reader(str(folder), precision="fp32")
    never = Logistic(intercept=-3, margin=0, lead=0, log_tokens=0)
    reader.calibration = Calibration(answerable=never, right=never)
    reading = reader.read([RIVER], ASKED)
    assert reading.answers == () and reading.no_answer == pytest.approx(0.953, abs=1e-3)
    anyway = reader.read([RIVER], ASKED, anyway=True)
    assert anyway.answers and anyway.answers[0].confidence == pytest.approx(0.047**2, abs=1e-3)
    for nothing in ([], [""], ["", "  \n "]):
        empty = reader.read(nothing, ASKED, bins=3, anyway=True)
        assert empty.answers == () and empty.no_answer == 1 and len(empty.attention) in (0, 3)


def test_a_run_and_its_calibration(tmp_path: Path) -> None:
    model = tiny_longformer(tmp_path / "model")
    fields = {"model.source": model, "model.max_length": "null", "settings.max_length": 256}
    fields |= {"settings.max_question_tokens": 32, "settings.stride": 16}
    fields |= {"data.root": SAMPLES, "data.train_limit": 2, "run.epochs": "null", "run.steps": 2}
    arguments = [f"--{name}={value}" for name, value in fields.items()]
    run = tmp_path / "run"
    train(read_recipe(SAMPLES / "qa.yaml", [*arguments, "--data.dev=null"]), run)
    plain = Reader(str(run), precision="fp32")
    assert plain.calibration is None
    sure = Logistic(intercept=2, margin=0, lead=0, log_tokens=0)
    calibration = Calibration(answerable=sure, right=sure)
    write_calibration(run / "last", dataclasses.replace(calibration, words=2.0))
    fitted, other = Reader(str(run)), Reader(str(run), words=0)
    assert fitted.words == 2 and fitted.calibration is not None
    assert other.words == 0 and other.calibration is None, "it was fitted to other scores"
    write_calibration(run / "last", calibration)
    for source in (run, run / "last"):
        reader = Reader(str(source), precision="fp32")
        assert reader.calibration == calibration
        assert reader.read([RIVER * 20], ASKED, anyway=True).tokens > 256
    (run / "last" / "calibration.json").write_text("{}")
    with pytest.raises(ValueError, match="is no calibration"):
        Reader(str(run))


def test_other_models_read_windows(tmp_path: Path) -> None:
    tiny_roberta(tmp_path, max_position_embeddings=130)
    config = RobertaConfig.from_pretrained(tmp_path)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        RobertaForQuestionAnswering(config).save_pretrained(tmp_path)
    reader = Reader(str(tmp_path), precision="fp32")
    done: list[float] = []
    reading = reader.read([RIVER * 20], ASKED, bins=4, progress=done.append, anyway=True)
    assert reading.tokens > 130 and reading.answers and reading.attention == () and done[-1] == 1


def test_mistakes(folder: Path, reader: Reader, tmp_path: Path) -> None:
    cases: list[tuple[Any, str]] = [
        (lambda: reader.read([RIVER], "  "), "question is empty"),
        (lambda: reader.read([RIVER], "who " * 99), "question has 298 tokens"),
        (lambda: reader.read([RIVER], ASKED, top=0), "top is 0; it must be"),
        (lambda: reader.read([RIVER], ASKED, bins=-1), "bins is -1"),
        (lambda: reader.candidates(RIVER, ASKED, 1), "documents is a text"),
        (lambda: Reader(str(folder), precision="fp8"), "precision is 'fp8'"),  # type: ignore[arg-type]
        (lambda: Reader(str(folder), words=-1), "words is -1"),
        (lambda: Reader(str(tmp_path)), "no model can be loaded"),
        (lambda: Reader(str(tiny_longformer(tmp_path / "lm"))), "is LongformerForMaskedLM; a reader needs"),
    ]
    for call_it, message in cases:
        with pytest.raises(ValueError, match=message):
            call_it()


def test_results_are_plain(reader: Reader) -> None:
    reading = reader.read([RIVER], ASKED, anyway=True)
    assert set(dataclasses.asdict(reading)) == {"answers", "no_answer", "tokens", "seconds", "attention"}
