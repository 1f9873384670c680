"""What tests/parity cannot ask of the original: what we refuse by name, and what only we have."""

import json
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import tokenmill as tm
from tokenmill.compat.tokenizers import AddedToken, Encoding, Tokenizer
from tokenmill.errors import ConfigError, FormatError, SourceError
from tokenmill.tokenizer.formats import huggingface_json

TEXTS = ["low lower lowest newer newest wider"] * 3


@pytest.fixture(scope="module")
def plain() -> tm.Tokenizer:
    return tm.train(tm.documents(TEXTS), vocab_size=272, pattern="gpt2", special_tokens=["<|end|>"])


@pytest.fixture
def tokenizer(plain: tm.Tokenizer) -> Tokenizer:
    return Tokenizer(plain)


def test_a_tokenizer_of_ours_takes_this_shape(plain: tm.Tokenizer, tokenizer: Tokenizer) -> None:
    assert tokenizer.tokenizer is plain
    assert Tokenizer.from_tokenizer(plain).encode("lowest").ids == plain.encode("lowest")
    assert tokenizer.to_str(pretty=True).encode() == huggingface_json.write(plain._vocab)


def test_ids_are_the_callers_own(tokenizer: Tokenizer) -> None:
    encoding = tokenizer.encode("low lower")
    for column in ("ids", "tokens", "offsets", "word_ids", "type_ids"):
        before = list(getattr(encoding, column))
        getattr(encoding, column).append(None)
        assert getattr(encoding, column) == before
    assert len(encoding) == len(encoding.ids)


def test_a_change_to_what_overflows_stays_with_the_caller(tokenizer: Tokenizer) -> None:
    tokenizer.enable_truncation(2)
    encoding = tokenizer.encode("low lower lowest")
    encoding.overflowing[0].pad(10)
    assert len(encoding.overflowing[0]) == 2


def test_the_old_name_of_word_ids_warns(tokenizer: Tokenizer) -> None:
    encoding = tokenizer.encode("low lower")
    with pytest.warns(DeprecationWarning, match="word_ids"):
        words = encoding.words
    assert words == encoding.word_ids


def test_encodings_keep_the_tokenizer_they_were_made_by(tokenizer: Tokenizer) -> None:
    before = tokenizer.encode("low<|new|>")
    assert tokenizer.add_special_tokens(["<|new|>"]) == 1
    after = tokenizer.encode("low<|new|>")
    assert after.tokens[-1] == "<|new|>"
    assert after.ids[-1] == 272
    assert before.tokens[-1] == ">"
    assert before.offsets[-1] == (9, 10)


@pytest.mark.parametrize("option", ["lstrip", "rstrip", "single_word"])
def test_tokens_we_cannot_look_for_are_refused(tokenizer: Tokenizer, option: str) -> None:
    with pytest.raises(NotImplementedError, match=f"`<new>` has `{option}`"):
        tokenizer.add_tokens([AddedToken("<new>", **{option: True})])
    assert tokenizer.get_vocab_size() == 272


def test_a_token_of_the_model_is_no_added_token(tokenizer: Tokenizer) -> None:
    with pytest.raises(NotImplementedError, match="`low` is a token of the model"):
        tokenizer.add_tokens(["<fine>", "low"])
    assert tokenizer.token_to_id("<fine>") is None


def test_tokens_looked_for_at_different_times_must_not_overlap(tokenizer: Tokenizer) -> None:
    with pytest.raises(NotImplementedError, match=r"`<\|end\|>>` can overlap `<\|end\|>`"):
        tokenizer.add_tokens(["<|end|>>"])
    with pytest.raises(NotImplementedError, match="can overlap"):
        tokenizer.add_tokens([">x<"])
    assert tokenizer.add_tokens([AddedToken(">x<", normalized=False)]) == 1


def test_normalized_text_is_not_searched(plain: tm.Tokenizer) -> None:
    data = json.loads(huggingface_json.write(plain._vocab)) | {"normalizer": {"type": "NFC"}}
    tokenizer = Tokenizer.from_str(json.dumps(data))
    with pytest.raises(NotImplementedError, match="normalized=False"):
        tokenizer.add_tokens(["<new>"])
    assert tokenizer.add_tokens([AddedToken("<new>", normalized=False)]) == 1


def test_what_is_no_byte_level_bpe_is_refused_with_its_place(plain: tm.Tokenizer) -> None:
    data = json.loads(huggingface_json.write(plain._vocab))
    with pytest.raises(FormatError, match="normalizer"):
        Tokenizer.from_str(json.dumps(data | {"normalizer": {"type": "Lowercase"}}))
    with pytest.raises(FormatError, match="Roberta"):
        Tokenizer.from_str(json.dumps(data | {"post_processor": {"type": "RobertaProcessing"}}))
    with pytest.raises(FormatError):
        Tokenizer.from_buffer(b"{")
    with pytest.raises(TypeError):
        Tokenizer.from_buffer("{}")  # pyright: ignore[reportArgumentType]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"nope\.json"):
        Tokenizer.from_file(tmp_path / "nope.json")


def test_post_processors_that_are_not_supported_are_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(NotImplementedError, match="`BertProcessing`; supported are ByteLevel"):
        tokenizer.post_processor = {"type": "BertProcessing", "sep": ["x", 1], "cls": ["x", 1]}
    with pytest.raises(TypeError, match=r"one of `tokenizers\.processors`, found `int`"):
        tokenizer.post_processor = 5
    with pytest.raises(FormatError, match="not what Hugging Face writes"):
        tokenizer.post_processor = {"type": "TemplateProcessing"}
    assert tokenizer.post_processor is None
    assert tokenizer.encode("low").ids == tokenizer.tokenizer.encode("low")


def test_training_is_done_elsewhere(tokenizer: Tokenizer) -> None:
    for train in (tokenizer.train, tokenizer.train_from_iterator):
        with pytest.raises(NotImplementedError, match=r"`tokenmill\.train`"):
            train([])
    with pytest.raises(NotImplementedError, match=r"`Tokenizer\(dict\)` starts a tokenizer"):
        Tokenizer({})


def test_parts_are_those_of_the_original(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    splits = tokenizer.pre_tokenizer.pre_tokenize_str("low lower")
    assert splits == [("low", (0, 3)), ("Ġlower", (3, 9))]
    assert tokenizer.normalizer is None
    assert tokenizer.decoder.decode(["Ġlow"]) == " low"
    assert tokenizer.model.token_to_id("low") == tokenizer.token_to_id("low")
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(NotImplementedError, match="classes of `tokenizers`"):
        _ = tokenizer.pre_tokenizer


def test_the_hub_is_asked_through_its_own_library(
    plain: tm.Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(huggingface_json.write(plain._vocab))
    asked: list[Any] = []

    def hf_hub_download(*arguments: Any, **options: Any) -> str:
        asked.append((arguments, options))
        return str(path)

    hub = types.ModuleType("huggingface_hub")
    hub.hf_hub_download = hf_hub_download  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    tokenizer = Tokenizer.from_pretrained("someone/model", revision="v1")
    assert asked == [(("someone/model", "tokenizer.json"), {"revision": "v1", "token": None})]
    assert tokenizer.encode("low").ids == plain.encode("low")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ModuleNotFoundError, match="which is not installed"):
        Tokenizer.from_pretrained("someone/model")


def test_one_thread_if_the_environment_says_so(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    class Watched:
        def encode_lists(self, texts: Any, allowed: Any, disallowed: Any, threads: int) -> Any:
            asked.append(threads)
            return [[104] for _ in texts]

    monkeypatch.setattr(tokenizer._lookup, "bpe", Watched())
    monkeypatch.setattr("tokenmill.compat.tokenizers.available_cores", lambda: 7)
    for chosen in ("true", "false", "0"):
        monkeypatch.setenv("TOKENIZERS_PARALLELISM", chosen)
        tokenizer.encode_batch(["low", "lower"])
    monkeypatch.delenv("TOKENIZERS_PARALLELISM")
    tokenizer.encode_batch(["low"])
    assert asked == [7, 1, 1, 7]


def test_unknown_arguments_are_ignored_aloud(tokenizer: Tokenizer) -> None:
    with pytest.warns(UserWarning, match="`pad_to` is ignored"):
        tokenizer.enable_padding(pad_to=5)
    with pytest.warns(UserWarning, match="`window` is ignored"):
        tokenizer.enable_truncation(5, window=5)


def test_contradictions_have_names(tokenizer: Tokenizer) -> None:
    tokenizer.enable_truncation(2, strategy="only_second")
    with pytest.raises(ConfigError, match="no second sequence"):
        tokenizer.encode("low lower lowest")
    with pytest.raises(ConfigError, match="has 1 tokens and 3 have to go"):
        tokenizer.encode("low lower lowest", "low")
    with pytest.raises(ConfigError, match="stride 9 is more than the 2 tokens"):
        tokenizer.enable_truncation(2, stride=9)
    encoding = tokenizer.encode("low")
    with pytest.raises(ConfigError, match="stride 1 is not less than `max_length` 1"):
        Encoding.merge([encoding, encoding]).truncate(1, stride=1)


def test_a_decoder_that_is_not_there_shows_tokens(plain: tm.Tokenizer) -> None:
    data = json.loads(huggingface_json.write(plain._vocab)) | {"decoder": None}
    tokenizer = Tokenizer.from_str(json.dumps(data))
    ids = tokenizer.encode("low lower<|end|>").ids
    assert tokenizer.decode(ids) == "low Ġlower"


def test_a_saved_tokenizer_is_whole_or_absent(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.enable_padding(length=4)
    path = tmp_path / "tokenizer.json"
    tokenizer.save(path)
    assert [file.name for file in tmp_path.iterdir()] == ["tokenizer.json"]
    again = Tokenizer.from_file(str(path))
    assert again.padding == tokenizer.padding
    assert again.encode("low").ids == tokenizer.encode("low").ids
