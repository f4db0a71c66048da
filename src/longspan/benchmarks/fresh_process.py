"""Runs one function in a new Python process and brings its answers back as JSON.

For what must be decided before a process starts (environment variables of the allocator) and for
what an earlier measurement would spoil (memory peaks). The function yields its answers; what it
yielded before a crash is not lost.
"""

import importlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from typing import Any

_MARK = "longspan-answer "


class ProcessFailedError(RuntimeError):
    """The new process died, or took too long; the message holds the end of what it said."""


def answers(
    function: str,
    arguments: Mapping[str, Any],
    *,
    environment: Mapping[str, str | None] | None = None,
    timeout: float | None = None,
) -> Iterator[Any]:
    """Calls ``function`` in a new process and passes on what it yields.

    Args:
        function: "package.module:name" of a generator function.
        arguments: its keyword arguments; must survive JSON.
        environment: variables to set there; None removes one.
        timeout: seconds for the whole process.

    Raises:
        ProcessFailedError: after the answers that came before the failure.
    """
    variables = dict(os.environ)
    for name, value in (environment or {}).items():
        variables.pop(name, None)
        if value is not None:
            variables[name] = value
    command = [
        sys.executable,
        "-m",
        "longspan.benchmarks.fresh_process",
        function,
        json.dumps(dict(arguments)),
    ]
    timed_out = threading.Event()
    # stderr goes to a file: a pipe that nobody empties would stop a talkative process.
    with tempfile.TemporaryFile("w+") as complaints:
        process = subprocess.Popen(
            command, env=variables, text=True, stdout=subprocess.PIPE, stderr=complaints
        )

        def give_up() -> None:
            timed_out.set()
            process.kill()

        watchdog = threading.Timer(timeout, give_up) if timeout is not None else None
        if watchdog:
            watchdog.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith(_MARK):
                    yield json.loads(line.removeprefix(_MARK))
            process.wait()
        finally:
            if watchdog:
                watchdog.cancel()
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
        if timed_out.is_set():
            raise ProcessFailedError(f"took more than {timeout:.0f} s")
        if process.returncode:
            complaints.seek(0)
            raise ProcessFailedError(_last_line(complaints.read()) or f"exit code {process.returncode}")


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _serve(function: str, arguments: str) -> None:
    module, name = function.split(":")
    for answer in getattr(importlib.import_module(module), name)(**json.loads(arguments)):
        print(_MARK + json.dumps(answer), flush=True)


if __name__ == "__main__":
    _serve(sys.argv[1], sys.argv[2])
