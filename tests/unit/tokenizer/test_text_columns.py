"""encode_batch: every way to hold texts gives the same batch, and what is no text is named."""

import weakref
from collections.abc import Callable, Iterator
from typing import Any

import datasets
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tokenmill.errors import ConfigError, SourceError, VocabError
from tokenmill.tokenizer import text_columns
from tokenmill.tokenizer.token_batch import TokenBatch
from tokenmill.tokenizer.tokenizer import Tokenizer

BYTES = {byte: bytes([byte]) for byte in range(256)}
MERGES = [(b"t", b"h"), (b"th", b"e"), (b" ", b"the")]
TEXTS = ["the the", "", "größe 漢字", "a<|x|>b", "the\0the", "😀"]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    vocab = BYTES | {256: b"th", 257: b"the", 258: b" the"}
    return Tokenizer.from_vocab(vocab, MERGES, ["<|end|>"], "gpt4")


@pytest.fixture(scope="module")
def expected(tokenizer: Tokenizer) -> list[list[int]]:
    return [tokenizer.encode(text) for text in TEXTS]


def generated() -> Iterator[str]:
    yield from TEXTS


class Lender:
    """A column of somebody else's library: nothing but Arrow's C interface."""

    def __init__(self, array: Any, method: str) -> None:
        setattr(self, method, getattr(array, method))


def sliced(array: Any) -> Any:
    return array.slice(1, len(TEXTS))


COLUMNS: dict[str, Callable[[], Any]] = {
    "list": lambda: TEXTS,
    "tuple": lambda: tuple(TEXTS),
    "bytes": lambda: [text.encode() for text in TEXTS],
    "mixed": lambda: [text.encode() if i % 2 else text for i, text in enumerate(TEXTS)],
    "generator": generated,
    "map": lambda: map(str, TEXTS),
    "dict keys": lambda: dict.fromkeys(TEXTS).keys(),
    "numpy objects": lambda: np.array(TEXTS, dtype=object),
    "numpy strings": lambda: np.array(TEXTS),
    "pyarrow string": lambda: pa.array(TEXTS),
    "pyarrow large_string": lambda: pa.array(TEXTS, pa.large_string()),
    "pyarrow string_view": lambda: pa.array(TEXTS, pa.string_view()),
    "pyarrow binary": lambda: pa.array([text.encode() for text in TEXTS]),
    "pyarrow large_binary": lambda: pa.array([t.encode() for t in TEXTS], pa.large_binary()),
    "pyarrow binary_view": lambda: pa.array([t.encode() for t in TEXTS], pa.binary_view()),
    "pyarrow dictionary": lambda: pa.array(TEXTS).dictionary_encode(),
    "pyarrow slice": lambda: sliced(pa.array(["before", *TEXTS, "after"])),
    "pyarrow chunks": lambda: pa.chunked_array([TEXTS[:2], [], TEXTS[2:]]),
    "pyarrow table column": lambda: pa.table({"text": TEXTS})["text"],
    "polars": lambda: pl.Series(TEXTS),
    "polars slice": lambda: pl.Series(["before", *TEXTS])[1:],
    "polars categorical": lambda: pl.Series(TEXTS, dtype=pl.Categorical),
    "Arrow array": lambda: Lender(pa.array(TEXTS), "__arrow_c_array__"),
    "Arrow stream": lambda: Lender(pa.chunked_array([TEXTS]), "__arrow_c_stream__"),
    "datasets column": lambda: datasets.Dataset.from_dict({"text": TEXTS})["text"],
}


@pytest.mark.parametrize("name", COLUMNS)
def test_every_kind_of_column(name: str, tokenizer: Tokenizer, expected: list[list[int]]) -> None:
    # numpy's own strings lose a NUL at their end, ours has it in the middle.
    batch = tokenizer.encode_batch(COLUMNS[name]())
    assert batch.to_lists() == expected
    assert (batch.ids.dtype, batch.offsets.dtype) == (np.uint16, np.int64)


def test_pandas(tokenizer: Tokenizer, expected: list[list[int]]) -> None:
    for kind in (None, object, "category", pd.ArrowDtype(pa.string())):
        assert tokenizer.encode_batch(pd.Series(TEXTS, dtype=kind)).to_lists() == expected
    with pytest.raises((SourceError, TypeError), match="text 1"):
        tokenizer.encode_batch(pd.Series(["a", None]))
    with pytest.raises(ConfigError, match=r"a table, not a column; its columns are `t`"):
        tokenizer.encode_batch(pd.DataFrame({"t": TEXTS}))


@pytest.mark.parametrize(
    "nothing",
    [[], (), iter([]), np.array([], object), pa.array([], pa.string()), pa.chunked_array([], pa.string()), pl.Series([], dtype=pl.String)],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_no_texts(tokenizer: Tokenizer, nothing: Any) -> None:
    batch = tokenizer.encode_batch(nothing)
    assert (len(batch), batch.num_tokens, batch.offsets.tolist()) == (0, 0, [0])
    assert batch.ids.dtype == np.uint16


def test_an_iterable_is_pulled_in_batches(
    tokenizer: Tokenizer, expected: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Text(str):
        """A string that can be watched."""

    alive: weakref.WeakSet[Text] = weakref.WeakSet()
    most_alive = 0

    def texts() -> Iterator[str]:
        nonlocal most_alive
        for text in TEXTS * 10:
            made = Text(text)
            alive.add(made)
            most_alive = max(most_alive, len(alive))
            yield made

    for name, most in (("BATCH_TEXTS", 4), ("BATCH_CHARS", 5), ("SLICE_TEXTS", 3)):
        with monkeypatch.context() as patched:
            patched.setattr(text_columns, name, most)
            assert tokenizer.encode_batch(texts()).to_lists() == expected * 10
            assert tokenizer.encode_batch(np.array(TEXTS * 10, object)).to_lists() == expected * 10
        if name != "SLICE_TEXTS":
            assert most_alive < 10


@pytest.mark.parametrize("wrong", [None, 5, ["the"], 1.5])
def test_what_is_no_text_is_named_by_its_position(
    tokenizer: Tokenizer, wrong: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_columns, "BATCH_TEXTS", 2)
    texts = ["the", "a", "b", wrong, "c"]
    for given in (texts, tuple(texts), iter(texts), np.array(texts, dtype=object)):
        with pytest.raises(TypeError, match=r"text 3\b.*(str|bytes)"):
            tokenizer.encode_batch(given)


def test_a_null_is_named_by_its_position(tokenizer: Tokenizer) -> None:
    for column in (
        pa.array(["a", "b", None]),
        pa.array(["-", "a", "b", None])[1:],
        pa.array(["a", "b", None], pa.string_view()),
        pa.array(["a", "b", None]).dictionary_encode(),
        pa.chunked_array([["a"], ["b", None]]),
        pl.Series(["a", "b", None]),
    ):
        with pytest.raises(SourceError, match="text 2 is null"):
            tokenizer.encode_batch(column)


def test_a_special_token_is_named_by_its_position(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_columns, "BATCH_TEXTS", 2)
    texts = ["the", "a", "b", "the<|end|>"]
    for given in (texts, iter(texts), pa.array(texts), pl.Series(texts)):
        with pytest.raises(VocabError, match=r"text 3: .*`<\|end\|>`"):
            tokenizer.encode_batch(given)
    for given in (texts, dict.fromkeys(texts).keys(), pa.array(texts)):
        allowed = tokenizer.encode_batch(given, allowed_special={"<|end|>"})
        assert allowed[3].tolist() == [257, 259]
        ordinary = tokenizer.encode_batch(given, disallowed_special=())
        assert ordinary[3].tolist() == tokenizer.encode_ordinary("the<|end|>")


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("the", "texts are one str"),
        (b"the", "texts are one bytes"),
        ({"text": ["the"]}, "texts are one dict"),
        (np.array([["a"], ["b"]]), "2 dimensions"),
        (pa.table({"a": ["x"], "n": [1]}), r"a table, not a column; its columns are `a` \(string\), `n` \(int64\)"),
        (pl.DataFrame({"a": ["x"]}), "a table, not a column"),
        (pa.array([1, 2]), "a column of `int64`"),
        (pa.array([["a"]]), "a column of `list<item: string>`"),
        (pa.array([1, 2]).dictionary_encode(), "a column of `int64`"),
    ],
)  # fmt: skip
def test_what_is_no_column_of_texts(tokenizer: Tokenizer, texts: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        tokenizer.encode_batch(texts)


@pytest.mark.parametrize("threads", [0, -1, True, 1.5, "2", 10**6])
def test_threads_must_make_sense(tokenizer: Tokenizer, threads: Any) -> None:
    for call in (tokenizer.encode_batch, tokenizer.encode_to_numpy, tokenizer.count_tokens):
        with pytest.raises(ConfigError, match=f"threads .*{threads}"):
            call(["a"] if call == tokenizer.encode_batch else "a", threads=threads)  # type: ignore[operator]
    with pytest.raises(ConfigError, match="threads"):
        tokenizer.encode_file("absent.txt", threads=threads)


@pytest.mark.parametrize(("vocab_size", "kind"), [(65_536, np.uint16), (65_537, np.uint32)])
def test_large_vocabs_have_wide_ids(vocab_size: int, kind: type) -> None:
    pairs = [divmod(number, 256) for number in range(vocab_size - 256)][::-1]
    tokens = [*BYTES.values(), *map(bytes, pairs)]
    merges = [(left, right, 256 + index) for index, (left, right) in enumerate(pairs)]
    tokenizer = Tokenizer.from_ids(tokens, merges, {}, "gpt2")
    batch = tokenizer.encode_batch(["a", b"\0\0"])
    assert batch.ids.dtype == tokenizer.encode_to_numpy("a").dtype == kind
    assert batch.to_lists() == [[97], [vocab_size - 1]]
    assert tokenizer.decode_batch(batch) == ["a", "\0\0"]


def test_decode_batch(tokenizer: Tokenizer) -> None:
    batch = tokenizer.encode_batch(TEXTS)
    assert tokenizer.decode_batch(batch) == TEXTS
    assert tokenizer.decode_batch(batch[1:3]) == TEXTS[1:3]
    assert tokenizer.decode_batch(batch.to_lists()) == TEXTS
    assert tokenizer.decode_batch(list(batch)) == TEXTS
    assert tokenizer.decode_batch(iter(batch.to_lists())) == TEXTS
    assert tokenizer.decode_batch(np.array([[97, 98], [99, 100]])) == ["ab", "cd"]
    assert tokenizer.decode_batch([]) == []
    assert tokenizer.decode_batch([[0xE6], [97]]) == ["\ufffd", "a"]
    assert tokenizer.decode_batch([[0xE6], [97]], errors="ignore") == ["", "a"]
    unknown = TokenBatch(np.array([97, 300], np.uint16), np.array([0, 1, 2]))
    for given in (unknown, unknown.to_lists()):
        with pytest.raises(
            VocabError, match="token id 300 is not in the vocab, ids run from 0 to 259"
        ):
            tokenizer.decode_batch(given)
