"""Tokenised data on disk, memory-mapped: a corpus larger than memory trains.

A store is a folder with two files for each name of the features: all values one after the other, and where
each feature's begin. It appears whole or not at all.
"""

import json
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import numpy as np

from longspan.conversion.whole_directory import written_whole
from longspan.tasks.task import Feature

_INDEX = "index.json"


class FeatureStore:
    """The features of a data set, in order.

    Args:
        folder: that `write_features` made.
    """

    def __init__(self, folder: Path) -> None:
        index = json.loads((folder / _INDEX).read_text())
        self._count: int = index["features"]
        self._values = {
            name: _map(folder / f"{name}.values", np.dtype(kind)) for name, kind in index["dtypes"].items()
        }
        self._ends = {name: _map(folder / f"{name}.ends", np.dtype(np.int64)) for name in self._values}
        self.example = _map(folder / "example.of", np.dtype(np.int64))
        """[features]: the number of the example that each comes from."""

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, at: int) -> Feature:
        if not 0 <= at < self._count:
            raise IndexError(f"feature {at} of {self._count}")
        # Views: one feature may be a document larger than memory. Tasks do not write to features.
        return {name: np.asarray(values[self._slice(name, at)]) for name, values in self._values.items()}

    @property
    def lengths(self) -> np.ndarray:
        """[features]: the tokens of each."""
        return np.diff(self._ends["input_ids"], prepend=0)

    def _slice(self, name: str, at: int) -> slice:
        ends = self._ends[name]
        return slice(int(ends[at - 1]) if at else 0, int(ends[at]))


def write_features(folder: Path, features: Iterable[tuple[int, Feature]]) -> int:
    """Writes a store; ``folder`` appears when all is written. Runs that share it may write it at once.

    Args:
        folder: to make; its name says what is in it.
        features: with the number of the example that each comes from.

    Returns:
        How many there were.

    Raises:
        ValueError: there are none, or their names or dtypes differ.
    """
    count = 0
    dtypes: dict[str, str] = {}
    ends: dict[str, int] = {}
    with written_whole(folder, replace=False) as new, ExitStack() as files:

        def opened(name: str) -> IO[bytes]:
            return files.enter_context((new / name).open("wb"))

        examples = opened("example.of")
        values: dict[str, IO[bytes]] = {}
        offsets: dict[str, IO[bytes]] = {}
        for example, feature in features:
            found = {name: array.dtype.str for name, array in feature.items()}
            if not dtypes:
                dtypes = found
                for name in dtypes:
                    values[name], offsets[name], ends[name] = (
                        opened(f"{name}.values"),
                        opened(f"{name}.ends"),
                        0,
                    )
            if found != dtypes:
                raise ValueError(f"feature {count} has {found}; those before it had {dtypes}")
            for name, array in feature.items():
                values[name].write(np.ascontiguousarray(array).data)
                ends[name] += len(array)
                offsets[name].write(np.int64(ends[name]).tobytes())
            examples.write(np.int64(example).tobytes())
            count += 1
        if not count:
            raise ValueError(
                "no example gives an input for the model; the data are empty, or all was left out"
            )
        (new / _INDEX).write_text(json.dumps({"features": count, "dtypes": dtypes}))
    return count


def _map(path: Path, dtype: np.dtype) -> np.ndarray:
    if path.stat().st_size == 0:  # an empty file cannot be mapped
        return np.empty(0, dtype=dtype)
    # Copy on write, since torch takes only what could be written to; the file never changes.
    return np.memmap(path, dtype=dtype, mode="c")
