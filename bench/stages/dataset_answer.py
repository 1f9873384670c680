"""What a dataset holds, as an answer to compare: a digest of all ids in order, and how many there are.

Ids are taken as they lie on disk, so entrants must agree on their width: two bytes while the vocab fits.
"""

import hashlib
from pathlib import Path
from typing import Any

from bench.job import Answer


def ids_answer(ids: Any) -> Answer:
    """Of an array of numpy."""
    return [(hashlib.sha256(memoryview(ids)).digest(),), (str(len(ids)).encode(),)]


def dtype_of(vocab_size: int) -> str:
    return "<u2" if vocab_size <= 1 << 16 else "<u4"


def load_tokens(dataset: Path) -> Any:
    """The ids of the only shard of `train`, by numpy alone."""
    import numpy as np

    return np.load(dataset / "train" / "tokens-00000.npy", mmap_mode="r")


def text_bytes(dataset: Path) -> int:
    """Of all documents of `train`."""
    import numpy as np

    return int(np.load(dataset / "train" / "bytes-00000.npy").sum())
