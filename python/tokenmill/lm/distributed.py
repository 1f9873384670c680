# pyright: basic
"""Ranks under `torchrun`: who am I, sums over all, and one alone when there is nobody else."""

import atexit
import gc
import importlib
import os
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor


@dataclass(frozen=True)
class Ranks:
    """This process among all."""

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0

    @property
    def is_first(self) -> bool:
        """The one that writes files and speaks."""
        return self.rank == 0

    @property
    def is_alone(self) -> bool:
        return self.world_size == 1

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over all ranks, on each of them."""
        if not self.is_alone:
            dist.all_reduce(tensor)
        return tensor

    def any(self, flag: bool, device: torch.device) -> bool:
        """Whether it is so for one of them."""
        if self.is_alone:
            return flag
        return bool(self.sum(torch.tensor(float(flag), device=device)) > 0)

    def wait(self) -> None:
        """Until all are here."""
        if not self.is_alone:
            dist.barrier()


def join_ranks(device_type: str) -> Ranks:
    """Meet the other ranks that `torchrun` has started; alone without it."""
    world_size = int(os.environ.get("WORLD_SIZE", "1"))
    if world_size == 1:
        return Ranks()
    if not dist.is_initialized():
        # DistributedDataParallel imports this module, whose functions have the group of that moment as a default: imported
        # behind the next line, they would keep the group and its threads beyond `destroy_process_group`, and a thread that lets
        # go of a tensor while Python ends aborts the process.
        importlib.import_module("torch.distributed.nn.functional")
        dist.init_process_group("nccl" if device_type == "cuda" else "gloo")
        atexit.register(leave_ranks)  # whatever ends this process before its run does
    return Ranks(dist.get_rank(), world_size, int(os.environ.get("LOCAL_RANK", "0")))


def leave_ranks() -> None:
    """Part from the other ranks. Whatever still talks to them must be gone: the group's threads end with the last one that holds it."""
    if dist.is_available() and dist.is_initialized():
        gc.collect()
        dist.destroy_process_group()
