"""The comparison of kinds: every kind is there, is checked, and is measured in both directions."""

import pytest
import torch

from longspan.benchmarks import kinds
from longspan.nn.kinds.registry import KINDS
from longspan.plots import scaling

SMALL = {"heads": 2, "head_dim": 8}


def test_every_kind_takes_part() -> None:
    assert set(KINDS) <= set(kinds.Plan().kinds)
    lines = scaling.LINES_OF_KINDS
    assert set(kinds.Plan().kinds) == set(lines)
    assert len({(marker, style) for _, marker, style in lines.values()}) == len(lines)
    for name, settings in kinds.SETTINGS.items():
        kinds.settings_of(KINDS[name], settings)


def test_all_are_checked() -> None:
    errors = kinds.check(kinds.Plan(**SMALL))  # pyright: ignore[reportArgumentType]
    assert set(errors) == set(kinds.available(kinds.Plan().kinds)[0])
    for name, error in errors.items():
        assert error < kinds.TOLERANCE, name


def test_time_and_memory_are_measured() -> None:
    plan = kinds.Plan(kinds=("window", "performer"), lengths=(32, 64), repetitions=1, heads=2, head_dim=8)
    said: list[str] = []
    found = kinds.run(plan, said.append)
    assert len(said) == kinds.steps(plan)
    assert len(found["records"]) == 8
    for record in found["records"]:
        assert record["seconds"] > 0 and record["extra_bytes"] is not None and record["stopped"] is None
    assert found["results"] == []  # bars are for longer inputs
    scaling.draw(found, "training")


def test_slow_calls_are_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "_SLOW_SECONDS", 0.0)
    found = kinds.run(kinds.Plan(kinds=("window",), lengths=(32,), heads=2, head_dim=8))
    assert [(one["seconds"] > 0, one["spread"]) for one in found["records"]] == [(True, None)] * 2


def test_bars_are_of_the_worst_judged_length() -> None:
    seconds = {"window": (1.0, 2.0, 8.0), "linformer": (2.0, 3.0, 8.0), "linformer-package": (1.0, 6.0, 7.0)}
    records = [
        {"contestant": name, "direction": "forward", "length": length, "seconds": value, "stopped": None}
        for name, values in seconds.items()
        for length, value in zip((1024, 4096, 16384), values, strict=True)
    ]
    window, linformer = kinds.results(records)
    assert window.value == 1.0 and window.passed
    assert window.series == {"1024": 2.0, "4096": 1.5, "16384": 1.0}
    assert linformer.value == 0.875 and not linformer.passed
    assert linformer.detail == "2.00 at 4,096, 0.88 at 16,384"
    records[-1]["stopped"] = "over 20 s"
    assert kinds.results(records)[1].value == 2.0


def _need(contestant: str) -> None:
    """Skips a test where the package of a contestant is not installed."""
    for missing, reason in kinds.available([contestant])[1].items():
        pytest.skip(f"{missing}: {reason}")


@pytest.mark.parametrize("name", list(kinds.PACKAGES))
def test_a_wrong_package_ends_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _need(name)
    monkeypatch.setattr(kinds, "TOLERANCE", 0.0)
    with pytest.raises(kinds.WrongKindError, match=f"{name} differs from ours"):
        kinds.check(kinds.Plan(kinds=(name,), **SMALL))  # pyright: ignore[reportArgumentType]


def test_the_epsilon_is_the_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gate is narrow enough to see it."""
    _need("performer-package")
    monkeypatch.setattr(kinds, "PACKAGE_EPSILON", 0.0)
    with pytest.raises(kinds.WrongKindError, match="performer-package differs from ours"):
        kinds.check(kinds.Plan(kinds=("performer-package",)))


def test_a_wrong_kind_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "TOLERANCE", -1.0)
    with pytest.raises(kinds.WrongKindError, match="full differs from its slow form"):
        kinds.check(kinds.Plan(**SMALL))  # pyright: ignore[reportArgumentType]


def test_mistakes_are_named() -> None:
    with pytest.raises(ValueError, match="kinds has 'nystrom'; it must be among full, window"):
        kinds.Plan(kinds=("nystrom",))


@pytest.mark.parametrize("name", list(kinds.PACKAGES))
def test_packages_run_where_they_are(name: str) -> None:
    _need(name)
    made = kinds.layer(name, 64, heads=2, head_dim=8)
    assert made.call(torch.randn(1, 64, 16)).shape == (1, 64, 16)
