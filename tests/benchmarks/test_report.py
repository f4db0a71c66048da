"""Files appear whole or not at all."""

import json
from pathlib import Path

import pytest

from longspan.benchmarks import report


def test_json_replaces_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.json"
    report.write_json(path, {"value": 1})
    report.write_json(path, {"value": 2})
    assert json.loads(path.read_text()) == {"value": 2}
    assert list(path.parent.iterdir()) == [path]
    assert path.stat().st_mode & 0o777 == 0o644


def test_failure_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = report.write_bytes(tmp_path / "a.txt", b"old")
    with pytest.raises(TypeError):
        report.write_bytes(path, "not bytes")  # pyright: ignore[reportArgumentType]
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_nan_is_not_json(tmp_path: Path) -> None:
    with pytest.raises(ValueError):
        report.write_json(tmp_path / "a.json", {"value": float("nan")})
    assert not list(tmp_path.iterdir())
