"""Ids and masks of conversations as an answer: digests of the ids and where each conversation ends, then of the mask."""

import hashlib
from typing import Any

from bench.job import Answer

NO_MASK = b"none"


def chats_answer(ids: Any, ends: Any, mask: Any | None) -> Answer:
    """Of arrays of numpy; a digest, the number of ids, and a digest of the mask if there is one."""
    import numpy as np

    digest = hashlib.sha256(ends.astype("<i8").tobytes())
    digest.update(ids.astype("<u4").tobytes())
    trained = (
        hashlib.sha256(mask.astype(np.uint8).tobytes()).digest() if mask is not None else NO_MASK
    )
    return [(digest.digest(),), (str(len(ids)).encode(),), (trained,)]
