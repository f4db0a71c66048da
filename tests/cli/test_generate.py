"""`longspan generate` on tiny models."""

from pathlib import Path

import pytest

from tests.cli.running import ends
from tests.models.test_causal_lm import tiny
from tests.tasks.tiny import tiny_tokenizer

pytestmark = pytest.mark.usefixtures("loudness")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("run")
    tiny().save_pretrained(run / "best")
    return run


def printed(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    assert ends("generate", *arguments) == 0
    return capsys.readouterr().out


def test_a_model_of_bytes_writes_on(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "prompt.txt"
    file.write_text("Once upon a time", encoding="utf-8")
    wanted = ("--max-tokens", "40", "--top-k", "20", "--top-p", "0.9", "--temperature", "0.8")
    first = printed(capsys, model / "best", "--prompt", "Once upon a time", *wanted)
    assert first.endswith("\n")
    # A run's folder is that of its best model, and a prompt may be in a file.
    assert printed(capsys, model, "--prompt-file", file, *wanted) == first
    assert printed(capsys, model, "--prompt-file", file, *wanted, "--seed", "1") != first
    greedy = printed(capsys, model, "--temperature", "0", "--max-tokens", "9")
    assert greedy == printed(capsys, model, "--top-k", "1", "--max-tokens", "9", "--seed", "3")


def test_a_model_with_a_tokenizer_writes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokenizer = tiny_tokenizer()
    tiny(vocab_size=len(tokenizer)).save_pretrained(tmp_path)
    assert ends("generate", tmp_path) == 2
    assert "has no tokenizer, and its vocabulary of 400 is not bytes" in capsys.readouterr().err
    tokenizer.save_pretrained(tmp_path)
    assert printed(capsys, tmp_path, "--prompt", "The city", "--max-tokens", "5").strip()


def test_a_prompt_of_bytes_may_be_any(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "prompt.bin"
    file.write_bytes(b"\xff\xfe caf\xe9 \x00")
    assert printed(capsys, model, "--prompt-file", file, "--max-tokens", "5")
    tokenizer = tiny_tokenizer()
    tiny(vocab_size=len(tokenizer)).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    assert ends("generate", tmp_path, "--prompt-file", file) == 2
    assert "whose byte 0 is not UTF-8; a model with a tokenizer reads text" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--temperature", "-1"], "--temperature is -1.0"),
        (["--top-p", "0"], "--top-p is 0.0"),
        (["--top-k", "0"], "--top-k is 0"),
        (["--max-tokens", "0"], "--max-tokens is 0"),
        (["--prompt", ""], "the prompt is empty"),
        (["--prompt", "a", "--prompt-file", "b"], "both given"),
        (["--prompt-file", "nowhere.txt"], "nowhere.txt, which cannot be read"),
    ],
)
def test_mistakes_are_one_line(
    model: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ends("generate", model, *arguments) == 2
    assert message in capsys.readouterr().err


def test_a_folder_without_a_model_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ends("generate", tmp_path) == 2
    assert "has no model" in capsys.readouterr().err
