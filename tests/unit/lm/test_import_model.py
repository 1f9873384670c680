"""Import: folders of transformers and course checkpoints become our weights, anything else an error."""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from make_dataset import small_tokenizer
from make_model import random_ids, small_model
from safetensors.torch import load_file, save_file
from torch import Tensor

from tokenmill.errors import ConfigError, FormatError
from tokenmill.lm.export import export_model
from tokenmill.lm.import_model import import_model
from tokenmill.lm.open_model import LoadedModel, open_model
from tokenmill.lm.save_imported import save_imported


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of transformers."""
    tokenizer = small_tokenizer()
    model = small_model(num_kv_heads=2)
    loaded = LoadedModel(model, tokenizer, None, tmp_path, tokenizer.sha256)
    return export_model(loaded, tmp_path / "llama")


def change_config(folder: Path, **changes: Any) -> None:
    file = folder / "config.json"
    config = {**json.loads(file.read_text()), **changes}
    file.write_text(json.dumps({key: v for key, v in config.items() if v != "absent"}))


def test_weights_in_shards_of_half_precision(folder: Path) -> None:
    whole = load_file(folder / "model.safetensors")
    names, shards = sorted(whole), {}
    for number, part in enumerate((names[::2], names[1::2])):
        file = f"model-{number}.safetensors"
        save_file({name: whole[name].bfloat16() for name in part}, folder / file)
        shards |= dict.fromkeys(part, file)
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}))
    found = import_model(folder).weights
    assert found.keys() == whole.keys()
    for name, tensor in found.items():
        assert tensor.dtype == torch.float32
        assert torch.equal(tensor, whole[name].bfloat16().float())
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"a": "../x"}}')
    with pytest.raises(FormatError, match="not in its own folder"):
        import_model(folder)


def test_older_files_say_rope_elsewhere_and_save_its_table(folder: Path) -> None:
    change_config(folder, rope_parameters="absent", rope_theta=123.0, rope_scaling=None)
    weights = load_file(folder / "model.safetensors")
    weights["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(4)
    save_file(weights, folder / "model.safetensors")
    assert open_model(folder, device="cpu").model.config.rope_theta == 123.0


def test_a_tied_head_that_was_saved_must_be_the_embedding(folder: Path) -> None:
    change_config(folder, tie_word_embeddings=True)
    with pytest.raises(FormatError, match="head and embedding differ"):
        import_model(folder)
    weights = load_file(folder / "model.safetensors")
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"].clone()
    save_file(weights, folder / "model.safetensors")
    model = open_model(folder, device="cpu").model
    assert model.lm_head.weight is model.model.embed_tokens.weight


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "gpt2"}, "a model of type `gpt2`"),
        ({"rope_parameters": {"rope_type": "llama3", "rope_theta": 1e4}}, "RoPE of type `llama3`"),
        ({"rope_scaling": {"type": "linear", "factor": 2}}, "RoPE of type `linear`"),
        ({"attention_bias": True}, "`attention_bias` = `True`"),
        ({"mlp_bias": True}, "`mlp_bias` = `True`"),
        ({"hidden_act": "gelu"}, "`hidden_act` = `gelu`"),
        ({"quantization_config": {"bits": 4}}, "quantization_config"),
        ({"use_sliding_window": True}, "use_sliding_window"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "`sliding_attention`"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ({"hidden_size": "absent"}, "has no `hidden_size`"),
        ({"num_attention_heads": 5, "head_dim": "absent"}, "is not a multiple"),
    ],
)
def test_what_our_model_does_not_compute_is_refused(
    folder: Path, changes: dict[str, Any], message: str
) -> None:
    change_config(folder, **changes)
    with pytest.raises(FormatError, match=message):
        import_model(folder)


def test_files_that_are_missing_cut_or_of_another_kind(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="does not exist"):
        import_model(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="says itself what its num_heads is"):
        import_model(folder, num_heads=4)
    weights = folder / "model.safetensors"
    data = weights.read_bytes()
    weights.write_bytes(data[:-5])
    with pytest.raises(FormatError, match="cannot be read as safetensors"):
        import_model(folder)
    save_file({"lm_head.weight": torch.ones(2, 2, dtype=torch.int8)}, weights)
    with pytest.raises(FormatError, match="is of type `int8`"):
        import_model(folder)
    weights.unlink()
    (folder / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(FormatError, match="is a pickle"):
        import_model(folder)
    (folder / "config.json").write_text("{")
    with pytest.raises(FormatError, match="not valid JSON"):
        import_model(folder)


def test_a_tokenizer_of_another_kind_is_left_out_with_a_warning(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "tokenizer.json").write_text('{"model": {"type": "Unigram"}}')
    assert open_model(folder, device="cpu").tokenizer is None
    assert "without its tokenizer" in caplog.text
    (folder / "tokenizer.json").unlink()
    assert import_model(folder).tokenizer is None
    assert "no `tokenizer.json`" in caplog.text


class CourseModel:
    """The course's model by its own formulas: neighbours are turned, w1 is the gate."""

    def __init__(self, heads: int, theta: float, gated: bool = True) -> None:
        self.heads, self.theta, self.gated = heads, theta, gated
        draw = torch.Generator().manual_seed(3)
        d, f, v = 24, 40, 50
        shapes: dict[str, tuple[int, ...]] = {"token_embeddings.weight": (v, d)}
        for layer in range(2):
            inner = {f"attn.{x}_proj": (d, d) for x in ("q", "k", "v", "output")}
            inner |= {"ln1": (d,), "ln2": (d,), "ffn.w1": (f, d), "ffn.w2": (d, f)}
            inner |= {"ffn.w3": (f, d)} if gated else {}
            shapes |= {f"layers.{layer}.{name}.weight": shape for name, shape in inner.items()}
        shapes |= {"ln_final.weight": (d,), "lm_head.weight": (v, d)}
        self.weights = {
            name: torch.randn(shape, generator=draw) / math.sqrt(shape[-1]) + (len(shape) == 1)
            for name, shape in shapes.items()
        }

    def rope(self, x: Tensor) -> Tensor:
        width = x.shape[-1]
        places = torch.arange(x.shape[-2])
        angles = places[:, None] * self.theta ** (-torch.arange(0, width, 2) / width)
        even, odd = x[..., 0::2], x[..., 1::2]
        turned = (
            even * angles.cos() - odd * angles.sin(),
            even * angles.sin() + odd * angles.cos(),
        )
        return torch.stack(turned, dim=-1).flatten(-2)

    def logits(self, ids: Tensor) -> Tensor:
        w = self.weights

        def norm(x: Tensor, name: str) -> Tensor:
            return x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * w[f"{name}.weight"]

        x = w["token_embeddings.weight"][ids]
        future = torch.ones(len(ids), len(ids)).triu(1).bool()
        for layer in (f"layers.{number}." for number in range(2)):
            y = norm(x, layer + "ln1")
            q, k, v = (
                (y @ w[f"{layer}attn.{part}_proj.weight"].T)
                .view(len(ids), self.heads, -1)
                .swapaxes(0, 1)
                for part in "qkv"
            )
            scores = self.rope(q) @ self.rope(k).mT / math.sqrt(q.shape[-1])
            mixed = scores.masked_fill(future, -torch.inf).softmax(-1) @ v
            x = x + mixed.swapaxes(0, 1).flatten(1) @ w[layer + "attn.output_proj.weight"].T
            y = norm(x, layer + "ln2")
            inner = F.silu(y @ w[layer + "ffn.w1.weight"].T)
            if self.gated:
                inner = inner * (y @ w[layer + "ffn.w3.weight"].T)
            x = x + inner @ w[layer + "ffn.w2.weight"].T
        return norm(x, "ln_final") @ w["lm_head.weight"].T


def save_course(model: CourseModel, file: Path, form: str) -> None:
    weights = dict(model.weights)
    match form:
        case "safetensors":
            save_file(weights, file)
        case "compiled":
            tables = {"layers.0.attn.rope.cos": torch.ones(3)}
            named = {f"_orig_mod.{name}": tensor for name, tensor in (weights | tables).items()}
            torch.save({"model": named, "optimizer": {"state": {}}, "iteration": 5}, file)
        case _:
            torch.save(weights, file)


@pytest.mark.parametrize(
    ("form", "suffix"), [("safetensors", ".safetensors"), ("plain", ".pt"), ("compiled", ".pth")]
)
@pytest.mark.parametrize("gated", [True, False])
def test_a_course_checkpoint_gives_the_same_logits(
    form: str, suffix: str, gated: bool, tmp_path: Path
) -> None:
    course = CourseModel(heads=3, theta=100.0, gated=gated)
    file = tmp_path / f"model{suffix}"
    save_course(course, file, form)
    imported = import_model(file, num_heads=3, context=12, rope_theta=100.0)
    out = save_imported(imported, tmp_path / "ours", tokenizer=None)
    model = open_model(out, device="cpu").model
    ids = torch.arange(12) * 7 % 50
    assert torch.allclose(model(ids[None])[0], course.logits(ids), atol=1e-5)
    half = import_model(file, num_heads=3, context=12, rope_theta=100.0, rope_layout="half-split")
    assert not torch.equal(
        half.weights["model.layers.0.self_attn.q_proj.weight"],
        imported.weights["model.layers.0.self_attn.q_proj.weight"],
    )


def test_a_course_folder_says_its_settings(tmp_path: Path) -> None:
    course = CourseModel(heads=2, theta=10_000.0)
    save_course(course, tmp_path / "model.pt", "plain")
    with pytest.raises(ConfigError, match="do not tell `num_heads`"):
        import_model(tmp_path)
    said = {"num_heads": 2, "context_length": 20, "d_ff": 40, "vocab_size": 50}
    (tmp_path / "model_config.json").write_text(json.dumps(said))
    config = import_model(tmp_path).config
    assert (config.num_heads, config.context, config.d_ff, config.num_layers) == (2, 20, 40, 2)
    (tmp_path / "model_config.json").write_text(json.dumps({**said, "d_ff": 41}))
    with pytest.raises(FormatError, match="says d_ff 41, but the weights have 40"):
        import_model(tmp_path)


class Malice:
    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path("ran"),)


def test_a_pickle_with_code_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"model": Malice()}, tmp_path / "bad.pt")
    with pytest.raises(FormatError, match="it could run code"):
        import_model(tmp_path / "bad.pt", num_heads=2, context=8)
    assert not (tmp_path / "ran").exists()


def test_course_files_that_are_none(tmp_path: Path) -> None:
    given: dict[str, Any] = {"num_heads": 2, "context": 8}
    file = tmp_path / "x.pt"
    file.write_bytes(b"nothing of torch's")
    with pytest.raises(FormatError, match=r"x\.pt"):
        import_model(file, **given)
    torch.save([1, 2], file)
    with pytest.raises(FormatError, match="holds no state dict"):
        import_model(file, **given)
    torch.save({"h.0.attn.c_attn.weight": torch.ones(1)}, file)
    with pytest.raises(FormatError, match="that the course's model does not have"):
        import_model(file, **given)
    torch.save({"lm_head.weight": torch.ones(2, 2)}, file)
    with pytest.raises(FormatError, match=r"it has no `token_embeddings\.weight`"):
        import_model(file, **given)
    with pytest.raises(FormatError, match="ends in none of"):
        import_model(Path(shutil.copy(file, tmp_path / "x.dat")), **given)
    with pytest.raises(ConfigError, match="unknown RoPE layout `mixed`"):
        import_model(file, rope_layout="mixed", **given)
    (tmp_path / "y.pt").touch()
    with pytest.raises(FormatError, match=r"not one file of weights but `x.pt`, `y.pt`"):
        import_model(tmp_path, **given)


def test_an_imported_model_is_written_once_and_replaced_by_force(
    folder: Path, tmp_path: Path
) -> None:
    imported = import_model(folder)
    out = save_imported(imported, tmp_path / "ours")
    loaded = open_model(out, device="cpu")
    ids = random_ids(loaded.model, 1, 6)
    assert torch.equal(loaded.model(ids), open_model(folder, device="cpu").model(ids))
    assert loaded.step == 0
    assert loaded.tokenizer == imported.tokenizer
    with pytest.raises(ConfigError, match="already holds an imported model"):
        save_imported(imported, out)
    save_imported(imported, out, force=True)
    (out / "mine.txt").touch()
    with pytest.raises(ConfigError, match="is no imported model"):
        save_imported(imported, out, force=True)


def test_weights_that_do_not_fit_are_not_written(folder: Path, tmp_path: Path) -> None:
    change_config(folder, num_hidden_layers=3)
    with pytest.raises(FormatError, match="lacks weight"):
        save_imported(import_model(folder), tmp_path / "ours")
    assert not (tmp_path / "ours").exists()
