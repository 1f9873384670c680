"""One tokenizer in many hands: threads, forked and spawned processes, pickles and copies."""

import copy
import multiprocessing
import os
import pickle
import signal
import threading
import weakref
from typing import Any

import pytest

from tokenmill import _core
from tokenmill.errors import ConfigError, VocabError
from tokenmill.tokenizer.tokenizer import Tokenizer
from tokenmill.tokenizer.vocab import Extras, Vocab

BYTES = {byte: bytes([byte]) for byte in range(256)}
MERGES = [(b"t", b"h"), (b"th", b"e"), (b" ", b"the")]
VOCAB = BYTES | {256: b"th", 257: b"the", 258: b" the"}
TEXTS = [f"the {number} cats sat on the mat, größer 漢字 {'ab' * number}" for number in range(200)]


@pytest.fixture
def tokenizer() -> Tokenizer:
    return Tokenizer.from_vocab(VOCAB, MERGES, ["<|end|>"], "gpt4")


def test_sixteen_threads_on_one_tokenizer(tokenizer: Tokenizer) -> None:
    """All calls there are, at once, with every answer looked at."""
    expected = [tokenizer.encode(text) for text in TEXTS]
    wrong: list[object] = []
    start = threading.Barrier(16)

    def work(number: int) -> None:
        start.wait()
        try:
            for _ in range(3):
                for text, ids in zip(TEXTS, expected, strict=True):
                    if tokenizer.encode(text) != ids or tokenizer.decode(ids) != text:
                        wrong.append(text)
                if tokenizer.encode_batch(TEXTS, threads=1 + number % 3).to_lists() != expected:
                    wrong.append("batch")
                if list(tokenizer.encode_iterable([TEXTS[number]])) != expected[number]:
                    wrong.append("stream")
                if tokenizer.encode("<|end|>", allowed_special={"<|end|>"}) != [259]:
                    wrong.append("special")
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong
    assert not any(thread.is_alive() for thread in threads)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_use_after_a_fork(tokenizer: Tokenizer) -> None:
    """As PyTorch's loaders do on Linux: used with threads, forked while used, used in the child."""
    long = " ".join(TEXTS) * 20
    expected = tokenizer.encode_to_numpy(long, threads=2).tolist()
    busy = threading.Event()
    stop = threading.Event()

    def keep_busy() -> None:
        while not stop.is_set():
            tokenizer.encode_batch(TEXTS, threads=2)
            busy.set()

    background = threading.Thread(target=keep_busy)
    background.start()
    assert busy.wait(30)
    try:
        for _ in range(3):
            child = os.fork()
            if child == 0:
                signal.alarm(30)  # a child that hangs dies of it, and the parent sees that
                same = tokenizer.encode_to_numpy(long, threads=2).tolist() == expected
                same &= tokenizer.encode_batch(TEXTS, threads=4).to_lists()[3] == tokenizer.encode(
                    TEXTS[3]
                )
                os._exit(0 if same else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        background.join(30)


def encode_there(tokenizer: Tokenizer, text: str) -> list[int]:
    return tokenizer.encode(text, allowed_special="all")


def test_a_spawned_process(tokenizer: Tokenizer) -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        ids = pool.apply(encode_there, (tokenizer, "the<|end|>漢"))
    assert ids == tokenizer.encode("the<|end|>漢", allowed_special="all")


def again(tokenizer: Tokenizer) -> Tokenizer:
    return pickle.loads(pickle.dumps(tokenizer))  # noqa: S301  our own bytes


@pytest.mark.parametrize("pattern", ["gpt2", "llama3", r"\p{N}{1,3}+|\S+|\s++$|\s"])
def test_pickle(pattern: str) -> None:
    tokenizer = Tokenizer.from_vocab(VOCAB, MERGES, ["<|end|>"], pattern)
    copied = again(tokenizer)
    assert copied == tokenizer
    assert copied.pattern == tokenizer.pattern
    assert copied.encode("the 12345") == tokenizer.encode("the 12345")


def test_a_pickle_carries_everything_but_the_report() -> None:
    # An id without a token, a special token that Hugging Face's letters would spell as well, NFC.
    tokens = [*VOCAB.values(), b"ab", b"", "Ġ".encode()]
    core = _core.Vocab(tokens, [(116, 104, 256)], {"Ġ": 261}, ignore_merges=True)
    extras = Extras(chat_template="{{ messages }}", not_special=frozenset({"Ġ"}))
    tokenizer = Tokenizer(Vocab(core, "gpt2", "nfc", extras)).with_training("report")
    copied = again(tokenizer)
    assert copied == tokenizer
    assert copied._vocab == tokenizer._vocab
    assert (copied.normalizer, copied.ignore_merges, copied.vocab_size) == ("nfc", True, 262)
    assert copied.chat_template == "{{ messages }}"
    assert copied.encode("ab e\u0301") == tokenizer.encode("ab e\u0301") == [259, 32, 0xC3, 0xA9]
    assert (tokenizer.training, copied.training) == ("report", None)


def test_a_pickle_is_checked_when_read(tokenizer: Tokenizer) -> None:
    rebuild: Any
    parts: Any
    rebuild, parts = tokenizer.__reduce__()
    assert rebuild(*parts) == tokenizer
    tokens, merges, *rest = parts
    with pytest.raises(VocabError, match="into id 256, which spells `th`"):
        rebuild(tokens, [(1, 2, 256)], *rest)
    with pytest.raises(VocabError, match="no token for byte 0x00"):
        rebuild(tokens[1:], [], {}, *rest[1:])
    with pytest.raises(ConfigError, match="unclosed"):
        rebuild(tokens, merges, *rest[:2], "(unclosed", *rest[3:])


def test_copies_are_the_tokenizer_itself(tokenizer: Tokenizer) -> None:
    assert copy.copy(tokenizer) is tokenizer
    assert copy.deepcopy({"tokenizer": tokenizer})["tokenizer"] is tokenizer


def test_frozen(tokenizer: Tokenizer) -> None:
    for name in ("_vocab", "_bpe", "pattern", "training", "new_name"):
        with pytest.raises(AttributeError, match=f"never changes: `{name}` cannot be set"):
            setattr(tokenizer, name, None)
    with pytest.raises(AttributeError, match="never changes"):
        del tokenizer.training
    assert not hasattr(tokenizer, "__dict__")
    assert weakref.ref(tokenizer)() is tokenizer


def test_a_report_goes_with_the_same_tokenizer(tokenizer: Tokenizer) -> None:
    reported = tokenizer.with_training("report")
    assert (reported.training, tokenizer.training) == ("report", None)
    assert reported == tokenizer
    assert reported._bpe is tokenizer._bpe
