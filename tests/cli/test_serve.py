"""`longspan serve` as a user runs it."""

import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from tests.apps.tiny_reader import tiny_reader
from tests.cli.running import mistake

PROGRAM = "from longspan.cli.main import main; main()"


def test_the_page_is_served_until_ctrl_c(tmp_path: Path) -> None:
    model = str(tiny_reader(tmp_path))
    command = [sys.executable, "-c", PROGRAM, "serve", "--port", "0", "--model", model]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"The page is at (http://127\.0\.0\.1:\d+/)", process.stdout.readline())
            assert found is not None
            answer = httpx2.get(found[1], timeout=60)
            assert answer.status_code == 200 and "<title>longspan" in answer.text
        finally:
            process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=60)
    assert process.returncode == 0 and complaint == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--host", ""], "--host is empty"),
        (["--port", "70000"], "cannot listen at 127.0.0.1, port 70000"),
        (["--max-upload-mb", "0"], "--max-upload-mb is 0; it must be at least 1"),
        (["--max-tokens", "0"], "--max-tokens is 0; it must be at least 1"),
        (["--port", "0", "--model", "nowhere/at-all/nothing"], "nowhere/at-all/nothing"),
    ],
)
def test_mistakes(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert message in mistake(capsys, "serve", *arguments)


def test_a_port_that_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = mistake(capsys, "serve", "--port", port)
    assert f"cannot listen at 127.0.0.1, port {port}: " in said
