"""What a new user gets wrong, and the one line that says what would be right."""

from pathlib import Path

import pytest

from longspan.cli import kept
from longspan.cli.kept import place_of_index
from tests.cli.running import ends, mistake
from tests.tasks.tiny import tiny_causal_lm, tiny_roberta

Captured = pytest.CaptureFixture[str]
pytestmark = pytest.mark.usefixtures("loudness")


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("classify a.txt", "--model is missing: longspan classify needs it; longspan classify --help"),
        ("lengthen", "SOURCE is missing: longspan lengthen needs it"),
        ("lengthen a", "OUT is missing"),
        ("data stats a.txt", "--format is missing: longspan data stats needs it"),
        ("ask a.txt --question", "--question is named without a value"),
        ("bench attention --lengths --quick", "--lengths is named without a value"),
        ("bench kernel --only", "--only is named without a value"),
        ("plot pattern --globals", "--globals is named without a value"),
        ("ask a.txt Who? --top nan", "--top is 'nan'; it must be a whole number"),
        ("ask a.txt Who? --read 1e9", "--read is '1e9'; it must be a whole number"),
        ("generate m --temperature warm", "--temperature is 'warm'; it must be a number"),
        ("doctor now", "now is more than longspan doctor takes"),
        ("summarize a.txt --word 3", "--word is no option, and there is no such file"),
        ("classify a.txt --words 3 --model m", "--words is no option, and there is no such file"),
        ("bench attention --threads 99999999999", "--threads is 99999999999; it must be 1 to 1024"),
        ("bench kernel --threads 0", "--threads is 0; it must be 1 to 1024"),
        ("bench attention --max-seconds nan", "max_seconds is nan; it must be a number above 0"),
        ("bench kinds --max-gigabytes nan", "max_bytes is nan; it must be a number above 0"),
        (
            "bench attention --out a.txt",
            "--out is a.txt, but a.txt is a file; it must be a folder",
        ),
        ("bench kernel --out a.txt/x", "a.txt is a file; it must be a folder"),
        ("bench training --product-size 0", "--product-size is 0; it must be at least 1"),
        ("bench kinds --heads 0", "heads is 0; it must be at least 1"),
        ("plot pattern --left 99999999999999999999", "left is 99999999999999999999; it must be at most"),
        ("train junk.txt", "the recipe junk.txt is no text; it must be YAML in UTF-8"),
        ("lengthen a b --seed 99999999999999999999", "--seed is 99999999999999999999; it must be"),
        ("generate '' --max-tokens 3", "which is empty"),
        ("export a.txt out", "which is a file; it must be a folder of a model"),
    ],
)
def test_words_that_are_wrong(
    line: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    import shlex

    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("It began in 1843.")
    Path("junk.txt").write_bytes(bytes(range(128, 256)))
    assert hint in mistake(capsys, *shlex.split(line))


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        (["--temperature", "nan"], "--temperature is nan; it must be 0, or a number of at least 0.0001"),
        (["--temperature", "1e-320"], "it must be 0, or a number of at least 0.0001"),
        (["--temperature", "inf"], "it must be 0, or a number of at least 0.0001"),
        (["--seed", "99999999999999999999"], "--seed is 99999999999999999999"),
        (["--prompt-file", "nowhere"], "--prompt-file is nowhere, which cannot be read: No such file"),
    ],
)
def test_numbers_that_no_text_is_written_with(
    options: list[str], hint: str, tmp_path: Path, capsys: Captured
) -> None:
    assert hint in mistake(capsys, "generate", tiny_causal_lm(tmp_path / "lm"), "--max-tokens", 2, *options)


def test_a_model_that_fills_gaps_writes_no_text(tmp_path: Path, capsys: Captured) -> None:
    model = tiny_roberta(tmp_path / "roberta")
    found = mistake(capsys, "generate", model, "--max-tokens", 2)
    assert "RobertaForMaskedLM; it must be a language model" in found


@pytest.mark.parametrize("command", ["ask", "search"])
def test_who_has_no_cache_gets_answers(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    text = tmp_path / "a.txt"
    text.write_text("Ada Lovelace wrote the first program in 1843. She lived in London.")
    monkeypatch.setenv("XDG_CACHE_HOME", str(text))
    assert ends(command, text, "Who wrote the first program?", "--json") == 0
    out, err = capsys.readouterr()
    assert "Ada Lovelace" in out
    assert len(err.splitlines()) == 1
    assert "nothing is kept for the next time" in err and "--index" in err
    refused = mistake(capsys, command, text, "Who?", "--index", text / "index")
    assert "cannot be used as an index: it is in a file, not in a folder" in refused


def test_where_things_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    named, usual = tmp_path / "named", tmp_path / "cache" / "usual"
    assert place_of_index(named, lambda: usual) == named
    assert place_of_index(None, lambda: usual) == usual and usual.parent.is_dir()

    def no_home() -> Path:
        raise ValueError("there is no home folder")

    assert place_of_index(None, no_home) is None
    assert "there is no home folder" in capsys.readouterr().err
    monkeypatch.setattr(kept.os, "access", lambda *_: False)  # whoever runs the tests may write anywhere
    assert place_of_index(None, lambda: usual) is None
    assert "it is read-only" in capsys.readouterr().err
