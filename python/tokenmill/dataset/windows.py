"""Runs of tokens of one length, cut from a split across document ends: what a loader batches.

Data order is the caller's: a window is known by its number alone, so nothing has to be saved to resume.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill.dataset.arrays import Array
from tokenmill.errors import ConfigError

if TYPE_CHECKING:
    from tokenmill.dataset.split_view import SplitView

NOT_TRAINED = -100
"""What targets hold where the mask is 0: torch's `cross_entropy` leaves it out by default."""


class Windows(Sequence[Array]):
    """Window i is tokens i·stride to i·stride + length, the last one included: length + 1 ids, of
    which all but the last are inputs and all but the first are targets."""

    def __init__(self, split: "SplitView", length: int, stride: int) -> None:
        for name, value in (("length", length), ("stride", stride)):
            if type(value) is not int or value < 1:
                raise ConfigError(f"{name} of windows is `{value!r}`, not a whole number from 1 on")
        self.split, self.length, self.stride = split, length, stride

    def __len__(self) -> int:
        return max(0, (self.split.num_tokens - 1 - self.length) // self.stride + 1)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return self.split.tokens[self.span(index)]

    def span(self, index: int) -> slice:
        """Where window `index` is among the tokens of its split."""
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(f"window {index:,}: there are {len(self):,}, from 0 on")
        return slice(place * self.stride, place * self.stride + self.length + 1)


class TorchWindows:
    """Windows as `torch.utils.data` wants them: `(inputs, targets)`, int64 tensors, or arrays where
    torch is not installed. Pickles as a path, so that workers map the files themselves."""

    def __init__(self, windows: Windows) -> None:
        self.windows = windows

    def __len__(self) -> int:
        return len(self.windows)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        # The one copy there is: no layer of torch takes uint16.
        ids = np.asarray(self.windows[index]).astype(np.int64)
        inputs, targets = ids[:-1], ids[1:].copy()
        mask = self.windows.split.mask
        if mask is not None:
            targets[mask[self.windows.span(index)][1:] == 0] = NOT_TRAINED
        return _tensor(inputs), _tensor(targets)


def _tensor(array: Array) -> Any:
    try:
        import torch  # pyright: ignore
    except ImportError:
        return array
    return torch.from_numpy(array)  # pyright: ignore
