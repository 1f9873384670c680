"""Reader: limits, caps and policies, over documents of any source and blocks of any size."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tokenmill import _core
from tokenmill.errors import ConfigError, SourceError

DOCUMENTS = ["größer als", "日本語のテキスト", "", "a" * 25, "x y z", "😀" * 7]


def strings(documents: list[str] | list[bytes]) -> Iterator[_core.Source]:
    return iter([_core.Source.strings(iter(documents), name="test")])


def read(reader: _core.Reader, sources: Iterator[_core.Source]) -> list[str]:
    return [document.decode("utf-8", "surrogateescape") for document in reader.documents(sources)]


@pytest.mark.parametrize("block_bytes", [16, 40, 4096])
def test_documents_come_in_order(block_bytes: int) -> None:
    reader = _core.Reader(block_bytes=block_bytes)
    kept = [document for document in DOCUMENTS if document]
    assert read(reader, strings(DOCUMENTS)) == kept
    assert reader.report == {
        "documents": 5,
        "bytes": sum(len(document.encode()) for document in kept),
        "chars": sum(map(len, kept)),
        "capped_documents": 0,
        "skipped_records": 0,
        "replaced_sequences": 0,
    }
    assert not reader.limit_reached


@pytest.mark.parametrize("block_bytes", [16, 40, 4096])
@pytest.mark.parametrize("doc_cap", [1, 5, 8, 9, 10**6])
def test_documents_are_cut_after_characters(doc_cap: int, block_bytes: int, tmp_path: Path) -> None:
    kept = [document[:doc_cap] for document in DOCUMENTS if document]
    path = tmp_path / "text"
    path.write_bytes("|".join(DOCUMENTS).encode())
    text = _core.Source.plain_text(str(path), name="text", separator=b"|")
    for sources in (strings(DOCUMENTS), iter([text])):
        reader = _core.Reader(doc_cap=doc_cap, block_bytes=block_bytes)
        assert read(reader, sources) == kept
        assert reader.report["chars"] == sum(map(len, kept))
        assert reader.report["capped_documents"] == sum(len(d) > doc_cap for d in DOCUMENTS)


@pytest.mark.parametrize("block_bytes", [16, 4096])
@pytest.mark.parametrize("max_chars", range(0, 60, 3))
def test_reading_ends_after_the_document_that_passes_max_chars(
    max_chars: int, block_bytes: int
) -> None:
    expected: list[str] = []
    for document in filter(None, DOCUMENTS):
        expected.append(document)
        if sum(map(len, expected)) > max_chars:
            break
    reader = _core.Reader(max_chars=max_chars, block_bytes=block_bytes)
    assert read(reader, strings(DOCUMENTS)) == expected
    assert reader.limit_reached == (sum(map(len, expected)) > max_chars)


@pytest.mark.parametrize("block_bytes", [16, 4096])
@pytest.mark.parametrize("max_bytes", range(0, 100, 7))
def test_reading_ends_before_the_document_that_would_pass_max_bytes(
    max_bytes: int, block_bytes: int
) -> None:
    expected: list[str] = []
    for document in filter(None, DOCUMENTS):
        if len("".join([*expected, document]).encode()) > max_bytes:
            break
        expected.append(document)
    reader = _core.Reader(max_bytes=max_bytes, block_bytes=block_bytes)
    assert read(reader, strings(DOCUMENTS)) == expected
    assert reader.limit_reached == (len(expected) < 5)


def test_limits_hold_over_several_calls() -> None:
    reader = _core.Reader(max_chars=30)
    assert read(reader, strings(DOCUMENTS[:2])) == DOCUMENTS[:2]
    assert read(reader, strings(DOCUMENTS[3:])) == [DOCUMENTS[3]]
    assert read(reader, strings(DOCUMENTS)) == []
    again = _core.Reader(max_chars=30, chars_before=18)
    assert read(again, strings(DOCUMENTS[3:])) == [DOCUMENTS[3]]


def test_invalid_utf8_has_an_offset(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"good|also good|ba\xffd|good")
    for block_bytes in (16, 4096):
        source = _core.Source.plain_text(str(path), name="text", separator=b"|")
        with pytest.raises(SourceError, match="`text` is not valid UTF-8: byte 17 is 0xFF"):
            read(_core.Reader(block_bytes=block_bytes), iter([source]))


def test_invalid_utf8_is_replaced_and_counted() -> None:
    documents = [b"a\xffb", b"\xe6\x96", b"good", b"\xf0\x9f\x98\xff", b"\xed\xa0\x80"]
    reader = _core.Reader(invalid_utf8="replace")
    replaced = [d.decode("utf-8", "replace") for d in documents[:-1]]
    assert read(reader, strings(documents)) == [*replaced, "\ufffd"]
    assert reader.report["replaced_sequences"] == 5


def test_invalid_utf8_can_be_skipped_or_kept() -> None:
    documents = [b"one", b"t\xffwo", b"three"]
    reader = _core.Reader(on_error="skip")
    assert read(reader, strings(documents)) == ["one", "three"]
    assert reader.report["skipped_records"] == 1
    assert len(reader.skipped) == 1
    assert "0xFF" in reader.skipped[0]
    assert read(_core.Reader(invalid_utf8="keep"), strings(documents)) == [
        "one",
        "t\udcffwo",
        "three",
    ]


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes("\ufeffone|\ufefftwo\r\nthree".encode())
    source = _core.Source.plain_text(str(path), name="text", separator=b"|")
    assert read(_core.Reader(), iter([source])) == ["one", "\ufefftwo\r\nthree"]


@pytest.mark.parametrize(("setting", "value"), [("on_error", "ignore"), ("invalid_utf8", "drop")])
def test_unknown_policies_are_refused(setting: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"`{value}`"):
        _core.Reader(**{setting: value})  # pyright: ignore[reportArgumentType]


def test_an_item_that_is_no_text_has_a_position() -> None:
    source = _core.Source.strings(iter(["one", 2, "three"]), name="items")  # pyright: ignore[reportArgumentType]
    with pytest.raises(SourceError, match="`items:1` is a `int`"):
        read(_core.Reader(), iter([source]))


def test_an_error_inside_the_iterator_is_passed_on() -> None:
    def documents() -> Iterator[str]:
        yield "one"
        raise RuntimeError("out of paper")

    with pytest.raises(RuntimeError, match="out of paper"):
        read(_core.Reader(), iter([_core.Source.strings(documents(), name="items")]))
