"""Commands as tests run them: in this process, or as a user does in one of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from longspan.cli.main import main


def ends(*arguments: object) -> int:
    """The exit code of a command that runs in this process."""
    with pytest.raises(SystemExit) as stopped:
        main([str(one) for one in arguments])
    assert isinstance(stopped.value.code, int)
    return stopped.value.code


def mistake(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """What a command says that must fail: one line, with exit code 2 and nothing on stdout."""
    capsys.readouterr()
    assert ends(*arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == 1 and said.err.startswith("longspan: ")
    return said.err


def longspan(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own."""
    program = "from longspan.cli.main import main; main()"
    command = [sys.executable, "-c", program, *arguments]
    environment = os.environ | environment
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, env=environment)
