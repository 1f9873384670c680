"""Evaluating: every token of the text once, from as much context as promised, equal to brute force."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from make_dataset import EOS, TEXTS, Document, encoded, make_dataset, masked, small_tokenizer
from make_model import small_model

import tokenmill as tm
from tokenmill.errors import ConfigError, FormatError, VocabError
from tokenmill.lm.evaluate import evaluate
from tokenmill.lm.model import Model

CONTEXT = 16
ALL = [*TEXTS, "the cat sat on " * 9, "m", "on the mat the café" * 3]


@pytest.fixture(scope="module")
def tokenizer() -> tm.Tokenizer:
    return small_tokenizer()


@pytest.fixture
def dataset(tmp_path: Path, tokenizer: tm.Tokenizer) -> tm.Dataset:
    splits = {"train": encoded(tokenizer, ALL[:1]), "validation": encoded(tokenizer, ALL)}
    return tm.Dataset.open(make_dataset(tmp_path / "data", tokenizer, splits))


def brute_force(model: Model, ids: list[int], stride: int) -> list[float]:
    """Nats of each id but the first, one forward pass for each, in float64."""
    wide = Model(model.config).double()
    wide.load_state_dict(model.state_dict())
    nats = []
    for place in range(1, len(ids)):
        # The end of the window that scores this place.
        end = CONTEXT + 1
        while end <= place:
            end += stride
        start = max(0, min(end, len(ids)) - CONTEXT - 1)
        logits = wide(torch.tensor([ids[start:place]]))[0, -1]
        nats.append(-logits.log_softmax(-1)[ids[place]].item())
    return nats


@pytest.mark.parametrize("changes", [{}, {"positions": "learned", "softcap": 4.0}], ids=str)
@pytest.mark.parametrize(
    "settings", [{}, {"stride": 3, "batch_tokens": 40}, {"stride": 16}], ids=str
)
def test_whole_documents_equal_brute_force(
    dataset: tm.Dataset, tokenizer: tm.Tokenizer, changes: Any, settings: Any
) -> None:
    model = small_model(**changes)
    found = evaluate(model, dataset["validation"], **settings)
    eos = tokenizer.special_tokens[EOS]
    text_nats, eos_nats = [], []
    for text in ALL:
        ids = [eos, *tokenizer.encode(text), eos]
        *nats, last = brute_force(model, ids, settings.get("stride", CONTEXT // 2))
        text_nats += nats
        eos_nats.append(last)
    num_bytes = sum(len(text.encode()) for text in ALL)
    loss = sum(text_nats) / len(text_nats)
    assert found.num_tokens == len(text_nats) == sum(len(tokenizer.encode(text)) for text in ALL)
    assert (found.num_documents, found.num_bytes, found.num_given) == (len(ALL), num_bytes, 0)
    assert found.loss == pytest.approx(loss, rel=1e-6)
    assert found.perplexity == pytest.approx(math.exp(loss), rel=1e-5)
    assert found.bits_per_byte == pytest.approx(sum(text_nats) / math.log(2) / num_bytes, rel=1e-6)
    assert found.eos_loss == pytest.approx(sum(eos_nats) / len(eos_nats), rel=1e-6)
    assert found.note is None


def test_some_documents_only(dataset: tm.Dataset, tokenizer: tm.Tokenizer) -> None:
    found = evaluate(small_model(), dataset["validation"], max_documents=3)
    assert found.num_documents == 3
    assert found.num_tokens == sum(len(tokenizer.encode(text)) for text in ALL[:3])


def test_batches_and_training_mode_change_nothing(dataset: tm.Dataset) -> None:
    model = small_model(dropout=0.5).train()
    wanted = evaluate(model, dataset["validation"])
    assert model.training
    found = evaluate(model, dataset["validation"], batch_tokens=1)
    assert found.loss == pytest.approx(wanted.loss, rel=1e-6)
    snapshots: list[Any] = []
    from tokenmill.progress import Meter

    evaluate(model, dataset["validation"], batch_tokens=64, meter=Meter(snapshots.append))
    assert snapshots[-1].fraction == 1.0


def test_documents_without_ends_around_them_give_their_first_token(
    tmp_path: Path, tokenizer: tm.Tokenizer
) -> None:
    texts = ["the cat sat", "on", ""]
    folder = tmp_path / "data"
    tm.encode_dataset(tm.documents(texts), tokenizer, folder, eos=None)
    found = evaluate(small_model(), tm.Dataset.open(folder)["train"])
    assert found.num_tokens == sum(max(0, len(tokenizer.encode(text)) - 1) for text in texts)
    assert found.num_given == 2
    assert found.eos_loss is None
    assert found.note is not None
    assert "given" in found.note


def test_a_bos_is_given(tmp_path: Path) -> None:
    tokenizer = small_tokenizer(special_tokens=(EOS, "<|bos|>"))
    folder = tmp_path / "data"
    tm.encode_dataset(tm.documents(["the cat sat", "on"]), tokenizer, folder, bos="<|bos|>")
    model = small_model(vocab_size=tokenizer.vocab_size)
    found = evaluate(model, tm.Dataset.open(folder)["train"])
    bos = tokenizer.special_tokens["<|bos|>"]
    nats = [
        nat
        for text in ("the cat sat", "on")
        for nat in brute_force(model, [bos, *tokenizer.encode(text)], 8)
    ]
    assert found.loss == pytest.approx(sum(nats) / len(nats), rel=1e-6)
    assert found.num_given == 0


def test_a_plain_file_is_one_stream(tmp_path: Path) -> None:
    ids = np.arange(70, dtype=np.uint16) * 3 % 300
    np.save(tmp_path / "ids.npy", ids)
    model = small_model()
    found = evaluate(model, tm.Dataset.open(tmp_path / "ids.npy").main_split)
    nats = brute_force(model, ids.tolist(), CONTEXT // 2)
    assert found.loss == pytest.approx(sum(nats) / 69, rel=1e-6)
    assert (found.num_tokens, found.num_given, found.bits_per_byte) == (69, 1, None)
    assert found.note is not None
    assert "one stream" in found.note


def test_what_cannot_be_scored(
    tmp_path: Path, dataset: tm.Dataset, tokenizer: tm.Tokenizer
) -> None:
    split = dataset["validation"]
    with pytest.raises(ConfigError, match=f"{tokenizer.sha256}.*`abc`"):
        evaluate(small_model(), split, tokenizer_sha256="abc")
    assert evaluate(small_model(), split, tokenizer_sha256=tokenizer.sha256).num_tokens
    with pytest.raises(VocabError, match="token id 299 is none of the 280"):
        evaluate(small_model(vocab_size=280), split)
    with pytest.raises(ConfigError, match="stride 17 is above the context 16"):
        evaluate(small_model(), split, stride=17)
    empty = make_dataset(tmp_path / "empty", tokenizer, {"train": [Document([299], 0)]})
    with pytest.raises(ConfigError, match="nothing to score"):
        evaluate(small_model(), tm.Dataset.open(empty)["train"])
    rows = masked(tokenizer, [("the", "cat")])
    chats = make_dataset(tmp_path / "chats", tokenizer, {"train": rows}, mode="sft")
    with pytest.raises(ConfigError, match="mode `sft`"):
        evaluate(small_model(), tm.Dataset.open(chats)["train"])
    broken = small_model()
    with torch.no_grad():
        broken.lm_head.weight.fill_(torch.inf)
    with pytest.raises(FormatError, match="the loss is `nan`"):
        evaluate(broken, split)
