"""From what people name to a list of sources, in the order they named it.

A `str` or `Path` is a file, a folder, a glob or `-` for standard input, and so is each `str` or
`Path` of a list; a `str` may also be an address such as `https://…` or `s3://…`. Folders and globs are sorted by path; hidden files and those still being written
(`.part`, `.partial`) are invisible. Everything else that can be iterated over is documents: a
generator of str, a list of bytes, a table. A list of str that are documents themselves goes through
`tm.documents(...)`.
"""

import glob
import io
import logging
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from tokenmill.errors import ConfigError, SourceError
from tokenmill.sources.documents import (
    ArrowTable,
    Documents,
    HuggingFaceDataset,
    is_arrow,
    is_huggingface,
)
from tokenmill.sources.folders import walk_folder
from tokenmill.sources.formats import FORMATS, Format, format_of_name, is_invisible, parse_format
from tokenmill.sources.options import ReadOptions
from tokenmill.sources.remote_files import RemoteFile, find_remote
from tokenmill.sources.shards import choose_shards
from tokenmill.sources.source import TextSource
from tokenmill.sources.text_files import InputFile, InputStream
from tokenmill.storage.address import parse_address
from tokenmill.storage.files import FileState, local_path, unreadable


class ArrowStream(Protocol):
    """A table or series that speaks Arrow's C interface."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


class ArrowArray(Protocol):
    """An array or batch that speaks Arrow's C interface."""

    def __arrow_c_array__(self, requested_schema: object = None) -> object: ...


Inputs = str | os.PathLike[str] | Iterable[object] | TextSource | ArrowStream | ArrowArray
"""What `tm.count` and `tm.train` read from; the module says which is which."""

log = logging.getLogger("tokenmill")


def find_inputs(inputs: object, options: ReadOptions) -> list[TextSource]:
    """The sources that `inputs` names. Nothing is opened yet; what is missing or cannot be told is
    an error."""
    if isinstance(inputs, (list, tuple)):
        sources = _from_list(cast("list[object] | tuple[object, ...]", inputs), options)
    elif isinstance(inputs, (str, os.PathLike)):
        sources = list(_from_address(cast("str | os.PathLike[str]", inputs), options))
    else:
        sources = [_from_object(inputs, options)]
    _warn_of_repeats(sources)
    return sources


def _warn_of_repeats(sources: Iterable[TextSource]) -> None:
    seen: set[str] = set()
    for source in sources:
        if isinstance(source, (InputFile, RemoteFile)):
            if source.name in seen:
                log.warning("`%s` is named twice and will be read twice", source.name)
            seen.add(source.name)


def _from_list(items: list[object] | tuple[object, ...], options: ReadOptions) -> list[TextSource]:
    if all(isinstance(item, (bytes, Mapping)) for item in items) and items:
        return [Documents(cast("list[bytes]", items))]
    sources: list[TextSource] = []
    for item in items:
        if isinstance(item, (str, os.PathLike)):
            sources.extend(_from_address(cast("str | os.PathLike[str]", item), options))
        else:
            sources.append(_from_object(item, options))
    if not sources:
        raise ConfigError("no input was given", "pass a file, a folder, a glob or `-`")
    return sources


def _from_object(value: object, options: ReadOptions) -> TextSource:
    name = type(value).__name__
    known = (Documents, ArrowTable, HuggingFaceDataset, InputFile, InputStream, RemoteFile)
    if isinstance(value, known):
        return value
    if is_huggingface(value):
        return HuggingFaceDataset(value)
    if is_arrow(value):
        return ArrowTable(value, name)
    if hasattr(value, "read"):
        return _from_open_file(value, options)
    if isinstance(value, Mapping):
        raise ConfigError(
            "the input is a mapping, which is neither a path nor documents",
            "for pretoken counts pass `counts=tm.PretokenCounts.from_dict(...)`",
        )
    if isinstance(value, (set, frozenset)):
        raise ConfigError("the input is a set, which has no order", "pass a list")
    if isinstance(value, Iterable) and not isinstance(value, (bytes, bytearray)):
        return Documents(cast("Iterable[str | bytes]", value), name, declared=False)
    raise ConfigError(
        f"cannot read text from `{name}`",
        "pass a path, a list of paths, an iterable of str, or a table",
    )


def _from_open_file(value: object, options: ReadOptions) -> InputStream:
    name = str(getattr(value, "name", type(value).__name__))
    if isinstance(value, io.TextIOBase):
        raise ConfigError(
            f"`{name}` is open in text mode, where line ends and bad bytes are already lost",
            "pass its path, or open it with mode `rb`",
        )
    given = parse_format(options.input_format) if options.input_format else format_of_name(name)
    if given is None:
        raise _no_format(name)
    return InputStream(cast("BinaryIO", value), name, given)


def _from_address(address: str | os.PathLike[str], options: ReadOptions) -> Iterator[TextSource]:
    if address == "-":
        if options.input_format is None:
            raise _no_format("-")
        yield InputStream(sys.stdin.buffer, "<stdin>", parse_format(options.input_format))
        return
    text = os.fspath(address)
    if _looks_like_a_document(text):
        raise SourceError(
            f"`{text[:60]}…` is taken for a path, but reads like a document",
            "a str is a path; wrap documents in `tm.documents([...])` or pass a generator",
        )
    remote = parse_address(text) if isinstance(address, str) else None
    if remote is not None:
        yield from find_remote(remote, options)
        return
    path = local_path(address)
    try:
        found = os.stat(path)
    except OSError as error:
        if not glob.has_magic(text):
            raise unreadable(path, error) from error
        yield from _from_glob(text, options)
        return
    if stat.S_ISDIR(found.st_mode):
        yield from _from_folder(path, options)
    elif options.shards is not None:
        raise ConfigError(
            f"`--shards {options.shards}` chooses files of a folder or glob, but `{path}` is a file"
        )
    else:
        yield _from_file(path, found, options)


def _looks_like_a_document(text: str) -> bool:
    return "\n" in text or "\0" in text or len(text.encode("utf-8", "surrogatepass")) > 4096


def _from_folder(folder: Path, options: ReadOptions) -> Iterator[TextSource]:
    given = parse_format(options.input_format) if options.input_format else None
    listing = walk_folder(folder, given)
    if listing.ignored:
        log.info("passed over %d other files in `%s`", len(listing.ignored), folder)
    if not listing.files:
        found = ", ".join(f"`{name}`" for name in listing.ignored[:5]) or "nothing"
        more = f" and {len(listing.ignored) - 5} more" if len(listing.ignored) > 5 else ""
        raise SourceError(
            f"folder `{folder}` holds no text; found {found}{more}",
            f"files end in {', '.join('`.' + kind + '`' for kind in FORMATS)}, or pass `--input-format`",
        )
    files = listing.files
    if options.shards is not None:
        files = choose_shards(files, options.shards, str(folder))
    for file in files:
        yield _from_file(file, os.stat(file), options)


def _from_glob(pattern: str, options: ReadOptions) -> Iterator[TextSource]:
    base = _fixed_folder(pattern)
    found = [Path(match) for match in glob.glob(pattern, recursive=True)]
    visible = [path for path in found if not _hidden(path, base)]
    if not visible:
        raise SourceError(f"no file matches `{pattern}`", _what_is_in(base))
    if options.shards is not None:
        visible = choose_shards(visible, options.shards, pattern)
    for path in sorted(visible, key=lambda path: f"{path}/" if path.is_dir() else str(path)):
        if path.is_dir():
            # `**` names every folder and, by itself, all they hold: walking them would read files
            # twice.
            if "**" not in pattern:
                yield from _from_folder(path, replace(options, shards=None))
            continue
        yield _from_file(path, os.stat(path), options)


def _fixed_folder(pattern: str) -> Path:
    """The folder that all matches of `pattern` lie below."""
    folder = Path(pattern)
    while glob.has_magic(str(folder)):
        folder = folder.parent
    return folder


def _hidden(path: Path, base: Path) -> bool:
    parts = path.parts[len(base.parts) :] if base != Path() else path.parts
    return any(is_invisible(part) for part in parts)


def _what_is_in(folder: Path) -> str | None:
    if not folder.is_dir():
        return f"`{folder}` does not exist"
    names = sorted(os.listdir(folder))
    listed = ", ".join(f"`{name}`" for name in names[:5])
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"`{folder}` holds {listed or 'nothing'}{more}"


def _from_file(path: Path, found: os.stat_result, options: ReadOptions) -> TextSource:
    if path.name.endswith((".part", ".partial")):
        raise SourceError(f"`{path}` is still being written", "wait until the download is complete")
    given = parse_format(options.input_format) if options.input_format else None
    form = format_of_name(path.name, given)
    if form is None:
        raise _no_format(str(path))
    if not stat.S_ISREG(found.st_mode):  # a pipe, as in `<(zcat …)`
        return InputStream(path, str(path), form)
    return InputFile(path, form, FileState(found.st_size, found.st_mtime_ns))


def _no_format(name: str) -> ConfigError:
    return ConfigError(
        f"cannot tell the format of `{name}` by its name",
        f"pass `--input-format` with one of {', '.join(f'`{kind}`' for kind in FORMATS)}",
    )


__all__ = ["Format", "Inputs", "find_inputs"]
