"""What TensorBoard and W&B are told is what `metrics.jsonl` says, also when a run goes on."""

import html
import importlib.util
import json
import os
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from make_conversations import chat_tokenizer, encode_rows, preferences, say, talking_model
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tokenmill.errors import ConfigError
from tokenmill.lm.dpo import dpo
from tokenmill.lm.loop import StepResult
from tokenmill.lm.metrics import read_metrics
from tokenmill.lm.model_config import ModelConfig
from tokenmill.lm.pair_objective import PER_PAIR
from tokenmill.lm.pretrain import pretrain
from tokenmill.lm.sinks import LogSettings, as_markdown


class Cut(Exception):
    """Somebody pulled the plug."""


def run(data: Path, out: Path, config: ModelConfig, logs: LogSettings, **changes: Any) -> None:
    settings = {"max_steps": 20, "batch_size": 4, "save_every": 10, "eval_rows": 4, "log_every": 5}
    pretrain(
        data, out, model=config, logs=logs, progress=False, device="cpu", **{**settings, **changes}
    )


def run_in_two_parts(data: Path, out: Path, config: ModelConfig, logs: LogSettings) -> None:
    """Cut after step 17, so that it goes on from step 10."""

    def cut(result: StepResult) -> None:
        if result.step == 17:
            raise Cut

    with pytest.raises(Cut):
        run(data, out, config, logs, on_step=cut)
    run(data, out, config, logs)


def recorded(out: Path, kind: str, name: str) -> list[tuple[int, float]]:
    records = read_metrics(out)
    return [(each["step"], each[name]) for each in records if each["kind"] == kind]


def near(points: list[tuple[int, float]]) -> Any:
    """TensorBoard keeps 32 bits."""
    return [(step, pytest.approx(value)) for step, value in points]


def charts(folder: Path) -> dict[str, list[tuple[int, float]]]:
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0})
    events.Reload()
    return {
        name: [(event.step, event.value) for event in events.Scalars(name)]
        for name in events.Tags()["scalars"]
    }


def test_tensorboard_shows_each_step_once(
    tmp_path: Path, dataset: Path, small: ModelConfig
) -> None:
    out = tmp_path / "run"
    run_in_two_parts(dataset, out, small, LogSettings(("tensorboard",)))
    train, validation = (charts(out / "tensorboard" / kind) for kind in ("train", "validation"))
    of_steps = ["lr", "grad_norm", "tokens_per_second", "mfu"]
    assert set(train) == {"loss/nats_per_token", *(f"step/{name}" for name in of_steps)}
    assert set(validation) == {"loss/nats_per_token", "loss/bits_per_byte"}
    assert [step for step, _ in train["step/lr"]] == [1, 5, 10, 15, 20]
    for name in of_steps:
        assert train[f"step/{name}"] == near(recorded(out, "train", name))
    assert train["loss/nats_per_token"] == near(recorded(out, "train", "loss"))
    assert [step for step, _ in validation["loss/bits_per_byte"]] == list(range(1, 21))
    assert validation["loss/nats_per_token"] == near(recorded(out, "validation", "loss"))
    assert validation["loss/bits_per_byte"] == near(recorded(out, "validation", "bits_per_byte"))


def test_tensorboard_shows_what_is_known_of_pairs(tmp_path: Path) -> None:
    base = talking_model(tmp_path / "base")
    # Rejected answers are much longer, which a run warns of.
    rows = [{**row, "rejected": [say("assistant", "x" * 30)]} for row in preferences(40)]
    pairs = encode_rows(tmp_path / "pairs", rows, "preference", chat_tokenizer(), val_fraction=0.2)
    out = tmp_path / "run"
    settings: dict[str, Any] = {"max_steps": 25, "batch_size": 4, "eval_every": 25, "log_every": 5}
    dpo(pairs, out, base=base, logs=LogSettings(("tensorboard",)), progress=False, **settings)
    train, validation = (charts(out / "tensorboard" / kind) for kind in ("train", "validation"))
    for name in (*PER_PAIR, "logits/chosen"):
        assert train[name] == near(recorded(out, "train", name))
        assert validation[name] == near(recorded(out, "validation", name))
    assert train["loss/preference"] == near(recorded(out, "train", "loss"))
    assert train["answers/entropy"] == near(recorded(out, "train", "entropy"))
    assert "loss/nats_per_token" not in train
    # A warning is a text among the others, no run of its own.
    assert [each["kind"] for each in read_metrics(out)].count("warning") == 1
    assert {path.name for path in (out / "tensorboard").iterdir()} == {"train", "validation"}


def test_samples_have_a_place_each(tmp_path: Path, dataset: Path, small: ModelConfig) -> None:
    out = tmp_path / "run"
    prompts = ("the", "a <b>")
    changes = {"sample_every": 10, "sample_prompts": prompts, "sample_tokens": 4}
    run(dataset, out, small, LogSettings(("tensorboard",)), **changes)
    events = EventAccumulator(str(out / "tensorboard" / "train"))
    events.Reload()
    texts = [each["text"] for each in read_metrics(out) if each["kind"] == "sample"]
    assert len(texts) == 4
    for number, prompt in enumerate(prompts):
        shown = events.Tensors(f"sample/{number + 1}/text_summary")
        assert [event.step for event in shown] == [10, 20]
        for event, text in zip(shown, texts[number::2], strict=True):
            assert text.startswith(prompt)
            (markdown,) = event.tensor_proto.string_val
            assert markdown.decode() == as_markdown(text)


@pytest.mark.parametrize(
    "text",
    [
        "plain words, and: more?",
        "<b>not bold</b> <|endoftext|> & &amp; *no* _list_ [x](y) `z` ~~~",
        "# no title\n- no list\n1. nor here\n> said\n===\n| a | b |\n| - | - |\n| 1 | 2 |",
        "two\n\nparagraphs\n    four spaces\n\tand a tab",
        "ein Satz für Größe, \u4f60\u597d \U0001f40c",
    ],
)
def test_samples_are_shown_letter_by_letter(text: str) -> None:
    """By TensorBoard's own renderer: no tags but paragraphs and line breaks, and the text is the text."""
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        from tensorboard.plugin_util import markdown_to_safe_html

    shown = markdown_to_safe_html(as_markdown(text))
    assert set(re.findall(r"</?(\w+)", shown)) <= {"p", "br"}
    seen = html.unescape(re.sub(r"<[^>]*>", " ", shown))
    assert seen.split() == text.split()


def test_control_characters_are_not_shown() -> None:
    assert as_markdown("a\x18b\x00") == "a\ufffdb\ufffd"


@pytest.mark.parametrize(
    ("sink", "extra"), [("tensorboard", "lm"), ("wandb", "wandb")], ids=lambda name: name
)
@pytest.mark.parametrize("beside", [False, True])
def test_a_sink_that_is_not_installed(
    tmp_path: Path,
    dataset: Path,
    small: ModelConfig,
    monkeypatch: pytest.MonkeyPatch,
    sink: str,
    extra: str,
    beside: bool,
) -> None:
    """Also beside a folder of that name, which Python takes for a package; and nothing is left behind."""
    (tmp_path / sink).mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    found = importlib.util.spec_from_loader(sink, None, is_package=True) if beside else None
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: found)
    with pytest.raises(ConfigError, match=f"`--log {sink}` needs {sink}") as error:
        run(dataset, tmp_path / "run", small, LogSettings((sink,)))
    assert f"pip install 'tokenmill[{extra}]'" in str(error.value)
    assert not (tmp_path / "run").exists()


@pytest.fixture
def no_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody is logged in to W&B, and whoever asks for a key fails."""
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "WANDB_CONFIG_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("WANDB_SILENT", "true")
    yield
    wait_for_wandb()


def wait_for_wandb() -> None:
    """Until everything is written: that goes on in a process of its own when a run has ended."""
    import wandb

    wandb.teardown()


def transactions(file: Path) -> Iterator[Any]:
    """The records of an offline run. The file is a log of LevelDB behind seven bytes of its own: blocks of 32 KiB, in them
    pieces of (checksum, length, kind), where the kinds are a whole record, its first, middle and last piece."""
    from wandb.proto import wandb_internal_pb2

    data, at, parts = file.read_bytes(), 7, b""
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        length, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        parts += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            record = wandb_internal_pb2.Record()  # pyright: ignore
            record.ParseFromString(parts)
            yield record
            parts = b""


@pytest.mark.usefixtures("no_account")
def test_wandb_is_offline_without_an_account_and_goes_on(
    tmp_path: Path, dataset: Path, small: ModelConfig
) -> None:
    out = tmp_path / "run"
    logs = LogSettings(("wandb",), project="shelf", name="first", tags=("tiny", "cpu"))
    run_in_two_parts(dataset, out, small, logs)
    wait_for_wandb()
    files = sorted(out.glob("wandb/offline-run-*/run-*.wandb"))
    assert len(files) == 2
    histories: list[dict[int, dict[str, Any]]] = []
    ids: set[str] = set()
    for file in files:
        histories.append({})
        for record in transactions(file):
            if record.HasField("run"):
                found = record.run
                assert (found.project, found.display_name) == ("shelf", "first")
                assert set(found.tags) == {"tiny", "cpu"}
                assert "settings" in {item.key for item in found.config.update}
                ids.add(found.run_id)
            if record.HasField("history"):
                items = {item.key or item.nested_key[0]: item for item in record.history.item}
                values = {name: json.loads(item.value_json) for name, item in items.items()}
                histories[-1][values["_step"]] = values
    assert len(ids) == 1
    assert ids == {(out / "wandb" / "run-id").read_text()}
    assert [max(history) for history in histories] == [
        16,
        20,
    ]  # step 17 was cut before it was evaluated
    assert min(histories[1]) == 11
    merged = histories[0] | histories[1]
    for kind, name in (("train", "loss"), ("train", "lr"), ("validation", "bits_per_byte")):
        wanted = recorded(out, kind, name)
        assert wanted == [(s, merged[s][f"{kind}/{name}"]) for s, _ in wanted]


@pytest.mark.usefixtures("no_account")
def test_a_run_that_starts_anew_is_another_one_to_wandb(
    tmp_path: Path, dataset: Path, small: ModelConfig
) -> None:
    out, ids = tmp_path / "run", set[str]()
    for _ in range(2):
        run(dataset, out, small, LogSettings(("wandb",)), max_steps=2, force=True)
        ids.add((out / "wandb" / "run-id").read_text())
    assert len(ids) == 2
