"""`tokenmill lm generate`, `evaluate`, `export` and `import`, as people call them."""

import json
from pathlib import Path

import pytest
import torch
from make_dataset import EOS, TEXTS, encoded, make_dataset, small_tokenizer
from make_model import save_run, small_model
from safetensors.torch import save_file
from typer.testing import CliRunner, Result

from tokenmill.cli.main import app

TOKENIZER = small_tokenizer()


def run(*args: object) -> Result:
    return CliRunner().invoke(app, ["lm", *(str(arg) for arg in args)])


@pytest.fixture
def model(tmp_path: Path) -> Path:
    models = {step: small_model(seed=step, context=64) for step in (1, 2)}
    return save_run(tmp_path / "run", models, TOKENIZER, {1: 3.0, 2: 4.0})


def test_generate_streams_the_prompt_and_what_follows(model: Path) -> None:
    asked = ("generate", model, "--prompt", "the cat", "--max-tokens", 12, "--device", "cpu")
    done = run(*asked, "--num-samples", 2, "--seed", 4)
    assert done.exit_code == 0, done.output
    found = json.loads(run(*asked, "--num-samples", 2, "--seed", 4, "--json").stdout)
    assert [sample["seed"] for sample in found["samples"]] == [4, 5]
    texts = [f"the cat{sample['text']}\n" for sample in found["samples"]]
    assert done.stdout == "---\n".join(texts)
    assert texts[0] != texts[1]
    alone = json.loads(run(*asked, "--seed", 5, "--json").stdout)
    assert alone["samples"] == found["samples"][1:]
    assert (found["step"], found["prompt"]) == (2, "the cat")


def test_generate_takes_every_choice(model: Path) -> None:
    first = json.loads(
        run(
            "generate", model, "--temperature", 0, "--max-tokens", 5, "--step", "best", "--json"
        ).stdout
    )
    assert first["step"] == 1
    text = first["samples"][0]["text"]
    done = run(
        *("generate", model, "--temperature", 0, "--max-tokens", 5, "--step", 1),
        *("--stop", text[2:4], "--top-k", 5, "--top-p", 0.9),
    )
    assert done.stdout == text[: text.index(text[2:4])] + "\n"
    special = ("generate", model, "--prompt", f"a{EOS}", "--max-tokens", 1)
    refused = run(*special)
    assert refused.exit_code == 1
    assert EOS in refused.stderr
    assert run(*special, "--allow-special", "--stop-token", "none").exit_code == 0


def test_evaluate(model: Path, tmp_path: Path) -> None:
    splits = {"train": encoded(TOKENIZER, TEXTS[:1]), "validation": encoded(TOKENIZER, TEXTS)}
    data = make_dataset(tmp_path / "data", TOKENIZER, splits)
    found = json.loads(run("evaluate", model, "--data", data, "--json").stdout)
    assert found["split"] == "validation"
    assert found["num_bytes"] == sum(len(text.encode()) for text in TEXTS)
    assert found["bits_per_byte"] > 0
    done = run("evaluate", model, "--data", data, "--split", "train", "--stride", 5)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("scored   ")
    assert "bits     " in done.stdout
    assert run("evaluate", model, "--data", data, "--quiet").stdout == ""
    other = small_tokenizer(vocab_size=280)
    wrong = make_dataset(tmp_path / "wrong", other, {"validation": encoded(other, TEXTS)})
    refused = run("evaluate", model, "--data", wrong)
    assert refused.exit_code == 1
    assert TOKENIZER.sha256 in refused.stderr
    assert other.sha256 in refused.stderr


def test_export_and_import_lead_back(model: Path, tmp_path: Path) -> None:
    done = run("export", model, "--out", tmp_path / "hf")
    assert done.exit_code == 0, done.output
    assert "LlamaForCausalLM" in done.stdout
    assert json.loads(run("export", model, "--out", tmp_path / "hf", "--json").stdout)["step"] == 2
    found = json.loads(run("import", tmp_path / "hf", "--out", tmp_path / "ours", "--json").stdout)
    assert (found["kind"], found["tokenizer_sha256"]) == ("llama", TOKENIZER.sha256)
    asked = ("--prompt", "x", "--max-tokens", 20)
    texts = {
        run("generate", place, *asked).stdout
        for place in (model, tmp_path / "hf", tmp_path / "ours")
    }
    assert len(texts) == 1


def test_import_of_a_course_checkpoint(tmp_path: Path) -> None:
    shapes = {"token_embeddings": (300, 8), "ln_final": (8,), "lm_head": (300, 8)}
    inner = {f"attn.{part}_proj": (8, 8) for part in ("q", "k", "v", "output")}
    inner |= {"ln1": (8,), "ln2": (8,), "ffn.w1": (16, 8), "ffn.w2": (8, 16), "ffn.w3": (16, 8)}
    shapes |= {f"layers.0.{name}": shape for name, shape in inner.items()}
    weights = {f"{name}.weight": torch.ones(shape) for name, shape in shapes.items()}
    save_file(weights, tmp_path / "model.safetensors")
    asked = ("import", tmp_path / "model.safetensors", "--out", tmp_path / "ours")
    refused = run(*asked)
    assert refused.exit_code == 1
    assert "hint: pass `--num-heads`" in refused.stderr
    TOKENIZER.save(tmp_path / "tokenizer")
    done = run(*asked, "--num-heads", 2, "--context", 32, "--tokenizer", tmp_path / "tokenizer")
    assert done.exit_code == 0, done.output
    assert run("generate", tmp_path / "ours", "--max-tokens", 2).exit_code == 0


def test_what_goes_wrong_says_so(model: Path, tmp_path: Path) -> None:
    for asked, code, message in (
        (("generate", tmp_path / "none"), 1, "does not exist"),
        (("generate", model, "--temperature", -1), 1, "temperature"),
        (("generate", model, "--device", "cuda:99"), 1, "cuda:99"),
        (("generate", model, "--step", 9), 1, "it has 1, 2"),
        (("generate", model, "--num-samples", 0), 2, "num-samples"),
        (("evaluate", model), 2, "--data"),
        (("export", model), 2, "--out"),
    ):
        done = run(*asked)
        assert done.exit_code == code, done.output
        assert message in done.stderr
