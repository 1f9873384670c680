"""lm-evaluation-harness with our models: its own tasks on files of this machine, held against scores made by hand."""

import json
import logging
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from lm_eval.evaluator import simple_evaluate
from lm_eval.tasks import TaskManager
from make_dataset import EOS, TEXTS, encoded, make_dataset, small_tokenizer
from make_model import save_run, small_model

import tokenmill as tm
from tokenmill.errors import ConfigError
from tokenmill.lm.evaluate import evaluate
from tokenmill.lm.harness import HarnessModel
from tokenmill.lm.model import Model

TOKENIZER = small_tokenizer()
DOCUMENTS = [*TEXTS, "the cat sat on " * 9, f"on {EOS} the mat the café" * 3]
EOS_ID = TOKENIZER.special_tokens[EOS]


@pytest.fixture(autouse=True)
def on_no_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The harness asks pip, git and the compiler about the machine, which takes longer than its tasks."""
    monkeypatch.setattr("lm_eval.evaluator.add_env_info", lambda results: None)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return save_run(tmp_path / "run", {4: small_model()}, TOKENIZER)


def write_task(folder: Path, name: str, rows: list[dict[str, Any]], **settings: Any) -> None:
    data = folder / f"{name}.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = {
        "task": name,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(data)}, "cache_dir": str(folder / "cache")},
        "test_split": "test",
        **settings,
    }
    (folder / f"{name}.yaml").write_text(json.dumps(task))


def results(folder: Path, model: HarnessModel, *tasks: str) -> dict[str, Any]:
    manager = TaskManager(include_path=str(folder), include_defaults=False)
    found = simple_evaluate(model=model, tasks=list(tasks), task_manager=manager, bootstrap_iters=0)
    assert found is not None
    return dict(found)


def requests(*args: tuple[Any, ...]) -> list[Any]:
    return [SimpleNamespace(args=each) for each in args]


def log_p(model: Model, before: list[int], after: list[int]) -> tuple[float, bool]:
    """One forward pass for each token, from as much as the model sees."""
    total, greedy = 0.0, True
    for place in range(len(after)):
        seen = [*before, *after[:place]][-model.config.context :]
        scores = model(torch.tensor([seen]))[0, -1].double().log_softmax(-1)
        total += scores[after[place]].item()
        greedy = greedy and int(scores.argmax()) == after[place]
    return total, greedy


def test_rolled_documents_have_the_bits_per_byte_of_lm_evaluate(tmp_path: Path, run: Path) -> None:
    splits = {"train": encoded(TOKENIZER, DOCUMENTS)}
    split = tm.Dataset.open(make_dataset(tmp_path / "data", TOKENIZER, splits))["train"]
    model = HarnessModel(run, device="cpu")
    metrics = [{"metric": name} for name in ("bits_per_byte", "byte_perplexity")]
    write_task(
        *(tmp_path, "rolled", [{"text": text} for text in DOCUMENTS]),
        output_type="loglikelihood_rolling",
        doc_to_text="",
        doc_to_target="{{text}}",
        metric_list=metrics,
    )
    found = results(tmp_path, model, "rolled")
    wanted = evaluate(model.model, split)
    assert wanted.bits_per_byte is not None
    assert wanted.num_bytes == sum(len(text.encode()) for text in DOCUMENTS)
    bits = found["results"]["rolled"]["bits_per_byte,none"]
    assert bits == pytest.approx(wanted.bits_per_byte, abs=1e-6)
    assert found["config"]["model_step"] == 4
    assert found["config"]["tokenizer_sha256"] == TOKENIZER.sha256


def test_choices_and_texts(tmp_path: Path, run: Path) -> None:
    model = HarnessModel(run, device="cpu")
    choices = ["mat", "cat", "café"]
    rows = [{"question": text, "choices": choices} for text in ("the cat sat on the", "the")]
    right = []
    for row in rows:
        scores = [
            log_p(model.model, TOKENIZER.encode(row["question"]), TOKENIZER.encode(f" {choice}"))[0]
            for choice in choices
        ]
        right.append(scores.index(max(scores)))
    # One answer right and one wrong, by scores of our own.
    rows[0]["label"], rows[1]["label"] = right[0], (right[1] + 1) % 3
    write_task(
        *(tmp_path, "choice", rows),
        output_type="multiple_choice",
        doc_to_text="{{question}}",
        doc_to_choice="{{choices}}",
        doc_to_target="{{label}}",
        metric_list=[{"metric": "acc"}],
    )
    prompts = ["the cat", "on the mat the cat sat"]
    made = tm.lm.generate(
        model.model, TOKENIZER, [TOKENIZER.encode(p) for p in prompts], max_tokens=8, temperature=0
    )
    stop = made[0].text[3]
    targets = [made[0].text[: made[0].text.index(stop)], "something else"]
    write_task(
        *(tmp_path, "text", [{"p": p, "t": t} for p, t in zip(prompts, targets, strict=True)]),
        output_type="generate_until",
        doc_to_text="{{p}}",
        doc_to_target="{{t}}",
        generation_kwargs={"until": [stop], "max_gen_toks": 8, "do_sample": False},
        metric_list=[{"metric": "exact_match"}],
    )
    found = results(tmp_path, model, "choice", "text")
    assert found["results"]["choice"]["acc,none"] == 0.5
    assert found["results"]["text"]["exact_match,none"] == 0.5
    answers = {each["doc_id"]: each["resps"][0][0] for each in found["samples"]["text"]}
    assert answers[0] == targets[0]
    assert stop not in answers[1]


@pytest.mark.parametrize(
    ("context", "continuation", "before", "after"),
    [
        ("the cat", " sat", "the cat", " sat"),
        ("the cat ", "sat", "the cat", " sat"),
        ("", "the cat", None, "the cat"),
        ("  \n", "the", None, "  \nthe"),
        ("the c", "at", "the c", "at"),
        ("the cat", "", "the cat", ""),
        (EOS, " the", EOS, " the"),
    ],
)
def test_a_continuation_has_the_tokens_that_spell_it(
    run: Path, context: str, continuation: str, before: str | None, after: str
) -> None:
    model = HarnessModel(run, device="cpu")
    ids = [EOS_ID] if before is None else TOKENIZER.encode_ordinary(before)
    wanted = log_p(model.model, ids, TOKENIZER.encode_ordinary(after))
    (found,) = model.loglikelihood(requests((context, continuation)))
    assert found[0] == pytest.approx(wanted[0], abs=1e-4)
    assert found[1] == wanted[1]


def test_a_token_over_the_join_is_what_the_case_above_has() -> None:
    """`at` would be empty if the whole were cut behind the tokens of `the c`."""
    whole, before = TOKENIZER.encode("the cat"), TOKENIZER.encode("the c")
    assert whole[: len(before)] != before


def test_the_likeliest_continuation_is_known(run: Path) -> None:
    model = HarnessModel(run, device="cpu")
    (mat,) = TOKENIZER.encode(" mat")
    with torch.no_grad():
        stream = model.model.hidden(torch.tensor([TOKENIZER.encode("on the")]))[0, -1]
        model.model.lm_head.weight[mat] = 100 * stream
    pairs = requests(("on the", " mat"), ("on the", " mat the"), ("on the", " cat"))
    (score, likeliest), *others = model.loglikelihood(pairs)
    assert score == pytest.approx(0)
    assert likeliest
    assert not any(is_likeliest for _, is_likeliest in others)


def test_what_does_not_fit_is_cut_from_the_left_and_said_once(
    run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = HarnessModel(run, device="cpu")
    long = "the cat sat on the mat " * 8
    with caplog.at_level(logging.WARNING, logger="tokenmill"):
        found = model.loglikelihood(requests((long, "the"), (long, long), ("the", long)))
        model.generate_until(requests((long, {"max_gen_toks": 3}), (long, {})))
    said = [record.message for record in caplog.records if record.name == "tokenmill"]
    assert len(said) == 1
    assert "cut from the left" in said[0]
    ids = TOKENIZER.encode(long.rstrip())
    wanted = log_p(model.model, ids, TOKENIZER.encode(" the"))
    assert found[0][0] == pytest.approx(wanted[0], abs=1e-4)
    # More than the model sees at once is scored to the last token.
    assert all(math.isfinite(score) and score < -50 for score, _ in found[1:])


def test_order_and_batches_change_nothing(run: Path) -> None:
    pairs = requests(*((text[:9], text[9:]) for text in DOCUMENTS if len(text) > 9))
    one = HarnessModel(run, device="cpu", batch_tokens=1).loglikelihood(pairs)
    many = HarnessModel(run, device="cpu").loglikelihood(pairs[::-1])[::-1]
    assert [score for score, _ in one] == pytest.approx([score for score, _ in many], abs=1e-4)
    asked = {"until": ["mat"], "max_gen_toks": 4}
    prompts = requests(("the", asked), ("the cat sat", asked), ("", {"max_gen_toks": 5}))
    one = HarnessModel(run, device="cpu", batch_tokens=1).generate_until(prompts)
    assert one == HarnessModel(run, device="cpu").generate_until(prompts)


def test_the_token_before_a_text_can_be_chosen(tmp_path: Path) -> None:
    tokenizer = small_tokenizer(special_tokens=(EOS, "<|bos|>"))
    model = small_model(vocab_size=tokenizer.vocab_size)
    run = save_run(tmp_path / "run", {1: model}, tokenizer)
    chosen = HarnessModel(run, device="cpu", prefix_token="<|bos|>", add_bos_token=True)
    bos = tokenizer.special_tokens["<|bos|>"]
    for context in ("", "the cat"):
        (found,) = chosen.loglikelihood(requests((context, " sat")))
        ids = [bos, *tokenizer.encode(context)]
        wanted = log_p(model, ids, tokenizer.encode(" sat"))
        assert found[0] == pytest.approx(wanted[0], abs=1e-4)
    with pytest.raises(ConfigError, match=r"`<x>` is no special token.*\n.*<\|bos\|>"):
        HarnessModel(run, device="cpu", prefix_token="<x>")
    bare = save_run(tmp_path / "bare", {1: model})
    with pytest.raises(ConfigError, match="comes without a tokenizer"):
        HarnessModel(bare, device="cpu")


def test_the_harness_knows_it_by_name(run: Path) -> None:
    from lm_eval.api.registry import get_model

    assert get_model("tokenmill") is HarnessModel is tm.lm.HarnessModel
    made = HarnessModel.create_from_arg_string(f"path={run},step=4", {"device": "cpu"})
    assert made.loaded.step == 4
