"""`tm.pull`, and the defaults that the command line shares. The work is in run.py, which is loaded when
something is pulled: `import tokenmill` stays quick."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tokenmill.progress import ProgressChoice

if TYPE_CHECKING:
    from tokenmill.pull.run import PullReport

DEFAULT_WORKERS = 4
DEFAULT_SEED = 42
DEFAULT_RETRIES = 6


def pull(
    what: str | Sequence[str],
    to: str | os.PathLike[str],
    *,
    config: str | None = None,
    shards: str | None = None,
    base_url: str | None = None,
    sha256: str | None = None,
    seed: int = DEFAULT_SEED,
    workers: int = DEFAULT_WORKERS,
    retries: int = DEFAULT_RETRIES,
    verify: bool = False,
    progress: ProgressChoice = None,
) -> "PullReport":
    """Fetch a dataset of the catalogue, or what addresses name, into the folder `to`.

    `what` is a name such as `tinystories`, an address, a text file with one address on each line, or
    several of the latter two. Files of a named dataset lie in folders called after their splits.
    What is there already is checked and not fetched again; `verify` reads it all to be sure.
    """
    from tokenmill.pull.run import prepare_pull

    return prepare_pull(
        what,
        to,
        config=config,
        shards=shards,
        base_url=base_url,
        sha256=sha256,
        seed=seed,
        workers=workers,
        retries=retries,
        verify=verify,
        progress=progress,
    ).run()
