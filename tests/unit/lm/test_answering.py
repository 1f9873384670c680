"""Questions with exact answers: files that are none say so, answers are equal or not, and batches do not matter."""

import json
from pathlib import Path

import pytest
from make_conversations import chat_tokenizer, say, scripted_model
from make_dataset import small_tokenizer
from make_model import small_model

from tokenmill.chat import render
from tokenmill.errors import ConfigError, SourceError
from tokenmill.lm import answering
from tokenmill.lm.answering import A_LINE, Answered, Question, ask, read_questions, share_right
from tokenmill.lm.generate import generate
from tokenmill.progress import Meter, Snapshot

GOOD = '{"prompt": "the cat", "answers": ["sat"]}'
CHAT = chat_tokenizer()
END = CHAT.special_tokens["<|end|>"]


def write(folder: Path, *lines: str) -> Path:
    file = folder / "questions.jsonl"
    file.write_text("".join(f"{line}\n" for line in lines))
    return file


def question(text: str, *answers: str) -> Question:
    return Question((say("user", text),), answers)


# Files


def test_every_form_of_a_question(tmp_path: Path) -> None:
    talk = [say("system", "be kind"), say("user", "a"), say("assistant", "b"), say("user", "c")]
    file = write(
        tmp_path,
        GOOD,
        '{"prompt": "x", "answer": "y", "id": 7}',
        "",
        "   ",
        json.dumps({"messages": talk, "answers": ["d", "e"]}),
    )
    found = read_questions(file)
    assert found == [
        question("the cat", "sat"),
        question("x", "y"),
        Question(tuple(talk), ("d", "e")),
    ]
    assert found[2].text == "be kind\na\nb\nc"
    assert read_questions(str(file)) == found


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    """JSON may have any other as it is, as `json.dumps(…, ensure_ascii=False)` writes it."""
    texts = ["a\u2028b", "a\x85b", "a\u2029b", "a\x7fb"]
    rows = [json.dumps({"prompt": text, "answer": text}, ensure_ascii=False) for text in texts]
    file = tmp_path / "questions.jsonl"
    file.write_bytes("\r\n".join(rows).encode())
    assert [each.text for each in read_questions(file)] == texts


ANSWERS = 'give `"answer": "…"` or `"answers": ["…", …]`'
PROMPTS = 'give `"prompt": "…"` or `"messages": [{"role": …, "content": …}]`'


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ('{"prompt": "x"', "is not JSON: Expecting", A_LINE),
        ("[" * 100_000, "is not JSON", A_LINE),
        ("the cat", "is not JSON", A_LINE),
        ('["the cat", "sat"]', "is not an object", A_LINE),
        ('{"prompt": "x"}', "has no right answer", ANSWERS),
        ('{"prompt": "x", "answers": []}', "has no right answer", ANSWERS),
        ('{"prompt": "x", "answers": "sat"}', "has no right answer", ANSWERS),
        ('{"prompt": "x", "answers": ["sat", 3]}', "has no right answer", ANSWERS),
        ('{"prompt": "x", "answer": " "}', "has no right answer", ANSWERS),
        ('{"prompt": "x", "answer": null}', "has no right answer", ANSWERS),
        ('{"answer": "sat"}', "asks nothing", PROMPTS),
        ('{"prompt": "", "answer": "sat"}', "asks nothing", PROMPTS),
        ('{"prompt": 3, "answer": "sat"}', "asks nothing", PROMPTS),
        ('{"messages": [], "answer": "sat"}', "asks nothing", PROMPTS),
        ('{"messages": "x", "answer": "sat"}', "asks nothing", PROMPTS),
        ('{"messages": ["x"], "answer": "sat"}', "asks nothing", PROMPTS),
        ('{"messages": [{"content": "x"}], "answer": "sat"}', "asks nothing", PROMPTS),
        ('{"messages": [{"role": "user"}], "answer": "sat"}', "asks nothing", PROMPTS),
    ],
)
def test_a_line_that_is_no_question(tmp_path: Path, line: str, message: str, hint: str) -> None:
    file = write(tmp_path, GOOD, "", line, GOOD)
    with pytest.raises(SourceError) as caught:
        read_questions(file)
    assert caught.value.message.startswith(f"`{file}`, line 3 {message}")
    assert caught.value.hint == hint


def test_a_file_that_is_not_utf_8(tmp_path: Path) -> None:
    file = tmp_path / "questions.jsonl"
    file.write_bytes(f"{GOOD}\n".encode() + b'{"prompt": "caf\xe9", "answer": "x"}\n')
    with pytest.raises(SourceError) as caught:
        read_questions(file)
    assert caught.value.message == f"`{file}`, line 2 is not UTF-8: bad byte at 15"
    assert caught.value.hint == "save it as UTF-8"


@pytest.mark.parametrize("text", ["", "\n \n"])
def test_a_file_without_questions(tmp_path: Path, text: str) -> None:
    with pytest.raises(SourceError) as caught:
        read_questions(write(tmp_path, text))
    assert "has no questions" in caught.value.message
    assert caught.value.hint == A_LINE


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"none\.jsonl"):
        read_questions(tmp_path / "none.jsonl")
    with pytest.raises(SourceError, match=tmp_path.name):
        read_questions(tmp_path)


# Answers


def test_a_model_that_talks_must_say_exactly_that() -> None:
    model = scripted_model(CHAT, "<|assistant|>on the mat<|end|>")
    for answers, is_right in (
        (["on the mat"], True),
        ([" on the mat\n"], True),
        (["no", "on the mat"], True),
        (["on the"], False),
        (["on the mat."], False),
        (["On the mat"], False),
    ):
        (found,) = ask(model, CHAT, [question("x", *answers)])
        assert (found.text, found.is_right) == ("on the mat", is_right)
        assert found.as_json() == {
            "prompt": "x",
            "answer": "on the mat",
            "answers": answers,
            "right": is_right,
        }
    (cut,) = ask(model, CHAT, [question("x", "on the mat")], max_tokens=2)
    assert not cut.is_right


def test_a_model_that_does_not_talk_must_begin_with_it() -> None:
    tokenizer = small_tokenizer()
    model = scripted_model(tokenizer, "xon the mat<|endoftext|>")
    for answers, is_right in ((["on the"], True), (["no", " on"], True), (["the"], False)):
        (found,) = ask(model, tokenizer, [question("x", *answers)])
        assert (found.text, found.is_right) == ("on the mat", is_right)
    system = Question((say("system", "the"), say("user", "x")), ("on",))
    assert ask(model, tokenizer, [system])[0].is_right


def test_a_conversation_is_asked_as_it_is() -> None:
    model = small_model(vocab_size=CHAT.vocab_size, context=64)
    talk = (say("system", "a"), say("user", "x"), say("assistant", "y"), say("user", "the cat"))
    (found,) = ask(model, CHAT, [Question(talk, ("z",))], max_tokens=6)
    ids = render(CHAT, "chat", talk, add_generation_prompt=True).ids
    (wanted,) = generate(model, CHAT, [ids], max_tokens=6, temperature=0, stop_tokens=[END])
    assert found.text == wanted.text.strip()


@pytest.mark.parametrize("has_template", [True, False])
def test_batches_do_not_matter(has_template: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = CHAT if has_template else small_tokenizer()
    model = small_model(vocab_size=tokenizer.vocab_size, context=64)
    asked = [question("the cat " * (1 + number % 5), "sat") for number in range(7)]
    told: list[Snapshot] = []
    found: dict[int, list[Answered]] = {}
    for size in (1, 3, 100):
        told.clear()
        monkeypatch.setattr(answering, "AT_ONCE", size)
        found[size] = ask(model, tokenizer, asked, max_tokens=8, meter=Meter(told.append))
        assert len(told) == -(-7 // size)
        assert (told[-1].done, told[-1].fraction) == (7, 1.0)
    assert found[1] == found[3] == found[100]
    assert [each.question for each in found[3]] == asked
    assert len({each.text for each in found[3]}) > 1


def test_how_many_are_right() -> None:
    right, wrong = (Answered(question("x", "y"), "y", is_right) for is_right in (True, False))
    assert share_right([right, wrong, wrong, wrong]) == 0.25
    assert ask(small_model(), small_tokenizer(), []) == []
    with pytest.raises(ConfigError, match="no questions"):
        share_right([])
