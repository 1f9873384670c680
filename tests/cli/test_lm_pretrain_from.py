"""`tokenmill lm pretrain --from`, as people call it."""

import json
from pathlib import Path

import pytest
from make_dataset import TEXTS, encoded, make_dataset, small_tokenizer
from make_model import save_run, small_model
from typer.testing import CliRunner, Result

from tokenmill.cli.main import app

TOKENIZER = small_tokenizer()


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make_dataset(tmp_path / "ids", TOKENIZER, {"train": encoded(TOKENIZER, TEXTS * 20)})
    save_run(tmp_path / "base", {3: small_model()}, TOKENIZER)


def pretrain(*args: object, out: str = "run") -> Result:
    asked = ["--data", "ids", "--out", out, "--max-steps", 4, "--batch-size", 2, "--log", "none"]
    asked += ["--device", "cpu", "--threads", 1, *args]
    return CliRunner().invoke(app, ["lm", "pretrain", *(str(arg) for arg in asked)])


def test_the_same_command_goes_on_and_the_origin_is_shown() -> None:
    plan = pretrain("--from", "base", "--dry-run")
    assert plan.exit_code == 0, plan.output
    assert "from     base at step 3, weights of sha256 " in plan.stdout
    assert not Path("run").exists()
    planned = json.loads(pretrain("--from", "base", "--dry-run", "--json").stdout)
    assert planned["from"]["path"] == "base"
    assert planned["model"]["d_ff"] == 48
    done = pretrain("--from", "base", "--context", 12)
    assert done.exit_code == 0, done.output
    said = json.loads(Path("run/run.json").read_text())
    assert said["from"] == planned["from"]
    assert said["model"]["context"] == 12
    for again in (["--from", "base", "--context", 12], ["--from", "./base"], []):
        done = pretrain(*again, "--resume", "--json")
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["step"] == 4


def test_a_file_of_settings_can_say_it() -> None:
    Path("run.toml").write_text('from = "base"\n[model]\ncontext = 12\n')
    done = pretrain("--config", "run.toml")
    assert done.exit_code == 0, done.output
    assert json.loads(Path("run/run.json").read_text())["from"]["path"] == "base"


def test_what_does_not_fit_names_both_sides() -> None:
    save_run(Path("learned"), {1: small_model(positions="learned")}, TOKENIZER)
    other = small_tokenizer(vocab_size=280)
    save_run(Path("other"), {1: small_model(vocab_size=280)}, other)
    pretrain("--from", "base", out="begun")
    for asked, out, messages in (
        (["--from", "base", "--preset", "1m"], "run", ["`base` has", "not"]),
        (["--from", "base", "--set", "model.d_model=64"], "run", ["`d_model` `32`, not `64`"]),
        (["--from", "learned", "--context", 32], "run", ["learned 16 positions"]),
        (["--from", "other"], "run", [TOKENIZER.sha256, other.sha256]),
        (["--from", "nothing"], "run", ["`nothing` does not exist"]),
        (["--from", "base"], "base", ["no run of ours"]),
        (["--from", "base"], "begun", ["holds a run already"]),
        (["--resume", "--context", 8], "begun", ["`context` `16`, not `8`"]),
    ):
        done = pretrain(*asked, out=out)
        assert done.exit_code == 1, (asked, done.output)
        assert all(message in done.stderr for message in messages), done.stderr
