"""Scores into probabilities."""

import dataclasses
import importlib
import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from longspan.apps.calibration import (
    Calibration,
    Logistic,
    Outcome,
    expected_calibration_error,
    fit,
    fit_logistic,
    leads,
    read_calibration,
    uncalibrated,
    write_calibration,
)
from longspan.apps.reader import Reader
from tests.apps.tiny_reader import tiny_reader

ROOT = Path(__file__).parents[2]
TRUE = Logistic(intercept=-1.0, margin=0.8, lead=0.3, log_tokens=0.5)


def drawn(count: int, seed: int = 0) -> tuple[list[tuple[float, float, float]], list[bool]]:
    """Rows, and what came of them if `TRUE` is true."""
    lot = np.random.default_rng(seed)
    rows = [
        (float(m), float(g), float(t))
        for m, g, t in zip(
            lot.normal(0, 3, count), lot.normal(0, 3, count), lot.uniform(3, 9, count), strict=True
        )
    ]
    truth = [bool(lot.random() < TRUE(m, g, round(math.exp(t)))) for m, g, t in rows]
    return rows, truth


def test_coefficients_are_recovered() -> None:
    found = fit_logistic(*drawn(40_000))
    assert found.margin == pytest.approx(TRUE.margin, abs=0.05)
    assert found.lead == pytest.approx(TRUE.lead, abs=0.05)
    assert found.log_tokens == pytest.approx(TRUE.log_tokens, abs=0.05)
    assert found.intercept == pytest.approx(TRUE.intercept, abs=0.25)


def test_a_fit_is_calibrated_and_the_softmax_need_not_be() -> None:
    rows, truth = drawn(5_000)
    found = fit_logistic(rows, truth)
    fresh, came = drawn(5_000, seed=1)
    fitted = [found(m, g, round(math.exp(t))) for m, g, t in fresh]
    plain = [uncalibrated([m]).answers[0] for m, _, _ in fresh]
    assert expected_calibration_error(fitted, came) < 0.03 < 0.1 < expected_calibration_error(plain, came)


def test_expected_calibration_error() -> None:
    assert expected_calibration_error([1.0, 1.0, 0.0], [True, True, False]) == 0
    assert expected_calibration_error([0.9, 0.9], [True, False]) == pytest.approx(0.4)
    assert expected_calibration_error([0.75] * 4, [True, True, True, False]) == 0
    assert expected_calibration_error([], []) == 0


def test_better_spans_are_never_less_likely() -> None:
    """Even where the data say so: then that number is not used."""
    rows = [(m / 10, 0.0, 5.0) for m in range(-50, 50)]
    found = fit_logistic(rows, [m < 0 for m, _, _ in rows])
    assert found.margin == found.lead == found.log_tokens == 0 and found.intercept == pytest.approx(
        0, abs=0.1
    )
    odd = [(m, -2 * m + d, 5.0) for m, d in ((1.0, 0.1), (2.0, 0.0), (3.0, 0.2), (4.0, 0.1))]
    found = fit_logistic(odd, [False, False, True, True])
    assert found.margin > 0 == found.lead
    calibration = Calibration(answerable=TRUE, right=TRUE)
    for low, high in ((-3.0, -2.0), (0.0, 0.5), (5.0, 90.0)):
        worse, better = (calibration.probabilities([m, -4.0], 900) for m in (low, high))
        assert worse.answers[0] < better.answers[0] and worse.no_answer > better.no_answer


def test_separable_outcomes_have_finite_coefficients() -> None:
    rows = [(float(m), 0.0, 5.0) for m in (-3, -2, 2, 3)]
    found = fit_logistic(rows, [False, False, True, True])
    assert 0 < found.margin < 100 and found(2, 0, 150) > 0.9 and found(-2, 0, 150) < 0.1


def test_outcomes_that_are_all_alike_are_refused() -> None:
    with pytest.raises(ValueError, match="all 2 outcomes are alike"):
        fit_logistic([(1.0, 0.0, 0.0)] * 2, [True, True])
    with pytest.raises(ValueError, match="all 0 outcomes"):
        fit_logistic([], [])


def test_both_parts_are_fitted() -> None:
    lot = np.random.default_rng(0)
    outcomes: list[Outcome] = []
    for _ in range(3_000):
        best = float(lot.normal(0, 3))
        margins = (best, best - float(lot.exponential(2)))
        answerable = bool(lot.random() < 1 / (1 + math.exp(-best)))
        right = bool(lot.random() < 1 / (1 + math.exp(-(margins[0] - margins[1]))))
        outcomes.append(
            Outcome(
                margins=margins,
                is_right=(right, False),
                is_answerable=answerable,
                tokens=int(lot.integers(50, 5000)),
            )
        )
    found = fit(outcomes)
    assert found.answerable.margin == pytest.approx(1, abs=0.15) and found.answerable.lead == 0
    sure = [found.probabilities(one.margins, one.tokens).answers[0] for one in outcomes]
    came = [one.is_right[0] and one.is_answerable for one in outcomes]
    assert expected_calibration_error(sure, came) < 0.05


def test_leads() -> None:
    assert leads([3.0, 1.0, 0.5]) == [2.0, -2.0, -2.5]
    assert leads([3.0, 3.0]) == [0.0, 0.0]
    assert leads([50.0, 1.0]) == [10.0, -10.0]
    assert leads([3.0]) == [10.0]


def test_uncalibrated_is_the_softmax() -> None:
    found = uncalibrated([2.0, 0.0, -1.0])
    total = sum(math.exp(m) for m in (2, 0, -1)) + 1
    assert found.answers == pytest.approx([math.exp(m) / total for m in (2, 0, -1)])
    assert sum(found.answers) + found.no_answer == pytest.approx(1)
    assert uncalibrated([800.0, -800.0]).answers == (1.0, 0.0)
    without = uncalibrated([-900.0, -901.0], may_be_absent=False)
    assert without.no_answer == 0 and sum(without.answers) == pytest.approx(1)
    assert uncalibrated([]) == Calibration(answerable=TRUE, right=TRUE).probabilities([], 9) == ((), 1.0)


def test_a_file_beside_the_model(tmp_path: Path) -> None:
    assert read_calibration(tmp_path) is None
    calibration = Calibration(answerable=TRUE, right=Logistic(intercept=0, margin=1, lead=0, log_tokens=-0.1))
    for words in (0.0, 16.0):
        calibration = dataclasses.replace(calibration, words=words)
        write_calibration(tmp_path, calibration, error=0.02)
        assert read_calibration(tmp_path) == calibration
    for wrong in ("[]", "{", '{"answerable": {}}', '{"answerable": {"margin": -1}}'):
        (tmp_path / "calibration.json").write_text(wrong)
        with pytest.raises(ValueError, match="is no calibration of a reader"):
            read_calibration(tmp_path)
    with pytest.raises(ValueError, match="margin is -1"):
        Logistic(intercept=0, margin=-1, lead=0, log_tokens=0)
    with pytest.raises(ValueError, match=r"words is -1\.0"):
        dataclasses.replace(calibration, words=-1.0)


def test_a_script_fits_a_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(ROOT / "recipes")
    module = importlib.import_module("calibrate_reader")
    folder = tiny_reader(tmp_path / "reader")
    reader = Reader(str(folder), precision="fp32")
    text = "Ada wrote a book about the river. Nobody read it to the end, but the dog of Ada did."
    records: list[dict[str, Any]] = []
    for at in range(24):
        document = text + f" {at} films are long." * (at % 5)
        asked = f"Who wrote book {at}?"
        # What the reader says is right for some, so that there is something to fit.
        said = reader.candidates([document], asked, 2).spans[at % 2]
        is_impossible = at % 3 == 2
        records.append(
            {
                "id": str(at),
                "question": asked,
                "documents": [{"id": "a", "text": document}],
                "answers": [] if is_impossible else [document[said.start : said.end]],
                "spans": [] if is_impossible else [[0, said.start, said.end]],
                "is_impossible": is_impossible,
            }
        )
    data = tmp_path / "dev.jsonl"
    data.write_text("".join(json.dumps(one) + "\n" for one in records))
    monkeypatch.setattr(sys, "argv", ["script", "--run", str(folder), "--data", str(data)])
    module.main()
    assert "calibration.json: 24 questions" in capsys.readouterr().out
    assert Reader(str(folder)).calibration is not None and Reader(str(folder)).words == module.WORDS
