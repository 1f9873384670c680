"""A dataset's text back: documents of a split in, their bytes with a separator between them out.

bos and eos around a document are left out; other special tokens are spelled. What `encode` read from a
.txt comes back as it was, but for empty documents, which are none.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tokenmill.dataset.dataset import Dataset
from tokenmill.errors import ConfigError, VocabError

if TYPE_CHECKING:
    from tokenmill.dataset.arrays import Array
    from tokenmill.dataset.split_view import SplitView

_PROGRESS_EVERY = 1024


@dataclass(frozen=True)
class DecodedDocuments:
    """How much was decoded."""

    documents: int
    tokens: int
    bytes: int


def default_separator(dataset: Dataset) -> bytes:
    """What stood behind each document, or what separates documents of a .txt."""
    manifest = dataset.manifest
    return (manifest.eos if manifest is not None and manifest.eos else "<|endoftext|>").encode()


def decode_documents(
    split: "SplitView",
    write: Callable[[bytes], object],
    *,
    separator: bytes,
    document: int | None = None,
    progress: Callable[[int, float | None], None] = lambda done, fraction: None,
) -> DecodedDocuments:
    """Hand the text of each document to `write`, or of document number `document` alone."""
    if document is not None:
        try:
            ids = split.document(document)
        except IndexError as error:
            raise ConfigError(str(error)) from None
        data = text_of(split, ids)
        write(data)
        return DecodedDocuments(1, len(ids), len(data))
    tokens = num_bytes = 0
    for index, ids in enumerate(split):
        data = text_of(split, ids, index)
        if index:
            data = separator + data
        write(data)
        tokens += len(ids)
        num_bytes += len(data)
        if index % _PROGRESS_EVERY == 0:
            progress(tokens, tokens / (split.num_tokens or 1))
    return DecodedDocuments(len(split), tokens, num_bytes)


def text_of(split: "SplitView", ids: "Array", index: int | None = None) -> bytes:
    """What `ids` spell without the bos and eos of the dataset. VocabError naming the document."""
    start, end = 0, len(ids)
    manifest = split.origin.manifest
    if manifest is not None:
        special_tokens = manifest.tokenizer.special_tokens
        if end and ids[0] == special_tokens.get(manifest.bos or "", -1):
            start = 1
        if end > start and ids[-1] == special_tokens.get(manifest.eos or "", -1):
            end -= 1
    try:
        return split.origin.tokenizer.decode_bytes(ids[start:end])
    except VocabError as error:
        which = "" if index is None else f" {index:,}"
        raise VocabError(f"document{which} of split `{split.name}`: {error.message}") from None
