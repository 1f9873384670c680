"""Sources that can be read again and known for the same: files here, and objects elsewhere whose
server states size and version. Only these can be cut into work units and resumed."""

from typing import TypeGuard

from tokenmill.sources.remote_files import RemoteFile
from tokenmill.sources.source import TextSource
from tokenmill.sources.text_files import InputFile

StoredFile = InputFile | RemoteFile


def is_stored(source: TextSource) -> TypeGuard[StoredFile]:
    """Whether `source` is one of them."""
    return isinstance(source, InputFile) or (isinstance(source, RemoteFile) and source.is_stored)
