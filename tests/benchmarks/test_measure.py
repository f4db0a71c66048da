"""The instruments, on things whose size and order are known."""

from collections.abc import Iterator

import pytest
import torch

from longspan.benchmarks import fresh_process
from longspan.benchmarks.measure import Timing, interleaved, peak_extra_bytes

MEGABYTE = 2**20


def test_interleaved_takes_turns() -> None:
    order: list[str] = []
    candidates = {name: (lambda name=name: order.append(name)) for name in "ab"}
    times = interleaved(candidates, repetitions=2, warmups=1)
    assert order == ["a", "b"] * 3
    assert [len(timing.samples) for timing in times.values()] == [2, 2]


def test_timing_reports_the_median() -> None:
    timing = Timing((3.0, 1.0, 2.0))
    assert timing.median == 2.0
    assert timing.spread == 1.0


def allocate_and_measure(*, megabytes: int, temporary: int) -> Iterator[float]:
    """Runs in a fresh process."""

    def call() -> torch.Tensor:
        torch.ones(temporary * MEGABYTE // 4).sum()
        return torch.ones(megabytes * MEGABYTE // 4)

    torch.ones(10).sum()
    for _ in range(2):
        yield peak_extra_bytes(call) / MEGABYTE


@pytest.mark.parametrize(("megabytes", "temporary", "peak"), [(64, 1, 64), (16, 128, 128)])
def test_peak_sees_what_is_kept_and_what_is_not(megabytes: int, temporary: int, peak: int) -> None:
    arguments = {"megabytes": megabytes, "temporary": temporary}
    code = "tests.benchmarks.test_measure:allocate_and_measure"
    for measured in fresh_process.answers(code, arguments):
        assert measured == pytest.approx(peak, abs=4)


def say_variable() -> Iterator[str | None]:
    import os

    yield os.environ.get("LONGSPAN_TEST_VARIABLE")


@pytest.mark.parametrize("value", ["1", None])
def test_fresh_process_has_its_own_environment(value: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGSPAN_TEST_VARIABLE", "outside")
    answers = fresh_process.answers(
        "tests.benchmarks.test_measure:say_variable", {}, environment={"LONGSPAN_TEST_VARIABLE": value}
    )
    assert list(answers) == [value]


@pytest.mark.parametrize(("how", "message"), [("crash", "broken on purpose"), ("sleep", "more than 8 s")])
def test_fresh_process_keeps_what_came_before_a_failure(how: str, message: str) -> None:
    answers = fresh_process.answers(
        "tests.benchmarks.failing:answer_then_fail", {"how": how}, timeout=8 if how == "sleep" else None
    )
    assert next(answers) == 7
    with pytest.raises(fresh_process.ProcessFailedError, match=message):
        next(answers)
