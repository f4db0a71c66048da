"""The log of a run: whole lines, nothing twice after a run goes on, and the same in TensorBoard."""

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from longspan.training.metrics_log import NAME, MetricsLog, read_metrics


def logged(folder: Path, steps: range, resume_step: int | None = None, **values: float) -> None:
    """Logs a line a step."""
    log = MetricsLog(folder, resume_step)
    for step in steps:
        log.write(step, 0.5 * step, "train", {"loss": 10.0 / step, **values})
    log.close()


def steps_of(folder: Path) -> list[int]:
    """Steps of all lines."""
    return [line["step"] for line in read_metrics(folder)]


def test_lines_are_json_and_there_at_once(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path, None)
    log.write(1, 0.25, "train", {"loss": 2.5, "tokens": 4096})
    log.write(1, 0.5, "dev", {"f1": 0.75})
    # Before it is closed.
    lines = [json.loads(line) for line in (tmp_path / NAME).read_text().splitlines()]
    log.close()
    assert lines == read_metrics(tmp_path)
    assert lines == [
        {"step": 1, "time": 0.25, "kind": "train", "loss": 2.5, "tokens": 4096},
        {"step": 1, "time": 0.5, "kind": "dev", "f1": 0.75},
    ]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_null(tmp_path: Path, value: float) -> None:
    logged(tmp_path, range(1, 2), gradient_norm=value)
    assert "NaN" not in (tmp_path / NAME).read_text() and "Infinity" not in (tmp_path / NAME).read_text()
    (line,) = read_metrics(tmp_path)
    assert line["gradient_norm"] is None and line["loss"] == 10.0


def test_going_on_drops_what_will_be_logged_again(tmp_path: Path) -> None:
    logged(tmp_path, range(1, 8))
    logged(tmp_path, range(5, 10), resume_step=4, again=1.0)
    lines = read_metrics(tmp_path)
    assert [line["step"] for line in lines] == list(range(1, 10))
    assert ["again" in line for line in lines] == [False] * 4 + [True] * 5
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == [NAME]


def test_going_on_from_the_start_or_without_a_log(tmp_path: Path) -> None:
    logged(tmp_path, range(1, 4), resume_step=0)
    assert steps_of(tmp_path) == [1, 2, 3]
    logged(tmp_path, range(1, 3), resume_step=0)
    assert steps_of(tmp_path) == [1, 2]


@pytest.mark.parametrize("torn", ['{"step": 4, "time": 2.0, "ki', "{", "\0\0\0", '{"step": 4}', "17"])
def test_a_torn_last_line_is_dropped(tmp_path: Path, torn: str) -> None:
    logged(tmp_path, range(1, 4))
    with (tmp_path / NAME).open("a") as file:
        file.write(torn)
    assert steps_of(tmp_path) == [1, 2, 3]
    logged(tmp_path, range(4, 6), resume_step=3)
    assert steps_of(tmp_path) == [1, 2, 3, 4, 5]


def test_a_whole_last_line_without_its_end_stays(tmp_path: Path) -> None:
    logged(tmp_path, range(1, 4))
    whole = (tmp_path / NAME).read_text()
    (tmp_path / NAME).write_text(whole.removesuffix("\n"))
    logged(tmp_path, range(4, 5), resume_step=3)
    assert steps_of(tmp_path) == [1, 2, 3, 4]


def test_damage_before_the_end_is_an_error(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text('{"step": 1, "ti\n{"step": 2, "time": 1.0, "kind": "train"}\n')
    with pytest.raises(ValueError, match=r"metrics.jsonl, line 1: it is '\{\"step\": 1, \"ti'"):
        read_metrics(tmp_path)
    with pytest.raises(ValueError, match="line 1"):
        MetricsLog(tmp_path, 2)


def test_a_run_that_begins_refuses_another_ones_log(tmp_path: Path) -> None:
    logged(tmp_path, range(1, 4))
    with pytest.raises(ValueError, match="metrics.jsonl is there already"):
        MetricsLog(tmp_path, None)
    with pytest.raises(ValueError, match="elsewhere is no folder of a run: it has no metrics.jsonl"):
        read_metrics(tmp_path / "elsewhere")


def test_tensorboard_has_the_same_and_hides_what_was_dropped(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    logged(tmp_path, range(1, 8))
    logged(tmp_path, range(5, 7), resume_step=4, f1=0.5)
    events: Any = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    found = [(event.step, event.value) for event in events.Scalars("train/loss")]
    assert found == [(step, pytest.approx(10.0 / step)) for step in range(1, 7)]
    assert [event.step for event in events.Scalars("train/f1")] == [5, 6]


def test_works_without_tensorboard(tmp_path: Path) -> None:
    """In a fresh process, where the package cannot be imported."""
    program = (
        "import sys; sys.modules['tensorboard'] = None\n"
        "from pathlib import Path\n"
        "from longspan.training.metrics_log import MetricsLog\n"
        "log = MetricsLog(Path(sys.argv[1]), 0); log.write(1, 2.0, 'train', {'loss': 3.0}); log.close()\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True)
    assert steps_of(tmp_path) == [1]
    assert not (tmp_path / "tensorboard").exists()
