"""How commands end: one line, an exit code that says why, and a traceback for those who ask."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors import SafetensorError

from longspan.cli.errors import FailedCheckError, UsageError, judged
from longspan.cli.main import app
from tests.cli.running import ends

Captured = pytest.CaptureFixture[str]
MISTAKE = ["data", "stats", "nowhere.jsonl", "--format", "imdb"]


@pytest.fixture
def fault() -> object:
    """A command with a bug in it."""

    def fault() -> None:
        raise KeyError("a bug,\nover two lines")

    app.command(fault)
    yield
    del app._commands["fault"]


def test_the_traceback_is_shown_when_asked_for(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ends(*MISTAKE) == 2
    plain = capsys.readouterr().err
    assert len(plain.splitlines()) == 1 and plain.startswith("longspan: ")
    assert ends(*MISTAKE[:2], "--debug", *MISTAKE[2:]) == 2
    assert ends("--debug", *MISTAKE) == 2
    monkeypatch.setenv("LONGSPAN_DEBUG", "1")
    assert ends(*MISTAKE) == 2
    said = capsys.readouterr().err
    assert said.count("Traceback") >= 3
    assert said.count("in read_part") + said.count("data/parts.py") >= 3
    assert said.splitlines()[-1] == plain.strip()


def test_a_bug_is_one_line_and_a_code_of_its_own(fault: object, capsys: Captured) -> None:
    assert ends("fault") == 70
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1
    assert "unexpected KeyError" in said and "--debug" in said
    assert ends("fault", "--debug") == 70
    assert "raise KeyError" in capsys.readouterr().err


def test_debug_after_two_hyphens_is_a_word(capsys: Captured) -> None:
    assert ends("summarize", "--", "--debug") == 2
    said = capsys.readouterr().err
    assert "--debug" in said and "Traceback" not in said


@pytest.mark.parametrize(
    ("error", "code", "hint"),
    [
        (UsageError("wrong"), 2, "wrong"),
        (FailedCheckError("no"), 1, "no"),
        (
            OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "out/model"),
            2,
            "out/model: No space left on device",
        ),
        (OSError("We couldn't connect to 'https://huggingface.co'\nto load the files"), 2, "connect"),
        (MemoryError(), 2, "memory"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"), 2, "memory"),
        (ModuleNotFoundError("reading PDF needs pypdf"), 2, "pypdf"),
        (SafetensorError("Error while deserializing header: HeaderTooLarge"), 2, "HeaderTooLarge"),
        (TypeError("'NoneType' object is not iterable"), 70, "TypeError"),
        (AssertionError(), 70, "without a message"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_kinds_of_errors(error: Exception, code: int, hint: str) -> None:
    found, message = judged(error)
    assert found == code
    assert hint in message
    assert "\n" not in message


def test_a_reader_that_has_enough_is_no_error(tmp_path: Path) -> None:
    program = "from longspan.__main__ import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", program, "--help"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 141


def test_no_document_at_a_terminal_is_said(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    _, terminal = os.openpty()
    with os.fdopen(terminal) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert ends("summarize") == 2
    assert "no document is given" in capsys.readouterr().err
