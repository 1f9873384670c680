"""The journal of a demo: each part is done once, and folders of others stay as they are."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from tokenmill.demo.journal import FILE_NAME, OTHER_FOLDER, SAME_FOLDER, Journal, discard
from tokenmill.demo.settings import DemoSettings
from tokenmill.errors import ConfigError, FormatError

SETTINGS = DemoSettings()


class Work:
    """Counts how often it is done."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> dict[str, Any]:
        self.times += 1
        return {"loss": 1.5, "text": "naïve ☕", "times": self.times}


def begun(folder: Path) -> Path:
    """A demo with one part done."""
    folder.mkdir()
    Journal(folder, SETTINGS).do("base", Work())
    return folder / FILE_NAME


def test_a_part_is_done_once(tmp_path: Path) -> None:
    work, other = Work(), Work()
    journal = Journal(tmp_path, SETTINGS)
    found = journal.do("base", work)
    assert (found["loss"], found["times"]) == (1.5, 1)
    assert found["seconds"] >= 0
    assert journal.do("base", work) == found
    again = Journal(tmp_path, DemoSettings())
    assert again.do("base", work) == found
    assert work.times == 1
    assert again.do("sft", other)["times"] == 1
    assert list(Journal(tmp_path, SETTINGS).parts) == ["base", "sft"]
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


def test_a_part_that_fails_is_not_done(tmp_path: Path) -> None:
    def fail() -> dict[str, Any]:
        raise KeyboardInterrupt

    journal = Journal(tmp_path / "new", SETTINGS)
    with pytest.raises(KeyboardInterrupt):
        journal.do("base", fail)
    assert journal.parts == {}
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", [each.name for each in dataclasses.fields(DemoSettings)])
def test_another_setting_is_another_demo(tmp_path: Path, name: str) -> None:
    begun(tmp_path / "demo")
    there = getattr(SETTINGS, name)
    with pytest.raises(ConfigError) as caught:
        Journal(tmp_path / "demo", dataclasses.replace(SETTINGS, **{name: there + 1}))
    wanted = (
        f"the demo at `{tmp_path / 'demo'}` was begun with `{name}` `{there}`, not `{there + 1}`"
    )
    assert caught.value.message == wanted
    assert caught.value.hint == SAME_FOLDER
    assert "--force" in SAME_FOLDER


def test_another_version_is_another_demo(tmp_path: Path) -> None:
    file = begun(tmp_path / "demo")
    file.write_text(json.dumps({**json.loads(file.read_text()), "format_version": 99}))
    with pytest.raises(ConfigError, match="was begun with version 99") as caught:
        Journal(tmp_path / "demo", SETTINGS)
    assert caught.value.hint == SAME_FOLDER


def test_folders_of_others_stay(tmp_path: Path) -> None:
    """Whoever asks for a new start gives up a demo, and nothing else."""
    notes = tmp_path / "notes.txt"
    notes.write_text("mine")
    for place in (tmp_path, notes):
        for touch in (lambda: Journal(place, SETTINGS), lambda: discard(place)):  # noqa: B023
            with pytest.raises(ConfigError) as caught:
                touch()
            assert caught.value.message == f"`{place}` exists and is no demo of ours"
            assert caught.value.hint == OTHER_FOLDER
    assert notes.read_text() == "mine"


@pytest.mark.parametrize(
    "text", ['{"format": "tokenm', "", "\xff", "[]", "null", '{"format": "other"}']
)
def test_a_file_that_is_broken_or_not_ours_stays(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE_NAME).write_bytes(text.encode("latin-1"))
    for touch in (lambda: Journal(tmp_path, SETTINGS), lambda: discard(tmp_path)):
        with pytest.raises(FormatError, match=FILE_NAME) as caught:
            touch()
        assert caught.value.hint == OTHER_FOLDER
    assert (tmp_path / FILE_NAME).exists()


@pytest.mark.parametrize("name", ["settings", "parts"])
def test_a_journal_with_a_hole(tmp_path: Path, name: str) -> None:
    file = begun(tmp_path / "demo")
    kept = {key: value for key, value in json.loads(file.read_text()).items() if key != name}
    file.write_text(json.dumps(kept))
    with pytest.raises(FormatError, match=f"has no `{name}`") as caught:
        Journal(tmp_path / "demo", SETTINGS)
    assert caught.value.hint == SAME_FOLDER


def test_a_new_start(tmp_path: Path) -> None:
    begun(tmp_path / "demo")
    discard(tmp_path / "demo")
    assert not (tmp_path / "demo").exists()
    discard(tmp_path / "demo")
    (tmp_path / "empty").mkdir()
    discard(tmp_path / "empty")
    assert (tmp_path / "empty").exists()
