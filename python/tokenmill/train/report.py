"""What a run was like: the numbers it ends with."""

import os
import sys
import time
from dataclasses import asdict, dataclass

from tokenmill.work.read_report import ReadReport


@dataclass(frozen=True)
class TrainingReport:
    """The numbers of one training."""

    read: ReadReport | None
    """`None` if the training started from counts."""
    occurrences: int
    """Pretokens of the text, repeats included."""
    distinct_pretokens: int
    distinct_pairs: int
    merges: int
    vocab_size: int
    vocab_bytes: int
    """Bytes of all tokens together, special tokens included."""
    bytes_per_token: float | None
    """On the training text; `None` if there was none."""
    stopped: str
    """`full`, `no pairs` or `min count`."""
    first_shared_merge: int | None
    """The first merge that spells a token that exists already. From there rustbpe, which makes a
    second id for it, has other ids."""
    engine: str
    threads: int
    counting_seconds: float
    merging_seconds: float
    saving_seconds: float | None
    """Writing the folder, reading it back and comparing; `None` if none was asked for."""
    wall_seconds: float
    user_seconds: float
    system_seconds: float
    peak_memory_bytes: int

    @property
    def merges_per_second(self) -> float:
        return self.merges / self.merging_seconds if self.merging_seconds > 0 else 0.0

    def as_json(self) -> dict[str, object]:
        """All numbers in JSON's types."""
        return {**asdict(self), "merges_per_second": self.merges_per_second}


class Stopwatch:
    """Wall, user and system seconds since it was made."""

    def __init__(self) -> None:
        self._wall, self._times = time.perf_counter(), os.times()

    def wall(self) -> float:
        return time.perf_counter() - self._wall

    def user(self) -> float:
        return os.times().user - self._times.user

    def system(self) -> float:
        return os.times().system - self._times.system


def peak_memory_bytes() -> int:
    """The most memory this process ever had in RAM."""
    try:
        with open("/proc/self/status", "rb") as status:
            for line in status:
                if line.startswith(b"VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    import resource

    # Linux counts kilobytes here, macOS bytes.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )
