"""What is stored comes back, and a store is there whole or not at all."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from longspan.tasks.task import Feature
from longspan.training.feature_store import FeatureStore, write_features


def _feature(*ids: int, spans: tuple[int, ...] = ()) -> Feature:
    return {"input_ids": np.array(ids, dtype=np.int32), "spans": np.array(spans, dtype=np.int64)}


def test_features_come_back(tmp_path: Path) -> None:
    given = [(0, _feature(1, 2, 3)), (0, _feature(4, spans=(7, 8))), (2, _feature(5, 6))]
    assert write_features(tmp_path / "store", given) == 3
    store = FeatureStore(tmp_path / "store")
    assert len(store) == 3
    assert store.lengths.tolist() == [3, 1, 2]
    assert store.example.tolist() == [0, 0, 2]
    for at, (_, feature) in enumerate(given):
        for name, values in feature.items():
            assert store[at][name].dtype == values.dtype
            assert store[at][name].tolist() == values.tolist()
    with pytest.raises(IndexError):
        store[3]


def test_values_stay_on_disk(tmp_path: Path) -> None:
    write_features(tmp_path / "store", [(0, _feature(*range(1000)))])
    assert isinstance(FeatureStore(tmp_path / "store")._values["input_ids"], np.memmap)


def test_who_comes_second_leaves_what_is_there(tmp_path: Path) -> None:
    """Runs that share a cache may write the same store, and another one may read it by then."""
    store = tmp_path / "store"
    given = (0, _feature(1, 2, 3))
    files: list[set[int]] = []

    def overtaken() -> Iterator[tuple[int, Feature]]:
        yield given
        write_features(store, [given])
        files.append({one.stat().st_ino for one in store.iterdir()})

    assert write_features(store, overtaken()) == 1
    assert [{one.stat().st_ino for one in store.iterdir()}] == files
    assert list(tmp_path.iterdir()) == [store] and len(FeatureStore(store)) == 1


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    def failing() -> Iterator[tuple[int, Feature]]:
        yield 0, _feature(1)
        raise ValueError("a bad example")

    with pytest.raises(ValueError, match="a bad example"):
        write_features(tmp_path / "store", failing())
    assert not any(tmp_path.iterdir())


def test_no_features_and_other_features_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no example gives an input"):
        write_features(tmp_path / "store", [])
    other = {"input_ids": np.array([1], dtype=np.int64), "spans": np.array([], dtype=np.int64)}
    with pytest.raises(ValueError, match="feature 1 has"):
        write_features(tmp_path / "store", [(0, _feature(1)), (1, other)])
