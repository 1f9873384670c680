"""A conversation: what was said before is in mind as far as it fits, and an answer that was stopped counts."""

from typing import Any

import pytest
import torch
from make_conversations import chat_tokenizer, say, scripted_model
from make_dataset import EOS
from make_model import small_model

import tokenmill as tm
from tokenmill.chat import render
from tokenmill.errors import ConfigError, FormatError
from tokenmill.lm.chat_format import chat_format
from tokenmill.lm.chat_session import CHANGEABLE, LEAST_ANSWER, ChatSession
from tokenmill.lm.generate import generate
from tokenmill.lm.generate_settings import GenerateSettings
from tokenmill.lm.model import Model

TOKENIZER = chat_tokenizer()
END = TOKENIZER.special_tokens["<|end|>"]
GREEDY = GenerateSettings(max_tokens=8, temperature=0.0)


def talker(context: int = 256) -> Model:
    """Its answers depend on everything that was said, and never end by themselves."""
    model = small_model(vocab_size=TOKENIZER.vocab_size, context=context)
    with torch.no_grad():
        for token in TOKENIZER.special_tokens.values():
            model.lm_head.weight[token] = 0.0
    return model


def session(model: Model, settings: GenerateSettings = GREEDY, **more: Any) -> ChatSession:
    return ChatSession(model, chat_format(TOKENIZER), settings, **more)


def prompt(*messages: dict[str, str]) -> list[int]:
    return render(TOKENIZER, "chat", messages, add_generation_prompt=True).ids


def alone(model: Model, *messages: dict[str, str], **changes: Any) -> list[int]:
    """What `generate` makes of the same conversation."""
    how: dict[str, Any] = {"max_tokens": 8, "temperature": 0.0, "stop_tokens": [END], **changes}
    return generate(model, TOKENIZER, [prompt(*messages)], **how)[0].ids


@pytest.mark.parametrize("system", [None, "a cat"])
def test_answers_are_those_to_the_whole_conversation(system: str | None) -> None:
    model = talker()
    talk = session(model, system=system)
    said = [] if system is None else [say("system", system)]
    answers: list[list[int]] = []
    for text in ("the cat", "sat <|end|> on", "the cat"):
        said.append(say("user", text))
        reply = talk.answer(text)
        assert reply.ids == alone(model, *said)
        assert (reply.ended_by, reply.forgotten) == ("max_tokens", 0)
        assert reply.text == TOKENIZER.decode(reply.ids)
        said.append(say("assistant", reply.text))
        answers.append(reply.ids)
    assert answers[0] != answers[2], "the same question, after others"
    assert [*talk._system_turn(), *talk.turns] == said
    talk.reset()
    assert talk.answer("the cat").ids == answers[0]


def test_draws_are_those_of_generate() -> None:
    model = talker()
    how: dict[str, Any] = {"temperature": 1.3, "top_k": 40, "top_p": 0.9, "seed": 7}
    reply = session(model, GenerateSettings(max_tokens=8, **how)).answer("the cat")
    assert reply.ids == alone(model, say("user", "the cat"), **how)


def test_an_answer_stops_where_answers_were_trained_to_end() -> None:
    model = scripted_model(TOKENIZER, "<|assistant|>on the mat<|end|>")
    heard: list[str] = []
    reply = session(model).answer("x", heard.append)
    assert (reply.text, reply.ended_by) == ("on the mat", END)
    assert reply.ids == TOKENIZER.encode("on the mat")
    assert "".join(heard) == reply.text
    # Whatever stops were asked for: those of the format are the ones.
    other = GenerateSettings(max_tokens=8, temperature=0.0, stop_tokens=(EOS,))
    assert session(model, other).answer("x").text == "on the mat"


def test_an_answer_never_pushes_its_question_out() -> None:
    model = talker(context=64)
    talk = session(model, GenerateSettings(max_tokens=500, temperature=0.0))
    reply = talk.answer("the cat")
    assert len(reply.ids) == 64 - len(prompt(say("user", "the cat")))
    assert reply.ended_by == "max_tokens"


def test_the_oldest_turns_are_forgotten_two_at_a_time() -> None:
    """As many as must be, so that an answer still has room; the system prompt stays."""
    model = talker(context=80)
    talk = session(model, system="a cat")
    forgotten: list[int] = []
    for number in range(12):
        said = [*talk.turns, say("user", "the cat sat")]
        reply = talk.answer("the cat sat")
        kept = said[reply.forgotten :]
        forgotten.append(reply.forgotten)
        assert reply.forgotten % 2 == 0
        assert kept[0]["role"] == "user"
        ids = prompt(say("system", "a cat"), *kept)
        # 8 tokens are the longest answer, which is less than LEAST_ANSWER.
        assert len(ids) + 8 <= 80, number
        if reply.forgotten:
            longer = prompt(say("system", "a cat"), *said[reply.forgotten - 2 :])
            assert len(longer) + 8 > 80, "and no more than that"
        assert reply.ids == alone(model, say("system", "a cat"), *kept)
        assert talk.turns == [*kept, say("assistant", reply.text)]
    assert forgotten[:3] == [0, 0, 0]
    assert 2 in forgotten
    assert len(reply.ids) == 8


def test_an_answer_is_left_some_room_but_not_more_than_half() -> None:
    text = "x" * 20
    needs = len(prompt(say("user", text)))
    settings = GenerateSettings(max_tokens=200, temperature=0.0)
    exact = session(talker(context=needs + LEAST_ANSWER), settings)
    assert len(exact.answer(text).ids) == LEAST_ANSWER
    with pytest.raises(ConfigError) as caught:
        session(talker(context=needs + LEAST_ANSWER - 1), settings).answer(text)
    assert caught.value.message == (
        f"the message has {needs} tokens, and the model sees {needs + 15} at once, 16 of them for its answer"
    )
    short = session(talker(context=10), settings)
    assert len(short.answer("x").ids) == 10 - len(prompt(say("user", "x")))
    with pytest.raises(ConfigError, match="sees 10 at once, 5 of them for its answer"):
        short.answer(text)


def test_a_message_that_is_too_long_is_as_if_it_had_not_been_said() -> None:
    talk = session(talker(context=64))
    talk.answer("the cat")
    before = talk.turns
    needs = len(prompt(say("user", "x" * 1500)))
    with pytest.raises(ConfigError) as caught:
        talk.answer("x" * 1500)
    assert f"the message has {needs:,} tokens, and the model sees 64 at once" in str(caught.value)
    assert caught.value.hint == "say it in fewer words"
    assert talk.turns == before
    assert talk.answer("the cat").forgotten == 0


def test_an_answer_that_is_stopped_counts_as_far_as_it_came() -> None:
    model = talker()
    whole = session(model).answer("the cat").text
    talk = session(model)
    heard: list[str] = []

    def enough(part: str) -> None:
        heard.append(part)
        if len(heard) == 3:
            raise KeyboardInterrupt

    reply = talk.answer("the cat", enough)
    assert (reply.ended_by, reply.text, reply.ids) == ("stopped", "".join(heard), [])
    assert whole.startswith(reply.text)
    assert 0 < len(reply.text) < len(whole)
    assert talk.turns == [say("user", "the cat"), say("assistant", reply.text)]
    assert talk.answer("on").ids == alone(model, *talk.turns[:2], say("user", "on"))


def test_a_model_that_fails_leaves_the_conversation_as_it_was() -> None:
    model = talker()
    talk = session(model)
    talk.answer("the cat")
    before = talk.turns
    with torch.no_grad():
        model.lm_head.weight[3] = torch.nan
    with pytest.raises(FormatError, match="no numbers"):
        talk.answer("on")
    assert talk.turns == before


def test_answers_drawn_otherwise() -> None:
    talk = session(talker())
    assert tuple(talk.parameters) == CHANGEABLE
    for name, value in (("max_tokens", 3), ("top_k", 5), ("top_p", 0.5), ("seed", 9)):
        talk.change(name, value)
        assert talk.parameters[name] == value
    talk.change("temperature", 2)
    assert talk.parameters["temperature"] == 2.0
    assert len(talk.answer("the cat").ids) == 3
    talk.change("top_k", "none")
    assert talk.parameters["top_k"] is None
    assert talk.settings.stop_tokens == (END,)
    talk.change("max_tokens", 0)
    assert talk.answer("the cat").text == ""


@pytest.mark.parametrize(
    ("name", "value", "message", "hint"),
    [
        ("temprature", 1, "`temprature` is nothing to change here", "did you mean `temperature`?"),
        (
            "stop_tokens",
            [],
            "`stop_tokens` is nothing to change here",
            "did you mean `max_tokens`?",
        ),
        ("zz", 1, "`zz` is nothing to change here", f"there are {', '.join(CHANGEABLE)}"),
        ("temperature", -1, "temperature -1.0 is not 0 or above", None),
        ("temperature", float("nan"), "temperature nan is not 0 or above", None),
        ("temperature", "hot", "`temperature` must be a number, found `'hot'`", None),
        ("top_k", 0, "top_k 0 is below 1", None),
        ("top_k", 2.5, "`top_k` must be a whole number or `none`, found `2.5`", None),
        ("top_p", 1.5, "top_p 1.5 is not above 0 and at most 1", None),
        ("max_tokens", -1, "max_tokens -1 is below 0", None),
        ("seed", "none", "`seed` must be a whole number, found `'none'`", None),
    ],
)
def test_what_cannot_be_changed(name: str, value: Any, message: str, hint: str | None) -> None:
    talk = session(talker())
    before = talk.parameters
    with pytest.raises(ConfigError) as caught:
        talk.change(name, value)
    assert (caught.value.message, caught.value.hint) == (message, hint)
    assert talk.parameters == before


def test_a_tokenizer_says_itself_what_its_conversations_look_like() -> None:
    """The same words by another template are another prompt."""
    tokenizer: tm.Tokenizer = chat_tokenizer("nanochat")
    model = small_model(vocab_size=tokenizer.vocab_size, context=64)
    talk = ChatSession(model, chat_format(tokenizer), GREEDY, "a cat")
    reply = talk.answer("on")
    ids = render(
        tokenizer, "nanochat", [say("user", "a cat\n\non")], add_generation_prompt=True
    ).ids
    end = tokenizer.special_tokens["<|assistant_end|>"]
    (wanted,) = generate(model, tokenizer, [ids], max_tokens=8, temperature=0.0, stop_tokens=[end])
    assert reply.ids == wanted.ids
