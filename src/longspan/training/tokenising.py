"""Tokenises data in the background: a thread writes the store while the model is loaded, or trains.

Large data are tokenised by processes of their own, which the thread gives examples to. The parts of a run are
tokenised one after the other: training waits for its own data alone, and the others are written while it
runs. Stores are named by what they depend on, so that a second run, or the next seed, finds them.
"""

import copy
import hashlib
import json
import os
import threading
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from longspan import data, tasks
from longspan.data.format_names import FormatName
from longspan.data.options import NO_OPTIONS, ReaderOptions
from longspan.data.parts import read_part
from longspan.data.splits import sample
from longspan.tasks.task import Feature, Task
from longspan.training.feature_store import FeatureStore, write_features
from longspan.training.tokeniser_pool import features_of

# Files of fewer bytes are tokenised before a process would have begun.
_WORTH_PROCESSES = 8_000_000
_MOST_PROCESSES = 8


class DataError(ValueError):
    """The data of a run are wrong; the message says what would be right."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """Data, and the task that reads them: all that decides what a store holds."""

    task: str
    settings: Any
    tokenizer: str
    """A folder."""
    where: str
    format: FormatName
    root: str
    split_seed: int
    limit: int | None
    training: bool
    options: ReaderOptions = NO_OPTIONS

    def examples(self) -> Iterator[Any]:
        """The examples, in the order that stores count them in."""

        def read() -> Iterator[Any]:
            return read_part(
                self.where,
                self.format,
                root=Path(self.root),
                seed=self.split_seed,
                options=self.options,
            )

        return read() if self.limit is None else sample(read, self.limit, seed=self.split_seed)

    def files(self) -> list[Path]:
        """What is read."""
        path = Path(self.root, self.where.partition("#")[0])
        return [file for file in (sorted(path.rglob("*")) if path.is_dir() else [path]) if file.is_file()]

    def processes(self) -> int:
        """How many are worth starting to tokenise it, one processor left for the run; 0 for few data."""
        size = sum(file.stat().st_size for file in self.files())
        if self.limit is not None or size < _WORTH_PROCESSES:
            return 0
        return max(1, min((os.cpu_count() or 1) - 1, _MOST_PROCESSES))

    def fingerprint(self) -> str:
        """Differs where the store would."""
        state = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in self.files()]
        tokenizer = (Path(self.tokenizer) / "tokenizer.json").read_bytes()
        fields = asdict(self) | {"tokenizer": hashlib.sha256(tokenizer).hexdigest(), "files": state}
        fields["code"] = _code()
        return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:16]


class Tokenising:
    """A store in the making.

    Args:
        source: what to tokenise.
        task: that does it.
        cache: the folder of stores.
        works: whether this process writes the store; another one's is waited for otherwise.
        processes: that tokenise, 0 for the thread alone; None lets the task and the source's size decide.
            What is stored does not depend on it.
        after: another store, to be finished first.
    """

    def __init__(
        self,
        source: Source,
        task: Task[Any, Any],
        cache: Path,
        *,
        works: bool = True,
        processes: int | None = None,
        after: "Tokenising | None" = None,
    ) -> None:
        self._source, self._after = source, after
        if processes is None:
            processes = source.processes() if task.worth_processes else 0
        self._processes = processes
        # Its own tokenizer: one that another thread is using cannot be set up for a call.
        self._task = type(task)(source.settings, copy.deepcopy(task.tokenizer))
        self._folder = cache / source.fingerprint()
        self._error: Exception | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        if works and not self._folder.exists():
            self._thread = threading.Thread(target=self._write, daemon=True)
            self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether `store` would wait."""
        return self._thread is not None and self._thread.is_alive()

    def store(self) -> FeatureStore:
        """The store, when it is finished.

        Raises:
            DataError: the data are wrong.
        """
        if self._thread is not None:
            self._thread.join()
        self.check()
        return FeatureStore(self._folder)

    def check(self) -> None:
        """Raises what went wrong so far."""
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Gives up what is not finished, and leaves nothing of it; what this one waits for too."""
        if self._after is not None:
            self._after.close()
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _write(self) -> None:
        try:
            if self._after is not None:
                self._after.store()
            with closing(self._features()) as features:
                write_features(self._folder, features)
        except ValueError as error:
            self._error = DataError(str(error))
            self._error.__cause__ = error
        except Exception as error:  # of the disk or the task: for the thread that waits
            self._error = error

    def _features(self) -> Generator[tuple[int, Feature]]:
        made = features_of(
            self._source.examples(),
            self._task,
            training=self._source.training,
            processes=self._processes,
        )
        with closing(made):
            for each in made:
                if self._stop.is_set():
                    raise InterruptedError(f"the tokeniser of {self._source.where} was stopped")
                yield each


@cache
def _code() -> str:
    """Of the readers and the tasks, which decide what an example and a feature is, and in which order."""
    digest = hashlib.sha256()
    for package in (data, tasks):
        for file in sorted(Path(next(iter(package.__path__))).glob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()
