"""A byte-level n-gram model, interpolated down to single bytes: what a language model that is worth its time must beat.

`path` is the text of training, `warm_path` the held-out text, both cut at the separator; `options["order"]` counts the predicted
byte. Each document begins behind, and ends with, a symbol of its own, as the model's do. Two well-known ways of sharing probability with
shorter contexts are scored, Witten and Bell's and absolute discounting; the better one counts.
"""

from typing import Any

from bench.documents import stream_documents
from bench.job import Answer, Job

PROGRAM = __name__
END = 256
SYMBOLS = 257
DISCOUNT = 0.75


def load(job: Job) -> Any:
    import numpy

    return numpy


def _symbols(np: Any, path: str, job: Job) -> Any:
    """All documents behind each other, with END before the first and behind each."""
    parts = [np.array([END], dtype=np.uint64)]
    for document in stream_documents(path, job.separator):
        parts += [np.frombuffer(document.encode(), dtype=np.uint8).astype(np.uint64), parts[0]]
    return np.concatenate(parts)


def _codes(np: Any, symbols: Any, order: int) -> Any:
    """For each symbol behind the first: it and the `order` - 1 before it as one number. Contexts do not reach over an END."""
    codes = symbols[1:].copy()
    alive = np.ones(len(codes), dtype=bool)
    for back in range(1, order):
        before = np.full(len(codes), END, dtype=np.uint64)
        before[back - 1 :] = symbols[: len(codes) - back + 1]
        before[~alive] = END
        codes += before * np.uint64(SYMBOLS**back)
        alive &= before != END
    return codes


def run(np: Any, job: Job) -> tuple[float, float, int]:
    training, held = (_symbols(np, path, job) for path in (job.path, job.warm_path))
    num_bytes = int((held != END).sum())
    bell = flat = np.full(len(held) - 1, 1.0 / SYMBOLS)
    for order in range(1, int(job.options["order"]) + 1):
        seen, times = np.unique(_codes(np, training, order), return_counts=True)
        contexts, first, kinds = np.unique(
            seen // np.uint64(SYMBOLS), return_index=True, return_counts=True
        )
        totals = np.add.reduceat(times, first)
        wanted = _codes(np, held, order)
        count = _looked_up(np, seen, times, wanted)
        context = wanted // np.uint64(SYMBOLS)
        total = _looked_up(np, contexts, totals, context)
        kind = _looked_up(np, contexts, kinds, context)
        known, size = total > 0, np.maximum(total, 1)
        bell = np.where(known, (count + kind * bell) / np.maximum(total + kind, 1), bell)
        kept = np.maximum(count - DISCOUNT, 0) + DISCOUNT * kind * flat
        flat = np.where(known, kept / size, flat)
    return _bits(np, bell) / num_bytes, _bits(np, flat) / num_bytes, num_bytes


def _looked_up(np: Any, keys: Any, values: Any, wanted: Any) -> Any:
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[places] == wanted, values[places], 0)


def _bits(np: Any, probabilities: Any) -> float:
    return float(-np.log2(probabilities).sum())


def extra(result: tuple[float, float, int]) -> dict[str, float]:
    return {"witten_bell": result[0], "discounting": result[1]}


def answer(result: tuple[float, float, int]) -> Answer:
    return [(f"{value:.9f}".encode(),) for value in result]
