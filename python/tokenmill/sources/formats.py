"""Formats by file name: `corpus.jsonl.zst` is JSON lines inside zstd."""

from typing import NamedTuple

from tokenmill.sources.choices import require_one_of

FORMATS = ("txt", "jsonl", "parquet", "arrow")
COMPRESSIONS = ("gz", "zst", "bz2")
_ENDINGS = {
    ".txt": "txt",
    ".jsonl": "jsonl",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".ipc": "arrow",
    ".feather": "arrow",
}


class Format(NamedTuple):
    """What a file holds, and what it is packed in."""

    kind: str
    compression: str | None


def parse_format(text: str) -> Format:
    """`jsonl.zst` as `--input-format` spells it."""
    kind, dot, compression = text.partition(".")
    require_one_of("input format", kind, FORMATS)
    if dot:
        require_one_of("compression", compression, COMPRESSIONS)
    return Format(kind, compression or None)


def format_of_name(name: str, given: Format | None = None) -> Format | None:
    """The format of a file called `name`; `None` if the name does not say.

    `given` overrules the name, except that a name may still say what the file is packed in."""
    stem, compression = _unpacked(name.lower())
    if given is not None:
        return Format(given.kind, given.compression or compression)
    for ending, kind in _ENDINGS.items():
        if stem.endswith(ending):
            return Format(kind, compression)
    return None


def stem_of_name(name: str) -> str:
    """`data-00003` for `data-00003.jsonl.bz2`."""
    stem, _ = _unpacked(name)
    return stem.rpartition(".")[0] or stem


def _unpacked(name: str) -> tuple[str, str | None]:
    stem, dot, ending = name.rpartition(".")
    return (stem, ending) if dot and ending in COMPRESSIONS else (name, None)


def is_invisible(name: str) -> bool:
    """Whether listings pass over a file or folder of this name: hidden, or still being written."""
    return name.startswith(".") or name.endswith((".part", ".partial"))
