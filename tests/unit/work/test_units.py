"""Plans are functions of content; a work folder keeps exactly what a new plan can use."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

import tokenmill as tm
from tokenmill.errors import ConfigError, SourceError
from tokenmill.sources.inputs import find_inputs
from tokenmill.sources.options import ReadOptions
from tokenmill.sources.text_files import InputFile
from tokenmill.work.folder import WorkFolder, units_done, work_folder_of
from tokenmill.work.units import Unit, plan_units

SEPARATOR = "<|endoftext|>"


def write_texts(folder: Path, sizes: list[int]) -> list[Path]:
    folder.mkdir(exist_ok=True)
    files = [folder / f"{index:03}.txt" for index in range(len(sizes))]
    for index, (file, size) in enumerate(zip(files, sizes, strict=True)):
        words = SEPARATOR.join(f"document {index} {n} low lower" for n in range(size // 30 + 1))
        file.write_text(words[:size].ljust(size, "x"))
    return files


def plan(
    folder: Path, unit_bytes: int, settings: dict[str, object] | None = None, **options: Any
) -> list[Unit]:
    read = ReadOptions(**options)
    files = [file for file in find_inputs(folder, read) if isinstance(file, InputFile)]
    return plan_units(files, read, settings or {"pattern": "gpt4"}, unit_bytes)


def names(units: list[Unit]) -> list[str]:
    return [unit.name for unit in units]


def test_small_files_share_a_unit_and_large_ones_are_cut(tmp_path: Path) -> None:
    write_texts(tmp_path / "d", [400, 500, 300, 2500, 100])
    units = plan(tmp_path / "d", 1000)
    shapes = [
        [(part.file.file_name, part.part and part.part[:2]) for part in unit.parts]
        for unit in units
    ]
    assert shapes == [
        [("000.txt", None), ("001.txt", None)],
        [("002.txt", None)],
        [("003.txt", (0, 1000))],
        [("003.txt", (1000, 2000))],
        [("003.txt", (2000, 2500)), ("004.txt", None)],
    ]
    assert sum(unit.size_in_bytes for unit in units) == 3800


def test_what_cannot_be_entered_in_the_middle_stays_whole(tmp_path: Path) -> None:
    write_texts(tmp_path / "d", [5000])
    assert len(plan(tmp_path / "d", 1000)) == 5
    assert len(plan(tmp_path / "d", 1000, separator="\n\n")) == 1


def test_a_plan_made_again_is_the_same_plan(tmp_path: Path) -> None:
    files = write_texts(tmp_path / "d", [400, 500, 300])
    first = names(plan(tmp_path / "d", 500))
    assert names(plan(tmp_path / "d", 500)) == first
    assert names(plan(tmp_path / "d", 500, {"pattern": "gpt2"})) != first
    os.utime(files[1], ns=(0, 0))
    changed = names(plan(tmp_path / "d", 500))
    assert [a == b for a, b in zip(first, changed, strict=True)] == [True, False, True]
    # Under a limit, what a unit gives depends on the units before it.
    limited = names(plan(tmp_path / "d", 500, max_chars=1000))
    os.utime(files[1], ns=(1, 1))
    relimited = names(plan(tmp_path / "d", 500, max_chars=1000))
    assert [a == b for a, b in zip(limited, relimited, strict=True)] == [True, False, False]


class Stop(Exception):
    pass


def interrupt_after(monkeypatch: pytest.MonkeyPatch, units: int) -> None:
    """Let `units` units be saved, then fail."""
    write_note = WorkFolder.write_note
    saved: list[str] = []

    def save_then_stop(self: WorkFolder, unit: Unit, note: Any) -> None:
        write_note(self, unit, note)
        saved.append(unit.name)
        if len(saved) >= units:
            raise Stop

    monkeypatch.setattr(WorkFolder, "write_note", save_then_stop)


@pytest.mark.parametrize("limits", [{}, {"max_chars": 3000}, {"max_bytes": 2000, "doc_cap": 11}])
def test_an_interrupted_count_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits: dict[str, int]
) -> None:
    write_texts(tmp_path / "d", [900, 300, 2500, 100, 1000])
    out = tmp_path / "counts.parquet"
    whole = tm.count(tmp_path / "d", **limits)  # pyright: ignore[reportArgumentType]
    with monkeypatch.context() as patch:
        interrupt_after(patch, 2)
        with pytest.raises(Stop):
            tm.count(tmp_path / "d", out=out, unit_bytes=700, **limits)  # pyright: ignore[reportArgumentType]
    assert not out.exists()
    done = units_done(out)
    assert done is not None
    assert done[0] == 2 < done[1]
    loaded: list[bool] = []
    note = WorkFolder.note

    def watch(self: WorkFolder, unit: Unit) -> Any:
        found = note(self, unit)
        loaded.append(found is not None)
        return found

    monkeypatch.setattr(WorkFolder, "note", watch)
    counts = tm.count(tmp_path / "d", out=out, unit_bytes=700, **limits)  # pyright: ignore[reportArgumentType]
    assert loaded[:2] == [True, True]
    assert not any(loaded[2:])
    assert counts == whole
    assert counts.report is not None
    assert whole.report is not None
    for name in (
        "documents",
        "bytes",
        "chars",
        "capped_documents",
        "special_tokens",
        "limit_reached",
    ):
        assert getattr(counts.report, name) == getattr(whole.report, name), name
    assert sorted(os.listdir(tmp_path)) == ["counts.parquet", "d"]


def test_a_damaged_unit_is_counted_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_texts(tmp_path / "d", [900, 900, 900])
    out = tmp_path / "counts.parquet"
    with monkeypatch.context() as patch:
        interrupt_after(patch, 2)
        with pytest.raises(Stop):
            tm.count(tmp_path / "d", out=out, unit_bytes=700)
    folder = work_folder_of(out)
    first, second = sorted(folder.glob("*.counts"))
    first.write_bytes(first.read_bytes()[:-1] + b"!")
    second.with_suffix(".json").write_text("{")
    assert tm.count(tmp_path / "d", out=out, unit_bytes=700) == tm.count(tmp_path / "d")


def test_another_plan_drops_what_it_cannot_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = write_texts(tmp_path / "d", [900, 900, 900])
    out = tmp_path / "counts.parquet"
    with monkeypatch.context() as patch:
        interrupt_after(patch, 2)
        with pytest.raises(Stop):
            tm.count(tmp_path / "d", out=out, unit_bytes=900)
    files[0].write_text("another text altogether")
    counts = tm.count(tmp_path / "d", out=out, unit_bytes=900)
    assert counts == tm.count(tmp_path / "d")
    assert b" altogether" in counts.to_dict()


def test_two_runs_do_not_share_a_work_folder(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("low")
    with WorkFolder(tmp_path / "out"), pytest.raises(ConfigError, match="another run is at work"):
        tm.count(tmp_path / "a.txt", out=tmp_path / "out")


def test_a_folder_of_somebody_else_is_not_taken_for_work(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("low")
    (tmp_path / "out.partial").mkdir()
    (tmp_path / "out.partial" / "thesis.tex").write_text("years of work")
    with pytest.raises(ConfigError, match="is in the way"):
        tm.count(tmp_path / "a.txt", out=tmp_path / "out")
    assert (tmp_path / "out.partial" / "thesis.tex").exists()


def test_the_plan_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_texts(tmp_path / "d", [900, 900])
    interrupt_after(monkeypatch, 1)
    with pytest.raises(Stop):
        tm.count(tmp_path / "d", out=tmp_path / "out", unit_bytes=900)
    plan = json.loads((work_folder_of(tmp_path / "out") / "plan.json").read_bytes())
    assert plan["settings"]["pattern"] == "gpt4"
    assert [part["file"] for unit in plan["units"] for part in unit["parts"]] == [
        str(tmp_path / "d" / "000.txt"),
        str(tmp_path / "d" / "001.txt"),
    ]


def test_without_out_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_texts(tmp_path / "d", [900])
    monkeypatch.chdir(tmp_path)
    tm.train(tmp_path / "d", vocab_size=280)
    tm.count(tmp_path / "d")
    assert os.listdir(tmp_path) == ["d"]


def test_a_source_error_leaves_what_was_done(tmp_path: Path) -> None:
    files = write_texts(tmp_path / "d", [900, 900])
    files[1].write_bytes(b"low \xff")
    out = tmp_path / "counts.parquet"
    with pytest.raises(SourceError, match="UTF-8"):
        tm.count(tmp_path / "d", out=out, unit_bytes=900)
    assert units_done(out) == (1, 2)
    assert not out.exists()
