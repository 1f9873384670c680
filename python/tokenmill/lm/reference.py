# pyright: basic
"""What a reference model thinks of each answer: pairs in, log probabilities out, computed once and kept by content hash.

The hash is over everything that decides them: weights, shape, precision, ids, masks, where documents were cut. So a file that is there is
the answer, and a run that goes on, or another one with the same folder for such files, does not ask again.
"""

import hashlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tokenmill.lm.distributed import Ranks
from tokenmill.lm.hardware import autocast
from tokenmill.lm.lanes import lanes_of
from tokenmill.lm.model import Model
from tokenmill.lm.model_config import ModelConfig
from tokenmill.lm.pair_objective import score_answers
from tokenmill.lm.pairs import PairBatch, PairRows
from tokenmill.progress import Meter
from tokenmill.storage.files import write_atomically


def reference_key(weights_digest: str, config: ModelConfig, precision: str, rows: PairRows) -> str:
    """One name for the same model on the same answers."""
    shape = json.dumps(config.as_json(), sort_keys=True)
    digest = hashlib.sha256(f"{weights_digest} {shape} {precision} {rows.data.sha256}\n".encode())
    for array in (rows.pairs, rows.starts, rows.lengths):
        digest.update(np.ascontiguousarray(array, dtype=np.int64).data)
    if rows.data.mask is not None:
        digest.update(np.ascontiguousarray(rows.data.mask[:]).data)
    return digest.hexdigest()


def kept_log_probs(folder: Path, key: str, rows: PairRows) -> Any | None:
    """What `keep_log_probs` wrote; `None` if it did not, or something else is there."""
    try:
        found = np.load(reference_file(folder, key), allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    fits = found.shape == (len(rows), 2) and found.dtype == np.float64 and np.isfinite(found).all()
    return found if fits else None


def keep_log_probs(folder: Path, key: str, log_probs: Any) -> None:
    buffer = io.BytesIO()
    np.save(buffer, log_probs)
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(reference_file(folder, key), buffer.getvalue())


def reference_file(folder: Path, key: str) -> Path:
    return folder / f"reference-{key[:16]}.npy"


def compute_log_probs(
    model: Model,
    rows: PairRows,
    *,
    pairs_at_once: int,
    precision: str,
    ranks: Ranks,
    meter: Meter,
) -> Any:
    """(pairs, 2) log probabilities of answers; ranks share the work, and all get all."""
    device = model.device
    lanes = lanes_of(torch.get_num_threads()) if device.type == "cpu" else None

    # With gradients, as in training: what computes them must be the same code.
    def work(part: Any) -> torch.Tensor:
        with autocast(device, precision):
            return score_answers(model, part).log_probs_P2.detach().double()

    found = torch.zeros(len(rows), 2, dtype=torch.float64)
    ours = range(ranks.rank * pairs_at_once, len(rows), ranks.world_size * pairs_at_once)
    meter.begin("reference", "pairs")
    try:
        for done, at in enumerate(ours, 1):
            some = range(at, min(at + pairs_at_once, len(rows)))
            batch: PairBatch = rows.load(some).to(device)
            parts = [work(batch)] if lanes is None else lanes.map(work, batch)
            found[some.start : some.stop] = torch.cat(parts).cpu()
            share = done / len(ours)
            meter.update(round(share * len(rows)), share)
    finally:
        meter.end()
    return ranks.sum(found.to(device)).cpu().numpy()


def find_log_probs(
    make_model: Callable[[], Model],
    rows: PairRows,
    key: str,
    folder: Path,
    *,
    ranks: Ranks,
    **how: Any,
) -> Any:
    """Those that are kept in `folder`, else computed by the model of `make_model` and kept there."""
    known = kept_log_probs(folder, key, rows)
    if not ranks.any(known is None, torch.device("cpu")):
        return known
    found = compute_log_probs(make_model(), rows, ranks=ranks, **how)
    if ranks.is_first:
        keep_log_probs(folder, key, found)
    ranks.wait()
    return found
