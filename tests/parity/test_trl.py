"""TRL and we, on the same rows with the same weights: the same loss, gradients and reported numbers.

TRL tokenizes the rows by itself, with the chat template of the exported tokenizer, pads each document to a row of its own and asks the
reference beside the model; here rows are packed, and the reference was asked before.

TRL's fused head and transformers' norms compute in float32 whatever the weights are, so in float64 a plain head of TRL's own
`selective_log_softmax` and `entropy_from_logits` stands in for the fused one, and `F.rms_norm` for the norms. In float32 nothing is replaced.
"""

import importlib
import importlib.metadata
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from make_conversations import (
    chat_tokenizer,
    conversations,
    encode_rows,
    pair_rows,
    preferences,
    train_data,
)
from make_model import small_model

from tokenmill.lm.batches import Batches
from tokenmill.lm.distributed import Ranks
from tokenmill.lm.export import export_model
from tokenmill.lm.fitting import fit_documents
from tokenmill.lm.model import Model
from tokenmill.lm.objective import AnswerTokens
from tokenmill.lm.open_model import LoadedModel
from tokenmill.lm.packing import BestFitPlan
from tokenmill.lm.pair_objective import Preference
from tokenmill.lm.post_training_settings import DpoSettings
from tokenmill.lm.reference import compute_log_probs
from tokenmill.progress import Meter

# transformers checks the version of `regex` when it is imported; see test_artifact.py.
_version = importlib.metadata.version
importlib.metadata.version = lambda name: "2025.10.22" if name == "regex" else _version(name)
# TRL imports what it exports when it is asked for; nothing says so in a way that types can be read from.
datasets: Any = importlib.import_module("datasets")
transformers: Any = importlib.import_module("transformers")
trl: Any = importlib.import_module("trl")
trl_utils: Any = importlib.import_module("trl.trainer.utils")

importlib.metadata.version = _version
torch.set_num_threads(1)

CONTEXT = 96
TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-4}
LOSSES: dict[str, DpoSettings] = {
    "sigmoid": DpoSettings(beta=0.3),
    "ipo": DpoSettings(beta=0.2, loss="ipo"),
    "sigmoid and sft": DpoSettings(beta=0.1, sft_weight=0.7),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`policy`, `reference`, and datasets of pairs and of conversations."""
    made = tmp_path_factory.mktemp("trl")
    tokenizer = chat_tokenizer()
    for name in ("policy", "reference"):
        loaded = LoadedModel(model_of(name), tokenizer, 1, made, tokenizer.sha256)
        export_model(loaded, made / name)
    encode_rows(made / "pairs", preferences(12), "preference")
    encode_rows(made / "rows", conversations(12), "sft")
    return made


def model_of(name: str) -> Model:
    seed = {"policy": 3, "reference": 4}[name]
    return small_model(
        seed, vocab_size=chat_tokenizer().vocab_size, context=CONTEXT, num_kv_heads=2
    )


def theirs(folder: Path, name: str, dtype: torch.dtype) -> Any:
    """What transformers opens."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder / name, dtype=dtype)
    for module in model.modules():
        if dtype == torch.float64 and type(module).__name__ == "LlamaRMSNorm":
            module.forward = norm_of(module)
    return model


def norm_of(module: Any) -> Any:
    return lambda x: F.rms_norm(x, module.weight.shape, module.weight, module.variance_epsilon)


class PlainHead:
    """TRL's fused head in the type of the weights."""

    @staticmethod
    def apply(hidden: Any, weight: Any, bias: Any, targets: Any, *_: Any) -> tuple[Any, ...]:
        assert bias is None
        logits = F.linear(hidden, weight)
        log_probs = trl_utils.selective_log_softmax(logits, targets)
        entropy = trl_utils.entropy_from_logits(logits)
        return log_probs, entropy, None, logits.mean(-1), logits.argmax(-1) == targets


@pytest.fixture(params=[torch.float64, torch.float32], ids=["float64", "float32"])
def dtype(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> torch.dtype:
    if request.param == torch.float64:
        monkeypatch.setattr(trl_utils, "_ChunkedLogProbFunction", PlainHead)
    return request.param


def config_of(kind: Any, tmp_path: Path, **more: Any) -> Any:
    return kind(
        output_dir=str(tmp_path / "trl"),
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        report_to="none",
        disable_tqdm=True,
        max_length=None,
        **more,
    )


def same_gradients(ours: Model, other: Any, tolerance: float) -> None:
    found = dict(ours.named_parameters())
    wanted = {name: weight.grad for name, weight in other.named_parameters()}
    assert found.keys() == wanted.keys()
    for name, weight in found.items():
        assert weight.grad is not None
        assert weight.grad.norm() > 0
        distance = (weight.grad - wanted[name]).norm() / wanted[name].norm()
        assert distance < tolerance, (name, distance)


@pytest.mark.parametrize("name", LOSSES)
def test_preferences(name: str, folder: Path, tmp_path: Path, dtype: torch.dtype) -> None:
    options, tolerance = LOSSES[name], TOLERANCE[dtype]
    weights = {"loss_type": [options.loss, "sft"], "loss_weights": [1.0, options.sft_weight]}
    if not options.sft_weight:
        weights = {"loss_type": [options.loss]}
    trainer = trl.DPOTrainer(
        theirs(folder, "policy", dtype),
        theirs(folder, "reference", dtype),
        args=config_of(trl.DPOConfig, tmp_path, beta=options.beta, **weights),
        train_dataset=datasets.Dataset.from_list(preferences(12)),
        processing_class=transformers.AutoTokenizer.from_pretrained(folder / "policy"),
    )
    trainer.model.train()
    batch = trainer.data_collator([trainer.train_dataset[at] for at in range(12)])
    assert len({int(row.sum()) for row in batch["attention_mask"]}) > 4
    wanted = trainer.compute_loss(trainer.model, batch)
    wanted.backward()

    rows = pair_rows(folder / "pairs", CONTEXT)
    rows.reference = compute_log_probs(
        model_of("reference").to(dtype),
        rows,
        pairs_at_once=5,
        precision="fp32",
        ranks=Ranks(),
        meter=Meter(False),
    )
    model = model_of("policy").to(dtype)
    objective = Preference(model, options, is_own_reference=False, precision="fp32")
    packed = rows.load(range(12))
    assert len(packed.ids_BT) < 12
    sums = objective(packed)
    means = sums / torch.tensor(objective.counts(packed))
    loss = sum(weight * mean for weight, mean in zip(objective.terms, means, strict=False))
    assert isinstance(loss, torch.Tensor)
    loss.backward()
    assert loss.item() == pytest.approx(wanted.item(), rel=tolerance)
    reported = {key: values[-1] for key, values in trainer._metrics["train"].items()}
    assert reported.keys() - set(objective.names) == {"num_tokens"}
    for key, mean in zip(objective.names, means[2:].tolist(), strict=True):
        assert mean == pytest.approx(reported[key], rel=tolerance), key
    assert reported["rewards/chosen"] != 0
    same_gradients(model, trainer.model, 1e-6 if dtype == torch.float64 else 1e-3)


def test_conversations(folder: Path, tmp_path: Path, dtype: torch.dtype) -> None:
    tolerance = TOLERANCE[dtype]
    trainer = trl.SFTTrainer(
        theirs(folder, "policy", dtype),
        args=config_of(trl.SFTConfig, tmp_path, assistant_only_loss=True),
        train_dataset=datasets.Dataset.from_list(conversations(12)),
        processing_class=transformers.AutoTokenizer.from_pretrained(folder / "policy"),
    )
    trainer.model.train()
    batch = trainer.data_collator([trainer.train_dataset[at] for at in range(12)])
    num_labels = int((batch["labels"] != -100).sum())
    wanted = trainer.compute_loss(trainer.model, batch)
    wanted.backward()

    data = train_data(folder / "rows")
    fitting = fit_documents(data, CONTEXT + 1, "error")
    plan = BestFitPlan(fitting.starts, fitting.lengths, CONTEXT + 1)
    packed = Batches(data.tokens, plan, data.mask, document_mask=True).load(range(len(plan)))
    assert len(plan) < 12
    assert packed.num_targets == num_labels
    model = model_of("policy").to(dtype)
    loss = AnswerTokens(model)(packed)[0] / packed.num_targets
    loss.backward()
    assert loss.item() == pytest.approx(wanted.item(), rel=tolerance)
    same_gradients(model, trainer.model, 1e-6 if dtype == torch.float64 else 1e-3)
