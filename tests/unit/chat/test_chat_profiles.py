"""Profiles: what a template is, the three built in, files of one's own, and what is refused."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

import tokenmill as tm
from tokenmill import chat
from tokenmill.chat.profiles import ALPACA_TAGS, CHAT, NANOCHAT, Piece, Profile, Role
from tokenmill.errors import ConfigError, SourceError

CHATML = """
name = "chatml"
special_tokens = ["<|im_start|>", "<|im_end|>"]

[roles.system]
before = "<|im_start|>system\\n"
after = "<|im_end|>\\n"

[roles.user]
before = "<|im_start|>user\\n"
after = "<|im_end|>\\n"

[roles.assistant]
before = "<|im_start|>assistant\\n"
after = "<|im_end|>\\n"
trained = true
"""


@pytest.fixture(scope="module")
def tokenizer() -> tm.Tokenizer:
    return tm.train(tm.documents(["user assistant system\n\nhello there\n"] * 9), vocab_size=290)


def test_the_default_profile(tokenizer: tm.Tokenizer) -> None:
    ready = chat.prepare_tokenizer(tokenizer)
    special = ready.special_tokens
    assert set(CHAT.special_tokens) <= set(special)
    messages = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "u"},
        {"role": "assistant", "content": "a"},
    ]
    ids, mask, text = chat.render(ready, "chat", messages)
    end = special["<|end|>"]
    (s, u, a) = (ord("s"), ord("u"), ord("a"))
    assert ids == [
        *(special["<|system|>"], s, end),
        *(special["<|user|>"], u, end),
        *(special["<|assistant|>"], a, end),
    ]
    assert mask == [0, 0, 0, 0, 0, 0, 0, 1, 1]
    assert text == "<|system|>s<|end|><|user|>u<|end|><|assistant|>a<|end|>"
    assert CHAT.stop_token == "<|end|>"


def test_the_prompt_of_a_model(tokenizer: tm.Tokenizer) -> None:
    for profile in chat.PROFILES.values():
        ready = chat.prepare_tokenizer(tokenizer, profile)
        messages = [{"role": "user", "content": "hello"}]
        whole = [*messages, {"role": "assistant", "content": "there"}]
        prompt = chat.render(ready, profile, messages, add_generation_prompt=True)
        example = chat.render(ready, profile, whole)
        assert example.ids[: len(prompt.ids)] == prompt.ids
        assert sum(prompt.mask) == 0
        assert example.mask[len(prompt.ids) :] == [1] * (len(example.ids) - len(prompt.ids))
        assert ready.special_tokens[profile.stop_token or ""] == example.ids[-1]


def test_alpaca_tags_as_document_004_has_them(tokenizer: tm.Tokenizer) -> None:
    ready = chat.prepare_tokenizer(tokenizer, "alpaca-tags")
    row = '{"instruction": "say", "input": "%s", "output": "hello"}'
    for given, text in {
        "it": "<SYSTEM>say</SYSTEM><USER>it</USER><MODEL>hello</MODEL>",
        "": "<SYSTEM>say</SYSTEM><MODEL>hello</MODEL>",
    }.items():
        rows = chat.encode_rows(ready, "alpaca-tags", [row % given])
        assert ready.decode(rows.ids) == text
        answer = ready.encode("hello</MODEL>", allowed_special="all")
        assert rows.mask.tolist() == [0] * (len(rows.ids) - len(answer)) + [1] * len(answer)
    assert ALPACA_TAGS.stop_token == "</MODEL>"


def test_nanochat_puts_the_system_message_into_the_first_of_the_user(
    tokenizer: tm.Tokenizer,
) -> None:
    ready = chat.prepare_tokenizer(tokenizer, NANOCHAT)
    assert {"<|python_start|>", "<|output_end|>"} <= set(ready.special_tokens)
    messages = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "there"},
    ]
    assert chat.render(ready, "nanochat", messages).text == (
        "<|bos|><|user_start|>be brief\n\nhello<|user_end|>"
        "<|assistant_start|>there<|assistant_end|>"
    )
    for wrong in ([messages[0], messages[2]], [messages[1], messages[0]], messages[:1]):
        with pytest.raises(SourceError, match="in front of the first user message"):
            chat.render(ready, "nanochat", wrong)


def test_literal_text_and_content_are_encoded_as_one(
    tokenizer: tm.Tokenizer, tmp_path: Path
) -> None:
    (tmp_path / "own.toml").write_text(CHATML)
    profile = chat.find_profile(tmp_path / "own.toml")
    assert profile.name == "chatml"
    assert profile.pieces("<|im_start|>user\n") == [
        Piece("<|im_start|>", is_special=True),
        Piece("user\n", is_special=False),
    ]
    ready = chat.prepare_tokenizer(tokenizer, profile)
    messages = [
        {"role": "user", "content": "\nhello"},
        {"role": "assistant", "content": "\nthere"},
    ]
    ids, mask, text = chat.render(ready, profile, messages)
    assert ids == ready.encode(text, allowed_special="all")
    # The line break of the template and that of the content are one token, which is trained; what
    # follows the end of the turn is not.
    trained = ready.decode([i for i, bit in zip(ids, mask, strict=True) if bit])
    assert trained == "\n\nthere<|im_end|>"
    assert mask[-1] == 0


def test_the_end_of_a_turn_can_be_left_untrained(tokenizer: tm.Tokenizer) -> None:
    profile = Profile("quiet", CHAT.special_tokens, CHAT.roles, train_end=False)
    ready = chat.prepare_tokenizer(tokenizer, profile)
    rendered = chat.render(ready, profile, [{"role": "assistant", "content": "hello"}])
    assert rendered.mask[-1] == 0
    assert sum(rendered.mask) == len(rendered.ids) - 2


def test_preparing_keeps_what_is_there(tokenizer: tm.Tokenizer, tmp_path: Path) -> None:
    ready = chat.prepare_tokenizer(tokenizer)
    assert chat.prepare_tokenizer(ready) is ready
    assert ready.vocab_size == tokenizer.vocab_size + 4
    assert {k: v for k, v in ready.special_tokens.items() if k in tokenizer.special_tokens} == (
        tokenizer.special_tokens
    )
    folder = ready.save(tmp_path / "tok")
    assert (folder / "chat_template.jinja").read_text() == chat.jinja_template(CHAT)
    assert tm.Tokenizer.load(folder).chat_template == ready.chat_template
    assert tokenizer.chat_template is None


def test_a_tokenizer_without_the_special_tokens(tokenizer: tm.Tokenizer) -> None:
    with pytest.raises(ConfigError, match=r"needs the special tokens `<\|bos\|>`"):
        chat.render(tokenizer, "nanochat", [])
    with pytest.raises(ConfigError, match="`prepare_tokenizer`"):
        chat.encode_rows(tokenizer, "chat", [])


def test_special_tokens_that_a_profile_takes_for_text(tokenizer: tm.Tokenizer) -> None:
    roles = {**CHAT.roles, "user": Role("<|user|><|endoftext|>", "<|end|>")}
    profile = Profile("odd", CHAT.special_tokens, roles)
    with pytest.raises(ConfigError, match=r"has `<\|endoftext\|>` as text"):
        chat.encode_rows(chat.prepare_tokenizer(tokenizer, profile), profile, [])


def test_profiles_go_through_json_and_pickle() -> None:
    for profile in chat.PROFILES.values():
        values = json.loads(json.dumps(profile.as_json()))
        values["roles"] = {name: Role(**role) for name, role in values["roles"].items()}
        assert Profile(**values) == profile
        assert pickle.loads(pickle.dumps(profile)) == profile  # noqa: S301


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"special_tokens": ()}, "no special tokens"),
        ({"special_tokens": ("<|end|>", "")}, "empty string"),
        ({"special_tokens": ("<|end|>", "<|end|>")}, "given twice"),
        ({"roles": {"user": Role("<|user|>", "")}}, "no role `assistant`"),
        ({"merge_system": "\n"}, "`system` and `merge_system`"),
        ({"instruction": "teacher"}, "`instruction` is the role `teacher`"),
        ({"roles": {**CHAT.roles, "assistant": Role("<|assistant|>", "<|end|>")}}, "not trained"),
        (
            {"roles": {**CHAT.roles, "assistant": Role("<|assistant|>", "", trained=True)}},
            "never learns to stop",
        ),
        ({"roles": {**CHAT.roles, "user": Role("", "")}}, "nothing marks the turns of role `user`"),
    ],
)
def test_profiles_that_make_no_sense(changes: dict[str, Any], message: str) -> None:
    values = {"name": "odd", "special_tokens": CHAT.special_tokens, "roles": CHAT.roles}
    with pytest.raises(ConfigError, match=message) as caught:
        Profile(**{**values, **changes})
    assert "profile `odd`" in caught.value.message


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        (CHATML.replace("special_tokens", "special_token"), "unknown key `special_token`"),
        (CHATML.replace("before =", "befor =", 1), "unknown key in role `system`: `befor`"),
        (CHATML.replace("trained = true", 'trained = "yes"'), "`trained` of role `assistant`"),
        (CHATML.replace('name = "chatml"', "name = 3"), "`name` is 3"),
        ("x = [", "is not TOML"),
        ("", "has no special tokens"),
    ],
)
def test_files_that_are_no_profiles(tmp_path: Path, toml: str, message: str) -> None:
    (tmp_path / "own.toml").write_text(toml)
    with pytest.raises(ConfigError, match=message) as caught:
        chat.read_profile(tmp_path / "own.toml")
    assert "own.toml" in caught.value.message


def test_unknown_profiles(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown profile `nanochta`") as caught:
        chat.find_profile("nanochta")
    assert caught.value.hint == "did you mean `nanochat`?"
    with pytest.raises(SourceError, match="does not exist"):
        chat.find_profile(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ({"content": "x"}, "message 0: has no `role`"),
        ({"role": "tool", "content": "x"}, "no role `tool`"),
        ({"role": "user", "content": None}, "message 0: its content is null"),
        ({"role": "user", "content": [{"type": "image"}]}, "a part of its content"),
        ({"role": "assistant", "content": "", "tool_calls": [{}]}, "tool_calls"),
    ],
)
def test_messages_that_cannot_be_rendered(
    tokenizer: tm.Tokenizer, message: dict[str, object], error: str
) -> None:
    ready = chat.prepare_tokenizer(tokenizer)
    with pytest.raises(SourceError, match=error):
        chat.render(ready, "chat", [message])
