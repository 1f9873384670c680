"""Rows of conversations whose lengths are drawn from a log-normal: ids of a text in, JSON lines out, the same for the same seed.

Real answers are like that: most are short, a few are very long. What is said is text of the corpus, cut to length.
"""

import json
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

Decode = Callable[[Sequence[int]], str]
MARKUP = "<|"
"""Nothing that looks like a special token: TRL's tokenizer would make one of it."""


@dataclass(frozen=True)
class Lengths:
    """exp of a normal distribution, drawn again where it is not between `least` and `most`."""

    median: float
    sigma: float
    least: int
    most: int

    def draw(self, chance: random.Random) -> int:
        while True:
            found = round(math.exp(chance.gauss(math.log(self.median), self.sigma)))
            if self.least <= found <= self.most:
                return found

    def __str__(self) -> str:
        return (
            f"log-normal, median {self.median:g}, σ {self.sigma:g}, {self.least} to {self.most:,}"
        )


class Speaker:
    """Says something of a given length, going on through the ids of a text."""

    def __init__(self, ids: Sequence[int], decode: Decode) -> None:
        self._ids, self._decode, self._at = ids, decode, 0

    def say(self, num_tokens: int) -> str:
        while True:
            if self._at + num_tokens > len(self._ids):
                self._at = 0
            text = self._decode(self._ids[self._at : self._at + num_tokens])
            self._at += num_tokens
            if MARKUP not in text and text.strip():
                return text


def write_conversations(
    path: Path, count: int, lengths: Lengths, speaker: Speaker, seed: int
) -> None:
    """A question of a third of the tokens, an answer of the rest."""
    chance = random.Random(seed)
    with path.open("w", encoding="utf-8") as file:
        for _ in range(count):
            total = lengths.draw(chance)
            asked, said = (speaker.say(part) for part in (total - total * 2 // 3, total * 2 // 3))
            messages = [_turn("user", asked), _turn("assistant", said)]
            file.write(json.dumps({"messages": messages}) + "\n")


def write_pairs(path: Path, count: int, lengths: Lengths, speaker: Speaker, seed: int) -> None:
    """The same with two answers, each of a length of its own behind the same question."""
    chance = random.Random(seed)
    with path.open("w", encoding="utf-8") as file:
        for _ in range(count):
            one, other = lengths.draw(chance), lengths.draw(chance)
            asked = min(one, other) // 3
            prompt = [_turn("user", speaker.say(asked))]
            chosen, rejected = (
                [_turn("assistant", speaker.say(total - asked))] for total in (one, other)
            )
            row = {"prompt": prompt, "chosen": chosen, "rejected": rejected}
            file.write(json.dumps(row) + "\n")


def _turn(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}
