"""Text that encoders choke on: endless runs, patterns that explode. The right ids, in linear time, on a small stack.

Time is only ever compared with time: eight times the text may take three times as long as a linear encoder would
need, where a quadratic one takes eight times that.
"""

import functools
import random
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
import regex
import tiktoken

from tokenmill import _core, reference
from tokenmill.errors import ConfigError
from tokenmill.tokenizer.tokenizer import Tokenizer

LEAST_SIZE = 16_000
MOST_SIZE = 256_000
MEASURABLE_SECONDS = 1e-3
TIMES_LARGER = 8
MOST_TIMES_LONGER = 3 * TIMES_LARGER
NAMED = _core.named_patterns()
BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
FAMILY_EMOJI = "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466\u200d"


def any_of(characters: str) -> Callable[[int], str]:
    """Characters in no order, repeated after some fifty thousand: making them is slower than encoding them."""
    block = "".join(random.Random(len(characters)).choices(characters, k=50_021))
    return lambda number: (block * (number // len(block) + 1))[:number]


FAMILIES: dict[str, Callable[[int], str]] = {
    "one letter": lambda number: "a" * number,
    "spaces": lambda number: " " * number,
    "newlines": lambda number: "\n" * number,
    "digits": any_of("0123456789"),
    "base64": any_of(BASE64),
    "ideographs": any_of("".join(map(chr, range(0x4E00, 0x9FA6)))),
    "emoji joiners": lambda number: (FAMILY_EMOJI * (number // 8 + 1))[:number],
    "combining marks": lambda number: "e" + any_of("".join(map(chr, range(0x300, 0x370))))(number),
    "spaces and a letter": lambda number: " " * number + "x",
    "line ends": lambda number: "\r\n" * (number // 2),
    "letters": any_of("abcdefghijklmnopqrstuvwxyz"),
    "one sign": lambda number: "^" * number,
    "contractions": lambda number: "'s" * (number // 2),
}
"""Name → a text of so many characters."""


@functools.cache
def trained(pattern: str) -> Tokenizer:
    """On runs of all lengths of every family, so that its tokens are long ones too."""
    documents = [make(size) for make in FAMILIES.values() for size in (*range(1, 130, 3), 700)]
    counter = _core.Counter(_core.Splitter(pattern), 1)
    counter.count(_core.Reader(), iter([_core.Source.strings(iter(documents * 2), name="runs")]))
    merges = _core.train_merges(counter.take(), num_tokens=3_000, min_count=2)
    return Tokenizer.from_ids(merges.tokens(), merges.triples(), {}, pattern)


@functools.cache
def learned(pattern: str) -> reference.Learned:
    tokenizer = trained(pattern)
    tokens = [tokenizer.token_bytes(token_id) for token_id in range(tokenizer.vocab_size)]
    id_of = {token: token_id for token_id, token in enumerate(tokens)}
    merges = [(id_of[a], id_of[b], id_of[a + b]) for a, b in tokenizer.merges]
    return reference.Learned(tokens, merges)


def reference_ids(text: str, pattern: str) -> list[int]:
    """Cut by Python's `regex`, merged by plain Python."""
    compiled = regex.compile(NAMED[pattern])
    return reference.encode(
        text.encode(),
        learned(pattern),
        lambda part: [match.encode() for match in compiled.findall(part.decode())],
        {},
    )


@pytest.mark.parametrize("pattern", NAMED)
@pytest.mark.parametrize("family", FAMILIES)
def test_small_runs_are_as_in_the_reference(family: str, pattern: str) -> None:
    tokenizer = trained(pattern)
    for size in (1, 2, 3, 16, 17, 33, 64, 65, 100, 129, 257):
        text = FAMILIES[family](size)
        ids = tokenizer.encode(text)
        assert ids == reference_ids(text, pattern), size
        assert tokenizer.decode(ids) == text


@pytest.mark.parametrize("pattern", ["gpt2", "gpt4", "cl100k", "gpt4o"])
@pytest.mark.parametrize("family", FAMILIES)
def test_longer_runs_are_as_in_tiktoken(family: str, pattern: str) -> None:
    tokenizer = trained(pattern)
    ranks = {token: token_id for token_id, token in tokenizer.vocab.items()}
    theirs = tiktoken.Encoding(
        "runs", pat_str=NAMED[pattern], mergeable_ranks=ranks, special_tokens={}
    )
    for size in (1_000, 20_011):
        text = FAMILIES[family](size)
        ids = tokenizer.encode(text)
        assert ids == theirs.encode_ordinary(text), size
        assert tokenizer.decode(ids) == text
        # In the middle of other text a run is the same pretokens, whoever works on it.
        inside = f"one {text} two"
        assert tokenizer.encode(inside) == theirs.encode_ordinary(inside), size


def least_seconds(tokenizer: Tokenizer, text: str) -> float:
    """Of processor time: what other programs do meanwhile must not count."""
    seconds: list[float] = []
    for _ in range(2):
        start = time.process_time()
        tokenizer.encode_to_numpy(text, threads=1)
        seconds.append(time.process_time() - start)
    return min(seconds)


def times_longer(tokenizer: Tokenizer, make: Callable[[int], str]) -> float:
    """How much longer eight times the text takes, from the least that takes long enough to be measured.

    The best of three tries: a slow moment of the machine makes a ratio large, nothing makes it small.
    """
    size = LEAST_SIZE
    while (small := least_seconds(tokenizer, make(size))) < MEASURABLE_SECONDS and size < MOST_SIZE:
        size *= 4
    ratios: list[float] = []
    for _ in range(3):
        large = least_seconds(tokenizer, make(TIMES_LARGER * size))
        ratios.append(large / max(small, 1e-4))
        if ratios[-1] <= MOST_TIMES_LONGER:
            break
        small = least_seconds(tokenizer, make(size))
    return min(ratios)


@pytest.mark.parametrize("family", FAMILIES)
def test_time_grows_with_the_text_and_not_with_its_square(family: str) -> None:
    assert times_longer(trained("gpt4"), FAMILIES[family]) <= MOST_TIMES_LONGER


@functools.cache
def bytes_only(pattern: str) -> Tokenizer:
    vocab = {byte: bytes([byte]) for byte in range(256)}
    return Tokenizer.from_vocab(vocab, [], [], pattern)


@pytest.mark.parametrize("pattern", NAMED)
@pytest.mark.parametrize("family", FAMILIES)
def test_time_to_cut_grows_with_the_text(family: str, pattern: str) -> None:
    """Without merges, what is left is the pattern, which looks ahead from every space."""
    assert times_longer(bytes_only(pattern), FAMILIES[family]) <= MOST_TIMES_LONGER


def random_vocab(rng: random.Random) -> tuple[dict[int, bytes], list[tuple[bytes, bytes]]]:
    """Merges over two letters in an order that no training gives; some can never apply, some share a token."""
    tokens = [b"a", b"b"]
    merges: list[tuple[bytes, bytes]] = []
    for _ in range(rng.randint(2, 40)):
        merge = (rng.choice(tokens), rng.choice(tokens))
        if merge not in merges and len(b"".join(merge)) <= 24:
            merges.append(merge)
            tokens.append(b"".join(merge))
    new = list(dict.fromkeys(left + right for left, right in merges))
    return {byte: bytes([byte]) for byte in range(256)} | dict(enumerate(new, 256)), merges


def test_long_pretokens_under_merges_that_no_training_makes() -> None:
    rng = random.Random(30)
    shared = 0
    for _ in range(80):
        vocab, merges = random_vocab(rng)
        shared += len(vocab) < 256 + len(merges)
        tokenizer = Tokenizer.from_vocab(vocab, merges, [], "gpt2")
        id_of = {token: token_id for token_id, token in vocab.items()}
        triples = [(id_of[a], id_of[b], id_of[a + b]) for a, b in merges]
        plain = reference.Learned([vocab[i] for i in range(len(vocab))], triples)
        for size in (40, 130, 300):
            text = "".join(rng.choices("ab", weights=(rng.random() + 0.1, 0.5), k=size))
            ids = reference.encode(text.encode(), plain, lambda stretch: [stretch], {})
            assert tokenizer.encode(text) == ids, (merges, text)
    assert shared >= 10


def test_time_under_merges_that_no_training_makes() -> None:
    rng = random.Random(31)
    for _ in range(6):
        vocab, merges = random_vocab(rng)
        tokenizer = Tokenizer.from_vocab(vocab, merges, [], "gpt2")
        assert times_longer(tokenizer, any_of("ab")) <= MOST_TIMES_LONGER, merges
        assert times_longer(tokenizer, FAMILIES["one letter"]) <= MOST_TIMES_LONGER, merges


def test_every_run_of_a_letter_is_a_token() -> None:
    """Where a token that fits is always followed by one a little longer, an encoder that tries them all is slow."""
    tokens = [bytes([byte]) for byte in range(256)] + [b"a" * length for length in range(2, 400)]
    ranks = {token: rank for rank, token in enumerate(tokens)}
    tokenizer = Tokenizer.from_ranks(ranks, {}, "gpt2")
    theirs = tiktoken.Encoding(
        "runs", pat_str=NAMED["gpt2"], mergeable_ranks=ranks, special_tokens={}
    )
    for size in (*range(1, 1_000, 37), 5_003):
        assert tokenizer.encode("a" * size) == theirs.encode("a" * size), size
    assert times_longer(tokenizer, FAMILIES["one letter"]) <= MOST_TIMES_LONGER


# A thread with half a megabyte of stack, as some servers and all secondary threads of macOS have: what recurses once
# per character or per merge ends the process there, so it runs in one of its own.
ON_A_SMALL_STACK = """
import sys, threading
from tokenmill import Tokenizer

folder, number, characters = sys.argv[1], int(sys.argv[2]), sys.argv[3]
tokenizer = Tokenizer.load(folder)
done = []

def work():
    for character in characters:
        text = character * number
        ids = tokenizer.encode_to_numpy(text)
        assert tokenizer.decode(ids) == text
        assert tokenizer.count_tokens(text) == len(ids)
        assert (tokenizer.encode_to_numpy(text, threads=2) == ids).all()
        done.append(len(ids))

threading.stack_size(512 * 1024)
thread = threading.Thread(target=work)
thread.start()
thread.join()
print(*done)
"""


def run_on_a_small_stack(folder: str, number: int, characters: str) -> list[int]:
    done = subprocess.run(
        [sys.executable, "-c", ON_A_SMALL_STACK, folder, str(number), characters],
        capture_output=True,
        text=True,
        check=False,
        timeout=1_200,
    )
    assert done.returncode == 0, done.stderr[-2_000:] or f"ended by signal {-done.returncode}"
    return [int(word) for word in done.stdout.split()]


def test_16_megabytes_of_one_character_on_a_small_stack(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = trained("cl100k").save(tmp_path_factory.mktemp("stack") / "tok")
    numbers = run_on_a_small_stack(str(folder), 16_000_000, "a ")
    assert len(numbers) == 2
    assert min(numbers) >= 16_000_000 // 800


@pytest.mark.slow
def test_256_megabytes_of_one_character_on_a_small_stack(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = trained("gpt4").save(tmp_path_factory.mktemp("stack") / "tok")
    assert len(run_on_a_small_stack(str(folder), 256 << 20, "a ")) == 2


@pytest.mark.parametrize("pattern", ["gpt2", "gpt4", "cl100k"])
def test_a_million_spaces_before_a_letter(pattern: str) -> None:
    """tiktoken's regex overflows its stack here."""
    tokenizer = trained(pattern)
    text = " " * 1_000_000 + "x"
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    # The letter takes the last space along.
    assert ids == tokenizer.encode(" " * 999_999) + tokenizer.encode(" x")


EXPLODES = """
import sys
from tokenmill import Tokenizer
from tokenmill.errors import SourceError

folder = sys.argv[1]
tokenizer = Tokenizer.load(folder)
text = "b " * 1000 + "a" * 5000 + "c"
for work in (
    lambda: tokenizer.encode(text),
    lambda: tokenizer.encode_to_numpy(text, threads=2),
    lambda: list(tokenizer.encode_iterable([text[:999], text[999:]])),
):
    try:
        work()
    except SourceError as error:
        print(str(error).splitlines()[0])
    else:
        print("no error")
print(tokenizer.decode(tokenizer.encode("b b b")))
"""


def test_a_pattern_that_explodes_is_an_error_with_its_place(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """A process of its own, so that a hang is a failure."""
    vocab = {byte: bytes([byte]) for byte in range(256)}
    tokenizer = Tokenizer.from_vocab(vocab, [], [], r"(?:a|aa)+(?=b)|.")
    folder = tokenizer.save(tmp_path_factory.mktemp("explodes") / "tok")
    done = subprocess.run(
        [sys.executable, "-c", EXPLODES, str(folder)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    *errors, last = done.stdout.splitlines()
    assert last == "b b b"
    assert len(errors) == 3
    assert all("byte 2000" in line for line in errors), errors


@pytest.mark.parametrize("threads", [0, -1])
def test_no_threads_is_an_error(threads: int) -> None:
    tokenizer = trained("gpt4")
    for work in (
        lambda: tokenizer.encode_to_numpy("text", threads=threads),
        lambda: tokenizer.encode_batch(["text"], threads=threads),
        lambda: tokenizer.encode_batch([], threads=threads),
    ):
        with pytest.raises(ConfigError, match=f"thread.*{threads}"):
            work()
