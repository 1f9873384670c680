"""What is proved about a vocab: unreachable tokens, free ids, and whether tiktoken agrees."""

from tokenmill import _core
from tokenmill.tokenizer.vocab import Vocab, vocab_from_bytes

BYTES = {byte: bytes([byte]) for byte in range(256)}


def vocab_of(tokens: list[bytes], merges: list[tuple[int, int, int]], **kwargs: bool) -> Vocab:
    return Vocab(_core.Vocab([*BYTES.values(), *tokens], merges, {}, **kwargs), "gpt2")


def test_what_training_makes() -> None:
    vocab = vocab_from_bytes(
        BYTES | {256: b"ab", 257: b"abc"}, [(b"a", b"b"), (b"ab", b"c")], ["<s>"], "gpt2"
    )
    proof = vocab.proof
    assert proof.agrees
    assert (proof.unreachable, proof.ids_without_token, proof.unused_merges) == ((), (), 0)
    assert vocab.proof is proof, "found once"


def test_unreachable_tokens() -> None:
    tokens = [b"ab", b"bc", b"abc", b"xyz"]
    merges = [(97, 98, 256), (98, 99, 257), (97, 257, 258)]
    by_merges = vocab_of(tokens, merges).proof
    assert by_merges.unreachable == (258, 259)
    assert not by_merges.agrees
    assert by_merges.unused_merges == 1
    # tiktoken makes `abc` from `ab` and `c`, which these merges never do.
    at_once = vocab_of(tokens, merges, ignore_merges=True).proof
    assert at_once.difference == (
        "the merges make token 258, `abc`, not at all, tiktoken makes it from `ab` and `c`"
    )
    both = vocab_of(tokens, [*merges, (256, 99, 258)], ignore_merges=True).proof
    assert both.unreachable == (259,)
    assert both.agrees


def test_ranks_that_rise_otherwise() -> None:
    proof = vocab_of([b"cd", b"ab"], [(97, 98, 257), (99, 100, 256)]).proof
    assert proof.difference == "merge 1 makes id 256 after 257, and tiktoken merges by lowest id"


def test_a_token_made_from_other_parts() -> None:
    # `b c` comes first, but only as a merge: its token has a higher id than `ab`.
    tokens = [b"ab", b"abc", b"bc"]
    merges = [(97, 98, 256), (256, 99, 257), (98, 99, 258)]
    assert vocab_of(tokens, merges).proof.agrees
    first = vocab_of(tokens, [(98, 99, 258), (97, 98, 256), (97, 258, 257)]).proof
    assert first.difference == "merge 1 makes id 256 after 258, and tiktoken merges by lowest id"
