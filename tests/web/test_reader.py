"""The real reader behind the server, with a tiny model."""

from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
from fastapi.testclient import TestClient

from longspan.apps.reader import Reader
from longspan.web.app import create_app
from tests.apps.tiny_reader import tiny_reader
from tests.tasks.qa_cases import RIVER
from tests.web.asking import add, asked, with_session


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Reader:
    return Reader(str(tiny_reader(tmp_path_factory.mktemp("reader"))), precision="fp32")


def test_a_reader_answers_through_the_server(reader: Reader) -> None:
    texts = [RIVER * 20, "Ada wrote a book. Nobody read it."]
    with TestClient(create_app(reader), base_url="http://127.0.0.1") as plain:
        client = with_session(cast(httpx2.Client, plain))
        documents = [add(client, text).json() for text in texts]
        stored = [client.get(f"/api/documents/{one['id']}").json()["text"] for one in documents]
        assert [one["tokens"] for one in documents] == [reader.count_tokens(text) for text in stored]
        told = asked(client, "Where is the city?", *(one["id"] for one in documents))
    answer = dict(told)["answer"]
    expected = reader.read(stored, "Where is the city?", top=5, bins=240)
    assert [(one["text"], one["start"]) for one in answer["answers"]] == [
        (one.text, one.start) for one in expected.answers
    ]
    assert answer["no_answer"] == pytest.approx(expected.no_answer)
    assert answer["attention"] == pytest.approx(expected.attention)
    assert answer["tokens"] == expected.tokens


def test_a_text_that_names_a_file_is_a_text(reader: Reader, tmp_path: Path) -> None:
    """Whether there is such a file on the server is nobody's business."""
    file = tmp_path / "secret.txt"
    file.write_text("A secret.")
    with TestClient(create_app(reader), base_url="http://127.0.0.1") as plain:
        client = with_session(cast(httpx2.Client, plain))
        answers = [
            dict(asked(client, "Where is the city?", add(client, str(path)).json()["id"]))["answer"]
            for path in (file, file.with_name("nobody.txt"))
        ]
    assert [answer["tokens"] > 0 for answer in answers] == [True, True]


def test_windows_change_what_is_read(reader: Reader, tmp_path: Path) -> None:
    """A window at a time is as good as a model that was saved with it."""
    from longspan.models.longformer_heads import LongformerForQuestionAnswering
    from tests.tasks.tiny import tiny_tokenizer

    assert reader.window is not None and reader.window > 4
    model = LongformerForQuestionAnswering.from_pretrained(tiny_reader(tmp_path / "wide"))
    model.config.attention_window = 4
    model.save_pretrained(tmp_path / "narrow")
    tiny_tokenizer().save_pretrained(tmp_path / "narrow")
    narrow = Reader(str(tmp_path / "narrow"), precision="fp32")
    assert narrow.window == 4
    given: dict[str, Any] = {
        "documents": [RIVER * 20],
        "question": "Where is the city?",
        "bins": 7,
        "anyway": True,
    }
    own, other = reader.read(**given), reader.read(**given, window=4)
    assert other.attention == pytest.approx(narrow.read(**given).attention)
    assert other.answers == narrow.read(**given).answers
    assert own.attention != pytest.approx(other.attention)
    assert reader.read(**given).attention == own.attention, "the model has its own window again"
    with pytest.raises(ValueError, match="window is 1; it must be at least 2"):
        reader.read(**given, window=1)
