"""The agreed answers of cases.toml, on the reference and on the core."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from tokenmill import _core, reference
from tokenmill.tokenizer.formats.byte_letters import from_letters
from tokenmill.tokenizer.tokenizer import Tokenizer

CASES: dict[str, list[dict[str, Any]]] = tomllib.loads(
    Path(__file__).with_name("cases.toml").read_text()
)
BYTES = [bytes([byte]) for byte in range(256)]
Merge = tuple[int, int, int]


def by_name(table: str) -> list[Any]:
    return [pytest.param(case, id=case["name"]) for case in CASES[table]]


def ids_of_merges(written: list[str]) -> tuple[list[bytes], list[Merge]]:
    """Tokens by id and merges by ids; merges that spell the same bytes share an id."""
    tokens = list(BYTES)
    merges: list[Merge] = []
    for merge in written:
        left, right = (from_letters(part) for part in merge.split(" "))
        if left + right not in tokens:
            tokens.append(left + right)
        merges.append((tokens.index(left), tokens.index(right), tokens.index(left + right)))
    return tokens, merges


class Example:
    """One encoding case as values: special tokens follow the learned ones."""

    def __init__(self, case: dict[str, Any]) -> None:
        learned, self.merges = ids_of_merges(case["merges"])
        names = case.get("special_tokens", [])
        self.special_tokens = {name: len(learned) + i for i, name in enumerate(names)}
        self.tokens = [*learned, *(name.encode() for name in names)]
        self.allowed = {name: self.special_tokens[name] for name in case.get("allowed", names)}
        self.splitter = _core.Splitter(case.get("pattern", "gpt2"))
        self.text: str = case["text"]
        self.ids = [
            self.special_tokens.get(token) or self.tokens.index(from_letters(token))
            for token in case["tokens"]
        ]


@pytest.mark.parametrize("case", by_name("case"))
def test_reference_encodes(case: dict[str, Any]) -> None:
    example = Example(case)
    learned = reference.Learned(example.tokens, example.merges)
    ids = reference.encode(example.text.encode(), learned, example.splitter.split, example.allowed)
    assert ids == example.ids
    assert reference.decode(ids, example.tokens) == example.text.encode()


@pytest.mark.parametrize("case", by_name("case"))
def test_core_encodes(case: dict[str, Any]) -> None:
    example = Example(case)
    vocab = _core.Vocab(example.tokens, example.merges, example.special_tokens)
    allowed = list(example.allowed)
    for cache_bytes in (0, 1 << 24):
        bpe = _core.Bpe(vocab, example.splitter, cache_bytes=cache_bytes)
        for text in (example.text, example.text.encode()):
            assert bpe.encode(text, allowed, []) == example.ids
            assert bpe.encode_lists([text, text], allowed, [], 2) == [example.ids] * 2
            assert bpe.count(text, allowed, []) == len(example.ids)
            assert in_parts(bpe.stream(allowed, []), text) == example.ids
            assert memoryview(bpe.encode_start(text, 2, allowed, [])[0]).tolist() == example.ids[:2]
        assert bpe.decode_bytes(example.ids) == example.text.encode()


def in_parts(stream: _core.EncodeStream, text: str | bytes) -> list[int]:
    parts = [stream.feed(text[index : index + 1]) for index in range(len(text))]
    return [token_id for part in (*parts, stream.finish()) for token_id in memoryview(part)]


@pytest.mark.parametrize("case", by_name("case"))
def test_tokenizer_encodes(case: dict[str, Any]) -> None:
    example = Example(case)
    tokenizer = Tokenizer.from_ids(
        example.tokens, example.merges, example.special_tokens, case.get("pattern", "gpt2")
    )
    how: dict[str, Any] = {"allowed_special": list(example.allowed), "disallowed_special": ()}
    assert tokenizer.encode(example.text, **how) == example.ids
    assert tokenizer.encode_to_numpy(example.text, **how).tolist() == example.ids
    assert list(tokenizer.encode_iterable(example.text, **how)) == example.ids
    assert tokenizer.decode(example.ids) == example.text


def training_settings(case: dict[str, Any]) -> dict[str, Any]:
    known = {"name", "counts", "learn", "merges", "ties", "min_count", "max_token_bytes"}
    assert case.keys() <= known
    names = ("ties", "min_count", "max_token_bytes")
    return {name: case[name] for name in names if name in case}


def counts_of(case: dict[str, Any]) -> dict[bytes, int]:
    return {from_letters(pretoken): count for pretoken, count in case["counts"].items()}


@pytest.mark.parametrize("case", by_name("training"))
def test_reference_trains(case: dict[str, Any]) -> None:
    learned = reference.train(counts_of(case), 256 + case["learn"], **training_settings(case))
    assert (learned.tokens, learned.merges) == ids_of_merges(case["merges"])


@pytest.mark.parametrize("case", by_name("training"))
@pytest.mark.parametrize("threads", [1, 2])
def test_core_trains(case: dict[str, Any], threads: int) -> None:
    learned = _core.train_merges(
        _core.Counts.from_mapping(counts_of(case)),
        num_tokens=256 + case["learn"],
        threads=threads,
        **training_settings(case),
    )
    assert (learned.tokens(), learned.triples()) == ids_of_merges(case["merges"])


def test_case_names_are_unique() -> None:
    names = [case["name"] for table in CASES.values() for case in table]
    assert len(names) == len(set(names)) >= 40
