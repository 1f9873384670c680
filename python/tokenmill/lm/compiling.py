# pyright: basic
"""torch.compile: when it pays, and what to do when it cannot.

Compiling takes its time before the first step, 20 to 80 s on two cores, and gives a share of each step back. On a CPU a compiled step of the
1m preset was a tenth shorter than a plain one of all threads together, and 2 to 11 % longer than one in lanes (17m: 17 %), which
compiled code does not run in (docs/experiments.md): so there it has to be asked for.
"""

import logging
from collections.abc import Callable

import torch
from torch import nn

from tokenmill.lm.memory import is_out_of_memory

log = logging.getLogger("tokenmill")

REPAID_FLOPS = {"cuda": 2e16}
"""Of a whole run: half an hour of a GPU at a tenth of 1e14 FLOP/s, where it wins a quarter by what others report."""


def repays(device: torch.device, flops: float) -> bool:
    """Whether a run of so many FLOPs is long enough. A function of the plan alone, so that a run that goes on is compiled as before."""
    return flops >= REPAID_FLOPS.get(device.type, float("inf"))


def compiled_or_none(
    objective: nn.Module, attempt: Callable[[nn.Module], None]
) -> nn.Module | None:
    """`objective` compiled, if `attempt` works with it; else `None`, and a line that says why."""
    try:
        _keep_embeddings(objective)
        compiled: nn.Module = torch.compile(objective)  # pyright: ignore
        attempt(compiled)
    except Exception as error:
        if is_out_of_memory(error):
            raise
        first_line = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
        log.warning(
            "torch.compile failed, training goes on without: %s: %s",
            type(error).__name__,
            first_line,
        )
        return None
    return compiled


def _keep_embeddings(objective: nn.Module) -> None:
    """Leave embeddings to torch's own code: the compiler's adds up their gradients in the order in which threads come by."""
    for module in objective.modules():
        if isinstance(module, nn.Embedding):
            module.forward = torch.compiler.disable(module.forward)  # pyright: ignore
