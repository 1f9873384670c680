"""ranks.tiktoken: written when tiktoken gives the same ids, and only then."""

import json
import random

import pytest
import tiktoken

from tokenmill.errors import FormatError
from tokenmill.tokenizer.artifact import build_bpe
from tokenmill.tokenizer.formats import tiktoken_ranks
from tokenmill.tokenizer.vocab import Vocab, vocab_from_bytes

BYTES = {byte: bytes([byte]) for byte in range(256)}


def vocab_of(merges: list[str], ids: list[int] | None = None, pattern: str = "gpt2") -> Vocab:
    """A vocab with `merges` like "a b"; new tokens take `ids`, else 256 and on."""
    halves = [merge.encode().split(b" ") for merge in merges]
    pairs = [(left, right) for left, right in halves]
    tokens = list(dict.fromkeys(left + right for left, right in pairs))
    ids = ids or list(range(256, 256 + len(tokens)))
    return vocab_from_bytes(BYTES | dict(zip(ids, tokens, strict=True)), pairs, [], pattern)


def obstacle(vocab: Vocab) -> str | None:
    return tiktoken_ranks.obstacle(vocab, build_bpe(vocab).unreachable())


def test_no_obstacle_for_what_training_makes() -> None:
    assert obstacle(vocab_of(["a b", "ab c", "b c"])) is None


def test_obstacles() -> None:
    shared = vocab_of(["a b", "ab c", "b c", "a bc"])
    assert obstacle(shared) == (
        "merge 3 makes `abc` again, and tiktoken has one rank for each token"
    )
    swapped = vocab_of(["a b", "c d"], ids=[257, 256])
    assert obstacle(swapped) == ("merge 1 makes id 256 after 257, and tiktoken merges by lowest id")
    unreachable = vocab_of(["a b", "b c", "a bc"])
    assert obstacle(unreachable) == (
        "no merges lead to token 258, `abc`, but tiktoken would make it anyway"
    )


def as_tiktoken(vocab: Vocab) -> tiktoken.Encoding:
    files = tiktoken_ranks.write(vocab)
    ranks = tiktoken_ranks.read_ranks(files["ranks.tiktoken"])
    return tiktoken.Encoding(mergeable_ranks=ranks, **json.loads(files["ranks.json"]))


def test_without_obstacle_all_ids_are_equal_and_with_one_some_are_not() -> None:
    # Random merges over two letters, most of them nothing training would make.
    rng = random.Random(5)
    texts = ["".join(rng.choice("ab") for _ in range(rng.randint(1, 12))) for _ in range(60)]
    same = different = 0
    for _ in range(300):
        tokens = ["a", "b"]
        merges: list[str] = []
        for _ in range(rng.randint(1, 6)):
            merge = f"{rng.choice(tokens)} {rng.choice(tokens)}"
            if merge not in merges:
                merges.append(merge)
                tokens.append(merge.replace(" ", ""))
        ids = list(range(256, 256 + len(set(tokens)) - 2))
        if rng.random() < 0.2:
            rng.shuffle(ids)
        vocab = vocab_of(merges, ids)
        bpe, theirs = build_bpe(vocab), as_tiktoken(vocab)
        equal = all(bpe.encode(text, []) == theirs.encode_ordinary(text) for text in texts)
        if obstacle(vocab) is None:
            assert equal, merges
            same += 1
        else:
            different += not equal
    assert same >= 50
    assert different >= 50


def test_settings_beside_the_ranks() -> None:
    vocab = vocab_from_bytes(BYTES, [], ["<s>"], "gpt4")
    settings = json.loads(tiktoken_ranks.write(vocab)["ranks.json"])
    assert settings["name"] == "gpt4-257"
    assert settings["special_tokens"] == {"<s>": 256}
    assert settings["explicit_n_vocab"] == 257
    assert settings["pat_str"].startswith("(?i:'s|")


def test_notes() -> None:
    assert tiktoken_ranks.notes(vocab_from_bytes(BYTES, [], ["<s>", "<t>"], "gpt4")) == []
    (gaps,) = tiktoken_ranks.notes(vocab_from_bytes(BYTES, [], [], "[a-z]+"))
    assert "drops text that no match" in gaps
    (prefix,) = tiktoken_ranks.notes(vocab_from_bytes(BYTES, [], ["<s>", "<s><t>"], "gpt4"))
    assert "`<s><t>`" in prefix


@pytest.mark.parametrize(
    "data", [b"YQ== 0\nYg==\n", b"YQ== 0\nYg== x\n", b"YQ== 0\n!!! 1\n", b"YQ== 0\nYQ== 1 2\n"]
)
def test_broken_lines(data: bytes) -> None:
    with pytest.raises(FormatError, match=r"`ranks\.tiktoken` line 2 is not"):
        tiktoken_ranks.read_ranks(data)


def test_repeated_token() -> None:
    with pytest.raises(FormatError, match="line 2 gives `a` a second rank"):
        tiktoken_ranks.read_ranks(b"YQ== 0\nYQ== 1\n")
