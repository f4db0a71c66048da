"""Predictions for a data set, and their scores; any number of processes share the work."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn

from longspan.tasks.task import Feature, Task
from longspan.training.batches import feature_seed, padded_pieces
from longspan.training.processes import Processes


class Features(Protocol):
    """A `FeatureStore`, or a list that looks like one."""

    example: np.ndarray

    def __len__(self) -> int: ...
    def __getitem__(self, at: int, /) -> Feature: ...
    @property
    def lengths(self) -> np.ndarray: ...


class FeatureList:
    """Features in memory.

    Args:
        features: with the number of the example that each comes from.
    """

    def __init__(self, features: Iterable[tuple[int, Feature]]) -> None:
        pairs = list(features)
        self.example = np.array([number for number, _ in pairs], dtype=np.int64)
        self._features = [feature for _, feature in pairs]

    def __len__(self) -> int:
        return len(self._features)

    def __getitem__(self, at: int, /) -> Feature:
        return self._features[at]

    @property
    def lengths(self) -> np.ndarray:
        """[features]: the tokens of each."""
        return np.array([len(feature["input_ids"]) for feature in self._features], dtype=np.int64)


def predict(
    task: Task[Any, Any],
    module: nn.Module,
    examples: Sequence[Any],
    features: Features,
    *,
    processes: Processes,
    tokens: int,
    precision: Callable[[], AbstractContextManager[Any]],
    advance: Callable[[int], None] = lambda _: None,
) -> list[dict[str, Any]]:
    """A prediction for every example, in order; the same list in every process.

    Args:
        task: of the model.
        module: a `TaskModule`, perhaps wrapped.
        examples: what the features come from.
        features: of all examples.
        processes: that share the work.
        tokens: the most that a process computes at once.
        precision: opens the context to compute in.
        advance: told of every feature that is done.
    """
    was_training = module.training
    module.eval()
    try:
        outputs = _outputs(task, module, features, processes, tokens, precision, advance)
        again = FeatureList(
            (number, feature)
            for number, example in enumerate(examples)
            for feature in task.second_features(example, outputs[number])
        )
        if len(again):
            second = _outputs(task, module, again, processes, tokens, precision, lambda _: None)
            outputs.update(second)
    finally:
        module.train(was_training)
    return [task.prediction(example, outputs[number]) for number, example in enumerate(examples)]


def _outputs(
    task: Task[Any, Any],
    module: nn.Module,
    features: Features,
    processes: Processes,
    tokens: int,
    precision: Callable[[], AbstractContextManager[Any]],
    advance: Callable[[int], None],
) -> dict[int, list[Any]]:
    """The outputs of every example's features, by the example's number."""
    mine: dict[int, Any] = {}
    lengths = features.lengths
    pieces = list(padded_pieces(np.argsort(-lengths, kind="stable").tolist(), lengths, tokens))
    # Every process computes as many pieces, since fsdp's meet in each; who has fewer repeats one.
    rounds = -(-len(pieces) // processes.count)
    for round_ in range(rounds):
        at = round_ * processes.count + processes.rank
        piece = pieces[min(at, len(pieces) - 1)]
        batch = task.collate(
            [features[index] for index in piece], [feature_seed(0, 0, index) for index in piece]
        )
        batch = {name: x.to(processes.device) for name, x in batch.items()}
        with torch.inference_mode(), precision():
            found = module(batch)
        if at < len(pieces):
            mine.update(zip(piece, found, strict=True))
            advance(len(piece))
    by_example: defaultdict[int, list[Any]] = defaultdict(list)
    everyone = {index: output for share in processes.gather(mine) for index, output in share.items()}
    for index in range(len(features)):
        by_example[int(features.example[index])].append(everyone[index])
    return by_example
