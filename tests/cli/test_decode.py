"""`tokenmill decode`: the exact bytes of ids from every kind of file, and what is wrong with the others."""

import base64
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from tokenmill.cli.main import app
from tokenmill.tokenizer import token_files
from tokenmill.tokenizer.artifact import build_bpe, write_tokenizer
from tokenmill.tokenizer.vocab import Vocab, vocab_from_bytes

TEXT = "the thé\r\n\x00 ü<|endoftext|>the" * 40
BYTES = {byte: bytes([byte]) for byte in range(256)}


def example(special_tokens: dict[str, int] | None = None) -> Vocab:
    tokens = BYTES | {256: b"th", 257: b"the", 258: "ü".encode()}
    pairs = [(b"t", b"h"), (b"th", b"e"), (b"\xc3", b"\xbc")]
    return vocab_from_bytes(tokens, pairs, special_tokens or ["<|endoftext|>"], "gpt4")


@pytest.fixture
def tok(tmp_path: Path) -> Path:
    write_tokenizer(example(), tmp_path / "tok")
    return tmp_path / "tok"


@pytest.fixture
def ids() -> list[int]:
    return build_bpe(example()).encode(TEXT, "all", ())


def run(*args: object, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(app, ["decode", *(str(arg) for arg in args)], input=stdin)


def decoded(*args: object, stdin: bytes | None = None) -> bytes:
    done = run(*args, stdin=stdin)
    assert done.exit_code == 0, done.output
    assert done.stderr == ""
    return done.stdout_bytes


def llmc(ids: list[int], dtype: str, magic: int) -> bytes:
    header = np.zeros(256, np.int32)
    header[:3] = magic, 1, len(ids)
    return header.tobytes() + np.array(ids, dtype).tobytes()


@pytest.mark.parametrize("dtype", ["uint16", "uint32", "int32", "int64", ">u2", ">i4"])
def test_npy_of_any_integer_type(tok: Path, tmp_path: Path, ids: list[int], dtype: str) -> None:
    np.save(tmp_path / "ids.npy", np.array(ids, dtype))
    assert decoded(tmp_path / "ids.npy", "--tokenizer", tok) == TEXT.encode()


def test_npy_with_a_header_that_is_no_python(tok: Path, tmp_path: Path) -> None:
    path = tmp_path / "ids.npy"
    np.save(path, np.zeros(3, np.uint16))
    data = path.read_bytes()
    for old, new in ((b"}", b" "), (b"'shape'", b"'shape("), (b"descr", b"\xff\xff\xff\xff\xff")):
        path.write_bytes(data.replace(old, new, 1))
        done = run(path, "--tokenizer", tok)
        assert done.exit_code == 1
        assert "cannot be read as .npy" in done.stderr


def test_npy_of_rows(tok: Path, tmp_path: Path, ids: list[int]) -> None:
    rows = np.array(ids[: len(ids) // 8 * 8], np.uint16).reshape(8, -1)
    np.save(tmp_path / "ids.npy", rows)
    expected = build_bpe(example()).decode_bytes(rows.ravel().tolist())
    assert decoded(tmp_path / "ids.npy", "--tokenizer", tok) == expected


def test_bin(tok: Path, tmp_path: Path, ids: list[int]) -> None:
    path = tmp_path / "train.bin"
    path.write_bytes(np.array(ids, "<u2").tobytes())
    assert decoded(path, "--tokenizer", tok) == TEXT.encode()
    path.write_bytes(np.array(ids, "<u4").tobytes())
    assert decoded(path, "--tokenizer", tok, "--dtype", "uint32") == TEXT.encode()
    path.write_bytes(llmc(ids, "<u2", 20240520))
    assert decoded(path, "--tokenizer", tok) == TEXT.encode()
    path.write_bytes(llmc(ids, "<u4", 20240801))
    assert decoded(path, "--tokenizer", tok) == TEXT.encode()


def test_a_large_vocab_takes_four_bytes(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(bytes(8))
    for vocab_size, dtype in [(65_536, "uint16"), (65_537, "uint32")]:
        found = token_files.open_ids(tmp_path / "x.bin", vocab_size=vocab_size)
        assert (found.dtype, found.num_ids) == (dtype, 8 // np.dtype(dtype).itemsize)


def test_an_id_without_a_token_is_unknown(tmp_path: Path) -> None:
    write_tokenizer(example({"<|endoftext|>": 259, "<|late|>": 264}), tmp_path / "tok")
    assert decoded("-", "--tokenizer", tmp_path / "tok", stdin=b"257 264") == b"the<|late|>"
    refused = run("-", "--tokenizer", tmp_path / "tok", stdin=b"257 260")
    assert refused.exit_code == 1
    assert "`stdin` token 1 is id 260, which is not in the vocab of 265 ids" in refused.stderr


@pytest.mark.parametrize("between", [" ", "\n", ", ", "\t \r\n"])
def test_text_and_stdin(tok: Path, tmp_path: Path, ids: list[int], between: str) -> None:
    text = between.join(map(str, ids))
    (tmp_path / "ids.txt").write_text(text + "\n")
    assert decoded(tmp_path / "ids.txt", "--tokenizer", tok) == TEXT.encode()
    assert decoded("-", "--tokenizer", tok, stdin=text.encode()) == TEXT.encode()
    assert decoded("-", "--tokenizer", tok, stdin=f"[{text}]".encode()) == TEXT.encode()
    assert decoded("-", "--tokenizer", tok, stdin=b" \n") == b""


def test_bytes_that_are_no_text_arrive_as_they_are(tok: Path) -> None:
    assert decoded("-", "--tokenizer", tok, stdin=b"255 13 10 0 195") == b"\xff\r\n\x00\xc3"


@pytest.mark.parametrize("kind", ["npy", "bin", "txt"])
def test_a_part(tok: Path, tmp_path: Path, ids: list[int], kind: str) -> None:
    path = tmp_path / f"ids.{kind}"
    if kind == "npy":
        np.save(path, np.array(ids, np.uint16))
    elif kind == "bin":
        path.write_bytes(np.array(ids, "<u2").tobytes())
    else:
        path.write_text(" ".join(map(str, ids)))
    bpe = build_bpe(example())
    end = len(ids)
    for start, count in [(0, 3), (5, 1), (7, None), (end - 2, 10), (end, None), (3, 0)]:
        part = ids[start:] if count is None else ids[start : start + count]
        asked = ["--start", start, *([] if count is None else ["--count", count])]
        assert decoded(path, "--tokenizer", tok, *asked) == bpe.decode_bytes(part)
    refused = run(path, "--tokenizer", tok, "--start", end + 1)
    assert refused.exit_code == 1
    assert f"has {end:,} tokens, none at `--start {end + 1}`" in refused.stderr
    assert run(path, "--tokenizer", tok, "--start", -1).exit_code == 2


def test_blocks_follow_each_other_exactly(
    tmp_path: Path, ids: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_files, "BLOCK_IDS", 7)
    monkeypatch.setattr(token_files, "_TEXT_BLOCK_BYTES", 5)
    np.save(tmp_path / "x.npy", np.array(ids, np.uint32))
    (tmp_path / "x.txt").write_text("\n".join(map(str, ids)))
    bpe = build_bpe(example())
    for name in ("x.npy", "x.txt"):
        for start, count in [(0, None), (6, 15), (7, 7), (13, 1)]:
            found = token_files.open_ids(tmp_path / name, vocab_size=260)
            out = io.BytesIO()
            seen: list[tuple[int, float | None]] = []

            def show(*at: Any, seen: list[Any] = seen) -> None:
                seen.append(at)

            done = token_files.decode_ids(
                found, bpe, out.write, start=start, count=count, progress=show
            )
            part = ids[start:] if count is None else ids[start : start + count]
            assert out.getvalue() == bpe.decode_bytes(part)
            assert (done.num_ids, done.num_bytes) == (len(part), len(out.getvalue()))
            assert seen[-1][0] == len(part)
            assert name == "x.txt" or seen[-1][1] == 1.0


def test_out_and_report(tok: Path, tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_text("257 32 257")
    out = tmp_path / "text.txt"
    done = run(tmp_path / "ids.txt", "--tokenizer", tok, "--out", out)
    assert done.stdout.splitlines() == ["decoded  3 tokens, 7 bytes", f"wrote    {out}"]
    assert out.read_bytes() == b"the the"
    done = run(tmp_path / "ids.txt", "--tokenizer", tok, "--out", out, "--json")
    assert json.loads(done.stdout) == {"out": str(out), "tokens": 3, "bytes": 7}
    assert run(tmp_path / "ids.txt", "--tokenizer", tok, "--out", out, "-q").output == ""
    misused = run(tmp_path / "ids.txt", "--tokenizer", tok, "--json")
    assert misused.exit_code == 2
    assert "pass `--out`" in misused.stderr


def test_a_bare_file_of_ranks(tmp_path: Path) -> None:
    ranks = [*BYTES.values(), b"th", b"the"]
    lines = (f"{base64.b64encode(token).decode()} {rank}\n" for rank, token in enumerate(ranks))
    file = tmp_path / "bare.tiktoken"
    file.write_text("".join(lines))
    given = ["-", "--tokenizer", file, "--pattern", "gpt4"]
    assert decoded(*given, stdin=b"257 32 257") == b"the the"
    assert decoded(*given, "--special", "<|end|>", stdin=b"257 258") == b"the<|end|>"
    specials = ["--special", "<|a|>=300", "--special", "<|b|>=299"]
    assert decoded(*given, *specials, stdin=b"300 299") == b"<|a|><|b|>"
    refused = run("-", "--tokenizer", file, stdin=b"257")
    assert refused.exit_code == 1
    assert "`--pattern`" in refused.stderr


def test_a_tokenizer_that_says_it_all_takes_no_more(tok: Path) -> None:
    refused = run("-", "--tokenizer", tok, "--pattern", "gpt4", stdin=b"257")
    assert refused.exit_code == 1
    assert "`pattern`" in refused.stderr


def test_an_unknown_id_is_named_with_its_position(tok: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.txt"
    np.save(tmp_path / "ids.npy", np.array([257, 32, 260, 300], np.uint16))
    refused = run(tmp_path / "ids.npy", "--tokenizer", tok, "--out", out, "--start", 1)
    assert refused.exit_code == 1
    assert "token 2 is id 260, which is not in the vocab of 260 ids" in refused.stderr
    assert "is `uint16` not their type?" in refused.stderr
    assert not out.exists()
    np.save(tmp_path / "ids.npy", np.array([257, -1], np.int64))
    assert "token 1 is id -1," in run(tmp_path / "ids.npy", "--tokenizer", tok).stderr
    far = run("-", "--tokenizer", tok, stdin=b"257 99999999999999")
    assert "token 1 is id 99999999999999," in far.stderr


def test_files_that_are_cut_or_something_else(tok: Path, tmp_path: Path) -> None:
    def error(name: str, data: bytes, *flags: object) -> str:
        (tmp_path / name).write_bytes(data)
        done = run(tmp_path / name, "--tokenizer", tok, *flags)
        assert done.exit_code == 1
        assert "Traceback" not in done.output
        return done.stderr

    assert "is 3 bytes long, which is no multiple of the 2 bytes" in error("x.bin", b"abc")
    assert "hint: the file is cut, or its ids" in error("x.bin", b"abc")
    cut = llmc([1, 2, 3], "<u2", 20240520)[:-2]
    assert "header for 3 tokens, which take 1,030 bytes, but is 1,028" in error("x.bin", cut)
    whole = llmc([1, 2, 3], "<u2", 20240520)
    assert "header for `uint16`, not `uint32`" in error("x.bin", whole, "--dtype", "uint32")
    assert "`float` is no type of ids" in error("x.bin", b"ab", "--dtype", "float")
    saved = io.BytesIO()
    np.save(saved, np.arange(50, dtype=np.uint16))
    assert "cannot be read as .npy" in error("x.npy", saved.getvalue()[:-2])
    assert "cannot be read as .npy" in error("x.npy", saved.getvalue()[:20])
    assert "`--dtype` is for .bin" in error("x.npy", saved.getvalue(), "--dtype", "uint16")
    assert "does not start as a .npy file" in error("x.npy", b"\x01\x00\x02\x00")
    for array, problem in [
        (np.zeros(3), "holds `float64`, ids are whole numbers"),
        (np.array([True]), "holds `bool`"),
        (np.array([{}], object), "cannot be read as .npy"),
        (np.asfortranarray(np.zeros((2, 2), np.uint16)), "column by column"),
    ]:
        saved = io.BytesIO()
        np.save(saved, array, allow_pickle=True)
        assert problem in error("x.npy", saved.getvalue())
    assert "token 1 is `two`, which is no id" in error("x.txt", b"1 two 3")
    assert "token 0 is `-5`, which is no id" in error("x.txt", b"-5")
    assert "token 1 is `1.5`" in error("x.txt", b"2 1.5")
    assert "which is no id" in error("x.txt", b"1" * 200_000)
    assert "which is no id" in error("x.txt", b"\xff\xfe\x00" * 30_000)
    assert "does not exist" in run(tmp_path / "nowhere.npy", "--tokenizer", tok).stderr
    assert "cannot be read" in run(tmp_path, "--tokenizer", tok).stderr


def test_a_pipe_that_closes_early_is_no_crash(tok: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "ids.npy", np.full(2_000_000, 257, np.uint16))
    command = f'"{sys.executable}" -m tokenmill decode ids.npy --tokenizer tok | head -c 6'
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, check=False)
    assert done.stdout == b"thethe"
    assert b"Traceback" not in done.stderr
