"""verify: whatever changed is found and named, and what did not change is sound."""

import hashlib
import os
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from make_dataset import TEXTS, encoded, make_dataset, masked, small_tokenizer

import tokenmill as tm
from tokenmill.dataset.layouts import LAYOUTS
from tokenmill.dataset.manifest import InputRecord, Manifest, record_file
from tokenmill.report.verification import verify

TOKENIZER = small_tokenizer()
DOCUMENTS = encoded(TOKENIZER, TEXTS)
ROWS = masked(TOKENIZER, [("say hi: ", "hi"), ("the ", "cat sat"), ("", "on the mat")])


def whole(folder: Path, layout: str = "npy", mode: str = "sft") -> Path:
    splits = {"train": ROWS, "validation": ROWS[:1]} if mode == "sft" else {"train": DOCUMENTS}
    return make_dataset(folder, TOKENIZER, splits, layout=layout, mode=mode)


def rewrite(folder: Path, **changes: object) -> None:
    """Another manifest with right hashes."""
    path = folder / "manifest.json"
    manifest = Manifest.from_json(path.read_bytes())
    path.write_bytes(replace(manifest, **changes).to_json())  # pyright: ignore


def rehash(folder: Path, file: str) -> None:
    """The manifest as if `file` had always been what it is now."""
    manifest = Manifest.from_json((folder / "manifest.json").read_bytes())
    record = record_file(folder, file)
    splits = {
        name: replace(
            split,
            shards=tuple(
                replace(
                    shard,
                    files={k: record if r.path == file else r for k, r in shard.files.items()},
                )
                for shard in split.shards
            ),
        )
        for name, split in manifest.splits.items()
    }
    rewrite(folder, splits=splits)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("mode", ["pretrain", "sft"])
def test_what_is_whole_is_sound(tmp_path: Path, layout: str, mode: str) -> None:
    path = whole(tmp_path / "ids", layout, mode)
    findings = verify(path)
    files = [file for file in path.rglob("*") if file.is_file()]
    assert findings.is_sound, findings.problems
    assert findings.warnings == []
    assert (findings.kind, findings.files) == ("dataset", len(files))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_thousand_flips_and_cuts_are_all_found(tmp_path: Path, layout: str) -> None:
    """Two hundred for each of the five layouts, spread over all files, the manifest among them."""
    path = whole(tmp_path / "ids", layout)
    files = sorted(file for file in path.rglob("*") if file.is_file())
    rng = random.Random(layout)
    touched = set[Path]()
    for number in range(200):
        # The small files first, then whatever the sizes make likely.
        file = files[number] if number < len(files) else rng.choice(files)
        data = file.read_bytes()
        changed = bytearray(data)
        place = rng.randrange(len(data))
        if number % 4 == 3:
            del changed[place:]
        else:
            changed[place] ^= 1 << rng.randrange(8)
        file.write_bytes(bytes(changed))
        findings = verify(path, threads=1)
        name = file.relative_to(path).as_posix()
        assert not findings.is_sound, (name, place)
        assert any(problem.file in (name, "tokenizer") for problem in findings.problems)
        file.write_bytes(data)
        touched.add(file)
    assert touched == set(files)
    assert verify(path).is_sound


def test_missing_and_unknown_files(tmp_path: Path) -> None:
    path = whole(tmp_path / "ids")
    (path / "train/bytes-00000.npy").unlink()
    (path / "notes.txt").write_text("mine")
    (path / "train/tokens-00001.npy").write_bytes(b"")
    findings = verify(path)
    assert [str(problem) for problem in findings.problems] == [
        "`train/bytes-00000.npy` does not exist"
    ]
    assert [warning.file for warning in findings.warnings] == [
        "notes.txt",
        "train/tokens-00001.npy",
    ]


def test_a_pipe_in_the_place_of_a_file(tmp_path: Path) -> None:
    path = whole(tmp_path / "ids")
    (path / "train/bytes-00000.npy").unlink()
    os.mkfifo(path / "train/bytes-00000.npy")
    assert [str(problem) for problem in verify(path).problems] == [
        "`train/bytes-00000.npy` is no regular file"
    ]


def test_contents_are_checked_where_hashes_are_right(tmp_path: Path) -> None:
    """A writer with a bug hashes its own mistakes."""
    cases = {
        "train/tokens-00000.npy": ("uint16", [TOKENIZER.vocab_size], "has id 300 at token 0"),
        "train/documents-00000.npy": ("uint64", [9, 3], "document 1 end before the one before it"),
        "train/bytes-00000.npy": ("uint64", [1], "adds up to"),
        "train/mask-00000.npy": ("uint8", [2], "has 2 at item 0, not 0 or 1"),
    }
    for number, (name, (dtype, start, message)) in enumerate(cases.items()):
        path = whole(tmp_path / str(number))
        array = np.load(path / name)
        array[: len(start)] = np.array(start, dtype)
        np.save(path / name, array)
        rehash(path, name)
        problems = [str(problem) for problem in verify(path).problems]
        assert len(problems) == 1, problems
        assert name in problems[0]
        assert message in problems[0]


def test_an_end_that_is_not_the_end(tmp_path: Path) -> None:
    path = whole(tmp_path / "ids")
    file = path / "train/documents-00000.npy"
    ends = np.load(file)
    ends[-1] -= 1
    np.save(file, ends)
    rehash(path, "train/documents-00000.npy")
    assert "ends at token" in str(verify(path).problems[0])


def test_another_header(tmp_path: Path) -> None:
    path = whole(tmp_path / "ids", "llmc", "pretrain")
    file = next(path.glob("*_train_*.bin"))
    data = bytearray(file.read_bytes())
    data[8] ^= 1
    file.write_bytes(bytes(data))
    rehash(path, file.name)
    assert "starts with another header" in str(verify(path).problems[0])


def test_another_tokenizer(tmp_path: Path) -> None:
    path = whole(tmp_path / "ids")
    other = small_tokenizer(280)
    assert verify(path, tokenizer=TOKENIZER).is_sound
    problem = str(verify(path, tokenizer=other).problems[0])
    assert TOKENIZER.sha256 in problem
    assert other.sha256 in problem
    other.save(path / "tokenizer", force=True)
    problems = " ".join(str(problem) for problem in verify(path).problems)
    assert other.sha256 in problems


def test_sources(tmp_path: Path) -> None:
    texts = tmp_path / "texts"
    (texts / "train").mkdir(parents=True)
    (texts / "validation").mkdir()
    inputs: list[InputRecord] = []
    for split in ("train", "validation"):
        data = f"the {split}".encode()
        (texts / split / "a.txt").write_bytes(data)
        digest = hashlib.sha256(data).hexdigest()
        inputs.append(InputRecord("a.txt", len(data), digest, split))
    path = make_dataset(tmp_path / "ids", TOKENIZER, {"train": DOCUMENTS}, inputs=inputs)
    assert verify(path, source=texts).is_sound
    assert verify(path, source=texts).files == verify(path).files + 2
    (texts / "validation/a.txt").write_bytes(b"the vAlidation")
    problems = verify(path, source=texts).problems
    assert [problem.file for problem in problems] == ["a.txt"]
    (texts / "train/a.txt").unlink()
    (texts / "validation/a.txt").unlink()
    assert "is not in" in str(verify(path, source=texts).problems[0])
    with pytest.raises(tm.SourceError, match="does not exist"):
        verify(path, source=tmp_path / "nowhere")


def test_what_was_no_file_is_a_warning(tmp_path: Path) -> None:
    inputs = [InputRecord("stdin", None, None, "train")]
    path = make_dataset(tmp_path / "ids", TOKENIZER, {"train": DOCUMENTS}, inputs=inputs)
    findings = verify(path, source=tmp_path)
    assert findings.is_sound
    assert "was no file" in str(findings.warnings[0])


def test_a_tokenizer_folder(tmp_path: Path) -> None:
    folder = TOKENIZER.save(tmp_path / "tok")
    findings = verify(folder)
    assert findings.is_sound, findings.problems
    assert (findings.kind, findings.files) == ("tokenizer", len(list(folder.iterdir())))
    for file in sorted(folder.iterdir()):
        if file.name == "manifest.json":
            continue
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(bytes(data))
        assert any(problem.file == file.name for problem in verify(folder).problems)
        data[len(data) // 2] ^= 1
        file.write_bytes(bytes(data))
    manifest = folder / "manifest.json"
    manifest.write_bytes(manifest.read_bytes().replace(b'"vocab_size": 300', b'"vocab_size": 301'))
    assert "`vocab_size` is 301, but it is 300" in str(verify(folder).problems[0])


def test_counts(tmp_path: Path) -> None:
    text = tmp_path / "a.txt"
    text.write_text("the cat sat on the mat")
    tm.count(text).save(tmp_path / "c.parquet")
    assert verify(tmp_path / "c.parquet", source=tmp_path).is_sound
    text.write_text("the cat sat on the hat")
    assert not verify(tmp_path / "c.parquet", source=tmp_path).is_sound
    data = (tmp_path / "c.parquet").read_bytes()
    (tmp_path / "c.parquet").write_bytes(data[:-9])
    assert not verify(tmp_path / "c.parquet").is_sound


def test_flipped_bits_in_counts(tmp_path: Path) -> None:
    """Whatever changes the counts or what they come from is found. Statistics that Parquet keeps
    for other readers are left to them."""
    text = tmp_path / "a.txt"
    text.write_text(" ".join(f"word{i % 97}" for i in range(2000)))
    path = tmp_path / "c.parquet"
    saved = tm.count(text)
    saved.save(path)
    data = path.read_bytes()
    rng = random.Random(1)
    for _ in range(200):
        changed = bytearray(data)
        changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(bytes(changed))
        if verify(path).is_sound:
            found = tm.PretokenCounts.load(path)
            assert found == saved
            assert found.origin.as_json() == saved.origin.as_json()


def test_what_does_not_describe_itself(tmp_path: Path) -> None:
    with pytest.raises(tm.ConfigError, match="nothing to compare it with"):
        verify(tmp_path)
    with pytest.raises(tm.SourceError, match="does not exist"):
        verify(tmp_path / "nowhere")
