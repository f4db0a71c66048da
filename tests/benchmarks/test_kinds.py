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
    assert set(errors) == {*KINDS, *kinds.STACKS}
    assert max(errors.values()) < kinds.TOLERANCE


def test_time_and_memory_are_measured() -> None:
    plan = kinds.Plan(kinds=("window", "performer"), lengths=(32, 64), repetitions=1, heads=2, head_dim=8)
    said: list[str] = []
    found = kinds.run(plan, said.append)
    assert len(said) == kinds.steps(plan)
    assert len(found["records"]) == 8
    for record in found["records"]:
        assert record["seconds"] > 0 and record["extra_bytes"] is not None and record["stopped"] is None
    scaling.draw(found, "training")


def test_a_wrong_kind_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "TOLERANCE", -1.0)
    with pytest.raises(kinds.WrongKindError, match="full differs from its slow form"):
        kinds.check(kinds.Plan(**SMALL))  # pyright: ignore[reportArgumentType]


def test_mistakes_are_named() -> None:
    with pytest.raises(ValueError, match="kinds has 'nystrom'; it must be among full, window"):
        kinds.Plan(kinds=("nystrom",))


@pytest.mark.parametrize("name", list(kinds.PACKAGES))
def test_packages_run_where_they_are(name: str) -> None:
    if kinds.available([name])[1]:
        pytest.skip("not installed")
    made = kinds.layer(name, 64, heads=2, head_dim=8)
    assert made.call(torch.randn(1, 64, 16)).shape == (1, 64, 16)
