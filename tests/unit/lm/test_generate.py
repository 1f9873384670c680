"""Generating: the cache gives what the whole text would, stops are exact, rows do not disturb each other."""

import itertools
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from make_dataset import EOS, small_tokenizer
from make_model import random_ids, small_model
from torch import Tensor

import tokenmill as tm
from tokenmill.errors import ConfigError, FormatError, VocabError
from tokenmill.lm.decoding import Decoder, OneRow, is_quick
from tokenmill.lm.generate import generate
from tokenmill.lm.model import KeyValueCache, Model
from tokenmill.lm.stop_strings import StopStrings

VARIANTS: dict[str, dict[str, Any]] = {
    "llama": {},
    "grouped, tied": {"num_kv_heads": 2, "tied_head": True, "init": "gpt2"},
    "qwen3": {"qk_norm": True, "num_kv_heads": 1, "head_dim": 12},
    "no positions": {"positions": "none"},
    "post-norm": {"norm_place": "post", "activation": "gelu", "norm": "layernorm"},
    "capped": {"softcap": 5.0},
}
CONTEXT = 16


@pytest.fixture(scope="module")
def tokenizer() -> tm.Tokenizer:
    return small_tokenizer()


def sliding_logits(model: Model, ids_T: Tensor) -> Tensor:
    """Logits of the whole text at once, each position looking at the last CONTEXT ones: no cache."""
    from tokenmill.lm.model import View

    length = len(ids_T)
    at = torch.arange(length)
    mask = (at[None] <= at[:, None]) & (at[None] > at[:, None] - CONTEXT)
    cos, sin = model.rope(length) if model.config.positions == "rope" else (None, None)
    x = model.model.embed_tokens(ids_T[None])
    for block in model.model.layers:
        x = block(x, View(cos, sin, mask[None, None]))
    if model.config.norm_place == "pre":
        x = model.model.norm(x)
    return model.logits(x)[0]


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("kind", [Decoder, OneRow])
def test_cached_logits_are_those_of_the_whole_text(name: str, kind: type[Decoder]) -> None:
    """Far past the context, for one row."""
    model = small_model(**VARIANTS[name])
    if kind is OneRow and not is_quick(model, 1):
        assert name in ("no positions", "post-norm", "capped")
        return
    ids = random_ids(model, 50)
    with torch.inference_mode():
        wanted = sliding_logits(model, ids)
        decoder = kind(model, [ids[:5].tolist()], 45)
        for place in range(5, 50):
            assert (decoder.logits_BV[0] - wanted[place - 1]).abs().max() < 1e-5
            decoder.feed([int(ids[place])])


@pytest.mark.parametrize("name", VARIANTS)
def test_rows_of_several_lengths_are_as_if_alone(name: str) -> None:
    model = small_model(**VARIANTS[name])
    ids = random_ids(model, 3, 45)
    lengths = (3, 11, 7)
    with torch.inference_mode():
        wanted = [sliding_logits(model, row) for row in ids]
        starts = [row[:size].tolist() for row, size in zip(ids, lengths, strict=True)]
        decoder = Decoder(model, starts, 34)
        for step in range(34):
            for row, size in enumerate(lengths):
                expected = wanted[row][size + step - 1]
                assert (decoder.logits_BV[row] - expected).abs().max() < 1e-5
            decoder.feed([int(ids[row, size + step]) for row, size in enumerate(lengths)])


def test_a_cache_is_filled_in_parts_of_any_size() -> None:
    model = small_model(num_kv_heads=2)
    ids = random_ids(model, 2, CONTEXT)
    for cuts in ((0, 16), (0, 1, 2, 16), (0, 7, 15, 16), tuple(range(17))):
        cache = KeyValueCache(model, 2)
        with torch.inference_mode():
            parts = [
                model(ids[:, start:end], cache=cache) for start, end in itertools.pairwise(cuts)
            ]
            assert (torch.cat(parts, dim=1) - model(ids)).abs().max() < 1e-5
    with pytest.raises(ConfigError, match="2 new positions behind 16 do not fit"):
        model(ids[:, :2], cache=cache)


def test_generating_leaves_nothing_that_training_cannot_use() -> None:
    """A sample before the first step: the tables it made are used by the step."""
    model = small_model().train()
    generate(model, None, [[1, 2]], max_tokens=30)
    assert model.training
    model(random_ids(model, 1, 8)).sum().backward()
    assert model.lm_head.weight.grad is not None


@pytest.mark.parametrize("name", VARIANTS)
def test_greedy_ids_are_those_of_whole_forward_passes(name: str) -> None:
    model = small_model(**VARIANTS[name])
    ids = [5, 9, 200]
    with torch.inference_mode():
        while len(ids) < 40:
            ids.append(int(sliding_logits(model, torch.tensor(ids))[-1].argmax()))
    (answer,) = generate(model, None, [ids[:3]], max_tokens=37, temperature=0)
    assert answer.ids == ids[3:]
    assert answer.ended_by == "max_tokens"


def test_a_row_does_not_depend_on_its_batch(tokenizer: tm.Tokenizer) -> None:
    model = small_model()
    prompts = ["the cat", "x", "naïve café sat on the mat"]
    together = generate(model, tokenizer, prompts, max_tokens=40, seed=5, top_p=0.95)
    for row, prompt in enumerate(prompts):
        alone = generate(model, tokenizer, prompt, max_tokens=40, seed=5 + row, top_p=0.95)
        assert alone == [together[row]]
    assert len({answer.text for answer in together}) == 3


def test_learned_positions_start_anew_with_half_a_context(tokenizer: tm.Tokenizer) -> None:
    model = small_model(positions="learned")
    ids, read = [3, 4, 5], 3
    with torch.inference_mode():
        while len(ids) < 45:
            if read > CONTEXT:
                read = CONTEXT // 2
            logits = model(torch.tensor([ids[-read:]]))
            ids.append(int(logits[0, -1].argmax()))
            read += 1
    (answer,) = generate(model, None, [ids[:3]], max_tokens=42, temperature=0)
    assert answer.ids == ids[3:]
    rows = [ids[:3], ids[:9], [7, 8, 9]]
    together = generate(model, tokenizer, rows, max_tokens=42, seed=1)
    for number, row in enumerate(rows):
        assert generate(model, tokenizer, [row], max_tokens=42, seed=1 + number) == [
            together[number]
        ]


def test_a_prompt_longer_than_the_context_is_read_at_its_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = small_model()
    ids = random_ids(model, 40).tolist()
    (long,) = generate(model, None, [ids], max_tokens=5, temperature=0)
    assert "its last 16 are read" in caplog.text
    (short,) = generate(model, None, [ids[-CONTEXT:]], max_tokens=5, temperature=0)
    assert long.ids == short.ids


def biased(tokenizer: tm.Tokenizer, text: str) -> Model:
    """A model that writes the tokens of `text` one after the other, whatever it is asked."""
    ids = tokenizer.encode(text, allowed_special="all")
    model = small_model(norm_place="none", positions="none", d_model=300, num_heads=1, d_ff=8)
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
        model.model.embed_tokens.weight.copy_(torch.eye(300))
        for here, following in zip([0, *ids], ids, strict=False):
            model.lm_head.weight[following, here] = 9.0
    return model


def test_the_text_ends_before_a_stop_string_wherever_tokens_end(tokenizer: tm.Tokenizer) -> None:
    text = "the cat sAt on"
    model = biased(tokenizer, text)
    streamed: list[str] = []
    for stop, wanted in (("sA", "the cat "), ("t sAt o", "the ca"), ("the", ""), ("zz", text)):
        streamed.clear()
        (answer,) = generate(
            model,
            tokenizer,
            [[0]],
            max_tokens=len(tokenizer.encode(text)),
            temperature=0,
            stop=[stop, "never"],
            stream=lambda row, part: streamed.append(part),
        )
        assert answer.text == wanted == "".join(streamed)
        assert answer.ended_by == (stop if stop in text else "max_tokens")
        assert tokenizer.decode(answer.ids).startswith(wanted)


def test_the_text_ends_at_a_stop_token(tokenizer: tm.Tokenizer) -> None:
    model = biased(tokenizer, f"at{EOS}on")
    eos = tokenizer.special_tokens[EOS]
    choice: dict[str, Any] = {"max_tokens": 4, "temperature": 0}
    (answer,) = generate(model, tokenizer, [[0]], **choice)
    assert (answer.text, answer.ended_by) == ("at", eos)
    assert eos not in answer.ids
    (answer,) = generate(model, tokenizer, [[0]], stop_tokens=[], **choice)
    assert answer.text.startswith(f"at{EOS}")
    (answer,) = generate(model, tokenizer, [[0]], stop_tokens=[EOS], **choice)
    assert answer.text == "at"
    first = answer.ids[0]
    (answer,) = generate(model, tokenizer, [[0]], stop_tokens=[first], **choice)
    assert (answer.text, answer.ids, answer.ended_by) == ("", [], first)
    with pytest.raises(VocabError, match="`<stop>` is no special token"):
        generate(model, tokenizer, [[0]], stop_tokens=["<stop>"])


def test_half_a_character_is_held_back_until_it_is_whole(tokenizer: tm.Tokenizer) -> None:
    ids = tokenizer.encode("👍")
    assert len(ids) == len(set(ids)) == 4, "a token for each byte"
    model = biased(tokenizer, "👍")
    streamed: list[str] = []
    choice: dict[str, Any] = {"temperature": 0, "stream": lambda row, part: streamed.append(part)}
    (answer,) = generate(model, tokenizer, [[0]], max_tokens=4, **choice)
    assert streamed == [answer.text] == ["👍"]
    (cut,) = generate(model, tokenizer, [[0]], max_tokens=3, **choice)
    assert cut.text == "\ufffd"


def test_an_empty_prompt_begins_a_document(tokenizer: tm.Tokenizer) -> None:
    model = small_model()
    eos = tokenizer.special_tokens[EOS]
    assert generate(model, tokenizer, [""], max_tokens=3)[0].prompt_ids == [eos]
    with pytest.raises(ConfigError, match="how a text begins"):
        generate(model, small_tokenizer(special_tokens=()), "")


def test_ids_that_the_tokenizer_lacks_are_not_drawn(tokenizer: tm.Tokenizer) -> None:
    model = small_model(vocab_size=1000)
    (answer,) = generate(model, tokenizer, ["the"], max_tokens=60, temperature=3.0, stop_tokens=[])
    assert len(answer.ids) == 60
    assert max(answer.ids) < 300


def test_what_cannot_be_generated(tokenizer: tm.Tokenizer) -> None:
    model = small_model()
    with pytest.raises(ConfigError, match="without a tokenizer"):
        generate(model, None, "the")
    with pytest.raises(ConfigError, match="without a tokenizer"):
        generate(model, None, [[1]], stop=["x"])
    with pytest.raises(VocabError, match="token id 300 is none of the 300"):
        generate(model, tokenizer, [[1, 300]])
    with pytest.raises(VocabError, match="special"):
        generate(model, tokenizer, f"the{EOS}")
    assert generate(model, tokenizer, []) == []
    assert generate(model, tokenizer, "the", max_tokens=0)[0].text == ""
    with torch.no_grad():
        model.lm_head.weight[3] = torch.nan
    with pytest.raises(FormatError, match="no numbers"):
        generate(model, tokenizer, "the")


@given(
    st.lists(st.text("ab", max_size=4), max_size=8),
    st.lists(st.text("ab", min_size=1, max_size=3), max_size=3),
)
def test_stop_strings_however_the_text_is_cut(parts: list[str], stop: list[str]) -> None:
    watch = StopStrings(stop)
    given_out = ""
    for part in parts:
        given_out += watch.feed(part)
        if watch.found is not None:
            break
    else:
        given_out += watch.finish()
    text = "".join(parts)
    ends = [(at + len(each), at) for each in stop if (at := text.find(each)) >= 0]
    assert given_out == (text[: min(ends)[1]] if ends else text)
    assert (watch.found is not None) == bool(ends)
