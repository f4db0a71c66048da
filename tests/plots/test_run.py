"""Pictures of runs show what was logged."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longspan.plots.run import RunLines, draw_runs, plot_run, read_runs, smoothed
from longspan.training.metrics_log import MetricsLog


def a_run(folder: Path, steps: int, *, dev: dict[str, float] | None = None, loss: float = 2.0) -> Path:
    """A log of ``steps`` steps, and of an evaluation at every second one."""
    folder.mkdir(parents=True)
    log = MetricsLog(folder, None)
    for step in range(1, steps + 1):
        values = {"loss": loss / step, "lr": 1e-4 / step, "tokens_per_second": 1000.0 + step}
        log.write(step, 60.0 * step, "train", values)
        if dev and step % 2 == 0:
            log.write(step, 60.0 * step, "dev", dev)
    log.close()
    return folder


def titles(runs: list[RunLines]) -> list[str]:
    """Of the panels."""
    return [axes.get_title(loc="left") for axes in draw_runs(runs).axes]


def lines_of(axes: Any) -> list[tuple[list[float], list[float]]]:
    """Steps and values of what is drawn."""
    return [(line.get_xdata().tolist(), line.get_ydata().tolist()) for line in axes.get_lines()]


def test_the_panels_show_the_log(tmp_path: Path) -> None:
    figure = draw_runs(read_runs([a_run(tmp_path / "one", 6, dev={"f1": 0.5, "exact_match": 0.25})]))
    loss, scores, rate, speed = figure.axes
    steps = [1, 2, 3, 4, 5, 6]
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        "Training loss",
        "Dev scores",
        "Learning rate",
        "Tokens per second",
    ]
    assert lines_of(loss) == [(steps, [2.0 / step for step in steps])]
    assert lines_of(scores) == [([2, 4, 6], [0.5] * 3), ([2, 4, 6], [0.25] * 3)]
    assert lines_of(rate) == [(steps, [1e-4 / step for step in steps])]
    assert lines_of(speed) == [(steps, [1000.0 + step for step in steps])]
    legend = scores.get_legend()
    assert legend is not None and [text.get_text() for text in legend.get_texts()] == ["f1", "exact match"]
    assert figure.get_suptitle() == "one: 6 steps in 6 min"


def test_a_long_run_is_drawn_raw_and_smoothed(tmp_path: Path) -> None:
    figure = draw_runs(read_runs([a_run(tmp_path / "one", 100)]))
    raw, smooth = figure.axes[0].get_lines()
    values = np.array([2.0 / step for step in range(1, 101)])
    assert np.array_equal(raw.get_ydata(), values)
    assert np.allclose(np.asarray(smooth.get_ydata()), smoothed(values, 4))
    assert smooth.get_linewidth() > raw.get_linewidth()
    # The learning rate has no noise to smooth away.
    assert len(figure.axes[1].get_lines()) == 1


def test_scores_beyond_1_have_panels_of_their_own(tmp_path: Path) -> None:
    dev = {"f1": 0.5, "perplexity": 30.0, "bits_per_token": 4.9}
    runs = read_runs([a_run(tmp_path / "one", 4, dev=dev)])
    assert titles(runs)[1:4] == ["Dev f1", "Dev perplexity", "Dev bits per token"]


def test_what_was_not_logged_has_no_panel(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path, None)
    log.write(1, 1.0, "train", {"loss": 2.0})
    log.close()
    assert titles(read_runs([tmp_path])) == ["Training loss"]


def test_several_runs_differ_by_more_than_colour(tmp_path: Path) -> None:
    folders = [
        a_run(tmp_path / "a" / "seed1", 4, dev={"f1": 0.5, "em": 0.4}),
        a_run(tmp_path / "b" / "seed1", 8, dev={"f1": 0.7, "em": 0.6}, loss=3.0),
    ]
    figure = draw_runs(read_runs(folders))
    first, second = figure.axes[0].get_lines()
    assert first.get_color() != second.get_color() and first.get_linestyle() != second.get_linestyle()
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a/seed1", "b/seed1"]
    scores = figure.axes[1].get_lines()
    assert len({(line.get_color(), line.get_marker()) for line in scores}) == 4
    # Panels can be compared from top to bottom.
    assert {axes.get_xlim() for axes in figure.axes} == {(0.0, 8 * 1.02)}


def test_a_value_that_is_no_number_is_a_gap(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path, None)
    for step, loss in enumerate((3.0, math.nan, 1.0), 1):
        log.write(step, 1.0, "train", {"loss": loss})
    log.close()
    (run,) = read_runs([tmp_path])
    steps, values = run.series("train", "loss")
    assert steps.tolist() == [1, 2, 3]
    assert values[[0, 2]].tolist() == [3.0, 1.0] and math.isnan(values[1])


@given(st.lists(st.floats(-5, 5) | st.just(math.nan), min_size=1, max_size=30), st.integers(1, 9))
def test_smoothed_against_a_slow_mean(values: list[float], width: int) -> None:
    for at, found in enumerate(smoothed(np.array(values), width)):
        around = values[max(at - (width - 1) // 2, 0) : at + width // 2 + 1]
        known = [value for value in around if not math.isnan(value)]
        if known:
            assert found == pytest.approx(sum(known) / len(known), abs=1e-9)
        else:
            assert math.isnan(found)


@pytest.mark.parametrize(("name", "beginning"), [("run.png", b"\x89PNG"), ("run.svg", b"<?xml")])
def test_the_file_is_a_picture_and_always_the_same(tmp_path: Path, name: str, beginning: bytes) -> None:
    folder = a_run(tmp_path / "one", 5, dev={"f1": 0.5})
    plot_run(folder, tmp_path / name)
    picture = (tmp_path / name).read_bytes()
    assert picture.startswith(beginning)
    plot_run([folder], tmp_path / name)
    assert (tmp_path / name).read_bytes() == picture


def test_what_cannot_be_drawn(tmp_path: Path) -> None:
    folder = a_run(tmp_path / "one", 2)
    with pytest.raises(ValueError, match=r"out is .*run.pdf; its name must end with .png or .svg"):
        plot_run(folder, tmp_path / "run.pdf")
    with pytest.raises(ValueError, match="a run may be there only once"):
        read_runs([folder, tmp_path / "other" / ".." / "one"])
    with pytest.raises(ValueError, match="is no folder of a run"):
        read_runs([tmp_path])
    with pytest.raises(ValueError, match="folders is empty"):
        read_runs([])
    MetricsLog(tmp_path, None).close()
    with pytest.raises(ValueError, match="has no step of training in its log yet"):
        read_runs([tmp_path])
