"""`tokenmill lm sft` and `lm dpo`, as people call them."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from make_conversations import (
    chat_tokenizer,
    conversations,
    encode_rows,
    preferences,
    say,
    talking_model,
)
from make_dataset import small_tokenizer
from make_model import save_run, small_model
from typer.testing import CliRunner, Result

from tokenmill.cli.main import app
from tokenmill.lm.checkpoint import weights_of
from tokenmill.lm.open_model import open_model


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`base`, which has the tokens of chats, `plain`, which has not, `chats`, `pairs`, and `long`, where one is too long."""
    folder = tmp_path_factory.mktemp("cli")
    talking_model(folder / "base")
    save_run(folder / "plain", {3: small_model(context=64)}, small_tokenizer())
    encode_rows(folder / "chats", conversations(12), "sft")
    encode_rows(folder / "pairs", preferences(12), "preference")
    long = {"messages": [say("user", "x" * 90), say("assistant", "cat")]}
    encode_rows(folder / "long", [*conversations(12), long], "sft")
    return folder


@pytest.fixture(autouse=True)
def places(tmp_path: Path, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for each in made.iterdir():
        (tmp_path / each.name).symlink_to(each)


def lm(stage: str, *args: object, out: str = "run") -> Result:
    asked: list[object] = ["lm", stage, "--out", out, "--batch-size", 4, "--log", "none"]
    asked += ["--device", "cpu", "--threads", 1, *args]
    return CliRunner().invoke(app, [str(arg) for arg in asked])


SFT = ("sft", "--base", "base", "--data", "chats")
DPO = ("dpo", "--base", "base", "--data", "pairs")


def said(out: str = "run") -> dict[str, Any]:
    return json.loads(Path(out, "run.json").read_text())


def test_sft_shows_its_plan_trains_and_says_what_is_next() -> None:
    done = lm("sft", "--base", "plain", "--data", "long", "--max-steps", 2)
    assert done.exit_code == 0, done.output
    assert "from     plain at step 3, weights of sha256 " in done.stdout
    assert "embeddings for 4 new tokens: the mean of those there are" in done.stdout
    assert "of them 1 document longer than the context" in done.stdout
    assert "trained  2 steps, loss " in done.stdout
    assert "next     tokenmill lm chat run" in done.stdout
    assert said()["stage"] == "sft"
    assert open_model("run").tokenizer is not None


def test_every_flag_of_sft_arrives() -> None:
    done = lm(
        *(*SFT, "--val", "chats", "--epochs", 3, "--too-long", "keep-end", "--lora-rank", 2),
        *("--lora-alpha", 5, "--lora-targets", "q_proj,v_proj", "--lr", 1e-3, "--context", 48),
        *("--dry-run", "--json"),
    )
    assert done.exit_code == 0, done.output
    plan = json.loads(done.stdout)
    assert plan["stage_settings"]["too_long"] == "keep-end"
    assert plan["stage_settings"]["lora"] == {
        "rank": 2,
        "alpha": 5.0,
        "targets": ["q_proj", "v_proj"],
    }
    assert plan["settings"]["lr"] == 1e-3
    assert plan["model"]["context"] == 48
    assert plan["documents"] == {"documents": 12, "too_long": 0, "no_trained_tokens": 0}
    rows = plan["packing"]["rows"]
    assert plan["settings"]["max_steps"] == -(-3 * rows // 4)
    assert not Path("run").exists()


def test_every_flag_of_dpo_arrives() -> None:
    talking_model(Path("other"), seed=5)
    flags = (
        *(*DPO, "--loss", "ipo", "--beta", 0.3, "--sft-weight", 0.2, "--reference", "other"),
        *("--reference-cache", "kept", "--epochs", 2, "--too-long", "keep-start", "--lora"),
    )
    done = lm(*flags, "--dry-run", "--json")
    assert done.exit_code == 0, done.output
    plan = json.loads(done.stdout)
    settings = plan["stage_settings"]
    assert (settings["loss"], settings["beta"], settings["sft_weight"]) == ("ipo", 0.3, 0.2)
    assert (settings["too_long"], settings["lora"]["rank"]) == ("keep-start", 8)
    assert len(settings["reference"]) == 64
    assert plan["settings"]["max_steps"] == 6
    assert plan["documents"]["pairs"] == 12
    assert not Path("kept").exists()
    done = lm(*flags, "--max-steps", 2, "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["step"] == 2
    assert len(list(Path("kept").glob("reference-*.npy"))) == 1
    assert not list(Path("run").glob("*.npy"))


@pytest.mark.parametrize("stage", ["sft", "dpo"])
def test_without_lora_there_are_no_adapters_and_with_any_of_its_flags_there_are(
    stage: str,
) -> None:
    asked = SFT if stage == "sft" else DPO
    rates: list[float] = []
    for flags, rank in (((), None), (("--lora",), 8), (("--lora-rank", 3), 3)):
        plan = json.loads(lm(*asked, *flags, "--dry-run", "--json").stdout)
        lora = plan["stage_settings"]["lora"]
        assert (lora and lora["rank"]) == rank
        rates.append(plan["settings"]["lr"])
    assert rates[1] == rates[2] == pytest.approx(10 * rates[0])
    shown = lm(*asked, "--lora", "--dry-run")
    assert "adapters LoRA of rank 8, alpha 16, on q_proj, k_proj" in shown.stdout


def test_a_file_of_settings_and_what_changes_it() -> None:
    Path("run.toml").write_text(
        'base = "base"\n[data]\ntrain = "chats"\n[train]\nmax_steps = 3\nlr = 0.01\n'
        '[sft]\ntoo_long = "keep-end"\n[sft.lora]\nrank = 2\ntargets = ["up_proj"]\n'
    )
    plan = json.loads(lm("sft", "--config", "run.toml", "--dry-run", "--json").stdout)
    assert plan["stage_settings"]["lora"] == {"rank": 2, "alpha": 16.0, "targets": ["up_proj"]}
    assert plan["settings"]["max_steps"] == 3
    changes = ("--set", "sft.lora.alpha=4", "--set", "train.lr=0.02", "--lora-rank", 6)
    done = lm("sft", "--config", "run.toml", *changes, "--json")
    assert done.exit_code == 0, done.output
    settings = said()["stage_settings"]
    assert settings["lora"] == {"rank": 6, "alpha": 4.0, "targets": ["up_proj"]}
    assert settings["too_long"] == "keep-end"
    assert said()["settings"]["lr"] == 0.02
    Path("dpo.toml").write_text('base = "base"\n[data]\ntrain = "pairs"\n[dpo]\nbeta = 0.7\n')
    plan = json.loads(lm("dpo", "--config", "dpo.toml", "--dry-run", "--json").stdout)
    assert plan["stage_settings"]["beta"] == 0.7


def test_the_same_command_with_resume_goes_on() -> None:
    for asked, out in ((SFT, "s"), ((*DPO, "--lora"), "d")):
        done = lm(*asked, "--max-steps", 3, out=out)
        assert done.exit_code == 0, done.output
        before = weights_of(open_model(out).model)
        refused = lm(*asked, "--max-steps", 3, out=out)
        assert refused.exit_code == 1
        assert "holds a run already" in refused.stderr
        done = lm(*asked, "--max-steps", 3, "--resume", "--json", out=out)
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["step"] == 3
        after = weights_of(open_model(out).model)
        assert all(torch.equal(weight, after[name]) for name, weight in before.items())
        assert lm(*asked, "--max-steps", 3, "--force", "--quiet", out=out).exit_code == 0


def test_a_whole_line_of_stages_ends_in_text() -> None:
    assert lm("sft", "--base", "plain", "--data", "chats", "--max-steps", 2).exit_code == 0
    done = lm("dpo", "--base", "run", "--data", "pairs", "--max-steps", 2, "--lora", out="dpo")
    assert done.exit_code == 0, done.output
    assert said("dpo")["from"]["path"] == "run"
    asked = ["lm", "generate", "dpo", "--prompt", "the", "--max-tokens", "3", "--device", "cpu"]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("the")
    done = CliRunner().invoke(app, ["lm", "export", "dpo", "--out", "hf"])
    assert done.exit_code == 0, done.output
    assert (Path("hf") / "chat_template.jinja").read_text() == chat_tokenizer().chat_template


def test_what_goes_wrong_says_so() -> None:
    Path("bad.toml").write_text('base = "base"\n[data]\ntrain = "chats"\n[sft.lora]\nrnk = 2\n')
    Path("worse.toml").write_text("[stf]\nepochs = 2\n")
    cases: list[tuple[tuple[object, ...], int, str]] = [
        (("sft", "--data", "chats"), 1, "name one with `--base`"),
        (("sft", "--base", "base"), 1, "name a dataset with `--data`"),
        (("sft", "--base", "none", "--data", "chats"), 1, "`none` does not exist"),
        (("sft", "--base", "base", "--data", "none"), 1, "none"),
        (("sft", "--base", "base", "--data", "pairs"), 1, "this stage needs `sft`"),
        (("dpo", "--base", "base", "--data", "chats"), 1, "--mode preference"),
        ((*SFT, "--too-long", "cut"), 1, "too-long policy"),
        ((*SFT, "--lora-targets", "q_prj"), 1, "`q_proj`"),
        ((*SFT, "--lora-rank", 0), 1, "rank of LoRA"),
        ((*SFT, "--set", "train.packing=wrapped"), 1, "leave `packing` and `document_mask` out"),
        ((*SFT, "--set", "sft.epoch=2"), 1, "`sft.epochs`"),
        ((*SFT, "--set", "dpo.beta=2"), 1, "unknown table `dpo`"),
        (("sft", "--config", "bad.toml"), 1, "`sft.lora.rank`"),
        (("sft", "--config", "worse.toml"), 1, "unknown table `stf`"),
        ((*DPO, "--loss", "hinge"), 1, "hinge"),
        ((*DPO, "--beta", 0), 1, "beta 0.0 is not above 0"),
        ((*DPO, "--set", "model.dropout=0.1"), 1, "dropout 0.1"),
        ((*DPO, "--reference", "none"), 1, "`none` does not exist"),
        ((*SFT, "--beta", 0.1), 2, "--beta"),
        ((*DPO, "--epochs", "many"), 2, "--epochs"),
    ]
    for asked, code, message in cases:
        done = lm(str(asked[0]), *asked[1:])
        assert done.exit_code == code, (asked, done.output)
        assert message in done.stderr, (asked, done.stderr)
        assert "Traceback" not in done.stderr
    assert not Path("run").exists()


def test_a_reference_of_other_values_is_told() -> None:
    import numpy as np

    assert lm(*DPO, "--reference-cache", "kept", "--max-steps", 1, out="first").exit_code == 0
    (file,) = Path("kept").iterdir()
    np.save(file, np.load(file) + 1)
    done = lm(*DPO, "--reference-cache", "kept", "--max-steps", 1)
    assert done.exit_code == 1
    assert "the model is its own reference" in done.stderr
    assert "hint: delete the `reference-*.npy`" in done.stderr
