"""The time that is left is estimated from tokens and evaluations, not from the number of steps alone."""

from pathlib import Path
from typing import Any

import pytest

from longspan.training.loop import train
from longspan.training.pace import Pace
from longspan.training.recipe import read_recipe
from longspan.training.stages import Stage, stages_of
from tests.training.runs import write_recipe
from tests.training.test_stages import write_staged

PHASES = [
    {"steps": 10, "max_length": 100, "examples": 1, "lr": 1e-3},
    {"steps": 10, "max_length": 200, "examples": 5, "lr": 1e-3},
]


@pytest.fixture
def staged(tmp_path: Path) -> tuple[Stage, ...]:
    return stages_of(read_recipe(write_staged(tmp_path, phases=PHASES)))


def _pace(stages: tuple[Stage, ...], **changes: Any) -> Pace:
    usual: dict[str, Any] = {"epoch_tokens": 1000, "evaluate_every": 4, "evaluates": True}
    return Pace(stages, 20, **usual | changes)


def test_a_step_of_a_later_phase_counts_by_its_tokens(staged: tuple[Stage, ...]) -> None:
    pace = _pace(staged, evaluates=False)
    for number in range(5):
        pace.step(number, 1.0)
    assert pace.left(5) == pytest.approx(5 * 1.0 + 10 * 10.0)
    # In a phase its own speed counts, when it is known.
    for number in range(5, 11):
        pace.step(number, 1.0)
    assert pace.left(11) == pytest.approx(9 * 10.0)
    for number in range(11, 16):
        pace.step(number, 3.0)
    assert pace.left(16) == pytest.approx(4 * (1 + 5 * 3) / 6)


def test_evaluations_count_when_one_was_measured(staged: tuple[Stage, ...]) -> None:
    pace = _pace(staged)
    pace.step(0, 1.0)
    assert not pace.knows_evaluations and pace.left(1) == pytest.approx(9 + 100)
    pace.evaluation(7.0)
    assert pace.knows_evaluations
    assert [pace.evaluations_left(done) for done in (0, 3, 4, 19, 20)] == [5, 5, 4, 1, 0]
    assert pace.left(4) == pytest.approx(6 + 100 + 4 * 7)


def test_evaluations_of_epochs_and_of_the_end(staged: tuple[Stage, ...]) -> None:
    # 10 steps an epoch in the first phase, 1 in the second.
    assert _pace(staged, evaluate_every=None).evaluations_left(0) == 1 + 10
    assert _pace(staged, evaluate_every=8).evaluations_left(0) == 3
    assert _pace(staged, evaluates=False).evaluations_left(0) == 0


def test_a_run_takes_no_longer_than_it_may(staged: tuple[Stage, ...]) -> None:
    pace = _pace(staged, seconds=30.0)
    pace.step(0, 4.0)
    pace.evaluation(6.0)
    assert pace.left(1) == 20.0


def test_a_run_says_early_how_long_it_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(read_recipe(write_recipe(tmp_path / "recipe")), tmp_path / "run")
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("About ")]
    assert said[0].endswith(" for the 7 steps that are left, without 2 evaluations.")
    assert said[1].endswith(" for the 5 steps and 1 evaluation that are left.")
