"""What a run measured: ``metrics.jsonl``, a JSON object a line; and the same for TensorBoard, if it is there.

A line has the step, the seconds of training so far, the kind ("train", "dev" or "test") and named numbers;
what is not a finite number is null. Lines are written whole and at once, so that a run can be watched, and
that one that was cut off leaves at most its last line torn.
"""

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

NAME = "metrics.jsonl"
_OURS = ("step", "time", "kind")


class MetricsLog:
    """The log of a run in progress.

    Args:
        folder: of the run.
        resume_step: the last step of the run that is gone on with: what was logged after it is dropped,
            because it will be logged again. None for a run that begins.

    Raises:
        ValueError: a run begins where there is a log, or a log to go on with is damaged before its end.
    """

    def __init__(self, folder: Path, resume_step: int | None) -> None:
        path = folder / NAME
        if resume_step is None and path.exists():
            raise ValueError(f"{path} is there already; a run that begins needs a folder of its own")
        if resume_step is not None and path.exists():
            _keep(path, resume_step)
        self._file = path.open("a", encoding="utf-8")
        self._tensorboard = _tensorboard(folder / "tensorboard", resume_step)

    def write(self, step: int, time: float, kind: str, values: Mapping[str, float]) -> None:
        """Adds a line.

        Args:
            step: steps done.
            time: seconds of training so far.
            kind: "train", "dev" or "test".
            values: named numbers; "step", "time" and "kind" are taken.
        """
        assert not set(values) & set(_OURS), f"{_OURS} are names of the log itself"
        finite = {name: x if math.isfinite(x) else None for name, x in values.items()}
        line = {"step": step, "time": round(time, 3), "kind": kind, **finite}
        self._file.write(json.dumps(line, allow_nan=False) + "\n")
        self._file.flush()
        if self._tensorboard is not None:
            for name, value in values.items():
                self._tensorboard.add_scalar(f"{kind}/{name}", value, step)

    def close(self) -> None:
        """Ends the files; nothing can be written any more."""
        self._file.close()
        if self._tensorboard is not None:
            self._tensorboard.close()


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """The lines of a run's log, in their order; a torn last one is left out.

    Raises:
        ValueError: there is no log, or a line before its end is no line of one.
    """
    path = folder / NAME
    if not path.is_file():
        raise ValueError(f"{folder} is no folder of a run: it has no {NAME}")
    texts = path.read_text(encoding="utf-8", errors="replace").splitlines()
    lines: list[dict[str, Any]] = []
    for number, text in enumerate(texts, 1):
        try:
            line = json.loads(text)
            if not (isinstance(line, dict) and all(name in line for name in _OURS)):
                raise ValueError
        except ValueError:
            if number == len(texts):
                break
            raise ValueError(
                f"{path}, line {number}: it is {text[:80]!r}; "
                f"it must be a JSON object with {', '.join(_OURS)}"
            ) from None
        lines.append(line)
    return lines


def _keep(path: Path, last_step: int) -> None:
    """Drops the lines after a step; the file is the old one or the new one, and never a part."""
    kept = [line for line in read_metrics(path.parent) if line["step"] <= last_step]
    new = path.with_name(f".{NAME}.new")
    new.write_text("".join(json.dumps(line) + "\n" for line in kept), encoding="utf-8")
    os.replace(new, path)


def _tensorboard(folder: Path, resume_step: int | None) -> Any:
    """A writer; None where the package is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    purge = None if resume_step is None else resume_step + 1
    return SummaryWriter(str(folder), purge_step=purge, flush_secs=10)
