"""Make the files a benchmark is given ready to be timed: unpacked, in the page cache, measured.

Every run reads the same unpacked file, ours and the peers'. A `.zst` is unpacked into a temporary folder
that is gone afterwards.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.documents import BLOCK_BYTES, read_through
from bench.job import BenchError


@dataclass(frozen=True)
class Corpus:
    name: str
    """The file's name without folders and endings: `en` for `data/en.txt.zst`."""
    path: Path
    num_bytes: int


@contextmanager
def open_corpora(paths: Sequence[Path]) -> Iterator[list[Corpus]]:
    with TemporaryDirectory(prefix="tokenmill-bench-") as folder:
        corpora = [_open_corpus(path, Path(folder)) for path in paths]
        names = [corpus.name for corpus in corpora]
        if len(set(names)) < len(names):
            raise BenchError(f"two corpora share a name: {', '.join(names)}")
        yield corpora


def _open_corpus(path: Path, folder: Path) -> Corpus:
    if not path.is_file():
        raise BenchError(f"`{path}` is not a file")
    name = path.name.removesuffix(".zst").removesuffix(".txt")
    if path.suffix == ".zst":
        path = _unpacked(path, folder / f"{name}.txt")
    elif path.suffix != ".txt":
        raise BenchError(f"`{path.name}` is neither `.txt` nor `.txt.zst`")
    read_through(path)
    return Corpus(name, path.resolve(), path.stat().st_size)


def _unpacked(packed: Path, path: Path) -> Path:
    import pyarrow

    with (
        pyarrow.OSFile(str(packed)) as file,
        pyarrow.CompressedInputStream(file, "zstd") as stream,
        path.open("wb") as out,
    ):
        while block := stream.read(BLOCK_BYTES):
            out.write(block)
    return path
