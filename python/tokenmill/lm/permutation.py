"""A random order of n rows that nobody has to keep: place in, row out, both ways of a bijection.

A Feistel network over the next even power of two; numbers beyond n are sent through again. So the order of an epoch is a
function of (seed, epoch), any place of it costs the same, and a run resumes at any step without a state.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

_ROUNDS = 6
_MASK = (1 << 64) - 1


def permute(places: "npt.ArrayLike", size: int, seed: int, epoch: int) -> "npt.NDArray[np.int64]":
    """The rows at `places` of the order that (`seed`, `epoch`) gives to `size` rows."""
    half_bits = max(1, ((size - 1).bit_length() + 1) // 2)
    keys = _keys(seed, epoch)
    rows = np.asarray(places, dtype=np.uint64)
    if rows.size and (int(rows.max()) >= size):
        raise IndexError(f"place {int(rows.max())} of {size} rows")
    rows = _network(rows, half_bits, keys)
    while True:
        outside = rows >= np.uint64(size)
        if not outside.any():
            return rows.astype(np.int64)
        rows[outside] = _network(rows[outside], half_bits, keys)


def _network(numbers: Any, half_bits: int, keys: list[Any]) -> Any:
    mask, shift = np.uint64((1 << half_bits) - 1), np.uint64(half_bits)
    left, right = numbers >> shift, numbers & mask
    for key in keys:
        left, right = right, left ^ (_mix(right ^ key) & mask)
    return (left << shift) | right


def _mix(numbers: Any) -> Any:
    """splitmix64's last steps: every bit of the input moves half of the output."""
    with np.errstate(over="ignore"):
        numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def _keys(seed: int, epoch: int) -> list[Any]:
    return [np.uint64(mixed(seed, epoch, number)) for number in range(_ROUNDS)]


def mixed(*numbers: int) -> int:
    """One number of 64 bits out of several, for seeds."""
    state = 0
    for number in numbers:
        state = (state + 0x9E3779B97F4A7C15 + (number & _MASK)) & _MASK
        state = int(_mix(np.array([state], dtype=np.uint64))[0])
    return state
