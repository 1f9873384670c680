"""Token files and manifests that lie, are cut or are something else: an error, never a crash.

A mapped file that is shorter than it should be kills the process; so everything runs in a child where
that would be seen.
"""

import json
import random
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from make_dataset import TEXTS, encoded, make_dataset, masked, small_tokenizer

from tokenmill.dataset.layouts import LAYOUTS

TOKENIZER = small_tokenizer()
READ_ALL = """
import sys, json
from pathlib import Path
import tokenmill as tm
outcomes = {"read": 0, "refused": 0}
for line in sys.stdin:
    file, place, kind, path, options = json.loads(line)
    file = Path(file)
    data = file.read_bytes()
    changed = bytearray(data)
    if kind == "cut":
        del changed[place:]
    elif kind == "grow":
        changed += b"\\xff" * (place % 64 + 1)
    else:
        changed[place : place + 8] = bytes.fromhex(kind)[: len(changed[place : place + 8])]
    file.write_bytes(bytes(changed))
    try:
        dataset = tm.Dataset.open(path, **options)
        for split in dataset.splits.values():
            int(sum(int(t) for t in split.tokens[:]))
            if split.num_documents:
                [d.tolist() for d in split]
                split.document(split.num_documents - 1)
                split.bytes_of(0)
        outcomes["read"] += 1
    except tm.TokenmillError as error:
        assert str(error)
        outcomes["refused"] += 1
    file.write_bytes(data)
print(json.dumps(outcomes))
"""


def outcomes(cases: list[tuple[str, int, str, str, dict[str, str]]]) -> dict[str, int]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", READ_ALL],
        input="".join(json.dumps(case) + "\n" for case in cases),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, (done.returncode, done.stderr)
    return json.loads(done.stdout)


def damage(files: list[Path], path: Path, options: dict[str, str], count: int, seed: str) -> list:
    rng = random.Random(seed)
    kinds = ["cut", "grow", "00" * 8, "ff" * 8, "7f" + "ff" * 7, "80" + "00" * 7, "01" * 8]
    cases = []
    for number in range(count):
        file = files[number % len(files)]
        place = rng.choice([0, 8, 9, 17, 18, 26, 34, rng.randrange(file.stat().st_size)])
        place = min(place, file.stat().st_size - 1)
        cases.append((str(file), place, rng.choice(kinds), str(path), options))
    return cases


@pytest.mark.parametrize("layout", LAYOUTS)
def test_damaged_datasets(tmp_path: Path, layout: str) -> None:
    rows = masked(TOKENIZER, [("say hi: ", "hi"), ("the ", "cat sat"), ("", "on the mat")])
    path = make_dataset(tmp_path / "ids", TOKENIZER, {"train": rows}, layout=layout, mode="sft")
    files = [f for f in path.rglob("*") if f.is_file() and f.parent.name != "tokenizer"]
    found = outcomes(damage(files, path, {}, 150, layout))
    assert found["refused"] > 50


def test_damaged_files_of_others(tmp_path: Path) -> None:
    documents = encoded(TOKENIZER, TEXTS)
    cases = []
    for layout in ("megatron", "datatrove", "llmc", "npy"):
        path = make_dataset(tmp_path / layout, TOKENIZER, {"train": documents}, layout=layout)
        (path / "manifest.json").unlink()
        tokens = next(
            file
            for file in sorted(path.rglob("*"))
            if file.suffix in (".bin", ".ds", ".npy")
            and "documents" not in file.name
            and "bytes" not in file.name
        )
        files = [f for f in tokens.parent.iterdir() if f.name.startswith(tokens.name.split(".")[0])]
        cases += damage(files, tokens, {}, 100, layout)
    assert outcomes(cases)["refused"] > 100


def test_sizes_beyond_any_memory(tmp_path: Path) -> None:
    """Headers that promise more than there is are refused before anything is set aside for them."""
    cases = []
    for number, count in enumerate((2**31, 2**40, 2**62, 2**64 - 1)):
        (tmp_path / f"x{number}.bin").write_bytes(bytes(16))
        index = tmp_path / f"x{number}.idx"
        index.write_bytes(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, count, count) + bytes(64))
        cases.append((str(index), 500, "cut", str(tmp_path / f"x{number}"), {}))
    path = tmp_path / "y.npy"
    np.save(path, np.zeros(3, "uint16"))
    small, large = b"(3,), }" + b" " * 16, b"(99999999999999999,), }"
    assert small in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(small, large))
    cases.append((str(path), 500, "cut", str(path), {}))
    assert outcomes(cases) == {"read": 0, "refused": 5}
