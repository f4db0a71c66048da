"""`longspan data stats` as a user runs it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from tests.cli.running import longspan


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    records = [{"id": at, "text": "word, " * at, "label": "x"} for at in (1, 600, 5000)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    tokenizer = Tokenizer(WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def test_stats_in_tokens_as_json(folder: Path) -> None:
    options = ["--format", "classification", "--tokenizer", ".", "--json"]
    done = longspan("data", "stats", "a.jsonl", *options, cwd=folder)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found == {
        "unit": "tokens",
        "examples": 3,
        "mean": pytest.approx(11202 / 3),
        "median": 1200.0,
        "percentile_95": pytest.approx(9120.0),
        "maximum": 10000,
        "over_512": pytest.approx(2 / 3),
        "over_4096": pytest.approx(1 / 3),
        "dropped": {},
    }


def test_stats_in_words_as_a_table(folder: Path) -> None:
    done = longspan("data", "stats", "a.jsonl", "--format", "classification", cwd=folder)
    assert done.returncode == 0, done.stderr
    head, row = (line for line in done.stdout.splitlines() if any(character.isalnum() for character in line))
    assert "mean words" in head
    assert row.split() == ["3", "1,867", "600", "4,560", "5,000", "66.7%", "33.3%"]


def test_stats_say_what_was_left_out(folder: Path) -> None:
    blank = "# begin document b\n0\t__\t_\n# end document\n"
    (folder / "a.conll").write_text(f"# begin document a\n0\tword\t_\n# end document\n{blank}")
    done = longspan("data", "stats", "a.conll", "--format", "conll-2012", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "Left out: 1 documents with blanked words"


def test_stats_of_a_part(folder: Path) -> None:
    records = [{"id": at, "text": "word " * (at + 1), "label": "x"} for at in range(20)]
    (folder / "b.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    options = ["--format", "classification", "--json"]
    found: list[dict[str, float]] = []
    for more in (["b.jsonl#dev"], ["b.jsonl#dev", "--split-seed", "3"]):
        done = longspan("data", "stats", *more, *options, cwd=folder)
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout))
    assert [one["examples"] for one in found] == [2, 2]
    assert found[0] != found[1]
    done = longspan("data", "stats", "b.jsonl#def", *options, cwd=folder)
    assert done.returncode == 2 and "the part is 'def'; it must be one of train, dev, test" in done.stderr


def test_stats_with_the_tokenizer_of_a_model_on_the_hub(folder: Path) -> None:
    # What the Hub gave before is read again without it.
    stored = folder / "hub" / "models--ada--tiny"
    snapshot = stored / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (stored / "refs").mkdir()
    (stored / "refs" / "main").write_text("0" * 40)
    (snapshot / "tokenizer.json").write_text((folder / "tokenizer.json").read_text())
    (snapshot / "config.json").write_text(json.dumps({"model_type": "roberta"}))
    (snapshot / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]"})
    )
    cached = {"HF_HUB_CACHE": str(folder / "hub"), "HF_HUB_OFFLINE": "1"}
    options = ["--format", "classification", "--json", "--tokenizer"]
    done = longspan("data", "stats", "a.jsonl", *options, "ada/tiny", cwd=folder, **cached)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["maximum"] == 10000


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["a.jsonl"], "--format"),
        (["a.jsonl", "--format", "classificatoin"], "classification"),
        (["b.jsonl", "--format", "classification"], "does not exist"),
        (["a.jsonl", "--format", "qa"], "line 1: documents is missing"),
        (["a.jsonl", "--format", "classification", "--tokenizer", "a.jsonl"], "tokenizer.json"),
        (["a.jsonl", "--format", "triviaqa"], "Domain is missing; it must be a string"),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], hint: str, folder: Path) -> None:
    done = longspan("data", "stats", *arguments, cwd=folder)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("longspan: ")
    assert len(done.stderr.splitlines()) == 1
    assert hint in done.stderr


def test_reading_needs_no_torch(folder: Path) -> None:
    program = """
import sys
from longspan.cli.main import main
try:
    main(["data", "stats", "a.jsonl", "--format", "classification", "--tokenizer", ".", "--json"])
except SystemExit as done:
    assert not done.code
print([name for name in ("torch", "transformers") if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=folder
    )
    assert done.stdout.splitlines()[-1] == "[]", done.stderr
