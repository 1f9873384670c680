"""What people name becomes a list of files in the right order."""

import glob
import json
import os
from pathlib import Path

import pytest

import tokenmill as tm
from tokenmill.errors import ConfigError, FormatError, SourceError
from tokenmill.sources.documents import Documents
from tokenmill.sources.inputs import find_inputs
from tokenmill.sources.options import ReadOptions
from tokenmill.sources.text_files import InputFile, InputStream


def names(inputs: object, base: Path, **options: str) -> list[str]:
    found = find_inputs(inputs, ReadOptions.from_keywords(options))
    return [os.path.relpath(source.name, base) for source in found]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in (
        "b.txt",
        "a.jsonl.zst",
        "a/2.parquet",
        "a/10.txt",
        "a-b/c.arrow",
        "README.md",
        ".hidden.txt",
        ".git/x.txt",
        "c.txt.part",
        "half.partial/x.txt",
        "UPPER.TXT.GZ",
        "d.feather",
        "e.ipc.bz2",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    return tmp_path


def test_a_folder_is_walked_and_sorted_by_path(tree: Path) -> None:
    visible = ["UPPER.TXT.GZ", "a-b/c.arrow", "a.jsonl.zst", "a/10.txt", "a/2.parquet"]
    visible += ["b.txt", "d.feather", "e.ipc.bz2"]
    assert names(tree, tree) == visible == sorted(visible)


def test_inputs_keep_the_order_they_are_given_in(tree: Path) -> None:
    given = [tree / "b.txt", str(tree / "a"), tree / "UPPER.TXT.GZ"]
    assert names(given, tree) == ["b.txt", "a/10.txt", "a/2.parquet", "UPPER.TXT.GZ"]


def test_globs_are_sorted_and_see_no_unfinished_files(tree: Path) -> None:
    assert names(f"{tree}/*.txt*", tree) == ["b.txt"]
    assert names(f"{tree}/**/*.txt", tree) == ["a/10.txt", "b.txt"]
    assert names(f"{tree}/a*", tree) == ["a-b/c.arrow", "a.jsonl.zst", "a/10.txt", "a/2.parquet"]


def test_a_name_with_glob_signs_that_exists_is_that_file(tmp_path: Path) -> None:
    (tmp_path / "a[1].txt").write_bytes(b"x")
    assert names(f"{tmp_path}/a[1].txt", tmp_path) == ["a[1].txt"]


def test_links_are_followed_and_loops_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "x.txt").write_bytes(b"x")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "link").symlink_to(tmp_path / "real")
    assert names(tmp_path / "data", tmp_path / "data") == ["link/x.txt"]
    (tmp_path / "data" / "back").symlink_to(tmp_path / "data")
    with pytest.raises(SourceError, match="leads back"):
        names(tmp_path / "data", tmp_path)


def test_a_given_format_takes_every_visible_file(tree: Path) -> None:
    assert "README.md" in names(tree, tree, input_format="txt")
    found = find_inputs(tree / "README.md", ReadOptions(input_format="jsonl.gz"))
    assert isinstance(found[0], InputFile)
    assert found[0].format == ("jsonl", "gz")


def test_shards_choose_in_folders_and_globs_only(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"shard_{number:05}.txt").write_bytes(b"x")
    assert names(tmp_path, tmp_path, shards="..2") == ["shard_00000.txt", "shard_00001.txt"]
    assert names(f"{tmp_path}/*.txt", tmp_path, shards="-1") == ["shard_00004.txt"]
    with pytest.raises(ConfigError, match="is a file"):
        names(tmp_path / "shard_00000.txt", tmp_path, shards="0")


def test_saved_datasets_are_read_in_their_own_order(tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    saved.mkdir()
    for name in ("data-00000-of-00002.arrow", "data-00001-of-00002.arrow", "cache-1.arrow"):
        (saved / name).write_bytes(b"x")
    files = ["data-00001-of-00002.arrow", "data-00000-of-00002.arrow"]
    (saved / "dataset_info.json").write_text("{}")
    (saved / "state.json").write_text(
        json.dumps({"_data_files": [{"filename": name} for name in files]})
    )
    assert names(tmp_path, saved) == files
    (saved / "state.json").write_text(
        json.dumps({"_data_files": [{"filename": "../../etc/passwd"}]})
    )
    with pytest.raises(FormatError, match="outside its folder"):
        names(saved, saved)
    (saved / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data-9.arrow"}]}))
    with pytest.raises(SourceError, match=r"without its file `data-9\.arrow`"):
        names(saved, saved)
    (saved / "state.json").write_text("{")
    with pytest.raises(FormatError, match="is not JSON"):
        names(saved, saved)


def test_a_dataset_of_several_splits_wants_one_named(tmp_path: Path) -> None:
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    with pytest.raises(SourceError, match="splits `train`, `test`") as caught:
        names(tmp_path, tmp_path)
    assert str(tmp_path / "train") in str(caught.value.hint)


def test_what_is_missing_is_named_with_what_was_found(tree: Path) -> None:
    with pytest.raises(SourceError, match=r"b\.text` does not exist") as caught:
        names(tree / "b.text", tree)
    assert "b.txt" in str(caught.value.hint)
    with pytest.raises(SourceError, match="no file matches") as caught:
        names(f"{tree}/*.csv", tree)
    assert "`README.md`" in str(caught.value.hint)
    with pytest.raises(SourceError, match="no file matches") as caught:
        names(f"{tree}/nowhere/*.csv", tree)
    assert "does not exist" in str(caught.value.hint)
    (tree / "empty").mkdir()
    with pytest.raises(SourceError, match="holds no text; found nothing"):
        names(tree / "empty", tree)
    (tree / "empty" / "x.csv").write_bytes(b"")
    with pytest.raises(SourceError, match=r"holds no text; found `x\.csv`"):
        names(tree / "empty", tree)
    with pytest.raises(SourceError, match="still being written"):
        names(tree / "c.txt.part", tree)
    with pytest.raises(ConfigError, match="cannot tell the format"):
        names(tree / "README.md", tree)
    with pytest.raises(ConfigError, match="cannot tell the format of `-`"):
        names("-", tree)
    with pytest.raises(ConfigError, match="no input was given"):
        names([], tree)


def test_documents_and_paths_are_told_apart(tree: Path) -> None:
    generator = (text for text in ["a", "b"])
    assert isinstance(find_inputs(generator, ReadOptions())[0], Documents)
    assert isinstance(find_inputs([b"one", b"two"], ReadOptions())[0], Documents)
    with pytest.raises(SourceError, match="reads like a document") as caught:
        find_inputs(["A document\nof two lines"], ReadOptions())
    assert "tm.documents" in str(caught.value.hint)
    with pytest.raises(SourceError, match="reads like a document"):
        find_inputs("word " * 2000, ReadOptions())
    with pytest.raises(ConfigError, match="mapping"):
        find_inputs({"low": 5}, ReadOptions())
    with pytest.raises(ConfigError, match="a set, which has no order"):
        find_inputs({"a.txt"}, ReadOptions())
    with pytest.raises(ConfigError, match="cannot read text from `int`"):
        find_inputs(7, ReadOptions())
    with open(tree / "b.txt") as file, pytest.raises(ConfigError, match="text mode"):
        find_inputs(file, ReadOptions())
    with open(tree / "b.txt", "rb") as file:
        assert isinstance(find_inputs(file, ReadOptions())[0], InputStream)


def test_names_of_files_are_not_taken_for_documents(tree: Path) -> None:
    for paths in (tree.glob("*.txt"), glob.iglob(f"{tree}/*.txt")):
        with pytest.raises(SourceError, match="which is the path of a file") as caught:
            tm.count(paths)
        assert caught.value.hint == "paths go into a list; wrap documents in `tm.documents(...)`"
    assert tm.count(tm.documents([str(tree / "b.txt")])).occurrences > 1


def test_a_file_named_twice_is_read_twice_and_said(
    tree: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert tm.count([tree / "b.txt", tree / "b.txt"]).to_dict() == {b"x": 2}
    assert "is named twice" in caplog.text


def test_unknown_choices_know_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match="unknown input format `jsnl`") as caught:
        ReadOptions(input_format="jsnl")
    assert caught.value.hint == "did you mean `jsonl`?"
    with pytest.raises(ConfigError, match="unknown compression `xz`"):
        ReadOptions(input_format="txt.xz")
    with pytest.raises(ConfigError, match="unknown on-error rule `skp`"):
        ReadOptions(on_error="skp")
    with pytest.raises(ConfigError, match="unknown rule for invalid UTF-8"):
        ReadOptions(invalid_utf8="ignore")
    with pytest.raises(ConfigError, match="separator is empty"):
        ReadOptions(separator="")
    with pytest.raises(ConfigError, match="doc cap 0 is below 1"):
        ReadOptions(doc_cap=0)
    with pytest.raises(TypeError, match="did you mean `separator`"):
        ReadOptions.from_keywords({"seperator": "x"})
