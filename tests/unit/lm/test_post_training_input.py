"""What fine-tuning and preference training leave out and count, and what they refuse."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from make_conversations import chat_tokenizer, encode_rows, preferences, say, talking_model
from make_dataset import Document, make_dataset

from tokenmill.errors import ConfigError, FormatError, TokenmillError
from tokenmill.lm.dpo import dpo, prepare_dpo
from tokenmill.lm.post_training_settings import DpoSettings, SftSettings
from tokenmill.lm.run import Run
from tokenmill.lm.sft import prepare_sft, sft
from tokenmill.lm.sinks import LogSettings
from tokenmill.lm.token_data import DataSettings

CONTEXT = 20
Prepare = Callable[..., Run]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return talking_model(tmp_path_factory.mktemp("base") / "run", context=CONTEXT)


def document(prompt: int, answer: int) -> Document:
    """Of so many tokens, those of the answer trained on."""
    ids = [7 + at % 200 for at in range(prompt + answer)]
    return Document(ids, len(ids), [0] * prompt + [1] * answer)


# A row takes 21 tokens.
DOCUMENTS = [
    document(5, 5),
    document(15, 6),  # exactly a row
    document(15, 7),  # one too long: all but one token of the answer are left at either end
    document(25, 5),  # too long; cut at its end, nothing is left to be trained on
    document(3, 30),  # too long, trained on whatever is left
    document(6, 0),  # nothing to be trained on
    document(0, 1),  # one token, which nothing comes before
    document(8, 2),
]


def masked(folder: Path, documents: list[Document], mode: str) -> DataSettings:
    return DataSettings(make_dataset(folder, chat_tokenizer(), {"train": documents}, mode=mode))


@pytest.mark.parametrize(
    ("too_long", "used", "untrained", "tokens"),
    [
        ("drop", 3, 2, 10 + 21 + 10),
        ("keep-start", 5, 3, 10 + 21 + 21 + 21 + 10),
        ("keep-end", 6, 2, 10 + 21 + 21 + 21 + 21 + 10),
    ],
)
def test_what_is_too_long_or_teaches_nothing_is_counted(
    tmp_path: Path, base: Path, too_long: str, used: int, untrained: int, tokens: int
) -> None:
    run = prepare_sft(
        masked(tmp_path / "rows", DOCUMENTS, "sft"),
        tmp_path / "run",
        base=base,
        options=SftSettings(too_long=too_long),
        train={"device": "cpu"},
    )
    plan = run.describe()
    assert plan["documents"] == {
        "documents": used,
        "too_long": 3,
        "no_trained_tokens": untrained,
    }
    assert plan["packing"]["tokens"] == tokens
    assert plan["packing"]["dropped"] == sum(len(each.ids) for each in DOCUMENTS) - tokens
    assert plan["packing"]["cut_documents"] == (0 if too_long == "drop" else 3)


@pytest.mark.parametrize(
    ("too_long", "kept", "untrained"), [("drop", 1, 2), ("keep-start", 2, 3), ("keep-end", 3, 2)]
)
def test_a_pair_goes_with_one_of_its_answers(
    tmp_path: Path, base: Path, too_long: str, kept: int, untrained: int
) -> None:
    """Pairs are (0, 1), (2, 4), (3, 7), (5, 6) of the documents above."""
    documents = [DOCUMENTS[at] for at in (0, 1, 2, 4, 3, 7, 5, 6)]
    run = prepare_dpo(
        masked(tmp_path / "rows", documents, "preference"),
        tmp_path / "run",
        base=base,
        options=DpoSettings(too_long=too_long),
        train={"device": "cpu"},
    )
    assert run.describe()["documents"] == {
        "pairs": kept,
        "dropped_pairs": 4 - kept,
        "too_long": 3,
        "no_trained_tokens": untrained,
    }


@pytest.mark.parametrize(
    ("prepare", "kind", "mode"),
    [(prepare_sft, SftSettings, "sft"), (prepare_dpo, DpoSettings, "preference")],
    ids=["sft", "dpo"],
)
class TestBoth:
    def test_too_long_as_an_error(
        self, tmp_path: Path, base: Path, prepare: Prepare, kind: Any, mode: str
    ) -> None:
        data = masked(tmp_path / "rows", DOCUMENTS, mode)
        message = (
            r"document 2 of .* has 22 tokens, and a row takes 21 \(context 20.*so have 2 others"
        )
        options = kind(too_long="error")
        with pytest.raises(ConfigError, match=message):
            prepare(data, tmp_path / "run", base=base, options=options, train={"device": "cpu"})

    def test_nothing_left(
        self, tmp_path: Path, base: Path, prepare: Prepare, kind: Any, mode: str
    ) -> None:
        documents = [DOCUMENTS[2], DOCUMENTS[3], DOCUMENTS[5], DOCUMENTS[5]]
        data = masked(tmp_path / "rows", documents, mode)
        with pytest.raises(
            ConfigError, match=r"no document of .* is left: 2 of 4 are longer.*20, 2 "
        ):
            prepare(data, tmp_path / "run", base=base, train={"device": "cpu"})

    def test_another_mode(
        self, tmp_path: Path, base: Path, prepare: Prepare, kind: Any, mode: str
    ) -> None:
        other = {"sft": "preference", "preference": "sft"}[mode]
        for wrong in (other, "pretrain"):
            documents = [Document([1, 2, 3], 3, None if wrong == "pretrain" else [0, 1, 1])] * 4
            data = masked(tmp_path / wrong, documents, wrong)
            with pytest.raises(ConfigError, match=f"of mode `{wrong}`, this stage needs `{mode}`"):
                prepare(data, tmp_path / "run", base=base, train={"device": "cpu"})

    def test_no_base(
        self, tmp_path: Path, base: Path, prepare: Prepare, kind: Any, mode: str
    ) -> None:
        data = masked(tmp_path / "rows", DOCUMENTS[:2], mode)
        with pytest.raises(ConfigError, match=r"(?s)no model to start from.*--base"):
            prepare(data, tmp_path / "run", base=None, train={"device": "cpu"})
        with pytest.raises(FormatError, match="does not exist"):
            prepare(data, tmp_path / "run", base=tmp_path / "none", train={"device": "cpu"})

    @pytest.mark.parametrize(
        "train", [{"packing": "wrapped"}, {"document_mask": False}], ids=["packing", "mask"]
    )
    def test_other_rows(
        self,
        tmp_path: Path,
        base: Path,
        prepare: Prepare,
        kind: Any,
        mode: str,
        train: dict[str, Any],
    ) -> None:
        data = masked(tmp_path / "rows", DOCUMENTS[:2], mode)
        with pytest.raises(ConfigError, match="packed whole, best-fit"):
            prepare(data, tmp_path / "run", base=base, train={"device": "cpu", **train})
        same = {"packing": "best-fit", "document_mask": True, "device": "cpu"}
        assert prepare(data, tmp_path / "run", base=base, train=same).settings.document_mask

    def test_another_shape(
        self, tmp_path: Path, base: Path, prepare: Prepare, kind: Any, mode: str
    ) -> None:
        data = masked(tmp_path / "rows", DOCUMENTS[:2], mode)
        with pytest.raises(ConfigError, match="`d_model` `32`, not `64`"):
            prepare(data, tmp_path / "run", base=base, model={"d_model": 64})
        longer = prepare(data, tmp_path / "run", base=base, model={"context": 40})
        assert longer.config.context == 40


def test_pairs_of_which_none_is_whole(tmp_path: Path, base: Path) -> None:
    """Each has an answer that can be used, and one that cannot."""
    documents = [DOCUMENTS[0], DOCUMENTS[2], DOCUMENTS[5], DOCUMENTS[0]]
    data = masked(tmp_path / "rows", documents, "preference")
    with pytest.raises(ConfigError, match=r"no pair of .* is left: of 2 .*; 1 doc.*20, 1 have"):
        prepare_dpo(data, tmp_path / "run", base=base, train={"device": "cpu"})


def test_dropout_is_refused_with_a_reference_of_its_own(tmp_path: Path, base: Path) -> None:
    data = masked(tmp_path / "rows", DOCUMENTS[:2], "preference")
    with pytest.raises(ConfigError, match=r"dropout 0\.1 a model is not its own reference"):
        prepare_dpo(
            data, tmp_path / "run", base=base, model={"dropout": 0.1}, train={"device": "cpu"}
        )
    # A base that was trained with dropout goes on without.
    wet = talking_model(tmp_path / "wet", context=CONTEXT, dropout=0.3)
    assert prepare_dpo(data, tmp_path / "run", base=wet).config.dropout == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"beta": 0.0}, "beta 0.0 is not above 0"),
        ({"beta": float("inf")}, "beta inf"),
        ({"sft_weight": -0.1}, "sft_weight -0.1 is below 0"),
        ({"loss": "hinge"}, "hinge"),
        ({"epochs": 0.0}, "epochs 0.0 are not above 0"),
        ({"too_long": "cut"}, r"too-long policy `cut`|cut"),
    ],
)
def test_settings_that_make_no_sense(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        DpoSettings(**changes)
    if changes.keys() <= {"epochs", "too_long"}:
        with pytest.raises(ConfigError, match=message):
            SftSettings(**changes)


def test_another_stage_or_setting_in_the_folder(tmp_path: Path, base: Path) -> None:
    rows = [{"messages": [say("user", "a"), say("assistant", "b")]}] * 4
    chats = encode_rows(tmp_path / "chats", rows, "sft")
    pairs = encode_rows(tmp_path / "pairs", preferences(4), "preference")
    common: dict[str, Any] = {
        "base": base,
        "logs": LogSettings(()),
        "progress": False,
        "max_steps": 1,
        "batch_size": 2,
        "sample_every": 0,
        "device": "cpu",
    }
    sft(chats, tmp_path / "sft", **common)
    dpo(pairs, tmp_path / "dpo", **common)
    other = talking_model(tmp_path / "other", seed=1, context=CONTEXT)
    cases: list[tuple[Callable[[], object], str]] = [
        (lambda: dpo(pairs, tmp_path / "sft", **common), "is a run of `lm sft`, not `lm dpo`"),
        (
            lambda: dpo(pairs, tmp_path / "dpo", options=DpoSettings(beta=0.2), **common),
            "begun with `beta` `0.1`, not `0.2`",
        ),
        (
            lambda: dpo(pairs, tmp_path / "dpo", reference=other, **common),
            "begun with `reference` `None`, not `",
        ),
        (
            lambda: sft(
                chats, tmp_path / "sft", options=SftSettings(too_long="keep-end"), **common
            ),
            "begun with `too_long` `drop`, not `keep-end`",
        ),
    ]
    for call, message in cases:
        with pytest.raises(TokenmillError, match=message):
            call()
