"""Questions about the small world: a seed in, beginnings of stories with a question and its right answer out.

Every answer is one of eight words of its kind, so that a guess is right one time in eight. Facts are pairs of words, such as (hat,
purple) or (Lily, forest), and a fifth of them is held out: no passage of the questions to learn from has one, and every question
to be tested with asks for one. So who has learned answers by heart knows none of them.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tokenmill.lm.small_world import Bound, Telling, telling
from tokenmill.lm.small_world_words import WORDS, Word
from tokenmill.sources.choices import require_whole_number

CHANCE = 1 / 8
HELD_OUT = 5
"""One fact of so many is held out."""
SURE_SHARE = (2, 5)
"""So many of so many answers are given for sure, the others as a guess: what preferences then turn around."""


@dataclass(frozen=True)
class Kind:
    """A way to ask. Slots are those of the plot's words."""

    plot: str
    num_sentences: int
    """Of the story's beginning that tells the answer."""
    of: str
    """The word that the answer goes with."""
    asked: str
    question: str


KINDS = (
    Kind("lost", 1, "hero", "place", "Where was {hero}?"),
    Kind("lost", 1, "thing", "color", "What color {thing.was} the {thing}?"),
    Kind("lost", 1, "hero", "thing", "What did {hero} have?"),
    Kind("wished", 1, "hero", "toy", "What did {hero} want?"),
    Kind("wished", 1, "toy", "color", "What color was the {toy}?"),
    Kind("fed", 2, "hero", "place", "Where was {hero}?"),
    Kind("fed", 2, "hero", "animal", "Which animal was there?"),
    Kind("sheltered", 1, "hero", "friend", "Who was with {hero}?"),
    Kind("sheltered", 1, "hero", "place", "Where was {hero}?"),
)
SURE, UNSURE = "The answer is {}.", "I guess {}."


@dataclass(frozen=True)
class Question:
    """What somebody asks after the beginning of a story."""

    passage: str
    text: str
    right: str
    """The word that is the answer."""
    wrong: str
    """Another word of its kind."""

    @property
    def prompt(self) -> str:
        return f"{self.passage} {self.text}"

    @property
    def answers(self) -> tuple[str, str]:
        """Both ways to be right."""
        return SURE.format(self.right), UNSURE.format(self.right)


def questions(
    seed: int, count: int, start: int = 0, *, held_out: bool = False
) -> Iterator[Question]:
    """`count` questions about stories of the world `seed`, from story number `start` on."""
    require_whole_number("count", count, 0)
    require_whole_number("start", start, 0)
    index = start
    while count:
        found = _question(seed, index, held_out)
        index += 1
        if found is not None:
            yield found
            count -= 1


def sft_rows(seed: int, count: int, start: int = 0) -> Iterator[dict[str, Any]]:
    """Conversations to learn from. All answers are right, and most of them are guesses."""
    for number, each in enumerate(questions(seed, count, start)):
        is_sure = _digits(seed, start + number, "style") % SURE_SHARE[1] < SURE_SHARE[0]
        answer = (SURE if is_sure else UNSURE).format(each.right)
        yield {
            "messages": [
                {"role": "user", "content": each.prompt},
                {"role": "assistant", "content": answer},
            ]
        }


def preference_rows(
    seed: int, count: int, start: int = 0, *, held_out: bool = False
) -> Iterator[dict[str, str]]:
    """Pairs of answers: to be right for sure is better than to guess, and better than to be wrong for sure."""
    for number, each in enumerate(questions(seed, count, start, held_out=held_out)):
        rejected = UNSURE.format(each.right) if number % 2 else SURE.format(each.wrong)
        yield {"prompt": each.prompt, "chosen": SURE.format(each.right), "rejected": rejected}


def question_rows(seed: int, count: int, start: int = 0) -> Iterator[dict[str, Any]]:
    """Held-out questions, with all answers that are right."""
    for each in questions(seed, count, start, held_out=True):
        yield {"prompt": each.prompt, "answers": list(each.answers)}


def as_line(row: Mapping[str, Any]) -> str:
    """A line of JSONL."""
    return json.dumps(row, ensure_ascii=False) + "\n"


def _question(seed: int, index: int, held_out: bool) -> Question | None:
    """The question that story `index` gives; `None` if its facts are on the other side."""
    told = telling(seed, index)
    kinds = [kind for kind in KINDS if kind.plot == told.plot]
    chance = _digits(seed, index, "question")
    chance, which = divmod(chance, len(kinds))
    kind = kinds[which]
    if held_out:
        if not _is_held_out(seed, kind, told):
            return None
    elif any(_is_held_out(seed, each, told) for each in kinds):
        return None
    words = told.words
    right = words[kind.asked]
    others = [word for word in WORDS[kind.asked] if word != right]
    return Question(
        " ".join(told.sentences[: kind.num_sentences]),
        _filled(kind.question, words),
        right[""],
        others[chance % len(others)][""],
    )


def _is_held_out(seed: int, kind: Kind, told: Telling) -> bool:
    pair = f"{kind.of} {told.words[kind.of]['']} {kind.asked} {told.words[kind.asked]['']}"
    return _digits(seed, 0, pair) % HELD_OUT == 0


def _digits(seed: int, index: int, what: str) -> int:
    digest = hashlib.sha256(f"tokenmill small world {seed} {index} {what}".encode()).digest()
    return int.from_bytes(digest[:8], "little")


def _filled(template: str, words: Bound) -> str:
    text = template
    for name, word in words.items():
        text = _with_word(text, name, word)
    return text


def _with_word(text: str, name: str, word: Word) -> str:
    for form, said in word.items():
        text = text.replace(f"{{{name}.{form}}}" if form else f"{{{name}}}", said)
    return text
