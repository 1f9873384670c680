"""Rows of conversations: what is shown is what `encode` makes of them, and datasets beside their rows."""

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from make_dataset import small_tokenizer
from rich.console import Console

import tokenmill as tm
from tokenmill import chat
from tokenmill.dataset.manifest import Manifest, record_file
from tokenmill.dataset.settings import EncodeSettings
from tokenmill.report.document_view import DocumentView, Inspection
from tokenmill.report.inspection import open_inspection
from tokenmill.report.render.inspection import Pane, print_inspection
from tokenmill.sources.options import ReadOptions

TOKENIZER = small_tokenizer()
ROWS: list[dict[str, Any]] = [
    {
        "messages": [
            {"role": "user", "content": 'the "cat"?'},
            {"role": "assistant", "content": "the mat\n<|end|> café"},
        ]
    },
    {"messages": [{"role": "user", "content": "hello"}]},
    {"instruction": "the cat", "input": "on the mat", "output": "sat"},
    {"prompt": "q", "completion": "the the the the the"},
]
PAIRS = [
    {"prompt": "the cat?", "chosen": "the mat", "rejected": "x"},
    {"prompt": "the cat?", "chosen": "x", "rejected": "x"},
    {"prompt": "the the", "chosen": "cat", "rejected": "return x"},
]


def drawn(inspection: Inspection, index: int, pane: Pane = "all") -> str:
    out = io.StringIO()
    console = Console(file=out, width=200, highlight=False, no_color=True)
    print_inspection(console, inspection, index, pane=pane)
    return out.getvalue()


def write_rows(path: Path, rows: list[Any]) -> Path:
    lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    TOKENIZER.save(tmp_path / "tok")
    return tmp_path / "tok"


def inspect_rows(
    path: Path, tokenizer: Path, options: ReadOptions | None = None, **settings: Any
) -> Inspection:
    given = EncodeSettings(**{"mode": "sft", **settings})
    return open_inspection(path, tokenizer=tokenizer, settings=given, options=options)


def ids_and_mask(view: DocumentView) -> tuple[list[int], list[int]]:
    return [token.id for token in view.tokens], [
        int(token.is_trained or 0) for token in view.tokens
    ]


@pytest.mark.parametrize("profile", ["chat", "alpaca-tags", "nanochat"])
def test_a_row_is_what_encode_makes_of_it(tmp_path: Path, tokenizer: Path, profile: str) -> None:
    inspection = inspect_rows(write_rows(tmp_path / "r.jsonl", ROWS), tokenizer, profile=profile)
    assert (inspection.noun, inspection.length) == ("row", None)
    dataset = tm.encode_dataset(
        tmp_path / "r.jsonl", tokenizer, tmp_path / "ids", mode="sft", profile=profile
    )
    split = dataset["train"]
    for number, index in enumerate((0, 2, 3)):
        (view,) = inspection.view(index)
        mask = split.document_mask(number)
        assert mask is not None
        assert ids_and_mask(view) == (split.document(number).tolist(), mask.tolist())
        assert view.equals_raw is True
        assert (view.raw_index, view.part) == (index, "document")
        assert view.row is not None
        assert json.loads(view.row.text) == ROWS[index]
        assert (view.row.left_out, view.row.stored, view.row.is_cut) == (None, None, False)
    (view,) = inspection.view(0)
    assert view.row is not None
    assert [turn.content for turn in view.row.turns] == ['the "cat"?', "the mat\n<|end|> café"]
    with pytest.raises(IndexError, match="there is no row 4: numbers go from 0 to 3"):
        inspection.view(4)


def test_rows_that_are_left_out_say_why(tmp_path: Path, tokenizer: Path) -> None:
    rows = [
        ROWS[1],
        b"not json",
        b"[1]",
        {"text": "x"},
        b'{"a":' * 5000,
        {"prompt": "x", "completion": None},
    ]
    inspection = inspect_rows(write_rows(tmp_path / "r.jsonl", rows), tokenizer)
    reasons: list[str] = []
    for index in range(len(rows)):
        (view,) = inspection.view(index)
        assert view.row is not None
        assert view.row.left_out is not None
        assert (view.tokens, view.part, view.row.turns) == ((), "row", ())
        reasons.append(view.row.left_out.reason)
        for pane in ("all", "tokens", "table", "text"):
            assert f"left out: {reasons[-1]}" in drawn(inspection, index, pane)
    assert reasons == ["no_assistant_turn", *["unreadable"] * 4, "null_content"]
    found = inspection.view(0)[0].as_json()["row"]["left_out"]
    assert found == {
        "reason": "no_assistant_turn",
        "detail": "none of its 1 turns is trained on",
    }
    assert inspection.search("nowhere") is None


def test_rows_that_are_too_long(tmp_path: Path, tokenizer: Path) -> None:
    path = write_rows(tmp_path / "r.jsonl", ROWS)
    reasons = {"drop": "too_long", "error": "unreadable"}
    for policy, reason in reasons.items():
        (view,) = inspect_rows(path, tokenizer, max_tokens=5, too_long=policy).view(3)
        assert view.row is not None
        assert view.row.left_out is not None
        assert view.row.left_out.reason == reason
    for policy, end in (("keep-start", "beginning"), ("keep-end", "end")):
        inspection = inspect_rows(path, tokenizer, max_tokens=7, too_long=policy)
        (view,) = inspection.view(3)
        assert view.row is not None
        assert view.row.is_cut
        assert len(view.tokens) == 7
        assert f"cut to the longest length: the {end} of the text is left" in drawn(inspection, 3)


def test_pairs(tmp_path: Path, tokenizer: Path) -> None:
    path = write_rows(tmp_path / "r.jsonl", PAIRS)
    inspection = inspect_rows(path, tokenizer, mode="preference")
    chosen, rejected = inspection.view(2)
    assert (chosen.part, rejected.part) == ("chosen", "rejected")
    assert rejected.text == b"<|user|>the the<|end|><|assistant|>return x<|end|>"
    assert chosen.equals_raw is rejected.equals_raw is True
    text = drawn(inspection, 2)
    assert text.count(json.dumps(PAIRS[2])) == 1
    assert "assistant: return x" in text
    assert "left out: chosen_equals_rejected" in drawn(inspection, 1)


def test_search_reads_what_json_escapes(tmp_path: Path, tokenizer: Path) -> None:
    inspection = inspect_rows(write_rows(tmp_path / "r.jsonl", ROWS), tokenizer)
    assert inspection.search('the "cat"') == 0
    assert inspection.search("café") == 0
    assert inspection.search("mat\n<|") == 0
    assert inspection.search("the the") == 3
    assert inspection.search("the cat", 1) == 2
    assert inspection.search("the cat", 3) is None


@pytest.mark.parametrize("policy", ["error", "replace", "keep"])
def test_bytes_outside_utf8(tmp_path: Path, tokenizer: Path, policy: str) -> None:
    rows = [b'{"prompt": "a\xff", "completion": "b"}', b'{"prompt": "\\ud800", "completion": "b"}']
    path = write_rows(tmp_path / "r.jsonl", rows)
    inspection = inspect_rows(path, tokenizer, ReadOptions(invalid_utf8=policy))
    for index in range(2):
        (view,) = inspection.view(index)
        assert view.row is not None
        if policy == "error":
            assert view.row.left_out is not None
            assert view.row.left_out.reason == "unreadable"
        else:
            assert (view.row.left_out, view.equals_raw) == (None, True)


def test_flags_of_rows_need_rows(tmp_path: Path, tokenizer: Path) -> None:
    with pytest.raises(tm.ConfigError, match=r"are for raw rows, .* is a tokenizer"):
        open_inspection(tokenizer, settings=EncodeSettings(mode="sft"))
    path = write_rows(tmp_path / "r.jsonl", ROWS)
    dataset = tm.encode_dataset(path, tokenizer, tmp_path / "ids", mode="sft")
    with pytest.raises(tm.ConfigError, match=r"are for raw rows, .* is a dataset"):
        open_inspection(dataset.path, settings=EncodeSettings(mode="sft"))


def profile_file(path: Path, before: str) -> Path:
    path.write_text(
        f"""
special_tokens = ["<e>"]
[roles.user]
before = "{before}"
after = "<e>"
[roles.assistant]
before = "a:\\n"
after = "<e>"
trained = true
"""
    )
    return path


def test_a_dataset_beside_its_rows(tmp_path: Path, tokenizer: Path) -> None:
    """Shuffled and by a profile that has another meaning by now: the manifest knows the old one."""
    profile = profile_file(tmp_path / "own.toml", "u:\\n")
    rows = [*ROWS, *({"prompt": f"q{i}", "completion": f"the {i}"} for i in range(600))]
    path = write_rows(tmp_path / "r.jsonl", rows)
    dataset = tm.encode_dataset(
        path,
        tokenizer,
        tmp_path / "ids",
        mode="sft",
        profile=profile,
        shuffle_documents=1,
        max_tokens=18,
        too_long="keep-end",
    )
    profile_file(profile, "v:\\n")
    inspection = open_inspection(dataset.path, source=path)
    seen = set[int]()
    for index in (0, 1, 2, 3, 400, 602):
        (view,) = inspection.view(index)
        assert view.row is not None
        assert view.row.stored is not None
        assert view.row.stored.place is None
        assert view.equals_raw is not view.row.is_cut
        assert view.raw_index is not None
        seen.add(view.raw_index)
    assert len(seen) == 6
    assert 1 not in seen
    text = drawn(inspection, 400)
    assert "encoding the row again gives the stored ids and mask" in text
    assert f"row {inspection.view(400)[0].raw_index:,} of the source" in text


def test_rows_that_changed_since(tmp_path: Path, tokenizer: Path) -> None:
    path = write_rows(tmp_path / "r.jsonl", ROWS)
    dataset = tm.encode_dataset(path, tokenizer, tmp_path / "ids", mode="sft")
    now = write_rows(
        tmp_path / "now.jsonl", [*ROWS[:3], {"prompt": "q", "completion": "the the cat"}]
    )
    inspection = open_inspection(dataset.path, source=now)
    (view,) = inspection.view(1)
    assert view.row is not None
    assert view.row.stored is not None
    assert view.row.stored.as_json()["equal"] is True
    (view,) = inspection.view(2)
    assert view.row is not None
    assert (view.raw_index, view.equals_raw) == (3, False)
    ids = dataset.document(2).tolist()
    stored = view.row.stored
    assert stored is not None
    assert stored.place is not None
    assert stored.stored == (ids[stored.place], True)
    assert stored.again is not None
    assert stored.again[0] == TOKENIZER.encode_ordinary(" cat")[0]
    ids_there = f"stored {ids[stored.place]}, by the row {stored.again[0]}"
    expected = f"differs at token {stored.place}: {ids_there}"
    assert expected in drawn(inspection, 2)
    nothing = open_inspection(dataset.path, source=write_rows(tmp_path / "no.jsonl", [b"x"]))
    assert nothing.view(2)[0].row is None


def test_a_mask_that_changed_since(tmp_path: Path, tokenizer: Path) -> None:
    path = write_rows(tmp_path / "r.jsonl", PAIRS)
    dataset = tm.encode_dataset(path, tokenizer, tmp_path / "ids", mode="preference")
    (view, _) = open_inspection(dataset.path, source=path).view(1)
    assert view.row is not None
    assert view.row.stored is not None
    assert (view.raw_index, view.row.stored.place) == (2, None)
    file = tmp_path / "ids/train/mask-00000.npy"
    mask = np.load(file)
    mask[1] = 1
    np.save(file, mask)
    reseal(tmp_path / "ids")
    inspection = open_inspection(tmp_path / "ids", source=path)
    (view, _) = inspection.view(0)
    assert view.row is not None
    assert view.row.stored is not None
    assert view.row.stored.place == 1
    expected = "differs at token 1: stored as trained on, by the row not"
    assert expected in drawn(inspection, 0)


def reseal(folder: Path) -> None:
    """The manifest of a dataset whose mask was changed on purpose."""
    manifest = Manifest.from_json((folder / "manifest.json").read_bytes())
    split = manifest.splits["train"]
    (shard,) = split.shards
    files = {**shard.files, "mask": record_file(folder, shard.files["mask"].path)}
    changed = replace(split, shards=(replace(shard, files=files),))
    content = replace(manifest, splits={"train": changed}).to_json()
    (folder / "manifest.json").write_bytes(content)


def test_a_dataset_that_does_not_say_its_profile(tmp_path: Path, tokenizer: Path) -> None:
    path = write_rows(tmp_path / "r.jsonl", ROWS)
    dataset = tm.encode_dataset(path, tokenizer, tmp_path / "ids", mode="sft")
    manifest = dataset.manifest
    assert manifest is not None
    for stated, message in (
        (None, "holds no profile"),
        ({**chat.PROFILES["chat"].as_json(), "roles": 3}, "`roles` is 3, not a table"),
    ):
        settings = {**manifest.settings, "profile": stated}
        content = replace(manifest, settings=settings).to_json()
        (tmp_path / "ids/manifest.json").write_bytes(content)
        with pytest.raises(tm.ConfigError, match=message):
            open_inspection(tmp_path / "ids", source=path)


def test_rows_taken_for_text_name_the_way_out(tmp_path: Path, tokenizer: Path) -> None:
    path = write_rows(tmp_path / "r.jsonl", ROWS)
    inspection = open_inspection(path, tokenizer=tokenizer)
    with pytest.raises(tm.SourceError, match="has no field `text`") as caught:
        inspection.view(0)
    assert "`--mode sft`" in (caught.value.hint or "")
