"""tokenmill itself, called as a user would: a path in, a tokenizer out."""

from typing import Any

from bench.job import Answer, Job

NAME = "tokenmill"
PROGRAM = __name__


def load(job: Job) -> Any:
    import tokenmill

    preload_reader(job.path)
    return tokenmill.train


def preload_reader(path: str) -> None:
    """Import what reading a file of this kind needs: imports are not timed, for us as for the peers."""
    if path.endswith(".parquet"):
        import pyarrow.compute
        import pyarrow.parquet  # noqa: F401


def run(train: Any, job: Job) -> Any:
    return train(
        job.path,
        vocab_size=job.vocab_size,
        pattern=job.pattern,
        special_tokens=[],
        ties=job.ties,
        threads=job.threads,
    )


def answer(tokenizer: Any) -> Answer:
    return list(tokenizer.merges)
