"""`longspan search` with a tiny model."""

import json
from pathlib import Path

import pytest

from tests.cli.running import ends, mistake
from tests.tasks.tiny import tiny_roberta

pytestmark = pytest.mark.usefixtures("loudness")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_roberta(tmp_path_factory.mktemp("model"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "texts"
    made.mkdir()
    (made / "a.txt").write_text("The river Inn flows from Switzerland to the Danube.")
    (made / "b.txt").write_text("Ada wrote the first program.")
    return made


def test_passages_as_json(model: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    index = folder.parent / "index.sqlite"
    assert ends("search", folder, "Which river?", "--model", model, "--index", index, "--json") == 0
    said = json.loads(capsys.readouterr().out)
    records = said["passages"]
    assert said["query"] == "Which river?"
    assert {record["name"] for record in records} == {str(folder / "a.txt"), str(folder / "b.txt")}
    assert records[0]["score"] >= records[1]["score"] and index.exists()
    (folder / "b.txt").write_text("Nobody read it.")
    (folder / "a.txt").unlink()
    assert ends("search", folder, "Which river?", "--model", model, "--index", index, "--json") == 0
    (record,) = json.loads(capsys.readouterr().out)["passages"]
    assert record["text"] == "Nobody read it."


def test_passages_for_people(
    model: Path, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder.parent / "cache"))
    (folder / "c.docx").write_bytes(b"broken")
    assert ends("search", folder / "a.txt", folder, "river", "--model", model, "--top", "1") == 0
    said = capsys.readouterr()
    assert said.out.count("characters 0-") == 1 and "c.docx" in said.err
    assert (folder.parent / "cache" / "longspan" / "index" / "vectors.sqlite").exists()


def test_no_documents(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "there is no document in" in mistake(capsys, "search", tmp_path, "river", "--model", model)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("nowhere", "river"), "nowhere cannot be read"),
        ((".",), "the query is missing"),
        ((".", " "), "the query is missing"),
        ((".", "river", "--top", "0"), "--top is 0"),
    ],
)
def test_mistakes(arguments: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert says in mistake(capsys, "search", *arguments)
