"""Reading, cutting and counting, without merging: `tm.count` on a path. The answer is a digest of the counts."""

from typing import Any

from bench.job import Answer, Job
from bench.peers.tokenmill import preload_reader

PROGRAM = __name__


def load(job: Job) -> Any:
    import tokenmill

    preload_reader(job.path)
    return tokenmill.count


def run(count: Any, job: Job) -> Any:
    return count(job.path, pattern=job.pattern, special_tokens=[], threads=job.threads)


def answer(counts: Any) -> Answer:
    return [(bytes.fromhex(counts.content_sha256()),)]
