"""Checkpoints: all that a run needs to go on as if nothing had happened.

A checkpoint is a folder ``step-00000100``, written beside its place and renamed when it is complete. It holds
weights and the optimizer's state in torch's distributed format, in which any number of processes reads what
any other number wrote, and a list of its files with their checksums. Random numbers need no state: every step
draws from a seed made of the run's seed and the step's number.
"""

import json
import shutil
import warnings
import zlib
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from longspan.conversion.interrupts import uninterrupted
from longspan.training.processes import Processes
from longspan.training.write_errors import disk_error, room, said

_FILES = "files.json"
_PROGRESS = "progress.json"


class Checkpoints:
    """The checkpoints of a run.

    Args:
        folder: that holds them.
        keep: how many of the newest to keep.
        processes: that write together.
    """

    def __init__(self, folder: Path, *, keep: int, processes: Processes) -> None:
        self._folder, self._keep, self._processes = folder, keep, processes
        if processes.is_main:
            folder.mkdir(parents=True, exist_ok=True)
            for left_over in folder.glob(".step-*"):  # of a run that was killed while it wrote
                shutil.rmtree(left_over)
        processes.wait()

    def complete(self) -> list[Path]:
        """Those that were written to the end, oldest first."""
        return sorted(self._folder.glob("step-*"))

    def save(
        self, step: int, model: nn.Module, optimizer: torch.optim.Optimizer, progress: Mapping[str, Any]
    ) -> Path:
        """Writes a checkpoint, then removes the oldest ones.

        Raises:
            OSError: it cannot be written; those before it stay.
        """
        final = self._folder / f"step-{step:08d}"
        new = self._folder / f".{final.name}"
        # The folder first: processes that write together would wait for one that could not begin.
        try:
            failed = self._failure(lambda: new.mkdir(exist_ok=True)) or self._failure(
                lambda: self._write(new, model, optimizer, progress)
            )
        except BaseException:
            self._remove(new)
            raise
        if failed:
            self._remove(new)
            kept = self.complete()
            stays = f"{kept[-1].name} stays usable" if kept else "there is none before it"
            raise OSError(f"the checkpoint {final} cannot be written: {failed}; {stays}")
        if self._processes.is_main:
            with uninterrupted():
                if final.exists():
                    shutil.rmtree(final)
                new.rename(final)
                for old in self.complete()[: -self._keep]:
                    shutil.rmtree(old)
        self._processes.wait()
        return final

    def _remove(self, new: Path) -> None:
        """Removes a checkpoint that is not complete."""
        if self._processes.is_main:
            with uninterrupted():
                shutil.rmtree(new, ignore_errors=True)

    def _write(
        self, new: Path, model: nn.Module, optimizer: torch.optim.Optimizer, progress: Mapping[str, Any]
    ) -> None:
        with _alone_without_warning():
            save(_state(model, optimizer), checkpoint_id=new, no_dist=not self._processes.together)
        if self._processes.is_main:
            (new / _PROGRESS).write_text(json.dumps(progress))
            sums = {file.name: _checksum(file) for file in sorted(new.iterdir())}
            (new / _FILES).write_text(json.dumps(sums))

    def _failure(self, work: Callable[[], None]) -> str:
        """Does ``work`` and says what failed in any process; "" if nothing did."""
        failed = ""
        try:
            work()
        except (OSError, RuntimeError, CheckpointException) as error:
            found = disk_error(error)
            failed = f"{said(found) if found else _reason(error)}; {room(self._folder)}"
        return next(filter(None, self._processes.gather(failed)), "")

    def forget_after(self, path: Path) -> None:
        """Removes the checkpoints of a branch that a run has left by going back to ``path``."""
        if self._processes.is_main:
            for later in self.complete():
                if later.name > path.name:
                    shutil.rmtree(later)
        self._processes.wait()

    def load(self, path: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """Brings model and optimizer to where they were.

        Returns:
            The progress that was saved.

        Raises:
            ValueError: there is no checkpoint, or it is broken, and the message names one that may not be;
                or it is one of another model.
        """
        check_there(path)
        fault = _fault(path)
        if fault:
            before = [str(one) for one in self.complete() if one.name < path.name and not _fault(one)]
            advice = f"; go on from the one before: --resume-from {before[-1]}" if before else ""
            raise ValueError(f"the checkpoint {path} is broken: {fault}{advice}")
        _make_state(optimizer)
        try:
            with _alone_without_warning():
                load(_state(model, optimizer), checkpoint_id=path, no_dist=not self._processes.together)
        except CheckpointException as error:
            raise ValueError(
                f"the checkpoint {path} is not one of the model of this recipe: {_reason(error)}"
            ) from error
        return json.loads((path / _PROGRESS).read_text())


def check_there(path: Path) -> None:
    """Refuses a path without a checkpoint.

    Raises:
        ValueError: nothing is there, or no checkpoint.
    """
    if not path.is_dir():
        raise ValueError(
            f"the checkpoint {path} does not exist ({path.absolute()}); it must be a folder such as "
            "RUN/checkpoints/step-00000100"
        )
    if not path.name.startswith("step-"):
        raise ValueError(
            f"{path} is no checkpoint; it must be a folder such as RUN/checkpoints/step-00000100"
        )


def _reason(error: BaseException) -> str:
    """What failed, in one line; of processes that failed together, what the first one says."""
    if isinstance(error, CheckpointException) and error.failures:
        error = next(iter(error.failures.values()))[0]
    return " ".join(str(error).split()) or type(error).__name__


@contextmanager
def _alone_without_warning() -> Generator[None]:
    """torch warns of a process without others even where it is told that there are none."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")
        yield


def _state(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """References to all tensors of a run, by name; loading writes into them."""
    weights = model.state_dict()  # first: it makes fsdp share out again what a forward pass gathered
    names: dict[Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}
    moments: dict[str, dict[str, Tensor]] = {
        names[parameter]: dict(state) for parameter, state in optimizer.state.items()
    }
    return {"model": weights, "optimizer": moments}


def _make_state(optimizer: torch.optim.Optimizer) -> None:
    """The state of an AdamW that has not made a step, so that there is something to load into."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            optimizer.state[parameter] = {
                "step": torch.zeros((), device=parameter.device),  # where a fused AdamW wants it
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }


def _fault(path: Path) -> str | None:
    """What is wrong with a checkpoint, or None."""
    try:
        sums = json.loads((path / _FILES).read_text())
        for name, expected in sums.items():
            if _checksum(path / name) != expected:
                return f"{name} has other contents than were written"
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} is missing"
    except (ValueError, OSError) as error:
        return f"it cannot be read: {error}"
    return None


def _checksum(file: Path) -> int:
    checksum = 0
    with file.open("rb") as stream:
        while block := stream.read(2**22):
            checksum = zlib.crc32(block, checksum)
    return checksum
