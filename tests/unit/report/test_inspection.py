"""Inspection: what is shown of a document is what is in the files, for every kind of thing."""

import io
from pathlib import Path

import numpy as np
import pytest
from make_dataset import EOS, TEXTS, Document, encoded, make_dataset, masked, small_tokenizer
from rich.console import Console

import tokenmill as tm
from tokenmill.report.document_view import Inspection
from tokenmill.report.inspection import kind_of, open_inspection
from tokenmill.report.render.inspection import MAX_TOKENS, print_inspection, visible

TOKENIZER = small_tokenizer()
DOCUMENTS = encoded(TOKENIZER, TEXTS)


def drawn(inspection: Inspection, index: int, *, colours: bool = False) -> str:
    out = io.StringIO()
    console = Console(
        file=out, width=100, highlight=False, force_terminal=colours, no_color=not colours
    )
    print_inspection(console, inspection, index)
    return out.getvalue()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    splits = {"train": DOCUMENTS, "validation": DOCUMENTS[3:4]}
    return make_dataset(tmp_path / "ids", TOKENIZER, splits, shard_documents=2)


def test_tokens_of_a_document(path: Path) -> None:
    inspection = open_inspection(path)
    assert inspection.length == 6
    for index, text in enumerate(TEXTS):
        (view,) = inspection.view(index)
        assert view.text == text.encode()
        assert [token.id for token in view.tokens] == DOCUMENTS[index].ids
        assert b"".join(token.token for token in view.tokens) == (text + EOS).encode()
        spelled = (text + EOS).encode()
        for token in view.tokens:
            assert spelled[token.start : token.end] == token.token
        assert [token.is_special for token in view.tokens].count(True) == 1
        assert view.tokens[-1].is_special
        assert view.tokens[0].is_trained is None
        assert view.equals_raw is True
        assert view.raw is None
        assert view.encodes_back


def test_raw_text_beside_it(path: Path, tmp_path: Path) -> None:
    source = tmp_path / "raw.jsonl"
    import json

    # Shuffled, so that numbers do not tell.
    order = [3, 0, 5, 4, 2]
    source.write_text("".join(json.dumps({"text": TEXTS[i]}) + "\n" for i in order))
    inspection = open_inspection(path, source=source)
    for index in (2, 0, 5, 3):
        (view,) = inspection.view(index)
        assert view.raw == TEXTS[index].encode()
        assert view.raw_index == order.index(index)
        assert view.equals_raw is True
    assert "decoded ids equal the raw text" in drawn(inspection, 2)


def test_raw_text_that_differs(path: Path, tmp_path: Path) -> None:
    source = tmp_path / "raw.txt"
    source.write_text("the cat sAt on the mat")
    (view,) = open_inspection(path, source=source).view(0)
    assert (view.equals_raw, view.first_difference) == (False, 9)
    assert "differ from the raw text at byte 9" in drawn(open_inspection(path, source=source), 0)
    (view,) = open_inspection(path, source=source).view(4)
    assert view.raw is None


def test_ids_that_no_text_gives(tmp_path: Path) -> None:
    ids = [ord("t"), ord("h"), ord("e"), TOKENIZER.special_tokens[EOS]]
    path = make_dataset(tmp_path / "ids", TOKENIZER, {"train": [Document(ids, 4)]})
    inspection = open_inspection(path)
    (view,) = inspection.view(0)
    assert view.equals_raw is False
    assert not view.encodes_back
    text = drawn(inspection, 0)
    assert "has not as many bytes" in text
    assert "gives other ids" in text


def test_text_that_looks_like_a_special_token(tmp_path: Path) -> None:
    """As ordinary text beside a real one: both spell the same, and the ids tell them apart."""
    eos = TOKENIZER.special_tokens[EOS]
    ids = [*TOKENIZER.encode_ordinary("say " + EOS), eos, *TOKENIZER.encode_ordinary("x"), eos]
    path = make_dataset(tmp_path / "ids", TOKENIZER, {"train": [Document(ids, 31)]})
    (view,) = open_inspection(path).view(0)
    assert view.encodes_back
    assert view.text.count(EOS.encode()) == 2
    assert [token.is_special for token in view.tokens].count(True) == 2


def test_masks_and_pairs(tmp_path: Path) -> None:
    rows = masked(TOKENIZER, [("q ", "good"), ("q ", "bad"), ("the ", "cat"), ("the ", "x")])
    path = make_dataset(tmp_path / "ids", TOKENIZER, {"train": rows}, mode="preference")
    inspection = open_inspection(path)
    assert (inspection.noun, inspection.length) == ("pair", 2)
    chosen, rejected = inspection.view(1)
    assert (chosen.part, rejected.part) == ("chosen", "rejected")
    assert [token.is_trained for token in chosen.tokens] == [bool(m) for m in rows[2].mask or []]
    assert rejected.text == b"the x"
    with pytest.raises(tm.ConfigError, match="holds no profile, so nothing tells how its rows"):
        open_inspection(path, source=tmp_path)
    assert inspection.search("bad") == 0
    assert inspection.search("x") == 1
    text = drawn(inspection, 0)
    for expected in ("prompt + chosen", "prompt + rejected", "trained on", "pair 0 of 2"):
        assert expected in text


def test_search_leaves_the_end_of_a_document_out(path: Path) -> None:
    assert open_inspection(path).search("endoftext") is None


def test_a_raw_source(tmp_path: Path) -> None:
    source = tmp_path / "raw.txt"
    source.write_text(EOS.join(["one", "two <|endof", "the three"]))
    TOKENIZER.save(tmp_path / "tok")
    inspection = open_inspection(source, tokenizer=tmp_path / "tok")
    assert inspection.length is None
    assert inspection.view(2)[0].text == b"the three"
    assert inspection.view(0)[0].text == b"one"
    assert inspection.view(0)[0].equals_raw is True
    assert inspection.search("two") == 1
    assert inspection.search("two", 2) is None
    assert inspection.search("three", 1) == 2
    with pytest.raises(IndexError, match="there is no document 3: numbers go from 0 to 2"):
        inspection.view(3)


def test_a_tokenizer_alone(tmp_path: Path) -> None:
    TOKENIZER.save(tmp_path / "tok")
    inspection = open_inspection(tmp_path / "tok", texts=["the cat" + EOS, "é"])
    first, second = inspection.view(0)[0], inspection.view(1)[0]
    assert first.tokens[-1].is_special
    assert second.text == "é".encode()
    with pytest.raises(IndexError, match="there is no text 2"):
        inspection.view(2)


def test_search_goes_over_blocks(
    tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tokenmill.report.inspection._SEARCH_DOCUMENTS", 2)
    inspection = open_inspection(path)
    assert inspection.search("the") == 0
    assert inspection.search("the", 1) == 4
    assert inspection.search("日本") == 2
    # `mat` ends one document and `x` starts another: nothing is found across.
    assert inspection.search("mat" + EOS + "n") is None
    assert inspection.search("nowhere") is None


def test_kinds(tmp_path: Path, path: Path) -> None:
    TOKENIZER.save(tmp_path / "tok")
    (tmp_path / "a.txt").write_text("x")
    (tmp_path / "a.jsonl").write_text('{"text": "x"}\n')
    np.save(tmp_path / "x.npy", np.arange(3))
    assert kind_of(path, has_tokenizer=False) == "dataset"
    assert kind_of(tmp_path / "x.npy", has_tokenizer=True) == "dataset"
    assert kind_of(tmp_path / "tok", has_tokenizer=False) == "tokenizer"
    assert kind_of(tmp_path / "tok/tokenizer.json", has_tokenizer=False) == "tokenizer"
    assert kind_of(tmp_path / "a.txt", has_tokenizer=True) == "source"
    assert kind_of(tmp_path / "a.jsonl", has_tokenizer=False) == "source"
    with pytest.raises(tm.ConfigError, match="pass `--tokenizer DIR`"):
        open_inspection(tmp_path / "a.txt")
    with pytest.raises(tm.ConfigError, match="`--split` is for datasets"):
        open_inspection(tmp_path / "tok", split="train")
    with pytest.raises(tm.SourceError, match="does not exist"):
        open_inspection(tmp_path / "nowhere")


def test_everything_can_be_seen() -> None:
    assert visible(b" a\tb\r") == "·a⇥b␍"
    assert visible(b"\n\n") == "⏎\n⏎\n"
    assert visible(b"\xe6\x97") == "\\xe6\\x97"
    assert visible(b"\x1b[31m\x00") == "\\x1b[31m\\x00"
    assert visible("\u202e\u00a0".encode()) == "\\u202e\\xa0"


def test_drawing_without_colours_has_bars(path: Path) -> None:
    text = drawn(open_inspection(path), 0)
    assert "document 0 of 6" in text
    assert "|<|endoftext|>" in text
    assert "\x1b[" not in text


def test_drawing_with_colours(path: Path) -> None:
    text = drawn(open_inspection(path), 2, colours=True)
    assert "\x1b[" in text
    assert "日本語" in text


def test_long_documents_say_what_is_left_out(tmp_path: Path) -> None:
    long = encoded(TOKENIZER, ["a b " * MAX_TOKENS])
    inspection = open_inspection(make_dataset(tmp_path / "ids", TOKENIZER, {"train": long}))
    more = len(long[0].ids) - MAX_TOKENS
    assert f"… and {more:,} more tokens; --json has all" in drawn(inspection, 0)
    assert len(inspection.view(0)[0].as_json()["ids"]) == len(long[0].ids)
