"""What is no model is refused by one rule; a Hub that cannot be reached is not waited for."""

import socket
import threading
from collections.abc import Generator
from pathlib import Path

import pytest
from huggingface_hub import constants, is_offline_mode

from longspan.conversion.loading import load_source, load_tokenizer
from longspan.models import hub
from longspan.models.hub import model_fields, without_waiting


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """A Hub whose machine takes no connections."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound and not listening: refused
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{closed.getsockname()[1]}")
        yield


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("", "which is empty"),
        ("a.txt", "which is a file"),
        ("run", "the folder of a run.*best or last"),
        ("empty", "has no config.json of a model"),
        ("broken", "valid JSON"),
        ("list", "has no config.json of a model"),
        ("null", "NoneType"),
        ("a/b/c", "there is no such folder"),
        ("./model", "there is no such folder"),
    ],
)
def test_no_model(name: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("text")
    for folder in ("run", "empty", "broken", "list", "null"):
        Path(folder).mkdir()
    Path("run", "config.yaml").write_text("task: qa")
    for folder, text in (("broken", "{"), ("list", "[]"), ("null", "null")):
        Path(folder, "config.json").write_text(text)
    with pytest.raises(ValueError, match=f"no model can be loaded from '{name}'.*{hint}"):
        model_fields(name)
    with pytest.raises(ValueError, match=f"model.source is '{name}'.*{hint}"):
        model_fields(name, named="model.source is")


def test_a_hub_that_is_not_there_is_not_waited_for(
    nowhere: None, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    for load in (model_fields, load_source):
        with pytest.raises(ValueError, match="there is no such folder, and the Hub cannot be"):
            load("nobody/nothing")
    assert load_tokenizer("nobody/nothing") is None
    assert "Retry" not in caplog.text
    assert not is_offline_mode()
    with without_waiting("nobody/nothing") as offline:
        assert offline and is_offline_mode()
    with without_waiting(tmp_path) as offline:
        assert not offline


def test_a_hub_that_drops_what_it_is_sent_is_waited_for_once(
    nowhere: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As behind a firewall: neither the name nor any of its addresses is ever answered."""
    asked, over = list[object](), threading.Event()

    def never(*address: object) -> None:
        asked.append(address)
        over.wait(60)
        raise TimeoutError

    monkeypatch.setattr(hub.socket, "create_connection", never)
    monkeypatch.setattr(hub, "_PATIENCE", 0.1)
    monkeypatch.setattr(hub, "_VALID", 1e9)
    try:
        for _ in range(3):
            with pytest.raises(ValueError, match="the Hub cannot be reached"):
                model_fields("nobody/nothing")
        assert load_tokenizer("nobody/nothing") is None
        for path in ("./nothing", "no/such/model"):
            assert load_tokenizer(path) is None
        assert len(asked) == 1
    finally:
        over.set()
