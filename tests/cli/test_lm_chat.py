"""`tokenmill lm chat`, `lm evaluate` with questions and pairs, and `lm small-world` of every kind, as people call them."""

import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from make_conversations import chat_tokenizer, encode_rows, preferences, scripted_model
from make_dataset import small_tokenizer
from make_model import save_run, small_model
from typer.testing import CliRunner, Result

from tokenmill.cli import lm_chat
from tokenmill.cli.lm_small_world import KINDS
from tokenmill.cli.main import app
from tokenmill.lm.chat_format import chat_format
from tokenmill.lm.chat_session import ChatSession
from tokenmill.lm.generate_settings import GenerateSettings
from tokenmill.lm.open_model import open_model
from tokenmill.lm.small_world import stories
from tokenmill.lm.small_world_questions import (
    as_line,
    preference_rows,
    question_rows,
    sft_rows,
)

TOKENIZER = chat_tokenizer()
GREEDY = ("--temperature", 0, "--max-tokens", 8, "--device", "cpu")


def run(*args: object, text: str | bytes | None = None) -> Result:
    return CliRunner().invoke(app, ["lm", *(str(arg) for arg in args)], input=text)


def found(*args: object) -> dict[str, Any]:
    done = run(*args, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`talker`, whose answers depend on all that was said, `mat`, which says one thing, `endless`, which never ends, `plain` and `ids`."""
    folder = tmp_path_factory.mktemp("chat")
    models = {
        "talker": small_model(vocab_size=TOKENIZER.vocab_size, context=256),
        "mat": scripted_model(TOKENIZER, "<|assistant|>on the mat<|end|>"),
        "endless": scripted_model(TOKENIZER, "<|assistant|> on the mat on", context=200_000),
    }
    for name, model in models.items():
        save_run(folder / name, {1: model}, TOKENIZER)
    save_run(folder / "plain", {1: small_model(context=64)}, small_tokenizer())
    save_run(folder / "ids", {1: small_model(context=64)})
    return folder


def session(folder: Path, **more: Any) -> ChatSession:
    settings = GenerateSettings(max_tokens=8, temperature=0.0)
    return ChatSession(open_model(folder).model, chat_format(TOKENIZER), settings, **more)


# One thing, or lines


def test_one_message(made: Path) -> None:
    done = run("chat", made / "mat", "--message", "x", *GREEDY)
    assert (done.exit_code, done.stdout) == (0, "on the mat\n"), done.output
    told = found("chat", made / "mat", "-m", "x", *GREEDY)
    assert told == {
        "message": "x",
        "answer": "on the mat",
        "ids": TOKENIZER.encode("on the mat"),
        "ended_by": TOKENIZER.special_tokens["<|end|>"],
        "forgotten_turns": 0,
    }


def test_the_system_prompt_and_how_answers_are_drawn(made: Path) -> None:
    wanted = session(made / "talker", system="a cat").answer("x")
    asked = ("chat", made / "talker", "-m", "x")
    told = found(*asked, "--system", "a cat", *GREEDY)
    assert (told["ids"], told["ended_by"]) == (wanted.ids, wanted.ended_by)
    assert found(*asked, *GREEDY)["ids"] != wanted.ids
    hot = (*asked, "--temperature", 3, "--max-tokens", 8, "--top-k", 50, "--top-p", 0.99)
    assert found(*hot, "--seed", 1) == found(*hot, "--seed", 1)
    assert found(*hot, "--seed", 1) != found(*hot, "--seed", 2)


@pytest.mark.parametrize("ending", ["\n", ""])
def test_lines_through_a_pipe_are_one_conversation(made: Path, ending: str) -> None:
    talk = session(made / "talker")
    wanted = [talk.answer("the cat"), talk.answer("the cat")]
    assert wanted[0].ids != wanted[1].ids
    lines = f"the cat\n\n  the cat {ending}"
    done = run("chat", made / "talker", *GREEDY, text=lines)
    assert done.exit_code == 0, done.output
    assert done.stdout == "".join(f"{reply.text}\n" for reply in wanted)
    told = run("chat", made / "talker", *GREEDY, "--json", text=lines).stdout.splitlines()
    assert [json.loads(line)["ids"] for line in told] == [reply.ids for reply in wanted]
    assert run("chat", made / "talker", text="").stdout == ""


def test_a_line_that_is_not_utf_8(made: Path) -> None:
    done = run("chat", made / "mat", *GREEDY, text=b"x\ncaf\xe9\n")
    assert (done.exit_code, done.stdout) == (1, "on the mat\n")
    assert "error: line 2 of stdin is not UTF-8: bad byte at 3" in done.stderr


def test_models_that_do_not_talk(made: Path) -> None:
    for name, message, hint in (
        ("plain", "has no chat template", "lm sft"),
        ("ids", "comes without a tokenizer", "--tokenizer DIR"),
        ("none", "does not exist", ""),
    ):
        done = run("chat", made / name, "-m", "x")
        assert (done.exit_code, done.stdout) == (1, "")
        assert message in done.stderr
        assert hint in done.stderr
    done = run("chat", made / "mat", "-m", "x", "--temperature", -1)
    assert done.exit_code == 1
    assert "temperature -1.0 is not 0 or above" in done.stderr
    done = run("chat", made / "mat", "-m", "x" * 200)
    assert done.exit_code == 1
    assert "the model sees 64 at once" in done.stderr


# In a terminal

# The child leads its session, so that Ctrl-C reaches it as it would a person's.
LEAD = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"


class Terminal:
    """A program in a terminal of its own."""

    def __init__(self, *args: object) -> None:
        self.ours, theirs = pty.openpty()
        command = [sys.executable, "-c", LEAD, sys.executable, "-m", "tokenmill", *map(str, args)]
        # No escape codes in between, and all bytes come through: in other locales readline keeps what is no text.
        env = {**os.environ, "TERM": "dumb", "INPUTRC": os.devnull}
        env |= {"LC_ALL": "C", "PYTHONIOENCODING": "utf-8:strict"}
        self.process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, env=env
        )
        os.close(theirs)
        self.text = ""
        self._rest = b""

    def type(self, text: str | bytes) -> None:
        os.write(self.ours, text.encode() if isinstance(text, str) else text)

    def wait_for(self, pattern: str, seconds: float = 60) -> str:
        """What is shown up to the end of `pattern`, from where the last one ended."""
        until = time.monotonic() + seconds
        while (match := re.search(pattern, self.text)) is None:
            left = until - time.monotonic()
            assert left > 0, f"no {pattern!r} in {self.text[-2000:]!r}"
            if select.select([self.ours], [], [], left)[0] and not self._read():
                raise AssertionError(f"left before {pattern!r}: {self.text[-2000:]!r}")
        shown, self.text = self.text[: match.end()], self.text[match.end() :]
        return shown

    def say(self, text: str | bytes) -> str:
        """What is shown between a line that is typed and the next prompt."""
        self.type(text)
        self.type("\n")
        return self.wait_for(PROMPT)

    def _read(self) -> bool:
        try:
            data = self._rest + os.read(self.ours, 1 << 16)
        except OSError:  # Linux says so when the other side is closed.
            return False
        # A character may be cut.
        text = data.decode(errors="ignore")
        self._rest = data[len(text.encode()) :] if data.startswith(text.encode()) else b""
        self.text += text.replace("\r\n", "\n")
        return bool(data)

    def close(self) -> int:
        """Its exit code."""
        try:
            return self.process.wait(30)
        finally:
            self.process.kill()
            self.process.wait()
            os.close(self.ours)


PROMPT = "\nyou   › "


@pytest.fixture(scope="module")
def terminal(made: Path) -> Iterator[Terminal]:
    """A conversation with the model that never ends."""
    opened = Terminal("lm", "chat", made / "endless", "--max-tokens", 150_000, "--device", "cpu")
    yield opened
    if opened.process.poll() is None:
        opened.process.kill()
        opened.close()


def test_a_conversation_in_a_terminal(terminal: Terminal, made: Path) -> None:
    greeting = terminal.wait_for(PROMPT)
    assert f"talking to {made / 'endless'}; /help says what you can do here" in greeting
    assert "Ctrl-D leaves" in greeting

    shown = terminal.say("/params temperature=0 max-tokens=4")
    assert "max_tokens=4  temperature=0.0  top_k=none  top_p=none  seed=0\n" in shown
    shown = terminal.say("x")
    assert "model ›  on the mat on\n" in shown
    assert "(its longest answer; /params max_tokens=N allows more)" in shown

    shown = terminal.say("/help")
    for command in ("/reset", "/system TEXT", "/params NAME=X", "/quit", "Ctrl-C stops an answer."):
        assert command in shown
    assert "there is no /nope; /help says what there is" in terminal.say("/nope")
    assert "there is no /; /help" in terminal.say("/ x")
    shown = terminal.say("/params temprature=1")
    assert (
        "error: `temprature` is nothing to change here\nhint: did you mean `temperature`?" in shown
    )
    assert "error: `temperature` must be a number, found `'hot'`" in terminal.say(
        "/params temperature=hot"
    )
    assert "error: `seed` is no change\nhint: write it as `/params" in terminal.say("/params seed")
    assert "(forgotten)" in terminal.say("/reset")
    assert "(a new conversation)" in terminal.say("/system be kind")
    terminal.type("  \n")
    assert "model" not in terminal.wait_for("you   › "), "nothing said, nothing answered"
    assert "error: that is not UTF-8" in terminal.say(b"caf\xe9")

    assert "max_tokens=150000" in terminal.say("/params max_tokens=150000")
    for _ in range(2):
        terminal.type("x\n")
        terminal.wait_for("model › ( on the mat){20}")
        terminal.type("\x03")
        assert terminal.wait_for(PROMPT).endswith(f" …(stopped){PROMPT}")
    assert terminal.process.poll() is None
    terminal.type("\x03")
    terminal.wait_for(re.escape("(Ctrl-D or /quit leaves)") + PROMPT)
    assert "top_k=5" in terminal.say("/params top_k=5"), "and all goes on"

    terminal.type("\x04")
    assert terminal.close() == 0


def test_ctrl_c_before_an_answer_begins(
    made: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """While a template of others is rendered, say."""
    talk = session(made / "mat")
    typed = iter(["x", "/reset"])

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    def line(_: str) -> str:
        try:
            return next(typed)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr(talk, "answer", interrupted)
    monkeypatch.setattr("builtins.input", line)
    lm_chat._talk(talk, "mat")
    assert capsys.readouterr().out.endswith("model › \n(forgotten)\n\n")


# What a model knows


@pytest.fixture
def asked(tmp_path: Path) -> Path:
    rows = [{"prompt": "x", "answer": "on the mat"}, {"prompt": "the", "answers": ["a", "b"]}]
    file = tmp_path / "questions.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def test_evaluate_with_questions(made: Path, asked: Path) -> None:
    done = run("evaluate", made / "mat", "--questions", asked)
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == [
        "asked    2 questions",
        "right    1, 50.0%",
        "wrong    'the': 'on the mat', not 'a'",
    ]
    told = found("evaluate", made / "mat", "--questions", asked)
    assert told["step"] == 1
    answers = told["questions"].pop("answers")
    assert told["questions"] == {"file": str(asked), "asked": 2, "right": 1, "share_right": 0.5}
    assert [each["right"] for each in answers] == [True, False]
    short = found("evaluate", made / "mat", "--questions", asked, "--max-tokens", 1)
    assert short["questions"]["right"] == 0
    assert run("evaluate", made / "mat", "--questions", asked, "--quiet").stdout == ""


def test_evaluate_with_pairs(made: Path, asked: Path, tmp_path: Path) -> None:
    data = encode_rows(tmp_path / "pairs", preferences(9), "preference", TOKENIZER)
    told = found("evaluate", made / "talker", "--prefs", data, "--questions", asked)
    assert told["questions"]["asked"] == 2
    pairs = told["preferences"]
    assert (pairs["data"], pairs["pairs"], pairs["dropped_pairs"]) == (str(data), 9, 0)
    done = run("evaluate", made / "talker", "--prefs", data)
    assert done.stdout.splitlines() == [
        "ranked   9 pairs",
        f"right    {pairs['accuracy']:.1%} of them, by whole answers; "
        f"{pairs['accuracy_per_token']:.1%} by the mean of a token",
        f"nats     {pairs['chosen_log_prob']:.2f} for chosen answers, "
        f"{pairs['rejected_log_prob']:.2f} for rejected ones",
    ]
    rows = found("evaluate", made / "talker", "--prefs", tmp_path / "pairs.jsonl")
    assert rows["preferences"] == {**pairs, "data": str(tmp_path / "pairs.jsonl")}


def test_evaluate_that_cannot_be(made: Path, asked: Path, tmp_path: Path) -> None:
    done = run("evaluate", made / "mat")
    assert done.exit_code == 2
    assert "--questions" in done.stderr
    (tmp_path / "empty.jsonl").write_text("")
    pairs = encode_rows(tmp_path / "pairs", preferences(3), "preference", small_tokenizer())
    for args, message in (
        (("ids", "--questions", asked), "comes without a tokenizer"),
        (("mat", "--questions", tmp_path / "empty.jsonl"), "has no questions"),
        (("mat", "--questions", tmp_path / "none.jsonl"), "none.jsonl"),
        (("mat", "--questions", asked, "--max-tokens", -1), "max_tokens -1 is below 0"),
        (("plain", "--prefs", pairs), "has not seen those that say who speaks"),
    ):
        done = run("evaluate", made / args[0], *args[1:])
        assert (done.exit_code, done.stdout) == (1, "")
        assert message in done.stderr


# Texts of the small world


def texts(kind: str, count: int, start: int = 0) -> list[str]:
    if kind == "stories":
        return list(stories(1, count, start))
    rows: dict[str, Iterator[Any]] = {
        "conversations": sft_rows(1, count, start),
        "pairs": preference_rows(1, count, start),
        "held-out-pairs": preference_rows(1, count, start, held_out=True),
        "questions": question_rows(1, count, start),
    }
    return [as_line(row).removesuffix("\n") for row in rows[kind]]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_the_small_world(kind: str, tmp_path: Path) -> None:
    asked = ("small-world", "--kind", kind, "--count", 5, "--start", 3)
    wanted = texts(kind, 5, 3)
    assert run(*asked).stdout == "".join(f"{text}\n" for text in wanted)
    assert found(*asked)["texts"] == wanted
    out = tmp_path / "out"
    name = kind.replace("-", " ")
    assert run(*asked, "--out", out).stdout.startswith(f"wrote    {out}, 5 {name}, ")
    between = "<|endoftext|>" if kind == "stories" else "\n"
    assert out.read_text().removesuffix("\n").split(between) == wanted
    before = out.stat()
    again = run(*asked, "--out", out)
    assert (again.exit_code, again.stdout) == (0, f"done     already: `{out}` holds these {name}\n")
    assert out.stat() == before
    told = found(*asked, "--out", out)
    assert (told["already_done"], told[kind.replace("-", "_")]) == (True, 5)
    other = run(*asked, "--seed", 2, "--out", out)
    assert other.exit_code == 1
    assert "holds something else\nhint: pass `--force`" in other.stderr
    assert run(*asked, "--seed", 2, "--out", out, "--force").exit_code == 0
    assert run(*asked, "--out", out).exit_code == 1


def test_a_kind_that_there_is_not() -> None:
    done = run("small-world", "--kind", "pears")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "unknown kind `pears`; there are `stories`, `conversations`, `pairs`" in done.stderr
    assert "hint: did you mean `pairs`?" in done.stderr
