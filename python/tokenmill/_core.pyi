"""Types of the compiled module, and of nothing else. Private: the classes people see wrap these."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol, final

from typing_extensions import Buffer

__all__ = [
    "CPU_LEVEL",
    "UNICODE_VERSION",
    "Array",
    "Bpe",
    "ChatEncoder",
    "Counter",
    "Counts",
    "Documents",
    "EncodeStream",
    "EncodedRows",
    "LenientDecoder",
    "Merges",
    "Reader",
    "Source",
    "Splitter",
    "TokenizerModel",
    "Vocab",
    "__version__",
    "encode_documents",
    "join_documents",
    "named_patterns",
    "read_tokenizer_json",
    "shuffle_documents",
    "train_merges",
    "train_merges_from",
]
__version__: str
UNICODE_VERSION: str
"""Version of the Unicode tables behind every pattern, named or not."""
CPU_LEVEL: str
"""The x86-64 level or other instruction set this machine offers, as `--version` shows it."""

class _Readable(Protocol):
    def read(self, size: int, /) -> Buffer: ...

_Progress = Callable[[int, int], None]
"""Called on the calling thread about ten times a second while a long call runs. While counting the
arguments are (text bytes read, documents read), while merging (merges done, count of the last merge)."""

def named_patterns() -> dict[str, str]:
    """Name → regex of every pattern with a scanner of its own."""

@final
class Splitter:
    """Cuts text into pretokens. Frozen, usable from any thread."""

    def __new__(cls, pattern: str, special_tokens: Sequence[str] = ...) -> Splitter:
        """`pattern` is a name from `named_patterns()` or a regex. Raises ConfigError for a regex that does
        not compile or that matches the empty string, for duplicate or empty special tokens."""

    @property
    def name(self) -> str | None:
        """The pattern's name, `None` if it runs in the general engine. A regex equal to a named one is named."""

    @property
    def regex(self) -> str: ...
    @property
    def special_tokens(self) -> list[str]: ...
    def split(self, text: str | bytes) -> list[bytes]:
        """The pretokens of `text` in order, special tokens left out; bytes need not be UTF-8."""

    def covers(self, text: str | bytes) -> bool:
        """Whether all of `text` but special tokens is in matches of the pattern. What is between two matches is a
        pretoken, too, so `split` does not tell."""

@final
class Source:
    """The documents of one file or stream, each read once, in order. Blocks are read by whichever worker
    thread is free; a Python object behind it is only touched by one thread at a time, with the GIL held."""

    @staticmethod
    def plain_text(
        file: str | _Readable,
        *,
        name: str,
        separator: bytes,
        start: int = 0,
        end: int | None = None,
    ) -> Source:
        """Documents between separators. `file` is a local path or anything with `read(n)`. With a path, only
        the documents whose first byte lies in [start, end). A UTF-8 BOM at byte 0 is dropped; empty documents
        are not documents."""

    @staticmethod
    def json_lines(
        file: str | _Readable,
        *,
        name: str,
        field: str | None,
        start: int = 0,
        end: int | None = None,
    ) -> Source:
        """One JSON object a line, the document in `field`, or the whole line; blank lines are skipped."""

    @staticmethod
    def strings(texts: Iterator[str | bytes], *, name: str) -> Source:
        """One document for each item. Another type is a SourceError naming its position."""

    @staticmethod
    def arrow(
        arrays: Iterator[tuple[Buffer | None, Buffer, Buffer, bool, int, int]], *, name: str
    ) -> Source:
        """One document for each value of Arrow string arrays, given as (validity bits or None, offsets, data,
        whether offsets are 64 bits wide, array offset, array length). A null follows `on_error`."""

@final
class Reader:
    """Sources one after another under one set of limits, which it keeps between `count` calls."""

    def __new__(
        cls,
        *,
        doc_cap: int | None = None,
        max_chars: int | None = None,
        max_bytes: int | None = None,
        on_error: str = "fail",
        invalid_utf8: str = "error",
        chars_before: int = 0,
        bytes_before: int = 0,
        block_bytes: int = 1048576,
    ) -> Reader:
        """`doc_cap` cuts each document after that many characters. `max_chars` stops after the document that
        brings the characters (after the cap) above that many, `max_bytes` before the document that would exceed it;
        `…_before` are what earlier runs used of them. `on_error` is `fail` or `skip`, `invalid_utf8` is `error`,
        `replace` (U+FFFD for each maximal invalid part, counted) or `keep` (the bytes as they are)."""

    def documents(self, sources: Iterator[Source]) -> Documents:
        """The documents themselves, after caps and policies. For the reference engine, not for speed."""

    @property
    def limit_reached(self) -> bool: ...
    @property
    def report(self) -> dict[str, int]:
        """documents, bytes (of text, after caps), chars, capped_documents, skipped_records,
        replaced_sequences: sums over everything read so far."""

    @property
    def skipped(self) -> list[str]:
        """The first twenty skipped records: where and why."""

@final
class Documents:
    """Documents one by one, as bytes."""

    def __iter__(self) -> Documents: ...
    def __next__(self) -> bytes: ...

@final
class Counts:
    """Pretoken → occurrences, exact, sorted by bytes, immutable. Two counts add up to one."""

    @staticmethod
    def from_mapping(mapping: Mapping[bytes, int]) -> Counts: ...
    @staticmethod
    def from_buffers(offsets: Buffer, data: Buffer, counts: Buffer) -> Counts:
        """`offsets` are n+1 int64, `data` the pretokens end to end, `counts` n uint64. Repeats are added up,
        an empty pretoken or a zero count is an error."""

    def buffers(self) -> tuple[bytes, bytes, bytes]:
        """(n+1 int64 offsets, data, n uint64 counts), sorted by pretoken."""

    def __len__(self) -> int: ...
    @property
    def occurrences(self) -> int: ...
    @property
    def total_bytes(self) -> int:
        """Bytes of the text counted: the sum of count × length."""

    def most_common(self, n: int) -> list[tuple[bytes, int]]: ...
    def add(self, other: Counts) -> Counts:
        """OverflowError if a sum passes 2**64 - 1."""

    def at_least(self, min_count: int) -> Counts: ...

@final
class Counter:
    """Counts pretokens over any number of `count` calls."""

    def __new__(cls, splitter: Splitter, threads: int) -> Counter: ...
    def count(
        self, reader: Reader, sources: Iterator[Source], progress: _Progress | None = None
    ) -> None:
        """Read `sources` to their end or to the reader's limit. GIL released, Ctrl-C heard; after an error the
        counter is no longer usable. The result does not depend on `threads` or on block sizes."""

    def take(self) -> Counts:
        """The counts so far; the counter is empty again."""

    @property
    def report(self) -> dict[str, int]:
        """special_tokens (occurrences cut out), unmatched (pretokens that no match of the pattern covered)."""

@final
class Merges:
    """What training learned, in order. Ids here: bytes 0–255, then new tokens from 256."""

    def __len__(self) -> int: ...
    def triples(self) -> list[tuple[int, int, int]]:
        """(left id, right id, id of the joined token) of each merge. Merges that spell the same bytes share an id."""

    def counts(self) -> list[int]:
        """Occurrences of each merge's pair at the time it was made."""

    def tokens(self) -> list[bytes]:
        """Bytes of every id, the 256 single bytes first."""

    @property
    def stopped(self) -> str:
        """`full` (vocab size reached), `no pairs` or `min count`."""

    @property
    def training_tokens(self) -> int:
        """Tokens the counted text becomes under these merges."""

    @property
    def num_pairs(self) -> int:
        """Distinct pairs before the first merge."""

    def top_pairs(self) -> list[tuple[int, int, int]]:
        """(left, right, count) of the most frequent pairs before the first merge."""

    @property
    def first_shared(self) -> int | None:
        """Index of the first merge that reuses an existing id: where rustbpe's ids begin to differ."""

def train_merges(
    counts: Counts,
    *,
    num_tokens: int,
    ties: str = "lowest-ids",
    min_count: int = 1,
    max_token_bytes: int | None = None,
    special_tokens: Sequence[str] = ...,
    threads: int = 1,
    progress: _Progress | None = None,
) -> Merges:
    """Learn merges until there are `num_tokens` tokens, bytes included, special tokens not. `ties` is
    `lowest-ids`, `huggingface` or `greatest-bytes`. VocabError when a pretoken contains a special token."""

def train_merges_from(
    tokens: Sequence[bytes],
    pretokens: Sequence[tuple[Sequence[int], int]],
    *,
    num_tokens: int,
    ties: str = "lowest-ids",
    min_count: int = 1,
    max_token_bytes: int | None = None,
) -> Merges:
    """The same on pretokens that are token ids already, each with its count; `num_tokens` includes `tokens`."""

@final
class Array:
    """Numbers in the core's memory, one after another: `numpy.asarray` takes them without a copy."""

    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    @property
    def dtype(self) -> str:
        """`uint8`, `uint16`, `uint32` or `int64`."""

@final
class Vocab:
    """Tokens by id, merges in rank order, special tokens: checked once. Frozen."""

    def __new__(
        cls,
        tokens: Sequence[bytes],
        merges: Sequence[tuple[int, int, int]],
        special_tokens: Mapping[str, int],
        *,
        ignore_merges: bool = False,
    ) -> Vocab:
        """`tokens[id]` is the bytes of every id, a special token's its UTF-8 spelling; b"" leaves an id without a
        token. `merges` are (left, right, joined). With `ignore_merges` a pretoken that is a token becomes its id
        whether merges lead there or not. VocabError when a merge's parts do not spell its token, a byte has no
        token, or two ordinary tokens spell the same bytes."""

    @staticmethod
    def from_ranks(tokens: Sequence[bytes], special_tokens: Mapping[str, int]) -> Vocab:
        """From tokens in the order of their ranks, as tiktoken keeps them: the merges are found by encoding each
        token by the ranks of the others, which gives the same ids (docs/formats.md). Special tokens may leave ids
        out above the last rank."""

    @staticmethod
    def read_ranks(data: Buffer, special_tokens: Mapping[str, int], *, file: str) -> Vocab:
        """The same from the bytes of a tiktoken file. FormatError naming `file` and the line."""

    @property
    def size(self) -> int:
        """Number of ids, those without a token included."""

    @property
    def num_merges(self) -> int: ...
    @property
    def special_tokens(self) -> dict[str, int]: ...
    @property
    def ignore_merges(self) -> bool: ...
    def tokens(self) -> list[bytes]:
        """By id; b"" for an id without a token."""

    def merges(self) -> list[tuple[int, int, int]]: ...
    def token(self, token_id: int) -> bytes | None: ...
    def token_id(self, token: bytes) -> int | None:
        """The ordinary token that spells `token`."""

    def unreachable(self) -> list[int]:
        """Ids of ordinary tokens to which merges do not lead from their own bytes."""

    def used_merges(self) -> list[int]:
        """Ranks of the merges that some text needs: one for each token that merges lead to. The rest never apply."""

    def unordered_merge(self) -> int | None:
        """The first merge that comes before one that makes a part of it, if there are too many to be meant."""

    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class TokenizerModel:
    """`model.vocab` and `model.merges` of a tokenizer.json, as the file has them."""

    def vocab(self, special_tokens: Mapping[str, int], *, ignore_merges: bool) -> Vocab:
        """Letters turned into bytes, `special_tokens` taken as they are spelled. FormatError naming the place."""

def read_tokenizer_json(data: Buffer, file: str) -> tuple[str, TokenizerModel]:
    """A tokenizer.json in two parts: the JSON text of everything else, where `model.vocab` and `model.merges` are
    null, and those two. FormatError naming `file` and the place for what is not JSON, repeats a key, nests too
    deeply or has another type than it must."""

_Special = Literal["all"] | Collection[str]

@final
class Bpe:
    """A vocab that encodes and decodes. Frozen, usable from any thread and after a fork.

    `allowed_special` are the special tokens that become ids, `disallowed_special` those that raise a VocabError
    when the text has them ("all" means all that are not allowed); the rest is ordinary text. `text` is `str`, or
    `bytes` that need not be UTF-8. `threads` never changes an id."""

    def __new__(
        cls, vocab: Vocab, splitter: Splitter, *, nfc: bool = False, cache_bytes: int = ...
    ) -> Bpe:
        """With `nfc` text is brought into Unicode normalization form C before it is split. `cache_bytes` is what
        each thread at work may hold for pretokens it has seen, 32 MB if left out."""

    @property
    def vocab_size(self) -> int: ...
    def encode(
        self, text: str | bytes, allowed_special: _Special, disallowed_special: _Special
    ) -> list[int]: ...
    def encode_to_array(
        self,
        text: str | bytes,
        allowed_special: _Special,
        disallowed_special: _Special,
        threads: int = 1,
        *,
        wide: bool = False,
    ) -> Array:
        """uint16 while every id fits, else uint32; with `wide` always that."""

    def encode_batch(
        self,
        texts: Sequence[str | bytes],
        allowed_special: _Special,
        disallowed_special: _Special,
        threads: int = 1,
    ) -> tuple[Array, Array]:
        """The ids of all texts, and n+1 int64: where each text's ids start. An error names the text's position."""

    def encode_lists(
        self,
        texts: Sequence[str | bytes],
        allowed_special: _Special,
        disallowed_special: _Special,
        threads: int = 1,
    ) -> list[list[int]]: ...
    def encode_arrow(
        self,
        arrays: Sequence[tuple[Buffer | None, Buffer, Buffer, bool, int, int]],
        allowed_special: _Special,
        disallowed_special: _Special,
        threads: int = 1,
    ) -> tuple[Array, Array]:
        """As `encode_batch`, of Arrow string arrays laid out as for `Source.arrow`. A null is an error naming it."""

    def encode_with_dropout(
        self,
        text: str | bytes,
        allowed_special: _Special,
        disallowed_special: _Special,
        dropout: float,
        seed: int,
    ) -> Array:
        """Each possible merge is left out with probability `dropout` when it arises; the same seed, the same ids."""

    def encode_start(
        self,
        text: str | bytes,
        max_tokens: int,
        allowed_special: _Special,
        disallowed_special: _Special,
    ) -> tuple[Array, int]:
        """The first ids of `text`, at most `max_tokens`, and how many of its bytes they spell. Takes no more time than
        they need. With `nfc` the bytes are those of the normalized text."""

    def count(
        self,
        text: str | bytes,
        allowed_special: _Special,
        disallowed_special: _Special,
        threads: int = 1,
    ) -> int: ...
    def stream(
        self, allowed_special: _Special, disallowed_special: _Special, threads: int = 1
    ) -> EncodeStream: ...
    def find_special(self, text: str | bytes) -> list[str]:
        """Special tokens that occur in `text`, in order of appearance, without repeats."""

    def normalize(self, text: str | bytes) -> bytes:
        """The bytes that ids are made from: `text` itself, or its normalization form C with `nfc`."""

    def decode_bytes(self, ids: Buffer | Sequence[int]) -> bytes:
        """`ids` are whole numbers in a sequence or in an array of any integer type. VocabError naming the first
        unknown id."""

    def decode(self, ids: Buffer | Sequence[int], errors: str = "replace") -> str: ...
    def decode_batch(
        self, ids: Buffer, offsets: Buffer, errors: str | None
    ) -> list[str] | list[bytes]:
        """The texts of a batch as `encode_batch` gives it; as bytes when `errors` is None."""

    def decode_each(self, batch: Iterable[Buffer | Sequence[int]], errors: str | None) -> list[Any]:
        """`decode` of each sequence of ids; `decode_bytes` when `errors` is None."""

    def decode_with_starts(self, ids: Buffer | Sequence[int]) -> tuple[str, list[int]]:
        """The text, and the first character each token has a part of. UnicodeDecodeError if it is not UTF-8."""

    def tokens(self, ids: Buffer | Sequence[int]) -> list[bytes]:
        """The bytes of each id."""

    def byte_offsets(self, ids: Buffer | Sequence[int]) -> Array:
        """n+1 int64: where each token starts in the bytes they all spell, and the end."""

    def char_offsets(self, text: str | bytes, ids: Buffer | Sequence[int]) -> Array:
        """2n int64: first character each token has a part of, and one after the last. `text` is what `ids` spell."""

    def offset_pairs(
        self,
        offsets: Buffer,
        ids: Buffer | Sequence[int],
        start: int,
        stop: int,
        trims: Sequence[tuple[bool, int]],
        special_spaces: Mapping[int, tuple[int, int]],
    ) -> list[tuple[int, int]]:
        """The numbers of `char_offsets` in pairs, for tokens `start` to `stop` of all `ids`. Each of `trims` leaves
        out the spaces at both ends of tokens; if its first part is true, a single one in front stays for tokens at
        character 0 and for the token at the place that its second part gives. `special_spaces` has the number of
        those of special tokens that have some."""

    def word_numbers(self, splitter: Splitter, ids: Buffer | Sequence[int]) -> list[int]:
        """The pretoken each token is part of, counted from 0. A special token counts as one, and what is between
        two of them is split on its own."""

    def memory(self) -> dict[str, int]:
        """Bytes held: vocab, merges, cache (of every thread that is not at work), decoder."""

@final
class LenientDecoder:
    """Ids to text, where ids without a token spell nothing. Frozen."""

    def __new__(cls, tokens: Sequence[bytes]) -> LenientDecoder:
        """`tokens` by id, b"" for an id to be left out."""

    def decode(self, ids: Buffer | Sequence[int], errors: str = "replace") -> str:
        """VocabError for a number that is not between 0 and 2**32 - 1."""

    def decode_each(
        self, batch: Iterable[Buffer | Sequence[int]], errors: str = "replace"
    ) -> list[str]: ...

@final
class EncodeStream:
    """Ids of a text that arrives in parts: however it is cut, the ids of the whole. Not for several threads at once."""

    def feed(self, text: str | bytes) -> Array:
        """The ids that are certain by now."""

    def finish(self) -> Array:
        """The rest. Feeding again starts a new text."""

_ShardSize = tuple[int, int, int, int]
"""(tokens, documents, text bytes, trained tokens) of a shard."""

_ForeignRows = Callable[
    [list[bytes]],
    tuple[
        bytes,
        bytes,
        Sequence[tuple[int, int, int]],
        Sequence[tuple[int, str, str]],
        int,
        int,
        Mapping[str, int],
    ],
]
"""Rows to: ids as uint32, mask as uint8, (row, tokens, text bytes) of each document, (row, reason, more
words) of each row that is none, how many documents were cut and how many sequences replaced, and special tokens
that were encoded as text. Called by several threads at once."""

def encode_documents(
    bpe: Bpe,
    reader: Reader,
    sources: Iterator[Source],
    *,
    targets: Sequence[tuple[str, int, _ShardSize]],
    token_header: int,
    other_header: int,
    shard_tokens: int | None,
    wide: bool,
    masked: bool,
    bos: int | None,
    eos: int | None,
    allowed_special: _Special,
    rows: ChatEncoder | _ForeignRows | None,
    skip_errors: bool,
    held_out: tuple[float, int] | None,
    threads: int,
    progress: _Progress | None = None,
) -> tuple[list[list[_ShardSize]], dict[str, int], dict[str, int], int]:
    """Append the tokens of every document to growing files; the same bytes on any number of `threads`.

    A target is (path prefix, number of the shard to go on with, what that shard holds): its files are
    `PREFIX-00000.tokens`, `.documents` (uint64 ends) and `.bytes` (uint64 text bytes of each document), with zeros for a
    header at the start; what they hold beyond the given size is cut off. A shard ends at the first document end at or
    after `shard_tokens`. `held_out` (fraction, seed) sends documents to the second target by the xxh3 hash of their
    bytes. Gives the sizes of each target's shards from the one it went on with, the last perhaps empty, and how often
    special tokens occurred that are not `allowed_special` and so were encoded as text; with `rows`, documents are JSON
    rows, and there follow the numbers of those that were left out, by reason, and of documents that were cut.
    `skip_errors` leaves unreadable rows out, too. GIL released, Ctrl-C heard."""

def shuffle_documents(
    *,
    source: str,
    target: str,
    sizes: Sequence[_ShardSize],
    token_header: int,
    other_header: int,
    shard_tokens: int | None,
    wide: bool,
    masked: bool,
    seed: int,
    group: int,
    memory: int,
    progress: _Progress | None = None,
) -> list[_ShardSize]:
    """Copy the documents of the shards with prefix `source` and these `sizes` to new ones with prefix `target`, in an
    order that depends on `seed` and their number alone; `group` documents in a row stay together. Takes about `memory`
    bytes, and what does not fit goes through files beside the source."""

def join_documents(
    *,
    sources: Sequence[tuple[str, Sequence[_ShardSize]]],
    target: str,
    token_header: int,
    other_header: int,
    shard_tokens: int | None,
    wide: bool,
    masked: bool,
    progress: _Progress | None = None,
) -> list[_ShardSize]:
    """Copy the documents of several rows of shards, each a prefix and its sizes, to one row with prefix `target`: the
    files that one run over all their documents would have written."""

_Piece = int | str
"""A special token by its id, or literal text."""

@final
class ChatEncoder:
    """Rows of conversations to ids and a loss mask, by one template. Frozen, usable from any thread."""

    def __new__(
        cls,
        bpe: Bpe,
        *,
        roles: Sequence[tuple[str, Sequence[_Piece], Sequence[_Piece], bool, int]],
        bos: Sequence[_Piece],
        merge_system: str | None,
        instruction: str,
        input: str,
        mode: str = "sft",
        shape: str | None = None,
        max_tokens: int | None = None,
        too_long: str = "drop",
        invalid_utf8: str = "error",
    ) -> ChatEncoder:
        """`roles` are (name, what stands before the content, after it, whether it is trained on, how many pieces of
        `after` are then). `merge_system` joins a system message to the user message behind it; None where it is a
        turn. `instruction` and `input` are the roles that those fields of an Alpaca row play. `mode` is `sft` or
        `preference`; `shape` is `messages`, `conversations`, `prompt-completion`, `alpaca` or None for finding out;
        `too_long` is `drop`, `keep-start`, `keep-end` or `error`."""

    def encode_rows(
        self, rows: Sequence[str | bytes], *, skip_errors: bool = False, threads: int = 1
    ) -> EncodedRows:
        """Each row is a JSON object. SourceError naming the row for what is none, unless `skip_errors`. The result does
        not depend on `threads`."""

@final
class EncodedRows:
    """Documents: one for a row, or in mode `preference` two, the chosen and the rejected one."""

    @property
    def ids(self) -> Array: ...
    @property
    def offsets(self) -> Array:
        """n+1 int64: where each document's ids start."""

    @property
    def mask(self) -> Array:
        """uint8, one for each id: 1 is trained on."""

    @property
    def bytes(self) -> Array:
        """int64: bytes of the contents of each document."""

    @property
    def rows(self) -> Array:
        """int64: the row each document is of."""

    @property
    def skipped(self) -> list[tuple[int, str, str]]:
        """(row, name of the reason, more words) of each row that was left out."""

    @property
    def truncated(self) -> int: ...
    @property
    def trained(self) -> int:
        """Number of ids whose mask is 1."""

    @property
    def lookalikes(self) -> dict[str, int]:
        """How often special tokens stood in contents, as text."""
