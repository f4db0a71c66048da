"""`longspan lengthen` as a user runs it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from longspan.models.longformer_heads import LongformerForMaskedLM
from tests.cli.running import ends, longspan, mistake
from tests.conversion.short_models import assert_same, inputs, outputs, short_model

pytestmark = pytest.mark.usefixtures("loudness")


@pytest.fixture
def short(tmp_path: Path) -> Path:
    short_model("RobertaForMaskedLM").save_pretrained(tmp_path / "short")
    return tmp_path / "short"


def test_round_trip(short: Path, tmp_path: Path) -> None:
    done = longspan("lengthen", "short", "long", "--max-length", "100", "--window", "80", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0] == "From       RobertaForMaskedLM of short"
    assert lines[1].startswith("Made       LongformerForMaskedLM: 100 tokens, window 80, 0.0M parameters")
    assert lines[2] == "Tokenizer  none: short has none"
    assert lines[3].startswith("Written    long in ") and lines[3].endswith(" s")
    assert {path.name for path in tmp_path.iterdir()} == {"short", "long"}

    long = LongformerForMaskedLM.from_pretrained(tmp_path / "long")
    given = inputs(long)
    assert_same(outputs(long, given), outputs(short_model("RobertaForMaskedLM"), given))


def test_help_imports_nothing_heavy() -> None:
    program = """
import sys
from longspan.cli.main import main
try:
    main(["lengthen", "--help"])
finally:
    print("heavy:", [name for name in ("torch", "transformers") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "--max-length" in done.stdout
    assert done.stdout.endswith("heavy: []\n")


def test_options_arrive(short: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "long").mkdir()
    (tmp_path / "long" / "old").touch()
    options = ["--into", "same", "--positions", "random", "--seed", "3", "--overwrite", "--max-length", "64"]
    assert ends("lengthen", "short", "long", *options) == 0
    config = json.loads((tmp_path / "long" / "config.json").read_text())
    assert config["model_type"] == "roberta"
    made = config["longspan"]
    assert (made["positions"], made["seed"], made["max_length"], made["window"]) == ("random", 3, 64, 512)
    assert not (tmp_path / "long" / "old").exists()


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["short", "short"], "where the source is"),
        (["short", "."], "where the source is"),
        (["short", "full"], "not empty"),
        (["short", "full/file"], "a file"),
        (["short", "out", "--max-length", "39"], "reads 40 tokens already"),
        (["short", "out", "--window", "0"], "window is 0"),
        (["/nowhere/at/all", "out"], "/nowhere/at/all"),
        (["short", "out", "--positions", "zero"], "positions"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistake_is_one_line_and_writes_nothing(
    arguments: list[str],
    hint: str,
    short: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    before = sorted(tmp_path.rglob("*"))
    assert hint in mistake(capsys, "lengthen", *arguments)
    assert sorted(tmp_path.rglob("*")) == before
