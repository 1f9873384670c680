"""Same bytes out: threads, order of files, blocks, units, formats and a kill -9 in the middle never
show."""

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tokenmill as tm
from tokenmill.work.folder import units_done

SEPARATOR = "<|endoftext|>"
WORDS = [
    "low",
    "lower",
    "lowest",
    "new",
    "newer",
    "naïve",
    "漢字",
    "2026",
    "don't",
    "e\u0301",
    "🇩🇪",
    "a" * 300,
]


def make_documents(count: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    spaces = [" ", "  ", "\n", "\r\n", "\t", " \n "]
    return [
        "".join(rng.choice(WORDS) + rng.choice(spaces) for _ in range(rng.randint(1, 60)))
        for _ in range(count)
    ]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seven files in four formats."""
    folder = tmp_path_factory.mktemp("corpus")
    documents = make_documents(210, seed=1)
    parts = [documents[start : start + 30] for start in range(0, 210, 30)]
    for number in (0, 1):
        (folder / f"{number}.txt").write_text(SEPARATOR.join(parts[number]), newline="")
    for number in (2, 3):
        lines = [json.dumps({"text": text}) for text in parts[number]]
        (folder / f"{number}.jsonl").write_text("\n".join(lines))
    for number in (4, 5):
        pq.write_table(
            pa.table({"text": parts[number]}), folder / f"{number}.parquet", row_group_size=7
        )
    with pa.ipc.new_stream(folder / "6.arrow", pa.schema([("text", pa.string())])) as writer:
        writer.write_table(pa.table({"text": parts[6]}), max_chunksize=9)
    return folder


def folder_hash(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


@pytest.fixture(scope="module")
def expected(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Hashes of the tokenizer folder and the counts file of an ordinary run."""
    place = tmp_path_factory.mktemp("expected")
    tm.train(corpus, vocab_size=400, out=place / "tok", threads=1)
    tm.count(corpus, out=place / "counts", threads=1)
    return folder_hash(place / "tok"), hashlib.sha256((place / "counts").read_bytes()).hexdigest()


@pytest.mark.parametrize("threads", [1, 2, 3, 7, 64])
def test_threads(corpus: Path, expected: tuple[str, str], tmp_path: Path, threads: int) -> None:
    tm.train(corpus, vocab_size=400, out=tmp_path / "tok", threads=threads)
    assert folder_hash(tmp_path / "tok") == expected[0]
    tm.count(corpus, out=tmp_path / "counts", threads=threads)
    assert hashlib.sha256((tmp_path / "counts").read_bytes()).hexdigest() == expected[1]


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_files(
    corpus: Path, expected: tuple[str, str], tmp_path: Path, seed: int
) -> None:
    files = sorted(corpus.iterdir())
    random.Random(seed).shuffle(files)
    tm.train(files, vocab_size=400, out=tmp_path / "tok")
    assert folder_hash(tmp_path / "tok") == expected[0]


@pytest.mark.parametrize("block_bytes", [16, 129, 4097, 1 << 20])
@pytest.mark.parametrize("unit_bytes", [9000, 10**9])
def test_blocks_and_units(
    corpus: Path, expected: tuple[str, str], tmp_path: Path, block_bytes: int, unit_bytes: int
) -> None:
    out = tmp_path / "counts"
    tm.count(corpus, out=out, threads=3, block_bytes=block_bytes, unit_bytes=unit_bytes)
    assert hashlib.sha256(out.read_bytes()).hexdigest() == expected[1]


@pytest.mark.parametrize("limits", [{"max_chars": 50_000}, {"max_bytes": 50_000}, {"doc_cap": 37}])
def test_limits_cut_at_the_same_place(corpus: Path, tmp_path: Path, limits: dict[str, int]) -> None:
    keywords: dict[str, Any] = {**limits}
    whole = tm.count(corpus, threads=1, **keywords)
    assert whole.report is not None
    for threads, block_bytes, unit_bytes in (
        (3, 16, 9000),
        (64, 4097, 20_000),
        (2, 1 << 20, 10**9),
    ):
        out = tmp_path / f"counts-{threads}"
        counts = tm.count(
            corpus,
            out=out,
            threads=threads,
            block_bytes=block_bytes,
            unit_bytes=unit_bytes,
            **keywords,
        )
        assert counts == whole
        assert counts.report is not None
        assert counts.report.documents == whole.report.documents


documents_strategy = st.lists(st.text(st.sampled_from("ab é漢\n'1<|>"), max_size=40), max_size=8)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    documents_strategy,
    st.integers(16, 64),
    st.integers(4, 50),
    st.sampled_from([SEPARATOR, "\n", "\n\n", "ab", "aba"]),
)
def test_sums_of_parts_are_counts_of_the_whole(
    tmp_path: Path, texts: list[str], block_bytes: int, unit_bytes: int, separator: str
) -> None:
    """Any text, any separator, cut anywhere: units add up to the whole, and so do documents counted
    one by one."""
    file = tmp_path / "a.txt"
    file.write_text(separator.join(texts), newline="")
    shutil.rmtree(tmp_path / "counts", ignore_errors=True)
    whole = tm.count(file, separator=separator)
    pieces = file.read_bytes().decode().split(separator)
    one_by_one = tm.count(iter(piece for piece in pieces if piece))
    assert whole == one_by_one
    in_units = tm.count(
        file,
        separator=separator,
        out=tmp_path / "counts",
        force=True,
        unit_bytes=unit_bytes,
        block_bytes=block_bytes,
    )
    assert in_units == whole
    total = tm.PretokenCounts.from_dict({})
    for piece in pieces:
        total = total + tm.count(iter([piece] if piece else []))
    assert total == whole


@pytest.mark.parametrize("separator", ["\n\n", "aba", "aa", "ab"])
def test_separators_that_overlap_themselves_are_found_alike_in_units(
    tmp_path: Path, separator: str
) -> None:
    rng = random.Random(5)
    file = tmp_path / "a.txt"
    for _ in range(25):
        text = "".join(rng.choices("ab" if "a" in separator else "a\n", k=40))
        file.write_text(text, newline="")
        keywords: dict[str, Any] = {"separator": separator, "pattern": "(?s:.+)"}
        whole = tm.count(file, **keywords)
        assert whole.to_dict() == Counter(
            piece.encode() for piece in text.split(separator) if piece
        )
        out = tmp_path / "counts"
        units = tm.count(file, out=out, force=True, unit_bytes=rng.randint(5, 20), **keywords)
        assert units == whole


KILLABLE = """
import sys, time
import tokenmill as tm
from tokenmill.work.folder import WorkFolder
write_note = WorkFolder.write_note
def slow_note(self, unit, note):
    write_note(self, unit, note)
    time.sleep(0.05)
WorkFolder.write_note = slow_note
tm.count(sys.argv[1], out=sys.argv[2], unit_bytes=3000, block_bytes=500)
"""


def test_kill_and_resume(corpus: Path, expected: tuple[str, str], tmp_path: Path) -> None:
    """Killed again and again, a count still ends with the bytes of an undisturbed one."""
    out = tmp_path / "counts"
    rng = random.Random(3)
    progress: list[int] = []
    for _ in range(3):
        kill_after_progress(corpus, out, progress[-1] if progress else 0, rng.random() * 0.1)
        assert not out.exists(), "killed long before the end"
        progress.append((units_done(out) or (0, 0))[0])
    assert progress == sorted(set(progress)), "every run went on from the one before"
    tm.count(corpus, out=out, unit_bytes=3000)
    assert hashlib.sha256(out.read_bytes()).hexdigest() == expected[1]
    assert os.listdir(tmp_path) == ["counts"]


def kill_after_progress(corpus: Path, out: Path, already: int, delay_seconds: float) -> None:
    """Start a count, and kill it a moment after it has done more units than `already`."""
    process = subprocess.Popen([sys.executable, "-c", KILLABLE, str(corpus), str(out)])
    deadline = time.monotonic() + 60
    while process.poll() is None and (units_done(out) or (0, 0))[0] <= already:
        assert time.monotonic() < deadline, "nothing happened"
        time.sleep(0.005)
    time.sleep(delay_seconds)
    process.send_signal(signal.SIGKILL)
    process.wait()
