"""The demo: as people run it, on three seeds; stopped and gone on with; without torch."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tokenmill.cli import demo
from tokenmill.demo.journal import FILE_NAME
from tokenmill.demo.pipeline import Demo
from tokenmill.demo.report import results, write_report
from tokenmill.demo.settings import DemoSettings

TINY = DemoSettings(
    seed=3,
    stories=300,
    validation_stories=20,
    vocab_size=512,
    num_layers=2,
    context=64,
    base_steps=12,
    conversations=160,
    pairs=64,
    questions=8,
)


def run(
    *args: object, before: str = "", cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """`tokenmill demo` in a process of its own, after the statement `before`."""
    program = f"{before}\nfrom tokenmill.cli.main import main; main()"
    return subprocess.run(
        [sys.executable, "-c", program, "demo", *map(str, args)],
        capture_output=True,
        encoding="utf-8",
        check=False,
        cwd=cwd,
        env={**os.environ, "NO_COLOR": "1"},
    )


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_an_assistant_out_of_nothing_but_text(seed: int, tmp_path: Path) -> None:
    done = run("--fast", "--seed", seed, "--out", tmp_path / "demo", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    right, ranked = found["answers_right"], found["preference_accuracy"]
    assert right["chance"] == 0.125
    assert right["base"] <= right["chance"] + 0.05
    assert right["sft"] >= 0.85
    assert right["dpo"] >= right["sft"] - 0.02
    assert ranked["dpo"] >= ranked["sft"] + 0.1
    assert found["bits_per_byte"]["entropy"] < found["bits_per_byte"]["base"] < 0.6
    page = (tmp_path / "demo" / "report.html").read_text()
    assert page.count("<polyline") == 7
    assert f"{right['dpo']:.1%}" in page
    assert found["weights_sha256"]["dpo"] in (tmp_path / "demo" / "report.md").read_text()


def no_words(label: str, text: str, seconds: float) -> None:
    """Says nothing."""


def whole(folder: Path, says: Callable[[str, str, float], None] = no_words) -> dict[str, Any]:
    made = Demo(folder, TINY, says=says, progress=False)
    made.make_tokenizer()
    made.make_assistant()
    write_report(folder, made.journal)
    return results(made.journal)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo") / "whole"
    whole(folder)
    return folder


@pytest.mark.parametrize("stop_after", ["pretrain", "sft"])
def test_one_that_was_stopped_ends_with_the_same_bits(
    stop_after: str, finished: Path, tmp_path: Path
) -> None:
    heard: list[str] = []

    def stop(label: str, text: str, seconds: float) -> None:
        heard.append(label)
        if label == stop_after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        whole(tmp_path / "demo", stop)
    assert heard[-1] == stop_after
    again: list[str] = []
    found = whole(tmp_path / "demo", lambda label, text, seconds: again.append(text))
    assert sum(text.endswith("(done before)") for text in again) >= 4
    there = json.loads((finished / FILE_NAME).read_text())
    assert found["weights_sha256"]["dpo"] == there["parts"]["dpo-measured"]["weights_sha256"]
    assert found["tokenizer_sha256"] == there["parts"]["tokenizer"]["sha256"]


def test_the_reports_say_what_was_measured(finished: Path) -> None:
    page, text = ((finished / name).read_text() for name in ("report.html", "report.md"))
    parts = json.loads((finished / FILE_NAME).read_text())["parts"]
    for form in (page, text):
        assert f"{parts['dpo-measured']['right']:.1%}" in form
        assert parts["tokenizer"]["sha256"] in form
        assert "before pretraining" in form
    assert "<script" not in page, "it is a page to look at"
    assert not re.search(r"(?:src|href)=", page), "it needs nothing from elsewhere"
    for table in text.split("\n\n"):
        if table.startswith("| "):
            columns = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
            assert len(columns) == 1


def test_another_demo_in_the_same_folder_is_refused(finished: Path) -> None:
    refused = run("--out", finished, "--seed", 3)
    assert refused.returncode == 1
    assert "was begun with" in refused.stderr
    assert "--force" in refused.stderr


def test_force_deletes_demos_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    refused = run("--out", tmp_path, "--force")
    assert refused.returncode == 1
    assert "is no demo of ours" in refused.stderr
    assert (tmp_path / "thesis.txt").exists()


def test_without_torch_there_is_a_tokenizer_and_a_way_on(tmp_path: Path) -> None:
    without = "import sys; sys.modules['torch'] = None"
    done = run("--fast", "--out", tmp_path / "demo", before=without)
    assert done.returncode == 0, done.stderr
    assert "torch is not installed" in done.stdout
    assert "pip install 'tokenmill[lm]'" in done.stdout
    assert re.search(r"merge +\d+   ·Lily +=", done.stdout)
    assert "·gladly│" in done.stdout
    assert re.search(r"\d+ bytes become \d+ tokens", done.stdout)
    assert (tmp_path / "demo" / "tokenizer" / "tokenizer.json").exists()
    told = run("--fast", "--out", tmp_path / "demo", "--json", before=without)
    assert json.loads(told.stdout)["missing"] == "torch"


def test_the_demo_s_colours_survive_256_colours() -> None:
    from rich.color import ColorSystem
    from rich.style import Style

    styles = [Style.parse(colour) for colour in demo.COLOURS]
    shown = [style.bgcolor.downgrade(ColorSystem.EIGHT_BIT) for style in styles if style.bgcolor]
    assert len(set(shown)) == len(demo.COLOURS) == 6
    for colour in shown:
        brightness = luminance(colour.get_truecolor()) + 0.05
        assert 1.05 / brightness >= 4.5, "white text shows on it"
        assert brightness / 0.05 >= 1.8, "it shows on a black terminal"


def luminance(colour: tuple[int, int, int]) -> float:
    """How bright a colour looks, 0 to 1, by the formula of the accessibility guidelines."""
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in (value / 255 for value in colour)
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
