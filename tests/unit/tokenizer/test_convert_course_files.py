"""Files of other systems: read exactly, or refused with the place and the way out."""

import base64
import json
import logging
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from tokenmill import reference
from tokenmill.errors import FormatError
from tokenmill.tokenizer.artifact import build_bpe, read_tokenizer
from tokenmill.tokenizer.formats import course_files
from tokenmill.tokenizer.vocab import Vocab

BYTES = [bytes([byte]) for byte in range(256)]
EOT = "<|endoftext|>"
MERGES = [(b"t", b"h"), (b"th", b"e"), (b" ", b"the"), (b"\xc3", b"\xbc")]
# As these systems lay ids out: bytes, special tokens, merges.
TOKENS = [*BYTES, EOT.encode(), *(left + right for left, right in MERGES)]


def write_hex(folder: Path, tokens: Sequence[bytes] = TOKENS, merges=MERGES) -> Path:  # pyright: ignore
    path = folder / "stories-5k_vocab.json"
    path.write_text(json.dumps({str(i): list(token) for i, token in enumerate(tokens)}, indent=2))
    lines = [f"{left.hex()} {right.hex()}\n" for left, right in merges]
    (folder / "stories-5k_merges.txt").write_text("".join(lines))
    return path


def write_base64(folder: Path, tokens: Sequence[bytes] = TOKENS, merges=MERGES) -> Path:  # pyright: ignore
    def text(token: bytes) -> str:
        return base64.b64encode(token).decode()

    path = folder / "owt.json"
    vocab = {i: text(token) for i, token in enumerate(tokens)}
    pairs = [[text(left), text(right)] for left, right in merges]
    path.write_text(json.dumps({"vocab": vocab, "merges": pairs}, indent=2))
    return path


WRITERS = [write_hex, write_base64]


def ids_of(vocab: Vocab, text: str) -> list[int]:
    return build_bpe(vocab).encode(text, "all", ())


@pytest.mark.parametrize("write", WRITERS)
def test_tokens_merges_and_special_tokens_are_read(tmp_path: Path, write) -> None:  # pyright: ignore
    path = write(tmp_path)
    assert course_files.looks_like(path.read_bytes()[:500])
    vocab = read_tokenizer(path)
    assert vocab.tokens == tuple(TOKENS)
    assert vocab.merges_as_bytes() == MERGES
    assert vocab.special_tokens == {EOT: 256}
    assert vocab.pattern == "gpt2"
    assert ids_of(vocab, f"the the{EOT}ü") == [258, 259, 256, 260]


@pytest.mark.parametrize("write", WRITERS)
def test_special_tokens_and_pattern_can_be_given(tmp_path: Path, write) -> None:  # pyright: ignore
    path = write(tmp_path)
    vocab = course_files.read(path, special_tokens=[EOT, "<|pad|>"], pattern="gpt4")
    assert vocab.special_tokens == {EOT: 256, "<|pad|>": 261}
    assert vocab.pattern == "gpt4"


def test_what_the_files_do_not_say_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write_hex(tmp_path)
    with caplog.at_level(logging.WARNING, "tokenmill"):
        course_files.read(path)
        assert "does not say how to split text: taking `gpt2`" in caplog.text
        caplog.clear()
        course_files.read(path, pattern="gpt2")
    assert caplog.text == ""


@pytest.mark.parametrize("write", WRITERS)
def test_a_token_that_nothing_makes_is_not_guessed_at(tmp_path: Path, write) -> None:  # pyright: ignore
    path = write(tmp_path, merges=MERGES[:2])
    with pytest.raises(FormatError, match=r"no merge makes token 259, ` the`") as caught:
        course_files.read(path)
    assert "is the file with the merges complete?" in (caught.value.hint or "")
    path = write(tmp_path, tokens=[*TOKENS, b"END"])
    with pytest.raises(FormatError, match="no merge makes token 261, `END`"):
        course_files.read(path)
    assert course_files.read(path, special_tokens=["END", EOT]).special_tokens == {
        EOT: 256,
        "END": 261,
    }


@pytest.mark.parametrize("write", WRITERS)
def test_one_spelling_with_two_ids_is_refused(tmp_path: Path, write) -> None:  # pyright: ignore
    merges = [*MERGES, (b"h", b"e"), (b"t", b"he")]
    path = write(tmp_path, tokens=[*TOKENS, b"he", b"the"], merges=merges)
    with pytest.raises(FormatError, match="has `the` twice, as ids 258 and 262"):
        course_files.read(path)


def test_hex_without_its_other_half(tmp_path: Path) -> None:
    path = write_hex(tmp_path)
    (tmp_path / "stories-5k_merges.txt").unlink()
    with pytest.raises(FormatError, match=r"without merges, and `.*5k_merges\.txt` does not exist"):
        course_files.read(path)
    other = path.rename(tmp_path / "tokens.json")
    with pytest.raises(FormatError, match="is a vocab without merges") as caught:
        course_files.read(other)
    assert "`NAME_merges.txt`" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("74", "line 2 is not two tokens in hex: `74`"),
        ("74 6", "line 2 is not two tokens in hex"),
        ("74 68 65", "line 2 is not two tokens in hex"),
        ("zz 68", "line 2 is not two tokens in hex"),
        ("", "line 2 is not two tokens in hex"),
        ("7468 78", "line 2 joins `th` and `x`, but `thx` is not in the vocab"),
    ],
)
def test_broken_hex_lines(tmp_path: Path, line: str, problem: str) -> None:
    path = write_hex(tmp_path)
    merges = tmp_path / "stories-5k_merges.txt"
    lines = merges.read_text().splitlines()
    merges.write_text("\n".join([lines[0], line, *lines[1:]]))
    with pytest.raises(FormatError, match=problem) as caught:
        course_files.read(path, special_tokens=[EOT])
    assert "stories-5k_merges.txt" in caught.value.message


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"0": [0], "0": [1]}', "key `0` stands twice"),
        ('{"0": [256]}', "at `0`: `.256.` is not a list of bytes, which run from 0"),
        ('{"0": ["a"]}', "not a list of bytes"),
        ('{"0": [true]}', "not a list of bytes"),
        ('{"0": [0], "x": [1]}', 'key `"x"` is not an id'),
        ('{"0": [0], "99999999999999": [1]}', "is not an id"),
        ('{"7": [0], "07": [1]}', 'key `"07"` is not an id'),
        ('{"0": [0], "4000000000": [1]}', "but no id 1"),
        ('{"0": [0]', "is not JSON"),
        ('{"0": [0]}', "no token for|has no token"),
    ],
)
def test_broken_byte_lists(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "x_vocab.json"
    path.write_text(text)
    (tmp_path / "x_merges.txt").write_text("")
    with pytest.raises(FormatError, match=problem):
        course_files.read(path)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"vocab": {"0": "A"}, "merges": []}', r"at `vocab\.0`: `.A.` is not base64"),
        ('{"vocab": {"0": 7}, "merges": []}', "expected a string"),
        ('{"vocab": {"0": "AA=="}, "merges": [["AA=="]]}', r"at `merges\[0\]`: expected two"),
        ('{"vocab": {"0": "AA=="}, "merges": [["AA==", "?"]]}', "is not base64"),
        ('{"vocab": {"0": "AA=="}}', "key `merges` is missing"),
    ],
)
def test_broken_base64(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(FormatError, match=problem):
        course_files.read(path)


def minbpe(pattern: str, special: dict[str, int], merges: list[tuple[int, int]]) -> str:
    lines = ["minbpe v1", pattern, str(len(special))]
    lines += [f"{token} {token_id}" for token, token_id in special.items()]
    return "\n".join(lines + [f"{left} {right}" for left, right in merges]) + "\n"


def test_minbpe(tmp_path: Path) -> None:
    path = tmp_path / "tok.model"
    pattern = r"'(?i:[sdmt]|ll|ve|re)|\p{L}+|[^\p{L}]"
    path.write_text(minbpe(pattern, {"<|a b|>": 258}, [(116, 104), (256, 101)]))
    vocab = read_tokenizer(path)
    assert vocab.pattern == pattern
    assert vocab.special_tokens == {"<|a b|>": 258}
    assert vocab.merges_as_bytes() == [(b"t", b"h"), (b"th", b"e")]
    assert ids_of(vocab, "the <|a b|>") == [257, 32, 258]
    more = course_files.read(path, special_tokens=["<|a b|>", "<|new|>"])
    assert more.special_tokens == {"<|a b|>": 258, "<|new|>": 259}
    with pytest.raises(FormatError, match=r"has `<\|a b\|>` as id 258, not 300"):
        course_files.read(path, special_tokens={"<|a b|>": 300})


def test_minbpe_without_a_pattern_splits_nothing(tmp_path: Path) -> None:
    # Against minbpe's own rule: of all pairs of the text, the one merged first goes first.
    rng = random.Random(8)
    path = tmp_path / "basic.model"
    for _ in range(30):
        spelled = [b"a", b"b", b" "]
        merges: list[tuple[int, int]] = []
        ids = {b"a": 97, b"b": 98, b" ": 32}
        for _ in range(8):
            left, right = rng.choice(spelled), rng.choice(spelled)
            if left + right not in ids:
                merges.append((ids[left], ids[right]))
                ids[left + right] = 255 + len(merges)
                spelled.append(left + right)
        path.write_text(minbpe("", {}, merges))
        vocab = course_files.read(path)
        bpe = build_bpe(vocab)
        learned = reference.Learned(list(vocab.tokens), list(vocab.merges))
        for _ in range(20):
            text = "".join(rng.choice("ab ") for _ in range(rng.randint(0, 20)))
            expected = reference.encode(text.encode(), learned, lambda whole: [whole], {})
            assert bpe.encode(text, (), ()) == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("minbpe v2\n\n0\n", "is of `minbpe v2`"),
        ("minbpe v1\n\n", "line 3: `` is not a whole number"),
        ("minbpe v1\n\n-1\n", "line 3: `-1` is not a whole number"),
        ("minbpe v1\n\n2\n<s> 256\n", "ends among its 2 special tokens"),
        ("minbpe v1\n\n999999999\n", "ends among its 999,999,999 special tokens"),
        ("minbpe v1\n\n1\n<s>\n", "line 4: `<s>` is not a whole number"),
        ("minbpe v1\n\n0\n97 98 99\n", "line 4 is `97 98 99`, not two ids"),
        ("minbpe v1\n\n0\n97 x\n", "line 4: `x` is not a whole number"),
        ("minbpe v1\n\n0\n97 256\n", "line 4 merges id 256, which no line before it makes"),
        ("minbpe v1\n\n0\n97 98\n97 98\n", "has `ab` twice, as ids 256 and 257"),
        ("minbpe v1\n\n1\n<s> 4000000000\n97 98\n", "but no id 257"),
        ("minbpe v1\n(\n0\n97 98\n", r"pattern `\(`"),
    ],
)
def test_broken_minbpe(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "x.model"
    path.write_text(text)
    with pytest.raises(ValueError, match=problem):
        build_bpe(course_files.read(path))


def test_tokens_that_double_with_every_line_do_not_eat_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "x.model"
    path.write_text(minbpe("", {}, [(97, 97), *((255 + n, 255 + n) for n in range(1, 60))]))
    with pytest.raises(FormatError, match="the tokens pass"):
        course_files.read(path)


def test_minbpe_vocab_is_not_the_file(tmp_path: Path) -> None:
    path = tmp_path / "tok.vocab"
    path.write_text("[\\u0000] 0\n[\\u0001] 1\n")
    with pytest.raises(FormatError, match="for people to read") as caught:
        read_tokenizer(path)
    assert "tok.model`" in (caught.value.hint or "")


def ranks(tokens: dict[bytes, int]) -> bytes:
    return b"".join(base64.b64encode(token) + b" %d\n" % rank for token, rank in tokens.items())


def test_ranks_without_the_256_bytes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "bpetok.tiktoken"
    path.write_bytes(ranks({b"th": 256, b"the": 257, b" the": 258}))
    with caplog.at_level(logging.WARNING, "tokenmill"):
        vocab = read_tokenizer(path, special_tokens=[EOT])
    assert "lacks the 256 single bytes: taking them as ids 0 to 255" in caplog.text
    assert vocab.pattern == "gpt4"
    assert vocab.special_tokens == {EOT: 259}
    assert ids_of(vocab, f"the the{EOT}") == [257, 258, 259]
    path.write_bytes(ranks({b"th": 256, b"the": 258}))
    with pytest.raises(FormatError, match="line 2 has rank `258`, not 257"):
        read_tokenizer(path)
    path.write_bytes(ranks({b"th": 256}) + b"%%% 257\n")
    with pytest.raises(FormatError, match=r"at `line 2`: .* is not base64"):
        read_tokenizer(path)
    path.write_bytes(ranks({b"th": 256}) + ranks({b"th": 257}))
    with pytest.raises(FormatError, match="has `th` twice"):
        read_tokenizer(path)


def test_pickles_stay_closed(tmp_path: Path) -> None:
    path = tmp_path / "GPU_v1000.pkl"
    path.write_bytes(b"\x80\x04cos\nsystem\n(S'touch opened'\ntR.")
    with pytest.raises(
        FormatError, match="is a pickle, which runs whatever code is in it"
    ) as caught:
        read_tokenizer(path)
    assert "writelines" in (caught.value.hint or "")
    assert "'GPU_v1000.pkl'" in (caught.value.hint or "")
    assert not (tmp_path / "opened").exists()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b'{"version": "1.0", "model": {}}',
        b'{"!": 0, "0": 15}',
        b'{"0": 15}',
        b"IQ== 0\n",
        b"\x93NUMPY",
        b"hello",
    ],
)
def test_other_files_do_not_look_like_one(data: bytes) -> None:
    assert not course_files.looks_like(data)
