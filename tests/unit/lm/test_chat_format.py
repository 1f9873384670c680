"""How one talks to a model: by its profile, by a template of others, or not at all."""

import json

import pytest
from make_conversations import chat_tokenizer, say
from make_dataset import EOS, small_tokenizer

import tokenmill as tm
from tokenmill.chat import PROFILES, Profile, Role, prepare_tokenizer, render
from tokenmill.errors import ConfigError, SourceError
from tokenmill.lm.chat_format import ChatFormat, chat_format

TALK = [say("user", "the cat"), say("assistant", "sat"), say("user", "on <|end|>")]
STOPS = {"chat": "<|end|>", "alpaca-tags": "</MODEL>", "nanochat": "<|assistant_end|>"}
SPECIAL = (EOS, "<|im_start|>", "<|im_end|>")
HEAD = "{% for m in messages %}<|im_start|>{{ m.role }}\n"
TAIL = "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
CHATML = f"{HEAD}{{{{ m.content }}}}<|im_end|>\n{TAIL}"


def with_template(template: str) -> tm.Tokenizer:
    return small_tokenizer(special_tokens=SPECIAL).with_chat_template(template)


def marked(trained: str) -> str:
    """ChatML that says what is trained on, as far as `trained` goes."""
    turn = f"{{% if m.role == 'assistant' %}}{{% generation %}}{trained}{{% endgeneration %}}"
    return f"{HEAD}{turn}{{% else %}}{{{{ m.content }}}}<|im_end|>\n{{% endif %}}{TAIL}"


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("system", [None, "be kind"])
def test_profiles_are_known_by_their_template(name: str, system: str | None) -> None:
    tokenizer = chat_tokenizer(name)
    form = chat_format(tokenizer)
    assert form.profile is PROFILES[name]
    assert form.stop_tokens == (tokenizer.special_tokens[STOPS[name]],)
    messages = [*([] if system is None else [say("system", system)]), *TALK]
    wanted = render(tokenizer, name, messages, add_generation_prompt=True)
    assert form.prompt_ids(messages) == wanted.ids
    assert tokenizer.decode(wanted.ids) == wanted.text
    opening = PROFILES[name].roles["assistant"].before
    assert wanted.ids[-1] == tokenizer.special_tokens[opening]
    # What a person says is text, whatever it looks like.
    said = TALK[-1]["content"].count(STOPS[name])
    assert wanted.ids.count(form.stop_tokens[0]) == wanted.text.count(STOPS[name]) - said


def test_a_profile_of_a_run() -> None:
    mine = Profile(
        "mine",
        ("<u>", "<a>", "<e>"),
        {"user": Role("<u>", "\n"), "assistant": Role("<a>", " .<e>", trained=True)},
    )
    tokenizer = prepare_tokenizer(small_tokenizer(), mine)
    stated = chat_format(tokenizer, json.loads(json.dumps(mine.as_json())))
    assert stated.profile == mine
    assert stated.stop_tokens == (tokenizer.special_tokens["<e>"],)
    # Without it, the template says the same.
    alone = chat_format(tokenizer)
    assert alone.profile is None
    assert alone.stop_tokens == stated.stop_tokens
    assert alone.prompt_ids(TALK) == stated.prompt_ids(TALK)
    # One that the tokenizer was not made ready for does not count.
    other = chat_format(chat_tokenizer(), mine.as_json())
    assert other.profile is PROFILES["chat"]


def test_a_template_of_others() -> None:
    tokenizer = with_template(CHATML)
    form = chat_format(tokenizer)
    assert form.profile is None
    text = "<|im_start|>user\nthe cat<|im_end|>\n<|im_start|>assistant\n"
    assert form.prompt_ids(TALK[:1]) == tokenizer.encode(text, allowed_special="all")
    assert form.stop_tokens == (tokenizer.special_tokens[EOS],), "nothing else is said to end"


@pytest.mark.parametrize(
    ("trained", "stop"),
    [
        ("{{ m.content }}<|im_end|>", "<|im_end|>"),
        ("{{ m.content }}<|im_end|>\n", "<|im_end|>"),
        ("{{ m.content }}\n<|im_end|>\n<|endoftext|>", "<|im_end|>"),
        ("<|im_start|>{{ m.content }}", EOS),
        ("<|im_start|>{{ m.content }}<|im_end|>\n", "<|im_end|>"),
        ("{{ m.content }}\n", EOS),
    ],
)
def test_an_answer_ends_with_the_first_special_token_that_is_trained_behind_it(
    trained: str, stop: str
) -> None:
    tokenizer = with_template(marked(trained))
    assert chat_format(tokenizer).stop_tokens == (tokenizer.special_tokens[stop],)


def test_nobody_says_when_to_stop() -> None:
    tokenizer = small_tokenizer(special_tokens=("<|x|>",)).with_chat_template(
        "{% for m in messages %}{{ m.content }}{% endfor %}"
    )
    assert chat_format(tokenizer).stop_tokens == ()


def test_roles_that_are_not_there() -> None:
    tool = [say("tool", "x")]
    for form in (chat_format(chat_tokenizer()), chat_format(with_template(CHATML))):
        with pytest.raises(SourceError, match="no role `tool`"):
            form.prompt_ids(tool)
    refusing = CHATML.replace(
        HEAD, HEAD + "{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    )
    with pytest.raises(SourceError, match="no system"):
        chat_format(with_template(refusing)).prompt_ids([say("system", "x"), *TALK])


def test_no_template() -> None:
    with pytest.raises(ConfigError, match="no chat template") as caught:
        chat_format(small_tokenizer())
    assert caught.value.hint is not None
    assert "lm sft" in caught.value.hint
    assert "lm generate" in caught.value.hint


def test_tokens_of_a_profile_alone_are_no_template() -> None:
    tokenizer = small_tokenizer(special_tokens=(EOS, *PROFILES["chat"].special_tokens))
    with pytest.raises(ConfigError, match="no chat template"):
        chat_format(tokenizer)
    made = chat_format(tokenizer.with_chat_template(chat_tokenizer().chat_template or ""))
    assert made == ChatFormat(made.tokenizer, PROFILES["chat"], made.stop_tokens)
