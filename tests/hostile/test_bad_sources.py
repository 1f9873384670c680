"""Bad text gets an error that names it, or a number in the report; never a shorter corpus in
silence."""

import bz2
import gzip
import io
import json
import os
import random
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tokenmill as tm
from tokenmill.errors import SourceError, TokenmillError

# Made by `zstd --check`: pyarrow writes no checksums, but files out there have them.
CHECKED_ZSTD = bytes.fromhex(
    "28b52ffd2447e50100240374686520717569636b2062726f776e20666f78206a756d7073206f76657220746865206c"
    "617a7920646f672c736c6565707302005021605cb30c0b9dcfed"
)
CHECKED_TEXT = "the quick brown fox jumps over the lazy dog, the quick brown fox sleeps"


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as packed:
        packed.write(data)
    return sink.getvalue().to_pybytes()


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "zst": zstd,
}
TEXT = b"<|endoftext|>".join(
    f"document {n} {n * n} {zlib.crc32(bytes([n % 256]))}".encode() for n in range(3000)
)


class TestPackedFiles:
    @pytest.mark.parametrize("packing", PACKERS)
    def test_a_cut_anywhere_is_noticed(self, tmp_path: Path, packing: str) -> None:
        packed = PACKERS[packing](TEXT)
        file = tmp_path / f"a.txt.{packing}"
        rng = random.Random(1)
        cuts = {0, 1, 2, 5, len(packed) - 1, len(packed) - 4, len(packed) - 9}
        for cut in sorted(cuts | set(rng.sample(range(len(packed)), 20))):
            file.write_bytes(packed[:cut])
            with pytest.raises(
                SourceError, match=rf"`{file}` is corrupt or cut short near packed byte \d"
            ):
                tm.count(file)

    @pytest.mark.parametrize("packing", PACKERS)
    def test_a_cut_second_member_is_noticed(self, tmp_path: Path, packing: str) -> None:
        first, second = PACKERS[packing](TEXT[:500]), PACKERS[packing](TEXT[500:])
        file = tmp_path / f"a.txt.{packing}"
        for cut in (1, 3, len(second) // 2, len(second) - 1):
            file.write_bytes(first + second[:cut])
            with pytest.raises(SourceError, match="is corrupt or cut short"):
                tm.count(file)

    @pytest.mark.parametrize("packing", PACKERS)
    @pytest.mark.parametrize("garbage", [b"garbage here", b"\0" * 64, b"\n", b"g"])
    def test_garbage_behind_the_end_is_noticed(
        self, tmp_path: Path, packing: str, garbage: bytes
    ) -> None:
        file = tmp_path / f"a.txt.{packing}"
        file.write_bytes(PACKERS[packing](TEXT) + garbage)
        with pytest.raises(SourceError, match="is corrupt or cut short"):
            tm.count(file)

    @pytest.mark.parametrize("packing", ["gz", "bz2"])
    def test_a_flipped_bit_never_changes_the_counts_unnoticed(
        self, tmp_path: Path, packing: str
    ) -> None:
        packed = PACKERS[packing](TEXT)
        file = tmp_path / f"a.txt.{packing}"
        file.write_bytes(packed)
        expected = tm.count(file).to_dict()
        rng = random.Random(2)
        noticed = 0
        for _ in range(40):
            damaged = bytearray(packed)
            damaged[rng.randrange(len(packed))] ^= 1 << rng.randrange(8)
            file.write_bytes(damaged)
            try:
                assert tm.count(file).to_dict() == expected, "only a harmless header bit may pass"
            except SourceError:
                noticed += 1
        assert noticed >= 35

    def test_zstd_checksums_are_checked(self, tmp_path: Path) -> None:
        file = tmp_path / "a.txt.zst"
        file.write_bytes(CHECKED_ZSTD)
        assert tm.count(file).to_dict() == tm.count(iter([CHECKED_TEXT])).to_dict()
        for place in range(6, len(CHECKED_ZSTD)):
            damaged = bytearray(CHECKED_ZSTD)
            damaged[place] ^= 0x10
            file.write_bytes(damaged)
            with pytest.raises(SourceError, match="is corrupt or cut short"):
                tm.count(file)

    def test_a_bomb_is_read_as_a_stream(self, tmp_path: Path) -> None:
        file = tmp_path / "a.txt.gz"
        file.write_bytes(gzip.compress(b" " * (1 << 24)))
        counts = tm.count(file)
        assert counts.total_bytes == 1 << 24
        assert counts.report is not None
        assert counts.report.documents == 1


def parquet_bytes(**options: object) -> bytes:
    sink = io.BytesIO()
    table = pa.table({"text": [f"document {n} " * 20 for n in range(200)], "n": range(200)})
    pq.write_table(table, sink, row_group_size=50, **options)  # pyright: ignore[reportArgumentType]
    return sink.getvalue()


class TestTables:
    def test_a_cut_parquet_file_is_noticed(self, tmp_path: Path) -> None:
        data = parquet_bytes()
        file = tmp_path / "a.parquet"
        for cut in (0, 3, 100, len(data) // 2, len(data) - 1):
            file.write_bytes(data[:cut])
            with pytest.raises(
                SourceError, match=rf"`{file}` cannot be read as Parquet at its footer"
            ):
                tm.count(file)

    def test_a_damaged_page_is_noticed_and_placed(self, tmp_path: Path) -> None:
        data = bytearray(
            parquet_bytes(write_page_checksum=True, compression="none", use_dictionary=False)
        )
        place = data.index(b"document 120 ")
        data[place] ^= 1
        file = tmp_path / "a.parquet"
        file.write_bytes(data)
        with pytest.raises(SourceError, match=r"at its row group 2, byte [\d,]+"):
            tm.count(file)

    def test_a_cut_arrow_stream_is_noticed_even_between_batches(self, tmp_path: Path) -> None:
        table = pa.table({"text": [f"document {n}" for n in range(40)]})
        sink = io.BytesIO()
        ends: list[int] = []
        with pa.ipc.new_stream(sink, table.schema) as writer:
            for batch in table.to_batches(max_chunksize=10):
                writer.write_batch(batch)
                ends.append(sink.tell())
        data = sink.getvalue()
        file = tmp_path / "a.arrow"
        file.write_bytes(data)
        expected = tm.count(file).to_dict()
        for cut in [*range(0, len(data), 37), *ends, len(data) - 1]:
            file.write_bytes(data[:cut])
            with pytest.raises(SourceError, match=rf"`{file}` cannot be read as Arrow IPC at byte"):
                tm.count(file)
        file.write_bytes(data + data)
        with pytest.raises(SourceError, match="something follows its end marker"):
            tm.count(file)
        assert expected

    def test_a_cut_arrow_file_is_noticed(self, tmp_path: Path) -> None:
        table = pa.table({"text": [f"document {n}" for n in range(40)]})
        sink = io.BytesIO()
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=10)
        data = sink.getvalue()
        file = tmp_path / "a.arrow"
        for cut in (9, 200, len(data) // 2, len(data) - 1):
            file.write_bytes(data[:cut])
            with pytest.raises(SourceError, match="cannot be read as Arrow IPC at its end"):
                tm.count(file)
        file.write_bytes(b"FEA1" + data)
        with pytest.raises(SourceError, match="Feather version 1"):
            tm.count(file)

    def test_offsets_that_lie_are_noticed(self) -> None:
        for offsets in ([0, 99, 3], [0, 5, 3], [0, -1, 3]):
            ends = pa.array(offsets, pa.int32()).buffers()[1]
            lying = pa.Array.from_buffers(pa.string(), 2, [None, ends, pa.py_buffer(b"abcdef")])
            with pytest.raises(SourceError, match="broken Arrow array"):
                tm.count(lying)

    def test_columns_that_hold_no_text(self, tmp_path: Path) -> None:
        table = pa.table(
            {
                "tokens": pa.array([["a"], ["b"]]),
                "meta": pa.array([{"a": 1}, {"a": 2}]),
                "n": [1, 2],
                "content": ["low", "lower"],
            }
        )
        file = tmp_path / "a.parquet"
        pq.write_table(table, file)
        for inputs in (file, table):
            with pytest.raises(
                SourceError, match=r"has no column `text`; its columns are `tokens` \(list"
            ) as caught:
                tm.count(inputs)
            assert caught.value.hint == "pass `--field content`"
            for field, kind in (("tokens", "list"), ("meta", "struct"), ("n", "int64")):
                with pytest.raises(
                    SourceError,
                    match=f"column `{field}` of .* holds `{kind}.*columns with text: `content`",
                ):
                    tm.count(inputs, field=field)
        assert tm.count(file, field="content").occurrences == 2

    def test_a_null_follows_the_rule(self, tmp_path: Path) -> None:
        table = pa.table({"text": ["low", None, "lower", None]})
        pq.write_table(table, tmp_path / "a.parquet")
        for inputs in (tmp_path / "a.parquet", table):
            with pytest.raises(SourceError, match="null"):
                tm.count(inputs)
            counts = tm.count(inputs, on_error="skip")
            assert counts.to_dict() == {b"low": 1, b"lower": 1}
            assert counts.report is not None
            assert counts.report.skipped_records == 2
            assert "null" in counts.report.skipped[0]


BAD_LINES = {
    '{"text": "cut': "not valid JSON",
    "not json": "not valid JSON",
    '{"content": "x"}': "has no field `text`",
    '{"text": null}': "null",
    '{"text": 7}': "a number",
    '{"text": ["x"]}': "a list",
    '["text"]': "object",
}


class TestJsonLines:
    @pytest.mark.parametrize("line", BAD_LINES)
    @pytest.mark.parametrize("packing", ["", ".gz"])
    def test_a_bad_line_is_named(self, tmp_path: Path, line: str, packing: str) -> None:
        file = tmp_path / f"a.jsonl{packing}"
        good = '{"text": "low"}\n'
        data = f"{good}{good}\n{line}\n{good}".encode()
        file.write_bytes(gzip.compress(data) if packing else data)
        with pytest.raises(SourceError, match=r":4") as caught:
            tm.count(file)
        assert str(file) in caught.value.message
        assert BAD_LINES[line] in caught.value.message
        counts = tm.count(file, on_error="skip")
        assert counts.to_dict() == {b"low": 3}
        assert counts.report is not None
        assert counts.report.skipped_records == 1
        assert ":4" in counts.report.skipped[0]

    def test_line_numbers_hold_in_the_middle_of_a_file(self, tmp_path: Path) -> None:
        lines = [json.dumps({"text": f"document {n}"}) for n in range(1000)]
        lines[700] = "broken"
        file = tmp_path / "a.jsonl"
        file.write_text("\n".join(lines))
        with pytest.raises(SourceError, match=":701"):
            tm.count(
                file, out=tmp_path / "counts.parquet", unit_bytes=2000, threads=3, block_bytes=100
            )
        with pytest.raises(SourceError, match=":701"):
            tm.count(file, block_bytes=64)


class TestInvalidUtf8:
    @pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.txt.gz"])
    def test_it_is_placed_replaced_or_kept(self, tmp_path: Path, name: str) -> None:
        file = tmp_path / name
        data = b'{"text": "low\xff\xfe lower"}\n' if "jsonl" in name else b"low\xff\xfe lower"
        file.write_bytes(gzip.compress(data) if name.endswith("gz") else data)
        with pytest.raises(SourceError, match=r"UTF-8|unicode") as caught:
            tm.count(file)
        assert str(file) in caught.value.message
        counts = tm.count(file, invalid_utf8="replace")
        assert b"\xef\xbf\xbd\xef\xbf\xbd" in b"".join(counts.to_dict())
        assert counts.report is not None
        assert counts.report.replaced_sequences == 2

    def test_the_offset_is_the_byte(self, tmp_path: Path) -> None:
        file = tmp_path / "a.txt"
        file.write_bytes(b"low " * 5000 + b"\xff" + b" low" * 5000)
        with pytest.raises(SourceError, match=r"20,?000"):
            tm.count(file, block_bytes=100)

    def test_kept_bytes_are_counted_as_they_are(self, tmp_path: Path) -> None:
        file = tmp_path / "a.txt"
        file.write_bytes(b"low\xff\xfe")
        assert tm.count(file, invalid_utf8="keep").to_dict() == {b"low": 1, b"\xff\xfe": 1}


class TestFilesThatChange:
    @pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.txt.gz", "a.parquet"])
    def test_a_file_that_grows_between_listing_and_reading(self, tmp_path: Path, name: str) -> None:
        first, second = tmp_path / "0.txt", tmp_path / name
        first.write_bytes(TEXT)
        data = {"a.txt": TEXT, "a.jsonl": b'{"text": "x"}\n', "a.txt.gz": gzip.compress(TEXT)}
        second.write_bytes(data.get(name) or parquet_bytes())

        def grow() -> Iterator[str]:
            with open(second, "ab") as file:
                file.write(b"more")
            yield "text"

        with pytest.raises(
            SourceError, match=rf"`{second}` changed while it was read: [\d,]+ bytes at first"
        ):
            tm.count([grow(), second])

    def test_a_file_that_is_rewritten_after_it_was_read(self, tmp_path: Path) -> None:
        file = tmp_path / "a.txt"
        file.write_bytes(TEXT)

        def rewrite() -> Iterator[str]:
            file.write_bytes(TEXT.upper())
            os.utime(file, ns=(0, 0))
            yield "text"

        with pytest.raises(SourceError, match="changed while it was read: rewritten"):
            tm.count([file, rewrite()])

    def test_a_file_that_vanishes(self, tmp_path: Path) -> None:
        file = tmp_path / "a.txt"
        file.write_bytes(TEXT)

        def remove() -> Iterator[str]:
            file.unlink()
            yield "text"

        with pytest.raises(SourceError, match="does not exist"):
            tm.count([remove(), file])


class TestPythonObjects:
    def test_an_item_of_another_type_is_placed(self) -> None:
        with pytest.raises(SourceError, match="2"):
            tm.count(iter(["low", "lower", 7]))
        with pytest.raises(
            SourceError, match=r"item 1 of .* has no `text`; its keys are `content`"
        ):
            tm.count([{"text": "low"}, {"content": "x"}])

    def test_an_error_of_the_iterable_comes_through(self) -> None:
        def texts() -> Iterator[str]:
            yield "low"
            raise ZeroDivisionError("their bug")

        with pytest.raises(ZeroDivisionError, match="their bug"):
            tm.count(texts())

    def test_a_lone_surrogate_is_not_text(self) -> None:
        with pytest.raises((SourceError, UnicodeEncodeError)):
            tm.count(iter(["low", "\ud800"]))


class TestPermissionAndPlace:
    def test_a_pipe_is_read_once(self, tmp_path: Path) -> None:
        pipe = tmp_path / "pipe.txt"
        os.mkfifo(pipe)
        writer = threading.Thread(target=lambda: pipe.write_bytes(TEXT))
        writer.start()
        counts = tm.count(pipe)
        writer.join()
        assert counts.report is not None
        assert counts.report.documents == 3000

    def test_errors_are_ours_and_builtin(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="does not exist") as caught:
            tm.train(tmp_path / "absent.txt")
        assert isinstance(caught.value, TokenmillError)


class TestOddTexts:
    @pytest.mark.parametrize("text", [b"", b"a", b"<|endoftext|>", b"<|endoftext|>" * 5, b"\n"])
    def test_next_to_nothing_works(self, tmp_path: Path, text: bytes) -> None:
        (tmp_path / "a.txt").write_bytes(text)
        tokenizer = tm.train(tmp_path / "a.txt")
        assert tokenizer.vocab_size == 257
        assert tokenizer.training.stopped == "no pairs"
        assert tokenizer.decode(tokenizer.encode("still works")) == "still works"

    @pytest.mark.parametrize("letter", [b"a", b" ", b"\n", "漢".encode()])
    def test_a_long_run_of_one_letter(self, tmp_path: Path, letter: bytes) -> None:
        (tmp_path / "a.txt").write_bytes(letter * ((1 << 22) // len(letter)))
        tokenizer = tm.train(tmp_path / "a.txt", vocab_size=300)
        assert tokenizer.training.read.bytes == len(letter) * ((1 << 22) // len(letter))

    def test_one_long_line(self, tmp_path: Path) -> None:
        words = b" ".join(b"%d" % (n * 7919) for n in range(500_000))
        (tmp_path / "a.txt").write_bytes(words)
        (tmp_path / "a.jsonl").write_bytes(b'{"text": "' + words + b'"}')
        assert tm.count(tmp_path / "a.txt") == tm.count(tmp_path / "a.jsonl")
