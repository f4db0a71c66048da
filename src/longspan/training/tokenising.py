"""Tokenises data in the background: a thread writes the store while the model is loaded, or trains.

Stores are named by what they depend on, so that a second run, or the next seed, finds them.
"""

import copy
import hashlib
import json
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from longspan import tasks
from longspan.data.formats import FormatName
from longspan.data.parts import read_part
from longspan.data.splits import sample
from longspan.tasks.task import Task
from longspan.training.feature_store import FeatureStore, write_features


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

    def examples(self) -> Iterator[Any]:
        """The examples, in the order that stores count them in."""
        read = read_part(self.where, self.format, root=Path(self.root), seed=self.split_seed)
        return read if self.limit is None else iter(sample(read, self.limit, seed=self.split_seed))

    def fingerprint(self) -> str:
        """Differs where the store would."""
        path = Path(self.root, self.where.partition("#")[0])
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        state = [
            (str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files if file.is_file()
        ]
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
    """

    def __init__(self, source: Source, task: Task[Any, Any], cache: Path, *, works: bool = True) -> None:
        self._source = source
        # Its own tokenizer: one that another thread is using cannot be set up for a call.
        self._task = type(task)(source.settings, copy.deepcopy(task.tokenizer))
        self._folder = cache / source.fingerprint()
        self._error: Exception | None = None
        self._thread: threading.Thread | None = None
        if works and not self._folder.exists():
            # Tokenizers and torch leave Python's lock while they work, so a thread is enough.
            self._thread = threading.Thread(target=self._write, daemon=True)
            self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether `store` would wait."""
        return self._thread is not None and self._thread.is_alive()

    def store(self) -> FeatureStore:
        """The store, when it is finished.

        Raises:
            ValueError: the data are wrong.
        """
        if self._thread is not None:
            self._thread.join()
        self.check()
        return FeatureStore(self._folder)

    def check(self) -> None:
        """Raises what went wrong so far."""
        if self._error is not None:
            raise self._error

    def _write(self) -> None:
        try:
            write_features(
                self._folder,
                (
                    (number, feature)
                    for number, example in enumerate(self._source.examples())
                    for feature in self._task.features(example, training=self._source.training)
                ),
            )
        except Exception as error:  # of the data, the disk or the task: for the thread that waits
            self._error = error


@cache
def _code() -> str:
    """Of the tasks, which decide what a feature is."""
    digest = hashlib.sha256()
    for file in sorted(Path(next(iter(tasks.__path__))).glob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()
