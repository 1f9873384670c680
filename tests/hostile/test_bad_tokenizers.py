"""Truncated, lying and huge tokenizer files: an error naming the file, never a hang or a panic.

A panic arrives as a BaseException, so whatever is not one of our errors fails these tests.
"""

import base64
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tokenmill.errors import TokenmillError
from tokenmill.tokenizer.formats import gpt2_files, huggingface_json, tiktoken_ranks
from tokenmill.tokenizer.tokenizer import Tokenizer
from tokenmill.tokenizer.vocab import Vocab, vocab_from_bytes

BYTES = {byte: bytes([byte]) for byte in range(256)}


def example() -> Vocab:
    merges = [(b"t", b"h"), (b"th", b"e"), (b" ", b"the"), (b"\xe6", b"\x97")]
    vocab = BYTES | {256 + i: left + right for i, (left, right) in enumerate(merges)}
    return vocab_from_bytes(vocab, merges, ["<|end|>", "日本"], "gpt4")


def files() -> dict[str, dict[str, bytes]]:
    """Name of the file to damage → all files that belong to it."""
    ranks = tiktoken_ranks.write(example())
    pair = gpt2_files.write(example())
    return {
        "tokenizer.json": {"tokenizer.json": huggingface_json.write(example())},
        "ranks.tiktoken": ranks,
        "ranks.json": ranks,
        "vocab.json": pair,
        "merges.txt": pair,
    }


NAMES = sorted(files())
FIRST = {"ranks.json": "ranks.tiktoken"}


def load(folder: Path, name: str, data: bytes) -> Tokenizer | str:
    """The tokenizer, or what the error says. Anything but an error of ours is a failure."""
    for other, content in files()[name].items():
        (folder / other).write_bytes(data if other == name else content)
    try:
        return Tokenizer.load(folder / FIRST.get(name, name))
    except TokenmillError as error:
        message = error.message
    assert str(folder) in message
    message.encode("utf-8", "surrogatepass")
    return message


@pytest.mark.parametrize("name", NAMES)
def test_cut_anywhere(tmp_path: Path, name: str) -> None:
    data = files()[name][name]
    whole = load(tmp_path, name, data)
    assert isinstance(whole, Tokenizer)
    step = max(1, len(data) // 150)
    for end in [*range(0, len(data), step), len(data) - 1]:
        cut = load(tmp_path, name, data[:end])
        if isinstance(cut, Tokenizer):
            assert data[end:].strip() == b""
            assert cut == whole


@pytest.mark.parametrize("name", NAMES)
def test_damaged_anywhere(tmp_path: Path, name: str) -> None:
    data = files()[name][name]
    rng = random.Random(name)
    messages = set()
    for _ in range(250):
        damaged = bytearray(data)
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(damaged))
            kind = rng.randrange(4)
            if kind == 0:
                damaged[at] ^= 1 << rng.randrange(8)
            elif kind == 1:
                del damaged[at : at + rng.randint(1, 40)]
            elif kind == 2:
                damaged[at:at] = data[at : at + rng.randint(1, 40)]
            else:
                damaged[at:at] = rng.choice(
                    [b'"', b"[", b"{", b"\\ud800", b"9" * 30, b"\xff", b"\0"]
                )
            if not damaged:
                break
        found = load(tmp_path, name, bytes(damaged))
        if isinstance(found, str):
            messages.add(found)
        else:
            assert found.decode(found.encode_ordinary("the 日本 12")) == "the 日本 12"
    assert len(messages) > 20


VALUES: list[Any] = [None, True, -1, 1.5, 10**30, "", "x", "\ud800", [], [[]], {}, {"a": {"b": 1}}]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(value, dict):
        for key in list(value)[:8]:
            yield from places(value[key], (*path, key))
    elif isinstance(value, list):
        for index in range(min(len(value), 2)):
            yield from places(value[index], (*path, index))


def test_any_value_anywhere(tmp_path: Path) -> None:
    text = huggingface_json.write(example()).decode()
    refused = accepted = 0
    for path in places(json.loads(text)):
        for value in VALUES:
            document = json.loads(text)
            target = document
            for key in path[:-1]:
                target = target[key]
            if path:
                target[path[-1]] = value
            else:
                document = value
            found = load(tmp_path, "tokenizer.json", json.dumps(document).encode())
            refused += isinstance(found, str)
            accepted += isinstance(found, Tokenizer)
    assert refused > 300
    assert 0 < accepted < 100


def chain(length: int) -> bytes:
    """A tokenizer.json with one token of `length` letters more at each merge."""
    document = json.loads(huggingface_json.write(vocab_from_bytes(BYTES, [], [], "gpt2")))
    model = document["model"]
    model["vocab"] |= {"a" * (n + 2): 256 + n for n in range(length)}
    model["merges"] = [["a" * (n + 1), "a"] for n in range(length)]
    return json.dumps(document).encode()


def test_merges_that_need_their_own_result(tmp_path: Path) -> None:
    document = json.loads(chain(3))
    document["model"]["merges"] = [["aaaa", "a"], ["aa", "aa"], ["aaa", "a"], ["a", "aaa"]]
    document["model"]["vocab"]["aaaaa"] = 259
    message = load(tmp_path, "tokenizer.json", json.dumps(document).encode())
    assert "is not a token at that point" in str(message)


def test_deep_nesting_everywhere(tmp_path: Path) -> None:
    deep = "[" * 200_000 + "]" * 200_000
    text = huggingface_json.write(example()).decode()
    for old in ('"truncation": null', '"padding": null', '"normalizer": null', '"dropout": null'):
        key = old.partition(":")[0]
        message = load(tmp_path, "tokenizer.json", text.replace(old, f"{key}: {deep}").encode())
        assert "nested too deeply" in str(message)
    for old in ('"merges": [', '"vocab": {'):
        key = old.partition(":")[0]
        changed = text.replace(old, f"{key}: {deep}, {key[:-1]}2" + '": ' + old[-1])
        assert isinstance(load(tmp_path, "tokenizer.json", changed.encode()), str)
    for name in ("ranks.json", "vocab.json"):
        assert isinstance(load(tmp_path, name, deep.encode()), str)
        assert isinstance(load(tmp_path, name, b'{"a":' * 200_000), str)


def seconds(data: bytes, special_tokens: dict[str, int] | None = None) -> float:
    start = time.perf_counter()
    tiktoken_ranks.read_ranks(data, special_tokens or {}, "gpt2")
    return time.perf_counter() - start


def ranks_of(tokens: list[bytes]) -> bytes:
    everything = [*BYTES.values(), *tokens]
    lines = [base64.b64encode(token) + b" %d\n" % rank for rank, token in enumerate(everything)]
    return b"".join(lines)


@pytest.mark.parametrize(
    "tokens",
    [
        lambda size: [b"a" * (1 << power) for power in range(1, size.bit_length())],
        lambda size: [b"ab", b"abab", (b"ab" * size)[: size - 1]],
        lambda size: [random.Random(1).randbytes(size)],
        lambda size: [b"ab" * size, *(b"a" * n for n in range(2, int(size**0.5)))],
    ],
    ids=["powers", "a run nothing makes", "noise", "a run beside a chain"],
)
def test_long_tokens_cost_what_they_weigh(tokens: Any) -> None:
    small, large = ranks_of(tokens(1 << 17)), ranks_of(tokens(1 << 20))
    best = min(seconds(small) for _ in range(3))
    # Eight times the size; a square would be 64 times.
    assert min(seconds(large) for _ in range(2)) < 30 * best + 0.2


def test_numbers_that_claim_more_than_there_is(tmp_path: Path) -> None:
    text = huggingface_json.write(example()).decode()
    for number in ("4294967295", "2147483647", "1e300", "9" * 400):
        changed = text.replace('"<|end|>": 260', f'"<|end|>": {number}')
        assert changed != text
        assert isinstance(load(tmp_path, "tokenizer.json", changed.encode()), str)
        both = changed.replace('"id": 260', f'"id": {number}')
        assert isinstance(load(tmp_path, "tokenizer.json", both.encode()), str)
    ranks = files()["ranks.tiktoken"]["ranks.tiktoken"]
    assert isinstance(load(tmp_path, "ranks.tiktoken", ranks + b"YWJjZA== 4294967290\n"), str)
    settings = json.loads(files()["ranks.json"]["ranks.json"])
    settings["special_tokens"]["<|end|>"] = 2_000_000_000
    assert isinstance(load(tmp_path, "ranks.json", json.dumps(settings).encode()), str)


MEMORY = """
import resource, sys
from pathlib import Path
from tokenmill.errors import TokenmillError
from tokenmill.tokenizer.tokenizer import Tokenizer
import json, unicodedata
path = Path(sys.argv[1])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    Tokenizer.load(path, **({"pattern": "gpt2"} if path.suffix == ".tiktoken" else {}))
except TokenmillError as error:
    print(len(str(error)))
else:
    print("loaded")
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


@pytest.mark.parametrize(
    ("name", "start", "middle"),
    [
        ("tokenizer.json", b'{"model": {"vocab": {"', b"a"),
        ("tokenizer.json", b'{"model": {"merges": ["', b"a"),
        ("tokenizer.json", b'{"model": {"merges": [', b'"a b",'),
        ("tokenizer.json", b'{"model": {"vocab": {', b'"a":1,'),
        ("tokenizer.json", b'{"added_tokens": "', b"a"),
        ("x.tiktoken", b"", b"YWFh"),
        ("x.tiktoken", b"", b"YQ== 1\n"),
    ],
)
def test_memory_is_bounded_by_the_file(
    tmp_path: Path, name: str, start: bytes, middle: bytes
) -> None:
    megabytes = 24
    file = tmp_path / name
    file.write_bytes(start + middle * ((megabytes << 20) // len(middle)))
    run = subprocess.run(
        [sys.executable, "-c", MEMORY, str(file)], capture_output=True, text=True, check=True
    )
    said, used = run.stdout.split()
    assert int(said) < 2000, "a message is short, whatever the file holds"
    assert float(used) < 12 * megabytes


def test_special_tokens_by_the_thousand(tmp_path: Path) -> None:
    document = json.loads(huggingface_json.write(vocab_from_bytes(BYTES, [], [], "gpt2")))
    document["added_tokens"] = [
        {"id": 256 + i, "content": f"<{i}>", "special": True, "normalized": i % 2 == 0}
        for i in range(20_000)
    ]
    message = load(tmp_path, "tokenizer.json", json.dumps(document).encode())
    assert "too many special tokens of both kinds" in str(message)
    for added in document["added_tokens"]:
        added["normalized"] = False
    loaded = load(tmp_path, "tokenizer.json", json.dumps(document).encode())
    assert isinstance(loaded, Tokenizer)
    assert loaded.encode("<7><19999>", allowed_special="all") == [263, 20_255]
