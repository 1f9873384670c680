# pyright: basic
# (pyarrow has no types to be strict about)
"""Arrow IPC: one text column of a file or a stream, record batch after record batch.

The two forms are told apart by their first bytes, not by their names: Hugging Face writes streams
into `.arrow` files. A stream is read as it comes; the file form has its directory at the end, so
what comes out of a pipe or a packed file goes to the disk first.
"""

from collections.abc import Iterator
from typing import IO, Any

import pyarrow as pa

from tokenmill import _core
from tokenmill.errors import SourceError
from tokenmill.sources.arrow_text import core_arrays, require_text_column
from tokenmill.sources.compression import Readable
from tokenmill.sources.json_rows import row_columns, rows_source
from tokenmill.sources.source import OpenedSource
from tokenmill.sources.spool import spooled

_FILE_MAGIC = b"ARROW1"
_FEATHER_1_MAGIC = b"FEA1"
_END_MARKER = bytes(4)


def open_arrow(file: Readable, name: str, field: str | None) -> OpenedSource:
    """The documents of column `field`, or the rows, of what `file` reads."""
    head = file.read(len(_FILE_MAGIC))
    if head.startswith(_FEATHER_1_MAGIC):
        raise SourceError(
            f"`{name}` is Feather version 1, which is no Arrow IPC", "write it again as version 2"
        )
    if head == _FILE_MAGIC:
        return _open_file(spooled(head, file), name, field)
    return _open_stream(_Stream(head, file), name, field)


def _columns(schema: Any, field: str | None, name: str) -> list[int]:
    if field is not None:
        return [require_text_column(schema, field, name)]
    wanted = row_columns(schema.names)
    return [index for index, each in enumerate(schema.names) if each in wanted]


def _validated(batch: Any, columns: list[int]) -> Any:
    """The batch with these columns alone, their buffers held against each other."""
    for column in columns:
        batch.column(column).validate()
    return batch.select(columns)


def _source(batches: Iterator[Any], field: str | None, name: str) -> _core.Source:
    if field is None:
        return rows_source(batches, name)
    texts = (batch.column(0) for batch in batches)
    return _core.Source.arrow(core_arrays(texts, name), name=name)


def _open_file(file: IO[bytes], name: str, field: str | None) -> OpenedSource:
    try:
        reader = pa.ipc.open_file(file)
        columns = _columns(reader.schema, field, name)
    except (pa.ArrowException, OSError) as error:
        file.close()
        raise _corrupt(name, "its end, where the directory is", error) from error
    except BaseException:
        file.close()
        raise

    def batches() -> Iterator[Any]:
        for index in range(reader.num_record_batches):
            try:
                batch = _validated(reader.get_batch(index), columns)
            except (pa.ArrowException, OSError) as error:
                raise _corrupt(
                    name, f"record batch {index}, byte {file.tell():,}", error
                ) from error
            yield batch

    documents = _source(batches(), field, name)
    return OpenedSource(documents, lambda: 0 if file.closed else file.tell(), [file.close])


def _open_stream(stream: "_Stream", name: str, field: str | None) -> OpenedSource:
    try:
        reader = pa.ipc.open_stream(stream)
    except (pa.ArrowException, OSError) as error:
        raise _corrupt(name, f"byte {stream.num_bytes:,}", error) from error
    columns = _columns(reader.schema, field, name)

    def batches() -> Iterator[Any]:
        while True:
            try:
                batch = _validated(reader.read_next_batch(), columns)
            except StopIteration:
                break
            except (pa.ArrowException, OSError) as error:
                raise _corrupt(name, f"byte {stream.num_bytes:,}", error) from error
            yield batch
        _require_proper_end(stream, name)

    documents = _source(batches(), field, name)
    return OpenedSource(documents, lambda: stream.num_bytes)


def _require_proper_end(stream: "_Stream", name: str) -> None:
    """Arrow takes a cut between two batches for the end, and stops at an end marker in the middle.
    Both would shorten the corpus in silence, so the marker must be there and nothing may follow it.
    """
    reason = None
    if stream.last_bytes != _END_MARKER:
        reason = "it stops without an end marker"
    elif stream.read(1):
        reason = "something follows its end marker"
    if reason is not None:
        raise _corrupt(name, f"byte {stream.num_bytes:,}", ValueError(reason))


class _Stream:
    """A readable whose first bytes were looked at: gives them back, then reads on, and knows how
    far it is."""

    closed = False

    def __init__(self, head: bytes, rest: Readable) -> None:
        self._head = head
        self._rest = rest
        self.num_bytes = 0
        self.last_bytes = b""

    def read(self, size: int = -1, /) -> bytes:
        parts: list[bytes] = []
        while size > 0:
            part, self._head = self._head[:size], self._head[size:]
            part = part or self._rest.read(size)
            if not part:
                break
            parts.append(bytes(part))
            size -= len(part)
        text = b"".join(parts)
        self.num_bytes += len(text)
        self.last_bytes = (self.last_bytes + text[-4:])[-4:]
        return text

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True


def _corrupt(name: str, where: str, error: Exception) -> SourceError:
    return SourceError(
        f"`{name}` cannot be read as Arrow IPC at {where}: {str(error).splitlines()[0]}",
        "fetch or write the file again",
    )
