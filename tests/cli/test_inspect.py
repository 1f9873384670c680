"""`tokenmill inspect`: JSON, lines of input, keys, and a real terminal."""

import json
import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import loopback
import pytest
from make_dataset import EOS, TEXTS, encoded, make_dataset, masked, small_tokenizer
from rich.console import Console
from typer.testing import CliRunner, Result

from tokenmill.cli.main import app
from tokenmill.cli.viewer import Viewer, number_in
from tokenmill.report.inspection import TextInspection, open_inspection

TOKENIZER = small_tokenizer()
DOCUMENTS = encoded(TOKENIZER, TEXTS)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return make_dataset(
        tmp_path / "ids", TOKENIZER, {"train": DOCUMENTS, "validation": DOCUMENTS[4:5]}
    )


def run(*args: object, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, ["inspect", *(str(arg) for arg in args)], input=stdin)


def as_json(*args: object) -> dict[str, object]:
    done = run(*args, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_one_document_as_json(path: Path) -> None:
    found = as_json(path, "--index", 2)
    assert (found["index"], found["length"]) == (2, 6)
    (document,) = found["documents"]  # pyright: ignore
    assert document["ids"] == DOCUMENTS[2].ids
    assert document["text"] == TEXTS[2]
    assert document["decoded_equals_raw"] is True
    assert document["encodes_back"] is True
    assert document["tokens"][-1] == {
        "id": 299,
        "token": EOS,
        "start": len(TEXTS[2].encode()),
        "end": len(TEXTS[2].encode()) + len(EOS),
        "special": True,
        "trained": None,
    }


def test_split_and_search(path: Path) -> None:
    assert as_json(path, "--split", "val", "--index", 0)["length"] == 1
    assert as_json(path, "--search", "日本")["index"] == 2
    done = run(path, "--search", "nowhere", "--json")
    assert done.exit_code == 1
    assert "`nowhere` is in no document from 0 on" in done.stderr
    assert "document 2 of 6" in run(path, "--search", "日本").stdout


def test_masks_as_json(tmp_path: Path) -> None:
    rows = masked(TOKENIZER, [("q ", "good"), ("q ", "bad")])
    path = make_dataset(tmp_path / "ids", TOKENIZER, {"train": rows}, mode="preference")
    chosen, rejected = as_json(path, "--index", 0)["documents"]  # pyright: ignore
    assert (chosen["part"], rejected["part"]) == ("chosen", "rejected")
    assert [token["trained"] for token in chosen["tokens"]] == [bool(m) for m in rows[0].mask or []]


@pytest.mark.parametrize(("index", "message"), [(6, "from 0 to 5"), (-1, "from 0 to 5")])
def test_numbers_that_are_not_there(path: Path, index: int, message: str) -> None:
    done = run(path, "--index", index)
    assert done.exit_code == 1
    assert message in done.stderr
    assert "Traceback" not in done.output


def test_lines_of_input(path: Path) -> None:
    done = run(path, stdin="0\nabc\n99\n/the the\n/nowhere\n\n 1,000\nq\n3\n")
    assert done.exit_code == 0
    assert "document 0 of 6" in done.stdout
    assert "document 4 of 6" in done.stdout
    assert "document 3 of 6" not in done.stdout
    assert "`abc` is no whole number" in done.stderr
    assert "there is no document 99: numbers go from 0 to 5" in done.stderr
    assert "there is no document 1,000" in done.stderr
    assert "`nowhere` is in no document from 5 on" in done.stderr


def test_a_tokenizer_takes_lines_of_text(tmp_path: Path) -> None:
    TOKENIZER.save(tmp_path / "tok")
    done = run(tmp_path / "tok", stdin="the cat\nq\n")
    assert done.exit_code == 0
    assert "text 0 of 1" in done.stdout
    assert "text 1 of 2" in done.stdout
    texts = as_json(tmp_path / "tok", "--text", "the", "--text", "é")["texts"]
    assert [each["documents"][0]["text"] for each in texts] == ["the", "é"]  # pyright: ignore


def test_a_raw_source(tmp_path: Path) -> None:
    TOKENIZER.save(tmp_path / "tok")
    source = tmp_path / "raw.txt"
    source.write_text("one##two##the three")
    found = as_json(source, "--tokenizer", tmp_path / "tok", "--separator", "##", "--index", 2)
    (document,) = found["documents"]  # pyright: ignore
    assert document["raw"] == "the three"
    done = run(source)
    assert done.exit_code == 1
    assert "pass `--tokenizer DIR`" in done.stderr


def test_text_that_is_elsewhere(tmp_path: Path, path: Path, server: loopback.Server) -> None:
    TOKENIZER.save(tmp_path / "tok")
    url = server.add("raw.txt", EOS.join(["one", "the cat sat on the mat"]).encode())
    (document,) = as_json(url, "--tokenizer", tmp_path / "tok", "--index", 1)["documents"]  # pyright: ignore
    assert document["raw"] == "the cat sat on the mat"
    (document,) = as_json(path, "--source", url, "--index", 0)["documents"]  # pyright: ignore
    assert (document["decoded_equals_raw"], document["raw_index"]) == (True, 1)


@pytest.fixture
def rows(tmp_path: Path) -> list[object]:
    """What names some rows on the command line: the second is left out."""
    TOKENIZER.save(tmp_path / "tok")
    turns = [{"role": "user", "content": "the cat?"}, {"role": "assistant", "content": "the mat"}]
    lines = [{"messages": turns}, {"messages": turns[:1]}, {"prompt": "q", "completion": "x"}]
    source = tmp_path / "rows.jsonl"
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return [source, "--tokenizer", tmp_path / "tok", "--mode", "sft"]


def test_rows_of_conversations(rows: list[object]) -> None:
    (document,) = as_json(*rows, "--index", 0)["documents"]  # pyright: ignore
    assert document["text"] == "<|user|>the cat?<|end|><|assistant|>the mat<|end|>"
    assert document["decoded_equals_raw"] is True
    assert document["row"]["turns"][1] == {"role": "assistant", "content": "the mat"}
    assert [token["trained"] for token in document["tokens"]].count(True) == 3
    (document,) = as_json(*rows, "--index", 1)["documents"]  # pyright: ignore
    assert document["row"]["left_out"]["reason"] == "no_assistant_turn"
    done = run(*rows, "--profile", "nanochat", "--search", "the mat")
    assert "<|bos|>|<|user_start|>|the|" in done.stdout
    done = run(*rows, stdin="1\n/the cat\n/the cat\n9\n")
    assert done.stdout.count("left out: no_assistant_turn · ") == 2
    assert "there is no row 9: numbers go from 0 to 2" in done.stderr


def test_flags_that_rows_do_not_have(rows: list[object]) -> None:
    done = run(*rows[:3], "--profile", "chat", "--max-tokens", 5)
    assert done.exit_code == 1
    assert "`--max-tokens` has a meaning only with `--mode sft`" in done.stderr
    done = run(*rows, "--shape", "messages", "--index", 2)
    assert "left out: unreadable" in done.stdout


def test_a_dataset_of_rows_beside_them(tmp_path: Path, rows: list[object]) -> None:
    encode = ["encode", *(str(each) for each in rows), "--out", str(tmp_path / "chats")]
    assert CliRunner().invoke(app, encode).exit_code == 0
    (document,) = as_json(tmp_path / "chats", "--source", rows[0], "--index", 1)["documents"]  # pyright: ignore
    assert (document["raw_index"], document["row"]["stored"]["equal"]) == (2, True)


def viewer_of(path: Path, answers: list[str | None]) -> Viewer:
    viewer = Viewer(open_inspection(path), lambda prompt: answers.pop(0))
    viewer.lines(Console(width=80))
    return viewer


def test_keys(path: Path) -> None:
    answers: list[str | None] = ["4", "x", "77", None, "日本", "", "nowhere"]
    viewer = viewer_of(path, answers)
    viewer.press("left")
    assert (viewer.index, viewer.message) == (0, "there is no document -1: numbers go from 0 to 5")
    viewer.press("right")
    assert (viewer.index, viewer.message) == (1, "")
    viewer.press("g")
    assert viewer.index == 4
    viewer.press("g")
    assert "`x` is no whole number" in viewer.message
    viewer.press("g")
    assert "there is no document 77" in viewer.message
    viewer.press("g")
    assert (viewer.index, viewer.message) == (4, "")
    viewer.press("/")
    assert "is in no document from 4 on" in viewer.message
    viewer.press("/")
    assert "nothing to search for" in viewer.message
    viewer.press("home")
    viewer.press("/")
    assert "`nowhere`" in viewer.message
    assert not viewer.is_done
    viewer.press("q")
    assert viewer.is_done


def test_search_again_goes_on(path: Path) -> None:
    viewer = viewer_of(path, ["the"])
    viewer.press("/")
    assert viewer.index == 0
    viewer.press("N")
    assert viewer.index == 4
    viewer.press("N")
    assert (viewer.index, viewer.message) == (4, "`the` is in no document from 5 on")


def test_search_scrolls_to_what_was_found(tmp_path: Path) -> None:
    text = "line\n" * 50 + "here it is\n" + "line\n" * 50
    documents = encoded(TOKENIZER, ["other", text])
    path = make_dataset(tmp_path / "ids", TOKENIZER, {"train": documents})
    for pane in ("text", "tokens"):
        viewer = viewer_of(path, ["here it"])
        viewer.pane = pane
        viewer.press("/")
        lines = viewer.lines(Console(width=80))
        shown = ["".join(segment.text for segment in line) for line in lines]
        found = next(i for i, line in enumerate(shown) if "here" in line)
        assert (viewer.index, viewer.top) == (1, found - 2)
        viewer.top = 0
        viewer.lines(Console(width=80))
        assert viewer.top == 0


def test_panes_and_scrolling(path: Path) -> None:
    viewer = viewer_of(path, [])
    console = Console(width=80)
    seen = set[int]()
    for _ in range(4):
        seen.add(len(viewer.lines(console)))
        viewer.press("t")
    assert viewer.pane == "all"
    assert len(seen) > 1
    viewer.num_lines, viewer.page = 100, 20
    for key, top in (("down", 1), ("page down", 21), ("up", 20), ("end", 80), ("home", 0)):
        viewer.press(key)
        assert viewer.top == top
    viewer.press("page up")
    assert viewer.top == 0


def test_typing_texts() -> None:
    inspection = TextInspection(TOKENIZER, "tok", [])
    answers: list[str | None] = ["the cat", None]
    viewer = Viewer(inspection, lambda prompt: answers.pop(0))
    assert viewer.lines(Console(width=80)) == []
    viewer.press("e")
    assert (inspection.texts, viewer.index) == (["the cat"], 0)
    viewer.press("e")
    assert inspection.texts == ["the cat"]


def test_numbers_people_type() -> None:
    assert number_in(" 1,234 ") == 1234
    assert number_in("-3") == -3
    for typed in ("", "-", "1.5", "²", "0x1", "1 2"):
        assert number_in(typed) is None, typed


def read_until(descriptor: int, wanted: str, seconds: float = 20) -> str:
    """What a program draws until `wanted` is there."""
    import select

    seen = b""
    end = time.monotonic() + seconds
    while wanted.encode() not in seen:
        left = end - time.monotonic()
        assert left > 0, seen.decode("utf-8", "replace")
        if select.select([descriptor], [], [], left)[0]:
            try:
                seen += os.read(descriptor, 65_536)
            except OSError:
                break
    return seen.decode("utf-8", "replace")


def test_a_real_terminal(path: Path, rows: list[object]) -> None:
    """The screen comes up, keys work, a number is asked for, and the terminal is left as it was."""
    with_terminal(
        [path],
        [
            ("\x1b[C", "document 1 of 6"),
            ("g4\r", "document 4 of 6"),
            ("gxy\r", "is no whole number"),
        ],
    )
    with_terminal(
        rows,
        [("\x1b[C", "left out: no_assistant_turn"), ("ttt", "row 1"), ("\x1b[C", "2 trained on")],
    )


def with_terminal(arguments: list[object], steps: list[tuple[str, str]]) -> None:
    """`tokenmill inspect` on a screen: keys, and what is there after them."""
    import fcntl
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 90, 0, 0))
    before = termios.tcgetattr(theirs)
    child = subprocess.Popen(
        [sys.executable, "-m", "tokenmill", "inspect", *map(str, arguments)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "", "NO_COLOR": ""},
    )
    try:
        assert "\x1b[?1049h" in read_until(ours, "q quit")
        for keys, expected in steps:
            os.write(ours, keys.encode())
            assert expected in read_until(ours, expected)
        os.write(ours, b"q")
        assert "\x1b[?1049l" in read_until(ours, "\x1b[?1049l")
        assert child.wait(20) == 0
        assert termios.tcgetattr(theirs) == before
    finally:
        child.kill()
        child.wait()
        os.close(ours)
        os.close(theirs)
