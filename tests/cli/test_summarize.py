"""`longspan summarize` on tiny models."""

import io
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from longspan.apps.summarizer import Summarizer
from longspan.data.examples import SummarizedDocument
from longspan.training.loop import train
from longspan.training.recipe import read_recipe
from tests.cli.running import ends, mistake
from tests.data.small_pdf import small_pdf
from tests.tasks.tiny import tiny_led, tiny_longformer

SAMPLES = Path(__file__).parents[2] / "samples"
SENTENCES = ["The river is long.", "Ada wrote a book.", "It was a good film.", "Nobody read it."]
pytestmark = pytest.mark.usefixtures("loudness")


def trained(folder: Path, sample: str, model: Path, *more: str) -> Path:
    fields = {"model.source": model, "model.max_length": "null", "settings.max_length": 64}
    fields |= {"data.root": SAMPLES, "data.train_limit": 2, "run.epochs": "null", "run.steps": 2}
    arguments = [f"--{name}={value}" for name, value in fields.items()]
    train(read_recipe(SAMPLES / f"{sample}.yaml", [*arguments, "--data.dev=null", *more]), folder)
    return folder


@pytest.fixture(scope="module")
def led(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_led(tmp_path_factory.mktemp("led"))


@pytest.fixture(scope="module")
def chooses(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = tiny_longformer(tmp_path_factory.mktemp("model"))
    return trained(tmp_path_factory.mktemp("run") / "chooses", "extractive-summarization", model)


@pytest.fixture(scope="module")
def writes(led: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("run") / "writes"
    return trained(run, "summarization", led, "--settings.max_summary_length=8")


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "a.txt"
    path.write_text("\n\n".join(SENTENCES * 3), encoding="utf-8")
    return path


def test_a_model_comes_with_the_package(text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ends("summarize", text, "--sentences", "2", "--json") == 0
    said = capsys.readouterr()
    record = json.loads(said.out)
    assert said.err == "" and len(record["sentences"]) == 2 and record["tokens_read"] == record["tokens"]
    assert set(record["text"].splitlines()) <= set(SENTENCES)
    # Knowing what is asked, it chooses otherwise; told nothing else, it says itself how much.
    assert ends("summarize", text, "--query", "Who wrote a book?", "--json") == 0
    assert json.loads(capsys.readouterr().out)["sentences"]


def test_sentences_are_chosen(chooses: Path, text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ends("summarize", text, "--model", chooses, "--sentences", "2") == 0
    said = capsys.readouterr()
    lines = said.out.splitlines()
    assert len(lines) == 2 and set(lines) <= set(SENTENCES)
    assert said.err == "", "all of it is read, however long"
    assert ends("summarize", text, "--model", chooses / "last", "--sentences", "2") == 0
    assert capsys.readouterr().out == said.out
    assert ends("summarize", text, "--model", chooses, "--words", "4", "--query", "Who?", "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert record["text"] == (SENTENCES * 3)[record["sentences"][0]]
    assert record["tokens"] == record["tokens_read"] > 64


@pytest.mark.parametrize("kind", ["run", "model"])
def test_summaries_are_written(
    kind: str, writes: Path, led: Path, text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = writes if kind == "run" else led
    assert ends("summarize", text, "--model", model, "--beams", "1", "--max-tokens", "6", "--json") == 0
    said = capsys.readouterr()
    record = json.loads(said.out)
    assert record["sentences"] is None and record["text"] and record["name"] == str(text)
    # The run reads 64 tokens, two of which are special; the model by itself 512.
    assert (record["tokens_read"] == 62) == ("the model read the first 62 of" in said.err) == (kind == "run")


def test_a_model_writes_as_its_authors_say_unless_told(led: Path, tmp_path: Path) -> None:
    from transformers import GenerationConfig

    folder = tmp_path / "led"
    shutil.copytree(led, folder)
    own = {
        "num_beams": 2,
        "length_penalty": 2.0,
        "no_repeat_ngram_size": 3,
        "max_length": 20,
        "min_length": 9,
    }
    tokens = {"decoder_start_token_id": 2, "eos_token_id": 2, "pad_token_id": 1}
    GenerationConfig(**own, **tokens).save_pretrained(folder)
    usual = Summarizer(str(folder))
    settings = usual.task.settings
    assert (settings.num_beams, settings.length_penalty, settings.no_repeat_ngram_size) == (2, 2.0, 3)
    assert (settings.max_summary_length, settings.min_summary_length) == (19, 8)
    example = SummarizedDocument(id="a", text=SENTENCES[0])
    batch = usual.task.collate([next(usual.task.features(example, training=False))], [0])
    (said,) = usual.task.outputs(usual.model, batch)
    ids = batch["input_ids"]
    authors = usual.model.generate(ids, attention_mask=torch.ones_like(ids), global_attention_mask=(ids == 0))
    assert said.tokens == authors[0].tolist()
    told = Summarizer(str(folder), beams=1, max_tokens=5).task.settings
    assert (told.num_beams, told.max_summary_length, told.min_summary_length) == (1, 5, 5)
    silent = Summarizer(str(led)).task.settings
    assert (silent.num_beams, silent.no_repeat_ngram_size, silent.min_summary_length) == (4, 0, 0)


def test_documents_of_all_kinds_and_standard_input(
    chooses: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.md").write_text("# " + "\n\n".join(SENTENCES), encoding="utf-8")
    (tmp_path / "a.html").write_text("<p>" + "<p>".join(SENTENCES), encoding="utf-8")
    (tmp_path / "a.pdf").write_bytes(small_pdf([SENTENCES]))
    wanted = ("--model", chooses, "--sentences", "1")
    files = [tmp_path / name for name in ("a.md", "a.html", "a.pdf")]
    assert ends("summarize", *files, *wanted) == 0
    first, *others = capsys.readouterr().out.strip().split("\n\n")[1::2]
    summaries = [first.splitlines()[0], *(one.splitlines()[0] for one in others)]
    assert len(summaries) == 3 and set(summaries) <= set(SENTENCES)
    for names in ([], ["-"]):
        content: Any = io.TextIOWrapper(io.BytesIO("\n\n".join(SENTENCES).encode()))
        monkeypatch.setattr(sys, "stdin", content)
        assert ends("summarize", *names, *wanted) == 0
        assert capsys.readouterr().out.strip() in SENTENCES


def test_a_bad_file_of_a_folder_is_left_out(
    chooses: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "a.pdf").write_bytes(b"%PDF-1.4 and no more")
    assert ends("summarize", folder, "--model", chooses) == 2
    left_out, refused = capsys.readouterr().err.splitlines()
    assert left_out.startswith(f"longspan: left out: {folder / 'a.pdf'} cannot be read as PDF")
    assert refused.endswith("has no document that can be read; a folder must have some")
    (folder / "b.txt").write_text("\n\n".join(SENTENCES), encoding="utf-8")
    assert ends("summarize", folder, "--model", chooses, "--sentences", "1", "--json") == 0
    said = capsys.readouterr()
    assert [json.loads(line)["name"] for line in said.out.splitlines()] == [str(folder / "b.txt")]
    assert said.err.splitlines() == [left_out]


def test_mistakes_are_one_line(
    chooses: Path, writes: Path, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tiny_longformer(tmp_path / "longformer")
    cases = [
        ([text, "--model", chooses, "--words", "0"], "--words is 0"),
        ([text, "--model", chooses, "--beams", "2"], "beams is given, but"),
        ([text, "--model", writes, "--words", "9"], "words is given, but"),
        ([text, "--model", other], "is a longformer without a decoder"),
        ([text, "--model", tmp_path], "no model can be loaded"),
        ([tmp_path / "b.txt", "--model", chooses], "b.txt cannot be read"),
        ([tmp_path / "b.xyz", "--model", chooses], "ends in '.xyz'"),
        ([text, "--model", chooses, "--query", "who " * 60], "query has"),
    ]
    for arguments, message in cases:
        assert message in mistake(capsys, "summarize", *arguments)


def test_settings_change_what_is_evaluated(chooses: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ("evaluate", chooses, "--data", SAMPLES / "summarization.jsonl", "--checkpoint", "last")
    assert ends(*command) == 0
    usual = capsys.readouterr().out
    assert "rouge_lsum" in usual
    assert ends(*command, "--settings.summary_words=null", "--settings.summary_sentences", "1") == 0
    assert capsys.readouterr().out != usual
    assert "--batch.tokens is no option here" in mistake(capsys, *command, "--batch.tokens", "9")
