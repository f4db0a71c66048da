"""The processes of a run: one, or as many as `torchrun` started.

The same program runs in each. Sums and gathered objects are in one order, so that the number of processes
does not change what is computed but for rounding.
"""

import gc
import os
from datetime import timedelta
from typing import Any, Literal, TypeAlias, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

Parallel: TypeAlias = Literal["ddp", "fsdp"]
T = TypeVar("T")


class Processes:
    """Where this process stands among the others, and how they talk.

    Args:
        parallel: "ddp" keeps all weights in every process, "fsdp" shares them out.
    """

    def __init__(self, parallel: Parallel = "ddp") -> None:
        self.parallel = parallel
        self.rank = int(os.environ.get("RANK", 0))
        self.count = int(os.environ.get("WORLD_SIZE", 1))
        has_gpu = torch.cuda.is_available()
        local = int(os.environ.get("LOCAL_RANK", 0))
        self.device = torch.device("cuda", local) if has_gpu else torch.device("cpu")
        if has_gpu:
            torch.cuda.set_device(self.device)
        # FSDP wants a process group even where there is one process.
        self.together = "RANK" in os.environ
        if parallel == "fsdp" and not self.together:
            raise ValueError(
                "parallel is fsdp, which needs torchrun: torchrun --nproc-per-node 2 -m longspan ..."
            )
        if self.together:
            # The others wait while the first tokenises a corpus or writes a model.
            dist.init_process_group("cpu:gloo,cuda:nccl" if has_gpu else "gloo", timeout=timedelta(days=1))

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and talks to the user."""
        return self.rank == 0

    def wrap(self, module: nn.Module, layers: set[str], *, trains_everything: bool = True) -> nn.Module:
        """``module``, made to train together with its copies in the other processes.

        Args:
            module: on this process's device.
            layers: names of the classes of its layers, the unit in which fsdp shares out weights.
            trains_everything: see `Task.trains_everything`.
        """
        if not self.together:
            return module
        if self.parallel == "ddp":
            return DistributedDataParallel(module, find_unused_parameters=not trains_everything)
        for part in module.modules():
            if type(part).__name__ in layers:
                fully_shard(part)
        fully_shard(module)
        return module

    def sum(self, x: Tensor) -> Tensor:
        """The sum over all processes."""
        if self.together:
            dist.all_reduce(x)
        return x

    def gather(self, item: T) -> list[T]:
        """The item of every process, in their order."""
        if not self.together:
            return [item]
        items: list[Any] = [None] * self.count
        dist.all_gather_object(items, item)
        return items

    def wait(self) -> None:
        """Until all processes are here."""
        if self.together:
            dist.barrier()

    def close(self) -> None:
        """Ends the talk, and its threads, once nobody holds a module that `wrap` made.

        A thread of it that is left when Python ends can abort the process. fsdp's are left: torch keeps
        what it knows of the group in caches that it does not empty.
        """
        if self.together:
            gc.collect()  # wrapped modules are in circles
            dist.destroy_process_group()
