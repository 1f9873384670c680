"""Tokens, bytes and words are those of the text; every tokenizer sees the same documents."""

import json
from pathlib import Path

import pytest

import tokenmill as tm
from tokenmill.errors import ConfigError, SourceError
from tokenmill.report import compression
from tokenmill.report.compression import CompressionReport, measure_compression
from tokenmill.report.render.terminal import compression_lines
from tokenmill.report.settings import CompressionSettings
from tokenmill.report.words import find_words
from tokenmill.tokenizer.tokenizer import Tokenizer

ENGLISH = [f"The cat number {index} sat on the mat, didn't it?" for index in range(60)]
GERMAN = [f"Die Katze Nummer {index} saß auf der Matte, nicht wahr?" for index in range(40)]
SEPARATOR = "<|endoftext|>"


@pytest.fixture(scope="module")
def tokenizers() -> dict[str, Tokenizer]:
    return {
        "english": tm.train(tm.documents(ENGLISH), vocab_size=320),
        "bytes": tm.train(tm.documents(ENGLISH), vocab_size=257),
        "german": tm.train(tm.documents(GERMAN), vocab_size=320),
    }


@pytest.fixture
def texts(tmp_path: Path) -> list[tuple[str, str]]:
    (tmp_path / "en.txt").write_text(SEPARATOR.join(ENGLISH))
    (tmp_path / "de.txt").write_text(SEPARATOR.join(GERMAN))
    return [("en", str(tmp_path / "en.txt")), ("de", str(tmp_path / "de.txt"))]


def measured(
    tokenizers: dict[str, Tokenizer], texts: list[tuple[str, str]], **settings: object
) -> CompressionReport:
    chosen = CompressionSettings(**{"threads": 1, **settings})  # pyright: ignore
    return measure_compression(tokenizers, texts, chosen, progress=False)


def test_every_cell(tokenizers: dict[str, Tokenizer], texts: list[tuple[str, str]]) -> None:
    report = measured(tokenizers, texts)
    assert report.tokenizers == ("english", "bytes", "german")
    for row, documents in zip(report.rows, (ENGLISH, GERMAN), strict=True):
        assert (row.documents, row.documents_read) == (len(documents), len(documents))
        assert row.bytes == sum(len(text.encode()) for text in documents)
        assert row.characters == sum(map(len, documents))
        assert row.words == sum(len(text.split()) for text in documents)
        for tokens, tokenizer in zip(row.tokens, tokenizers.values(), strict=True):
            assert tokens.num_tokens == sum(len(tokenizer.encode(text)) for text in documents)
        expected = [row.bytes / tokens.num_tokens for tokens in row.tokens]
        assert row.bytes_per_token() == expected
        assert row.tokens_per_word() == [t.num_tokens / row.words for t in row.tokens]
    english, german = report.rows
    assert english.bytes_per_token()[0] == max(english.bytes_per_token())
    assert german.bytes_per_token()[2] == max(german.bytes_per_token())
    # Bytes alone spell no word of two letters.
    assert english.whole_word_share()[1] == 0.0
    assert 0.3 < (english.whole_word_share()[0] or 0.0) < 1.0


def test_the_total_adds_up(tokenizers: dict[str, Tokenizer], texts: list[tuple[str, str]]) -> None:
    report = measured(tokenizers, texts)
    assert report.total.documents == 100
    assert report.total.words == sum(row.words for row in report.rows)
    for column in range(3):
        assert report.total.tokens[column].num_tokens == sum(
            row.tokens[column].num_tokens for row in report.rows
        )
    both = measured(tokenizers, [("one", path) for _, path in texts])
    assert [row.name for row in both.rows] == ["one"]
    assert both.rows[0].tokens == report.total.tokens


def test_batches_leave_no_trace(
    tokenizers: dict[str, Tokenizer],
    texts: list[tuple[str, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = measured(tokenizers, texts)
    monkeypatch.setattr(compression, "FLUSH_BYTES", 100)
    assert measured(tokenizers, texts, threads=2).rows == whole.rows


def test_a_sample_by_seed(tokenizers: dict[str, Tokenizer], texts: list[tuple[str, str]]) -> None:
    ten = measured(tokenizers, texts, sample=10, seed=42)
    assert [(row.documents, row.documents_read) for row in ten.rows] == [(10, 60), (10, 40)]
    assert ten.rows == measured(tokenizers, texts, sample=10, seed=42).rows
    # A text's sample does not depend on the texts beside it.
    assert measured(tokenizers, texts[1:], sample=10, seed=42).rows == ten.rows[1:]
    others = [measured(tokenizers, texts, sample=10, seed=seed).rows for seed in range(5)]
    assert any(rows != ten.rows for rows in others)


def test_labels_make_rows(
    tokenizers: dict[str, Tokenizer], texts: list[tuple[str, str]], tmp_path: Path
) -> None:
    path = tmp_path / "mixed.jsonl"
    rows = [*((text, "en") for text in ENGLISH), *((text, "de") for text in GERMAN)]
    path.write_text(
        "".join(
            json.dumps({"text": text, "lang": lang}) + "\n" for text, lang in rows[::2] + rows[1::2]
        )
    )
    report = measured(tokenizers, [("mixed", str(path))], label_field="lang")
    assert [row.name for row in report.rows] == ["de", "en"]
    by_text = {row.name: row for row in measured(tokenizers, texts).rows}
    for row in report.rows:
        assert row == by_text[row.name]
    assert (
        measured(tokenizers, [("mixed", str(path))], label_field="lang", sample=3).total.documents
        == 6
    )


def test_special_tokens_are_text(tokenizers: dict[str, Tokenizer], tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text(json.dumps({"text": "a<|endoftext|>b"}))
    (row,) = measured(tokenizers, [("a", str(file))]).rows
    assert row.tokens[1].num_tokens == 15


def test_white_space_alone_has_no_words(tokenizers: dict[str, Tokenizer], tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("   \n\n")
    report = measured(tokenizers, [("a", str(file))])
    assert report.rows[0].words == len(find_words("   \n\n")) == 0
    assert report.rows[0].tokens_per_word() == [None] * 3
    assert any("–" in line for line in compression_lines(report))


def test_an_empty_text_is_an_error(
    tokenizers: dict[str, Tokenizer], texts: list[tuple[str, str]], tmp_path: Path
) -> None:
    file = tmp_path / "empty.txt"
    file.touch()
    with pytest.raises(SourceError, match=r"`.*empty\.txt`: no document"):
        measured(tokenizers, [*texts, ("empty", str(file))])


@pytest.mark.parametrize(("name", "value"), [("sample", 0), ("seed", -1), ("threads", 0)])
def test_settings_that_make_no_sense(name: str, value: int) -> None:
    with pytest.raises(ConfigError, match=name):
        CompressionSettings(**{name: value})  # pyright: ignore[reportArgumentType]


def test_the_best_of_each_row_is_marked(
    tokenizers: dict[str, Tokenizer], texts: list[tuple[str, str]]
) -> None:
    report = measured(tokenizers, texts)
    lines = list(compression_lines(report))
    start = next(index for index, line in enumerate(lines) if line.startswith("text  tokenizer"))
    table = [line.split() for line in lines[start + 1 : start + 10]]
    assert [line[0] for line in table[::3]] == ["en", "de", "all"]
    assert [line[-5] for line in table] == ["english", "bytes", "german"] * 3
    bytes_per_token = [line[-4].endswith("*") for line in table]
    assert bytes_per_token[:6] == [True, False, False, False, False, True]
    assert [line[-3].endswith("*") for line in table] == bytes_per_token
    assert lines[-1] == "* best of its text"
    alone = list(compression_lines(measured({"one": tokenizers["bytes"]}, texts[:1])))
    assert not any("*" in line for line in alone)


def test_json_of_one_tokenizer_has_the_number_at_the_top(
    tokenizers: dict[str, Tokenizer], texts: list[tuple[str, str]]
) -> None:
    one = measured({"english": tokenizers["english"]}, texts)
    assert one.as_json()["bytes_per_token"] == one.total.bytes_per_token()[0]
    several = measured(tokenizers, texts).as_json()
    assert several["bytes_per_token"] is None
    rows = several["texts"]
    assert isinstance(rows, list)
    assert [cell["best"] for cell in rows[1]["tokenizers"]] == [False, False, True]
    assert json.loads(json.dumps(several)) == several
