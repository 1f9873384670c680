"""Questions about the small world: told by their passages, one of eight, and none that is held out is ever learned from."""

import json
import re
from itertools import chain, islice

import pytest

from tokenmill.errors import ConfigError
from tokenmill.lm.small_world import stories
from tokenmill.lm.small_world_questions import (
    CHANCE,
    KINDS,
    Question,
    as_line,
    preference_rows,
    question_rows,
    questions,
    sft_rows,
)

LEARNED = list(questions(1, 3000))
HELD_OUT = list(questions(1, 3000, held_out=True))

# What a passage says, read off its text: the words of the world are not asked.
PASSAGES = [
    re.compile(each)
    for each in (
        r".+?, (?P<hero>\w+) took \w+ (?P<color>\w+) (?P<thing>\w+) to the \w+ (?P<place>\w+)\.",
        r".+?, (?P<hero>\w+) went to the \w+ (?P<place>\w+) with \w+ (?P<color>\w+) (?P<thing>\w+)\.",
        r"(?P<hero>\w+) was \w+ and wished for an? (?P<color>\w+) (?P<toy>\w+)\.",
        r".+?, (?P<hero>\w+) saw an? (?P<color>\w+) (?P<toy>\w+) and wanted it\.",
        r".+?, (?P<hero>\w+) was (?:walking \w+ home from|at) the \w+ (?P<place>\w+)(?:, [\w ]+)?\. "
        r"(?:There was|He saw|She saw) an? \w+ (?P<animal>\w+) [\w ]+\.",
        r".+?, (?P<hero>\w+) and (?P<friend>\w+) walked \w+ to the \w+ (?P<place>\w+)\.",
        r".+?, (?P<hero>\w+) met (?P<friend>\w+) at the \w+ (?P<place>\w+) and \w+\.",
    )
]
ASKED = {
    r"Where was (?P<hero>\w+)\?": "place",
    r"What color (?:was|were) the (?P<thing>ball|kite|drum|hat|doll|boots|mittens|marbles)\?": "color",
    r"What color was the (?P<toy>train|robot|boat|violin|clock|tent|puppet|sled)\?": "color",
    r"What did (?P<hero>\w+) have\?": "thing",
    r"What did (?P<hero>\w+) want\?": "toy",
    r"Which animal was there\?": "animal",
    r"Who was with (?P<hero>\w+)\?": "friend",
}
PAIRS = (
    *(("hero", kind) for kind in ("place", "thing", "toy", "animal", "friend")),
    *(("thing", "color"), ("toy", "color")),
)
Fact = tuple[str, str, str, str]


def told(passage: str) -> dict[str, str]:
    (found,) = [match for each in PASSAGES if (match := each.fullmatch(passage))]
    return found.groupdict()


def facts(passage: str) -> set[Fact]:
    words = told(passage)
    return {(a, words[a], b, words[b]) for a, b in PAIRS if a in words and b in words}


def asked(question: Question) -> tuple[str, str]:
    """What is asked for, and of which kind of word."""
    found = ((re.fullmatch(each, question.text), kind) for each, kind in ASKED.items())
    ((match, kind),) = [(match, kind) for match, kind in found if match]
    (of,) = match.groupdict() or ("hero",)
    words = told(question.passage)
    assert match.groupdict().get(of, words[of]) == words[of]
    return of, kind


def fact_of(question: Question) -> Fact:
    of, kind = asked(question)
    return of, told(question.passage)[of], kind, question.right


def passage_of(prompt: str) -> str:
    """All but the question, which is the last sentence."""
    return prompt[: prompt.rindex(". ") + 1]


def test_questions_depend_on_seed_and_number_alone() -> None:
    assert list(questions(1, 3000)) == LEARNED
    assert list(questions(1, 20)) == LEARNED[:20]
    assert list(questions(2, 20)) != LEARNED[:20]
    assert list(questions(1, 20, start=1000)) != LEARNED[:20]
    assert set(questions(1, 20, start=1000)) < set(LEARNED)
    assert list(questions(1, 0)) == []
    assert LEARNED[0].prompt == (
        "On Thursday, Mia took her white drum to the busy meadow. What color was the drum?"
    )
    with pytest.raises(ConfigError, match="count -1 is below 0"):
        next(questions(1, -1))
    with pytest.raises(ConfigError, match="start -1 is below 0"):
        next(questions(1, 1, -1))


@pytest.mark.parametrize("some", [LEARNED, HELD_OUT], ids=["learned", "held out"])
def test_the_passage_tells_the_answer(some: list[Question]) -> None:
    for each in some:
        words = told(each.passage)
        _, kind = asked(each)
        assert each.right == words[kind]
        assert each.wrong != words[kind]
        assert each.prompt == f"{each.passage} {each.text}"
        assert each.answers == (f"The answer is {each.right}.", f"I guess {each.right}.")


def test_every_kind_occurs_with_eight_answers_all_about_as_often() -> None:
    seen: dict[tuple[frozenset[str], str, str], list[Question]] = {}
    for each in LEARNED:
        seen.setdefault((frozenset(told(each.passage)), *asked(each)), []).append(each)
    assert len(seen) == len(KINDS)
    assert CHANCE == 1 / 8
    for some in seen.values():
        right = [each.right for each in some]
        assert len(set(right)) == len({each.wrong for each in some}) == 8
        assert {each.wrong for each in some} == set(right)
        assert max(right.count(word) for word in set(right)) < 0.3 * len(right)


def test_several_things_are_asked_about_in_the_plural() -> None:
    colors = [each.text for each in (*LEARNED, *HELD_OUT) if each.text.startswith("What color")]
    plural = {text for text in colors if " were " in text}
    assert plural == {f"What color were the {thing}?" for thing in ("boots", "mittens", "marbles")}
    assert not any(text.endswith(("s?",)) for text in set(colors) - plural)


def test_passages_are_how_stories_begin() -> None:
    """In the order of the stories, none of which is asked about twice."""
    for some in (LEARNED[:500], HELD_OUT[:500]):
        rest = stories(1, 10_000)
        assert all(any(text.startswith(f"{each.passage} ") for text in rest) for each in some)


def test_nothing_that_is_held_out_is_learned_from() -> None:
    secret = {fact_of(each) for each in HELD_OUT}
    # A fifth of 7 kinds of facts, 8 times 8 of each; the number is what this world's seed makes of it.
    assert 0.15 < len(secret) / (7 * 64) < 0.25
    assert {(of, kind) for of, _, kind, _ in secret} == set(PAIRS)
    chats = (passage_of(row["messages"][0]["content"]) for row in sft_rows(1, 3000))
    pairs = (passage_of(row["prompt"]) for row in preference_rows(1, 3000, start=5000))
    open_facts = set[Fact]()
    for passage in chain(chats, pairs):
        open_facts |= facts(passage)
    assert not open_facts & secret
    assert len(open_facts | secret) == 7 * 64, "each fact is on one side or the other"


def test_every_held_out_row_asks_for_what_nobody_learned() -> None:
    known = set[Fact]().union(*(facts(each.passage) for each in LEARNED))
    assert not {fact_of(each) for each in HELD_OUT} & known
    for row, each in zip(question_rows(1, 50), HELD_OUT, strict=False):
        assert row == {"prompt": each.prompt, "answers": list(each.answers)}
    for pair, each in zip(preference_rows(1, 50, held_out=True), HELD_OUT, strict=False):
        assert pair["prompt"] == each.prompt


def test_two_of_five_answers_are_sure_and_all_are_right() -> None:
    rows = list(sft_rows(1, 3000))
    said = [row["messages"][1]["content"] for row in rows]
    assert [row["messages"][0]["content"] for row in rows] == [each.prompt for each in LEARNED]
    assert all(text in each.answers for text, each in zip(said, LEARNED, strict=True))
    assert sum(text.startswith("The") for text in said) / 3000 == pytest.approx(0.4, abs=0.03)
    assert {message["role"] for message in rows[0]["messages"]} == {"user", "assistant"}


def test_pairs_prefer_to_be_sure_over_a_mistake_and_a_guess_in_turn() -> None:
    rows = list(preference_rows(1, 200))
    for number, (row, each) in enumerate(zip(rows, LEARNED, strict=False)):
        assert row["prompt"] == each.prompt
        assert row["chosen"] == f"The answer is {each.right}."
        worse = f"I guess {each.right}." if number % 2 else f"The answer is {each.wrong}."
        assert row["rejected"] == worse


def test_a_row_is_a_line_of_json() -> None:
    for row in chain(islice(sft_rows(1, 3), 3), question_rows(1, 3)):
        line = as_line(row)
        assert line.count("\n") == 1
        assert json.loads(line) == row
