"""`tokenmill lm account` and `tokenmill lm small-world`, as people call them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tokenmill.cli.main import app
from tokenmill.lm.small_world import stories


def run(*args: object) -> Result:
    return CliRunner().invoke(app, ["lm", *map(str, args)])


def cells(done: Result, first: str, nth: int = 0) -> list[str]:
    """The cells of the nth line that begins with `first`."""
    assert done.exit_code == 0, done.output
    found = [line for line in done.stdout.splitlines() if line.split()[:1] == [first]]
    return found[nth].split()


@pytest.mark.parametrize("command", [(), ("account",), ("small-world",)])
def test_help_is_light(command: tuple[str, ...]) -> None:
    program = (
        f"import sys; sys.argv = {['tokenmill', 'lm', *command, '--help']}\n"
        "from tokenmill.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print([name for name in ('pyarrow', 'numpy', 'rich', 'torch') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_one_model() -> None:
    done = run("account", "--preset", "gpt2-xl", "--context", 1024)
    assert done.stdout.startswith(
        "gpt2-xl: 48 layers, d_model 1,600, 25 heads, d_ff 6,400, vocab 50,257, context 1,024\n"
    )
    assert cells(done, "total") == ["total", "2,127,057,600"]
    assert cells(done, "total", 1) == ["total", "4,513,336,524,800"]
    assert cells(done, "ffn", 1)[1:3] == ["3,019,898,880,000", "66.91%"]
    assert cells(done, "weights") == ["weights", "8,508,230,400", "7.92"]
    assert cells(done, "6·N·D")[1] == "13,068,641,894,400,"
    assert "13,222,665,600 a token" in done.stdout
    assert done.stderr == ""
    assert run("account", "--preset", "gpt2-xl", "--quiet").stdout == ""


def test_several_models_in_one_table() -> None:
    names = ("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl")
    done = run("account", *(f"--preset={name}" for name in names))
    shares = {name: cells(done, name, 1)[4:] for name in names}
    assert shares == {
        "gpt2": ["16.58%", "11.06%", "49.75%", "22.61%"],
        "gpt2-medium": ["19.96%", "9.98%", "59.87%", "10.20%"],
        "gpt2-large": ["21.40%", "8.56%", "64.20%", "5.84%"],
        "gpt2-xl": ["22.30%", "7.14%", "66.91%", "3.65%"],
    }


def test_several_contexts_in_one_table() -> None:
    done = run("account", "--preset", "gpt2-xl", "--context", 1024, "--context", 16384)
    long = cells(done, "gpt2-xl", 3)
    assert long[1:4] == ["16,384", "149,522,795,724,800", "33.13×"]
    assert long[5] == "55.15%"


def test_as_json() -> None:
    done = run("account", "--preset", "gpt2-xl", "--context", 1024, "--json")
    (found,) = json.loads(done.stdout)["accounts"]
    assert found["name"] == "gpt2-xl"
    assert found["parameters"]["total"] == 2_127_057_600
    assert found["forward_flops"]["total"] == 4_513_336_524_800
    assert found["forward_flops"]["components"]["ffn"] == 3_019_898_880_000
    assert found["memory_bytes"]["components"]["weights"] == 8_508_230_400
    assert "products" not in found
    done = run("account", "--preset", "gpt2-xl", "--json", "--explain")
    (found,) = json.loads(done.stdout)["accounts"]
    assert found["products"]["parameters"][0] == {
        "component": "embedding",
        "what": "token embedding",
        "product": "vocab · d_model = 50,257 · 1,600 = 80,411,200",
    }


def test_products_are_written_out() -> None:
    shown = run("account", "--preset", "gpt2-xl", "--explain").stdout
    ffn = "layers · matrices · 2 · tokens · d_model · d_ff = 48 · 3 · 2 · 1,024 · 1,600 · 6,400"
    assert f"{ffn} = 3,019,898,880,000" in shown
    assert "bytes · parameters = 4 · 2,127,057,600 = 8,508,230,400" in shown
    assert "3 · forward = 3 · 4,513,336,524,800 = 13,540,009,574,400" in shown


def test_a_shape_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("[model]\nvocab_size = 1000\nd_model = 64\n[train]\nlr = 1\n")
    change = ("--set", "model.num_layers=2", "--set", "model.activation=gelu")
    done = run("account", "--config", file, *change, "--json")
    (found,) = json.loads(done.stdout)["accounts"]
    assert found["name"] == "mine"
    assert found["parameters"]["components"]["ffn"] == 2 * 2 * 64 * 192
    assert found["parameters"]["components"]["embedding"] == 64_000
    both = json.loads(run("account", "--config", file, "--preset", "1m", "--json").stdout)
    assert [each["name"] for each in both["accounts"]] == ["1m", "mine"]
    default = json.loads(run("account", "--set", "model.tied_head=true", "--json").stdout)
    assert "head" not in default["accounts"][0]["parameters"]["components"]


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (("--preset", "gpt2xl"), 1, "unknown preset `gpt2xl`"),
        (("--preset", "gpt2xl"), 1, "hint: did you mean `gpt2-xl`?"),
        (("--set", "model.d_modle=64"), 1, "hint: did you mean `model.d_model`?"),
        (("--set", "d_model=64"), 1, "hint: did you mean `model.d_model`?"),
        (("--set", "model=64"), 1, "`model` is a table of settings, found `64`"),
        (("--set", "model.d_model=wide"), 1, "`model.d_model` must be a whole number"),
        (("--set", "model.num_heads=3"), 1, "d_model 128 is not a multiple of num_heads 3"),
        (("--config", "absent.toml"), 1, "`absent.toml` does not exist"),
        (("--context", "0"), 2, "--context"),
        (("--batch-size", "0"), 2, "--batch-size"),
    ],
)
def test_misuse(args: tuple[str, ...], code: int, message: str) -> None:
    done = run("account", *args)
    assert (done.exit_code, done.stdout) == (code, "")
    assert message in done.stderr


def test_a_file_without_a_model(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text("[modle]\nd_model = 64\n")
    assert (
        "unknown table `modle`\nhint: did you mean `model`?"
        in run("account", "--config", file).stderr
    )
    file.write_text("")
    assert "has no table `[model]`" in run("account", "--config", file).stderr


def test_stories_are_written(tmp_path: Path) -> None:
    out = tmp_path / "stories.txt"
    done = run("small-world", "--stories", 2500, "--seed", 3, "--out", out)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0] == f"wrote    {out}, 2,500 stories, 1.1 MB"
    assert lines[1].startswith("entropy  ")
    assert out.read_text().split("<|endoftext|>") == list(stories(3, 2500))
    again = run("small-world", "--stories", 2500, "--seed", 3, "--out", out)
    assert again.stdout == f"done     already: `{out}` holds these stories\n"
    for other in (2501, 2499):
        refused = run("small-world", "--stories", other, "--seed", 3, "--out", out)
        assert refused.exit_code == 1
        assert "hint: pass `--force` to replace it" in refused.stderr
    forced = run("small-world", "--stories", 1, "--start", 9, "--out", out, "--force", "--json")
    assert json.loads(forced.stdout)["bytes"] == out.stat().st_size
    assert out.read_text() == next(stories(1, 1, start=9))
    assert run("small-world", "--stories", 1, "--start", 9, "--out", out, "--quiet").stdout == ""


def test_stories_are_printed() -> None:
    assert run("small-world", "--stories", 2).stdout.splitlines() == list(stories(1, 2))
    found = json.loads(run("small-world", "--stories", 2, "--json").stdout)
    assert found["texts"] == list(stories(1, 2))
    assert found["entropy_bits_per_byte"] == pytest.approx(
        found["entropy_bits_per_story"] / found["mean_bytes_per_story"]
    )
