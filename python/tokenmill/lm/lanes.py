# pyright: basic
"""Lanes: threads that share the rows of a batch, each with cores of its own.

torch shares every operation among its threads, and they wait for each other behind each one. Rows have nothing to do with each other
until their gradients are added, so a thread that takes half of the rows from ids to gradients waits once a step: a fifth of the time on two
cores (docs/experiments.md). Gradients are added in the order of the lanes, so that a step has the same bits each time.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from threading import Barrier
from typing import TypeVar

import torch
from torch import Tensor, nn

from tokenmill.lm.batches import Batch

MAX_LANES = 4
"""Each has its own pass through Python, and one interpreter serves them all."""

T = TypeVar("T")


class Lanes:
    """`number` lanes with `threads` threads of torch's each."""

    def __init__(self, number: int, threads: int) -> None:
        self.number, self.threads = number, threads
        if number == 1:
            return
        before = torch.get_num_threads()
        self._pool = ThreadPoolExecutor(number, "lane")
        # All threads are there before the number they found is put back, which is also that of threads to come.
        all_here = Barrier(number)
        list(self._pool.map(lambda _: self._take_cores(all_here), range(number)))
        torch.set_num_threads(before)

    def _take_cores(self, all_here: Barrier) -> None:
        torch.get_num_threads()  # the first call in a thread reads the process's number, and would undo the next line
        torch.set_num_threads(self.threads)
        all_here.wait()

    def map(self, work: Callable[[Batch], T], batch: Batch) -> list[T]:
        """`work` for each lane's rows, side by side."""
        parts = batch.shared_by(self.number)
        if len(parts) == 1:
            return [work(parts[0])]
        futures = [self._pool.submit(work, part) for part in parts]
        wait(futures)  # also for those beside one that failed: they hold memory
        return [future.result() for future in futures]

    def backward(
        self, module: nn.Module, sums_of: Callable[[Batch], tuple[Tensor, Tensor]], batch: Batch
    ) -> Tensor:
        """Add the gradients of `batch` to those of the weights of `module`; its sums.

        `sums_of` makes the sums that are reported and the number that is differentiated.
        """
        weights = [weight for weight in module.parameters() if weight.requires_grad]

        def work(part: Batch) -> tuple[Tensor, tuple[Tensor | None, ...]]:
            sums, scaled = sums_of(part)
            return sums.detach(), torch.autograd.grad(scaled, weights, allow_unused=True)

        done = self.map(work, batch)
        for _, grads in done:
            for weight, grad in zip(weights, grads, strict=True):
                if grad is None:
                    continue
                weight.grad = grad if weight.grad is None else weight.grad.add_(grad)
        return torch.stack([sums for sums, _ in done]).sum(0)


@cache
def lanes_of(threads: int) -> Lanes:
    """As many lanes as `threads` threads are shared by, with no thread left over if possible."""
    number = max(range(1, MAX_LANES + 1), key=lambda lanes: (threads // lanes * lanes, lanes))
    return Lanes(number, threads // number)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lanes_of.cache_clear)  # the child has none of the threads
