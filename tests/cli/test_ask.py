"""`longspan ask` and `longspan demo` with a tiny reader."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from longspan import embedded
from longspan.apps import reader
from longspan.apps.calibration import Calibration, Logistic, write_calibration
from longspan.cli.demo import QUESTIONS
from longspan.embedded import BOOK
from tests.apps.tiny_reader import tiny_reader
from tests.cli.running import ends, mistake
from tests.data.small_pdf import small_pdf

LINES = [
    "The river Inn flows from Switzerland to the Danube.",
    "Ada wrote a book. Nobody read it to the end.",
    "Paris is the capital of France.",
]
ASKED = "Who wrote a book?"
pytestmark = pytest.mark.usefixtures("loudness")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_reader(tmp_path_factory.mktemp("reader"))


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    (folder / "below").mkdir(parents=True)
    (folder / "a.txt").write_text("\n\n".join(LINES))
    (folder / "below" / "b.pdf").write_bytes(small_pdf([LINES]))
    (folder / "below" / "c.xyz").write_text("of no kind that is known")
    return folder


def asked(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> dict[str, Any]:
    assert ends("ask", *arguments, "--anyway", "--json") == 0
    return json.loads(capsys.readouterr().out)


def test_answers_have_their_places(model: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = asked(capsys, folder, ASKED, "--model", model, "--top", "2")
    assert said["question"] == ASKED and said["documents"] == 2 and said["is_whole"]
    texts = {str(folder / "a.txt"): "\n".join(LINES)}
    for one in said["answers"]:
        assert 0 <= one["confidence"] <= 1 and 0 <= one["position"] <= 1
        text = texts.get(one["name"])
        if text is not None:
            assert text[one["start"] : one["end"]] == one["text"]
            assert text[one["sentence_start"] : one["sentence_end"]] == one["sentence"]
    assert len(said["answers"]) == 2
    assert ends("ask", folder / "a.txt", ASKED, "--model", model, "--anyway") == 0
    shown = capsys.readouterr()
    assert shown.err == "", "bars are for terminals"
    assert shown.out.count("a.txt, character") == 3 and "\x1b" not in shown.out


def test_the_same_question_gives_the_same_answer(
    model: Path, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "d.md").write_text("\n\n".join(f"{line} {at}." for at in range(200) for line in LINES))
    given = (folder, ASKED, "--model", model, "--read", "900", "--index", tmp_path / "index")
    first, second = (asked(capsys, *given) for _ in range(2))
    assert not first["is_whole"] and first["tokens"] < asked(capsys, *given, "--whole")["tokens"]
    assert first["answers"] == second["answers"]
    (folder / "d.md").unlink()
    assert asked(capsys, *given)["is_whole"], "what is gone does not count"


def test_standard_input(
    model: Path,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for names in ([], ["-"], [str(folder / "a.txt"), "-"]):
        content: Any = io.TextIOWrapper(io.BytesIO("\n\n".join(LINES).encode()))
        monkeypatch.setattr(sys, "stdin", content)
        said = asked(capsys, *names, "--question", ASKED, "--model", model)
        assert said["documents"] == max(len(names), 1)
    assert not (tmp_path / "cache").exists(), "standard input is not kept"


def test_nothing_answers(model: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    no = Logistic(intercept=-9, margin=0, lead=0, log_tokens=0)
    write_calibration(model, Calibration(answerable=no, right=no))
    try:
        assert ends("ask", folder, ASKED, "--model", model) == 1
        said = capsys.readouterr()
        assert said.out == "" and "no answer (that there is none is 100% probable)" in said.err
        assert ends("ask", folder, ASKED, "--model", model, "--json") == 1
        assert json.loads(capsys.readouterr().out)["answers"] == []
    finally:
        (model / "calibration.json").unlink()


def test_files_of_a_folder_that_cannot_be_read_are_named(
    model: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "e.pdf").write_bytes(b"%PDF-1.4")
    assert ends("ask", folder, ASKED, "--model", model, "--anyway") == 0
    assert "left out: " in capsys.readouterr().err


def test_mistakes_are_one_line(
    model: Path,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "empty").mkdir()
    (folder / "e.pdf").write_bytes(b"%PDF-1.4")
    monkeypatch.setattr(embedded, "READER", tmp_path / "none")
    monkeypatch.setattr(reader, "READER", tmp_path / "none")
    cases: list[tuple[list[str | Path], str]] = [
        (["ask"], "the question is missing"),
        (["ask", folder / "a.txt"], "a.txt is a file"),
        (["ask", folder, "  "], "the question is missing"),
        (["ask", folder, ASKED, "--top", "0"], "--top is 0"),
        (["ask", folder, ASKED, "--tpo", "2"], "--tpo is no option of ask"),
        (["ask", folder, ASKED, "--read", "0"], "--read is 0"),
        (["ask", tmp_path / "empty", ASKED], "there is no document in"),
        (["ask", tmp_path / "b.txt", ASKED], "b.txt cannot be read"),
        (["ask", folder / "e.pdf", ASKED], "e.pdf"),
        (["ask", folder / "a.txt", ASKED, "--index", folder / "a.txt"], "cannot be used as an index"),
        (["ask", folder / "a.txt", "who " * 99, "--model", model], "question has 298 tokens"),
        (["ask", folder / "a.txt", ASKED, "--model", tmp_path], "no model can be loaded"),
        (["ask", folder / "a.txt", ASKED], "no reader comes with this installation"),
        (["demo"], "needs the reader that comes with longspan"),
    ]
    for arguments, message in cases:
        assert message in mistake(capsys, *arguments)


def test_demo(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    book = tmp_path / "book.txt"
    book.write_text("\n\n".join(["Chapter I. Rivers", *LINES, "Chapter II. Books", *LINES * 9]))
    for where in (embedded, reader):
        monkeypatch.setattr(where, "READER", model)
    monkeypatch.setattr(embedded, "BOOK", book)
    assert ends("demo") == 0
    said = capsys.readouterr().out
    assert said.count("through the book") == said.count("?") == 5
    assert said.count("Chapter I") >= 5 and "MB of memory" in said and "tokens read for each" in said
    assert ends("demo", "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert [one["question"] for one in record["questions"]] == list(QUESTIONS)
    assert all(len(one["answers"]) == 1 for one in record["questions"])


ANSWERS = (
    "Santa Clara",
    "Elmo",
    "one hundred and forty pounds",
    "Narwhal",
    "sixteen hundred",
)
"""To the questions of the demonstration."""


def test_the_book_is_a_whole_one() -> None:
    text = BOOK.read_text(encoding="utf-8")
    assert len(text.split()) > 30_000 and "Gutenberg" not in text
    assert len(ANSWERS) == len(QUESTIONS) and all(one in " ".join(text.split()) for one in ANSWERS)


def test_the_demonstration_answers(capsys: pytest.CaptureFixture[str]) -> None:
    """With the reader that comes with the package, of the whole book."""
    assert ends("demo", "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert tuple(one["answers"][0]["text"] for one in record["questions"]) == ANSWERS
    assert all(one["is_whole"] and one["tokens"] > 40_000 for one in record["questions"])


def test_a_reader_comes_with_the_package(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.txt"
    path.write_text("\n\n".join(LINES))
    said = asked(capsys, path, "What is the capital of France?")
    assert "Paris" in said["answers"][0]["text"]
