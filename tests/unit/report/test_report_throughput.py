"""Every number is about the same documents, decoded back before it is given; peers take turns with us."""

import contextlib
import dataclasses
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tokenmill as tm
from tokenmill.errors import ConfigError, VocabError
from tokenmill.progress import Meter, Snapshot
from tokenmill.report import engines, peers, throughput
from tokenmill.report.decoders import DictionaryDecoder, PairExpansionDecoder, decoders_of
from tokenmill.report.engines import vocab_of
from tokenmill.report.render.terminal import throughput_lines
from tokenmill.report.sampling import Sample, Text
from tokenmill.report.settings import ThroughputSettings
from tokenmill.report.throughput import ThroughputReport, measure_throughput
from tokenmill.tokenizer.token_batch import TokenBatch
from tokenmill.tokenizer.tokenizer import Tokenizer
from tokenmill.work.read_report import ReadReport

TEXTS = [
    "The quick brown fox jumps over the lazy dog, doesn't it? 1234567",
    "Größe naïve Ελληνικά русский 日本語の文章です。 👩‍👩‍👧‍👦 e\u0301",
    "def f(x):\n    return {'a': x ** 2}  # done\n\n\n",
    "a" * 300 + " " * 40 + "\n",
    "x",
]
SMALL = ThroughputSettings(batch_size=2, batches=3, rounds=2, threads=1)
SILENT = Meter(False)


def sample_of(*texts: Text) -> Sample:
    return Sample(texts, 7, ReadReport(documents=100))


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return tm.train(tm.documents(TEXTS * 3), vocab_size=420, pattern="gpt4")


def measured(
    tokenizer: Tokenizer, *names: str, texts: tuple[Text, ...] = tuple(TEXTS)
) -> ThroughputReport:
    return measure_throughput(
        tokenizer, sample_of(*texts), SMALL, SILENT, peers=names, validate=bool(names)
    )


def test_the_numbers_belong_together(tokenizer: Tokenizer) -> None:
    report = measured(tokenizer)
    work = report.work
    assert (work.num_batches, work.num_documents) == (3, 5)
    assert work.num_bytes == sum(len(text.encode()) for text in TEXTS)
    assert work.num_tokens == sum(len(tokenizer.encode_ordinary(text)) for text in TEXTS)
    for both in (report.encode, report.decode):
        assert (len(both.cold.rounds), len(both.warm.rounds)) == (1, 2)
        for timing in (both.cold, both.warm):
            assert timing.seconds > 0
            assert timing.batch_seconds == pytest.approx(timing.seconds / 3)
            assert timing.document_seconds == pytest.approx(timing.seconds / 5)
            assert timing.megabytes_per_second == pytest.approx(
                work.num_bytes / timing.seconds / 1e6
            )
            assert timing.tokens_per_second == pytest.approx(work.num_tokens / timing.seconds)
    assert [decoder.name for decoder in report.decoders] == [
        "table",
        "dictionary",
        "pair expansion",
    ]
    assert all(decoder.num_bytes > tokenizer.vocab_size for decoder in report.decoders)
    assert {"vocab", "merges", "cache", "decoder"} <= report.memory.keys()
    assert report.memory["vocab"] > 0


def test_extrapolation_is_a_division(tokenizer: Tokenizer) -> None:
    report = measured(tokenizer)
    seconds = report.extrapolated_seconds(825 * 10**9)
    assert seconds["warm"] * report.encode.warm.megabytes_per_second == pytest.approx(825_000)
    assert seconds["cold"] * report.encode.cold.megabytes_per_second == pytest.approx(825_000)
    *_, warm, cold = throughput_lines(report, 825 * 10**9)
    assert warm.startswith("825 GB   warm: 825,000,000,000 bytes / ")
    assert cold.startswith("825 GB   cold: 825,000,000,000 bytes / ")
    assert " bytes/s = " in warm


def test_json_has_every_number(tokenizer: Tokenizer) -> None:
    value = measured(tokenizer).as_json(1000)
    sample = value["sample"]
    assert isinstance(sample, dict)
    assert sample["documents_read"] == 100
    assert sample["seed"] == 7
    assert sample["bytes_per_token"] == pytest.approx(sample["bytes"] / sample["tokens"])
    extrapolation = value["extrapolation"]
    assert isinstance(extrapolation, dict)
    assert extrapolation["bytes"] == 1000
    assert measured(tokenizer).as_json()["extrapolation"] is None


def test_special_tokens_in_a_text_are_text(tokenizer: Tokenizer) -> None:
    report = measured(tokenizer, texts=("a<|endoftext|>b",))
    assert report.work.num_tokens == len(tokenizer.encode_ordinary("a<|endoftext|>b")) > 3


def test_bytes_that_are_no_text(tokenizer: Tokenizer) -> None:
    report = measured(tokenizer, "tiktoken", texts=("fine", b"caf\xe9 \xff"))
    assert report.work.num_bytes == 10
    (peer,) = report.peers
    assert peer.refused == "document 1 is not UTF-8, and tiktoken takes `str` only"


@pytest.mark.parametrize("name", ["tiktoken", "tokenizers", "gigatoken"])
def test_peers_agree(tokenizer: Tokenizer, name: str) -> None:
    report = measured(tokenizer, name)
    (peer,) = report.peers
    assert (peer.refused, peer.difference, peer.same_ids) == (None, None, True)
    assert report.all_the_same
    assert peer.version
    ratios = peer.times_faster(report)
    assert ratios is not None
    assert peer.encode is not None
    assert ratios["encode_warm"] == pytest.approx(
        peer.encode.warm.seconds / report.encode.warm.seconds
    )
    line = next(line for line in throughput_lines(report, None) if name in line)
    assert f"with {name} {peer.version}: same ids, " in line
    assert "times " in line


def test_two_threads_give_the_same_answers(tokenizer: Tokenizer) -> None:
    settings = ThroughputSettings(batch_size=4, batches=2, rounds=1, threads=2)
    report = measure_throughput(
        tokenizer,
        sample_of(*TEXTS),
        settings,
        SILENT,
        peers=["tiktoken", "tokenizers", "gigatoken"],
        validate=True,
    )
    assert [peer.same_ids for peer in report.peers] == [True] * 3
    assert report.threads == 2


def test_rustbpe_says_why_not(tokenizer: Tokenizer) -> None:
    report = measured(tokenizer, "rustbpe", "tiktoken")
    assert report.all_the_same
    assert report.peers[0].refused is not None
    assert "takes no vocab from outside" in report.peers[0].refused
    assert report.peers[1].same_ids


def test_what_a_peer_cannot_say_is_refused(tokenizer: Tokenizer) -> None:
    # Merges not in the order of their ids, which tiktoken merges by.
    tokens = [bytes([byte]) for byte in range(256)] + [b"bc", b"ab"]
    odd = Tokenizer.from_ids(tokens, [(97, 98, 257), (98, 99, 256)], {}, "gpt2")
    assert "lowest id" in (measured(odd, "tiktoken").peers[0].refused or "")
    special = measured(tokenizer, "gigatoken", texts=("x", "a<|endoftext|>b"))
    assert special.peers[0].refused == (
        "document 1 contains `<|endoftext|>`, which it cannot read as ordinary text"
    )
    own = Tokenizer.from_ids(tokens, [], {}, r"\p{L}|[^\p{L}]")
    assert measured(own, "gigatoken").peers[0].refused


def test_a_normalized_text_comes_back_normalized(tokenizer: Tokenizer) -> None:
    normalizing = Tokenizer(dataclasses.replace(vocab_of(tokenizer), normalizer="nfc"))
    report = measured(normalizing, "tiktoken", "tokenizers", texts=("cafe\u0301 e\u0301", "plain"))
    tiktoken, huggingface = report.peers
    assert tiktoken.refused == "the vocab normalizes text (nfc), tiktoken cannot"
    assert huggingface.same_ids
    # Bytes are those of the text as it came.
    assert report.work.num_bytes == 15


class Liar(peers.TiktokenPeer):
    """Gives another id for the last token of document 3."""

    def encode(self, texts: list[str]) -> list[list[int]]:
        encoded = super().encode(texts)
        return [
            [*ids[:-1], ids[-1] ^ 1] if "aaaa" in text else ids
            for text, ids in zip(texts, encoded, strict=True)
        ]


class Panicking(peers.TiktokenPeer):
    """Breaks as a Rust panic does: by what is no Exception."""

    def encode(self, texts: list[str]) -> list[list[int]]:
        if "x" in texts:
            raise type("PanicException", (BaseException,), {})("index out of bounds\nmore")
        return super().encode(texts)


def test_a_difference_is_found_and_named(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(peers.PEERS, "tiktoken", Liar)
    report = measured(tokenizer, "tiktoken")
    (peer,) = report.peers
    assert peer.same_ids is False
    assert peer.encode is None
    assert not report.all_the_same
    assert peer.difference is not None
    last = tokenizer.encode_ordinary(TEXTS[3])
    assert peer.difference.startswith(f"document 3: token {len(last) - 1} is {last[-1]} (")
    assert f"{last[-1] ^ 1} (" in peer.difference
    line = next(line for line in throughput_lines(report, None) if "tiktoken" in line)
    assert ": other ids at document 3: token " in line


def test_without_validation_nobody_claims_equality(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(peers.PEERS, "tiktoken", Liar)
    report = measure_throughput(
        tokenizer, sample_of(*TEXTS), SMALL, SILENT, peers=["tiktoken"], validate=False
    )
    assert report.peers[0].same_ids is None
    assert any("ids not compared" in line for line in throughput_lines(report, None))


def test_a_panic_is_a_line_not_an_end(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(peers.PEERS, "tiktoken", Panicking)
    report = measured(tokenizer, "tiktoken", "tokenizers")
    assert report.peers[0].refused == "PanicException: index out of bounds"
    assert report.peers[1].same_ids


def test_interrupts_are_not_swallowed() -> None:
    with pytest.raises(KeyboardInterrupt):
        peers.as_refusal(KeyboardInterrupt())


def test_a_wrong_round_trip_is_an_error(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines.TokenmillEngine, "decode", lambda _self, ids: ["wrong"] * len(ids))
    with pytest.raises(VocabError, match="document 0 decodes to other text"):
        measured(tokenizer)
    monkeypatch.undo()
    monkeypatch.setattr(DictionaryDecoder, "decode", lambda _self, batch: [b"wrong"] * len(batch))
    with pytest.raises(VocabError, match="the dictionary decodes document 0 to other bytes"):
        measured(tokenizer)


def test_peers_are_known_and_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert peers.require_peers(["tiktoken", "tokenizers", "tiktoken"]) == ["tiktoken", "tokenizers"]
    with pytest.raises(ConfigError, match="unknown peer `tictoken`") as caught:
        peers.require_peers(["tictoken"])
    assert caught.value.hint == "did you mean `tiktoken`?"
    monkeypatch.setitem(sys.modules, "gigatoken", None)
    with pytest.raises(ConfigError, match="`gigatoken` cannot be imported") as caught:
        peers.require_peers(["gigatoken"])
    assert caught.value.hint == "`pip install gigatoken`"


def test_the_environment_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAYON_NUM_THREADS", "9")
    monkeypatch.delenv("TOKENIZERS_PARALLELISM", raising=False)
    with contextlib.suppress(ZeroDivisionError), peers.peers_use(1):
        assert os.environ["RAYON_NUM_THREADS"] == "1"
        assert os.environ["TOKENIZERS_PARALLELISM"] == "false"
        raise ZeroDivisionError
    assert os.environ["RAYON_NUM_THREADS"] == "9"
    assert "TOKENIZERS_PARALLELISM" not in os.environ


def test_progress_covers_all_of_it(tokenizer: Tokenizer) -> None:
    seen: list[Snapshot] = []
    measure_throughput(
        tokenizer, sample_of(*TEXTS), SMALL, Meter(seen.append), peers=["tiktoken"], validate=True
    )
    measuring = [snapshot for snapshot in seen if snapshot.phase == "measuring"]
    # Two entrants, three rounds, encode and decode, three batches each.
    assert len(measuring) == 2 * 3 * 2 * 3
    assert measuring[-1].fraction == 1.0
    assert seen[-1].phase == "decoding"
    assert seen[-1].fraction == 1.0


@pytest.mark.parametrize(
    "wrong",
    [
        {"batch_size": 0},
        {"batches": 0},
        {"rounds": 0},
        {"seed": -1},
        {"threads": 0},
        {"threads": -2},
    ],
)
def test_settings_that_make_no_sense(wrong: dict[str, int]) -> None:
    (name,) = wrong
    with pytest.raises(ConfigError, match=name.replace("_", " ")):
        ThroughputSettings(**wrong)


def random_merges(rng: random.Random) -> Iterator[tuple[list[bytes], list[tuple[int, int, int]]]]:
    """Vocabs with merges that share ids, tokens without merges, and bytes in another order."""
    for _ in range(30):
        order = list(range(256))
        rng.shuffle(order)
        tokens = [bytes([byte]) for byte in order]
        letters = [tokens.index(letter.encode()) for letter in "abc"]
        merges: list[tuple[int, int, int]] = []
        for _ in range(12):
            left, right = rng.choice(letters), rng.choice(letters)
            joined = tokens[left] + tokens[right]
            if len(joined) > 6 or any(merge[:2] == (left, right) for merge in merges):
                continue
            if joined not in tokens:
                tokens.append(joined)
                letters.append(len(tokens) - 1)
            merges.append((left, right, tokens.index(joined)))
        yield tokens, merges


def test_three_decoders_say_the_same() -> None:
    rng = random.Random(4)
    for tokens, merges in random_merges(rng):
        special = {"<|end|>": len(tokens), "é": len(tokens) + 1}
        tokens = [*tokens, *(token.encode() for token in special)]
        tokenizer = Tokenizer.from_ids(tokens, merges, special, "gpt2")
        rows = [[rng.randrange(len(tokens)) for _ in range(rng.randrange(20))] for _ in range(8)]
        batch = TokenBatch(
            np.array([token_id for row in rows for token_id in row], np.uint16),
            np.cumsum([0, *map(len, rows)], dtype=np.int64),
        )
        expected = [b"".join(tokens[token_id] for token_id in row) for row in rows]
        for decoder in decoders_of(tokenizer):
            assert decoder.decode(batch) == expected, decoder.name


def test_pair_expansion_of_tokens_without_merges() -> None:
    """As under `ignore_merges`: the token is there, no merge leads to it."""
    tokens = [bytes([byte]) for byte in range(256)] + [b"hello", b"ab"]
    tokenizer = Tokenizer.from_ids(tokens, [(97, 98, 257)], {}, "gpt2")
    batch = TokenBatch(np.array([256, 257, 104], np.uint16), np.array([0, 1, 3]))
    assert PairExpansionDecoder(tokenizer).decode(batch) == [b"hello", b"abh"]


def test_library_modules_stay_out_until_asked(tmp_path: Path) -> None:
    import subprocess

    program = (
        "import sys, tokenmill.report.throughput, tokenmill.report.compression\n"
        "print([n for n in ('tiktoken', 'tokenizers', 'gigatoken', 'numpy', 'pyarrow') if n in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
    assert throughput.__name__ == "tokenmill.report.throughput"
