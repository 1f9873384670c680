"""The small world: stories by number, a proof that a text tells how it was made, exact measures, and what is no story."""

import itertools
import math
import random
import re
import subprocess
import sys

import pytest

from tokenmill.errors import ConfigError
from tokenmill.lm import small_world
from tokenmill.lm.small_world import (
    GRAMMAR,
    Slot,
    Template,
    accepts,
    bits_of,
    derivations,
    entropy_bits_per_byte,
    entropy_bits_per_story,
    is_sentence,
    mean_bytes_per_story,
    split_sentences,
    stories,
    story,
)
from tokenmill.lm.small_world_words import BELONGS, WORDS

SOME = list(stories(1, 1000))
TEMPLATES = [template for plot in GRAMMAR for row in plot for template in row]
SLOTS = [part for template in TEMPLATES for part in template if isinstance(part, Slot)]


def test_a_story_depends_on_seed_and_number_alone() -> None:
    assert list(stories(1, 3, start=500)) == SOME[500:503]
    assert story(1, 7) == SOME[7]
    assert len(set(SOME)) == 1000
    assert story(2, 7) != story(1, 7)
    assert list(stories(1, 0)) == []
    with pytest.raises(ConfigError, match="count -1 is below 0"):
        stories(1, -1)


def test_the_first_story_stays_what_it_is() -> None:
    """The same on every machine and with every Python."""
    assert SOME[0].startswith("On Friday, Zoe and Ella walked softly to the wide castle.")


def test_it_is_light() -> None:
    program = (
        "import sys, tokenmill.lm.small_world, tokenmill.lm.accounting, tokenmill.lm.config_file\n"
        "print([name for name in ('torch', 'numpy', 'pyarrow') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


# The grammar is sound.


def test_every_word_that_is_said_again_was_drawn_before() -> None:
    """On every path, and with the same words to draw from, so that its chances do not depend on the path."""
    for plot in GRAMMAR:
        sure: dict[str, tuple[str, str, str]] = {}
        for row in plot:
            drawn_by_all: list[dict[str, tuple[str, str, str]]] = []
            for template in row:
                known = dict(sure)
                for part in template:
                    if isinstance(part, str):
                        assert "{" not in part
                        continue
                    assert not part.given or part.given in known
                    if part.is_drawn:
                        known |= {part.name: (part.kind, part.how, part.given)} if part.name else {}
                    else:
                        assert part.name in known, (part, template)
                drawn_by_all.append(known)
            names = set.intersection(*(set(known) for known in drawn_by_all))
            assert all(
                known[name] == drawn_by_all[0][name] for known in drawn_by_all for name in names
            )
            sure = {name: drawn_by_all[0][name] for name in names}


def test_words_are_distinct_and_have_their_forms() -> None:
    for kind, words in WORDS.items():
        assert len({word[""] for word in words}) == len(words) >= 4, kind
    for slot in SLOTS:
        assert all(slot.form in word for word in WORDS[slot.kind])
    for kind, groups in BELONGS.items():
        listed = [word[""] for words in groups.values() for word in words]
        assert {word[""] for word in WORDS[kind]} == set(listed)
    for spot, others in BELONGS["other_spot"].items():
        assert spot not in {other[""] for other in others}


class Automaton:
    """All stories, and more: every word that is said again may be any of its kind. A path through it is a derivation,
    but for words said again, whose equal forms share one path."""

    def __init__(self) -> None:
        self.steps: list[dict[str, list[int]]] = []
        self.jumps: list[list[int]] = []
        self.start, self.end = self.state(), self.state()
        for plot in GRAMMAR:
            at = self.state(self.start)
            for number, row in enumerate(plot):
                ends = [self.template(self.state(at), template) for template in row]
                at = self.state(*ends) if number < len(plot) - 1 else self.joined(ends)
                if number < len(plot) - 1:
                    at = self.read(at, " ")

    def state(self, *before: int) -> int:
        self.steps.append({})
        self.jumps.append([])
        for other in before:
            self.jumps[other].append(len(self.steps) - 1)
        return len(self.steps) - 1

    def joined(self, ends: list[int]) -> int:
        for at in ends:
            self.jumps[at].append(self.end)
        return self.end

    def read(self, at: int, text: str) -> int:
        for letter in text:
            after = self.state()
            self.steps[at].setdefault(letter, []).append(after)
            at = after
        return at

    def template(self, at: int, template: Template) -> int:
        for part in template:
            if isinstance(part, str):
                at = self.read(at, part)
                continue
            said = [word[part.form] for word in WORDS[part.kind]]
            options = said if part.is_drawn else sorted(set(said))
            at = self.state(*(self.read(self.state(at), text) for text in options))
        return at

    def closure(self, at: int) -> list[int]:
        """The states that can read, or are the end, which jumps from `at` lead to."""
        found, todo = [], [at]
        while todo:
            state = todo.pop()
            todo += self.jumps[state]
            if self.steps[state] or state == self.end:
                found.append(state)
        # Two ways to the same state by jumps alone would be two derivations.
        assert len(found) == len(set(found))
        return found

    def ambiguous(self) -> bool:
        """Whether two different paths read the same text: a walk over pairs of states."""
        closures = {at: self.closure(at) for at in range(len(self.steps))}
        first = closures[self.start]
        seen = set(itertools.combinations(sorted(first), 2)) | {(at, at) for at in first}
        todo = list(seen)
        while todo:
            one, two = todo.pop()
            for letter, after in self.steps[one].items():
                for a in after:
                    for b in self.steps[two].get(letter, ()):
                        if one == two and b < a:
                            continue
                        if a == b:
                            ends = [(x, x) for x in closures[a]]
                            ends += itertools.combinations(sorted(closures[a]), 2)
                            # Paths that have parted and meet again.
                            if one != two:
                                return True
                        else:
                            both = set(closures[a]) & set(closures[b])
                            if both:
                                return True
                            ends = [
                                (min(x, y), max(x, y)) for x in closures[a] for y in closures[b]
                            ]
                        for pair in ends:
                            if pair not in seen:
                                seen.add(pair)
                                todo.append(pair)
        return False


def test_no_text_has_two_derivations() -> None:
    assert not Automaton().ambiguous()


def test_the_proof_would_find_an_ambiguity(monkeypatch: pytest.MonkeyPatch) -> None:
    row = (("a ", Slot("", "", "mood", True)), ("a happy",))
    monkeypatch.setattr(sys.modules[__name__], "GRAMMAR", ((row,),))
    assert Automaton().ambiguous()
    monkeypatch.setattr(sys.modules[__name__], "GRAMMAR", (((("a happy.",), ("a happier.",)),),))
    assert not Automaton().ambiguous()


def test_sentences_end_where_they_should() -> None:
    """Only behind a template's last character, whatever its words are."""
    for words in WORDS.values():
        assert all(re.fullmatch(r"[A-Za-z ]+", said) for word in words for said in word.values())
    for template in TEMPLATES:
        for word in ("Mia", "red"):
            text = "".join(part if isinstance(part, str) else word for part in template)
            assert split_sentences(text) == [text]
            assert split_sentences(f'{text} {text.capitalize()} "Oh," he said.')[0] == text
    for text in SOME[:100]:
        sentences = split_sentences(text)
        assert {len(plot) for plot in GRAMMAR} >= {len(sentences)}
        assert all(sentence[0] in '"' or sentence[0].isupper() for sentence in sentences)


# Reading back.


def test_every_story_is_accepted_and_has_one_derivation() -> None:
    for text in SOME:
        found = derivations(text)
        assert len(found) == 1
        assert accepts(text)
    plots = {derivations(text)[0].plot for text in SOME[:100]}
    assert plots == set(range(len(GRAMMAR)))


def test_every_sentence_is_one() -> None:
    assert all(is_sentence(each) for text in SOME[:300] for each in split_sentences(text))


@pytest.mark.parametrize(
    ("right", "old", "new"),
    [
        ("The puppy was cold and whined softly.", "whined", "quacked"),
        ("On Friday, Zoe and Leo walked softly to the golden market.", "Leo", "Zoe"),
        (
            "On Friday, Zoe and Leo walked softly to the golden market.",
            "Zoe and Leo",
            "Leo and Zoe",
        ),
        ("One day, Ben took his red ball to the sunny park.", "his", "her"),
        ("One day, Ben took his red ball to the sunny park.", "One", "one"),
        ("After an hour, Leo smiled and found the ball under the slide.", "under", "beneath"),
        ("They looked under the slide, but found only an ant and a bee.", "an ant", "a ant"),
        ("They looked under the slide, but found only an ant and a bee.", "a bee", "an ant"),
        ("Soon the moths were gone, and the owl felt bold and playful.", "were", "was"),
        ("But then his mittens were gone!", "were", "was"),
        ("But then his mittens were gone!", "!", ""),
        ("But then his mittens were gone!", "!", "! "),
        ("But then his mittens were gone!", "!", "! But then his hat was gone!"),
    ],
)
def test_what_is_no_sentence(right: str, old: str, new: str) -> None:
    assert is_sentence(right)
    assert not is_sentence(right.replace(old, new))
    assert not is_sentence("")


def test_a_story_must_be_true_to_itself() -> None:
    """Change a word for another of its kind: every sentence stays one, the story does not."""
    whole = (
        "On Thursday, Mia took her green mittens to the busy castle. For a moment, Mia jumped for joy. "
        '"Oh no, where are my green mittens?" cried Mia. She ran quickly to Leo, who was humming a tune. '
        '"I will help you," said Leo kindly. They saw an eel behind the gate, and Leo nodded. '
        "After a long time, Leo smiled and found the mittens beside the tower. They hummed and ate soup "
        "with noodles. Then they clapped and went home, jolly and calm."
    )
    assert accepts(whole)
    for old, new in (
        ("my green", "my red"),
        ("where are my green mittens", "where is my green ball"),
        ("She ran", "He ran"),
        ("found the mittens", "found the boots"),
        ("behind the gate", "behind the barn"),
        ("beside the tower", "behind the gate"),
        ("said Leo", "said Finn"),
    ):
        changed = whole.replace(old, new)
        assert changed != whole
        assert not accepts(changed), changed
        assert all(is_sentence(each) for each in split_sentences(changed))
    sentences = split_sentences(whole)
    assert not accepts(" ".join(sentences[:-1]))
    assert not accepts(" ".join([*sentences, sentences[-1]]))
    assert not accepts(whole + "\n")
    assert bits_of(whole + "\n") == math.inf
    # What nobody comes back to may be another word.
    assert accepts(whole.replace("saw an eel", "saw a bee"))


# Measures.


def test_entropy_is_what_samples_cost() -> None:
    bits = [bits_of(text) for text in SOME]
    mean = math.fsum(bits) / len(bits)
    deviation = math.sqrt(math.fsum((each - mean) ** 2 for each in bits) / len(bits))
    assert abs(mean - entropy_bits_per_story()) < 4 * deviation / math.sqrt(len(bits))
    assert deviation / math.sqrt(len(bits)) < 0.01 * mean


def test_length_is_that_of_samples() -> None:
    texts = list(stories(3, 5000))
    lengths = [len(text.encode()) for text in texts]
    mean = sum(lengths) / len(lengths)
    deviation = math.sqrt(sum((each - mean) ** 2 for each in lengths) / len(lengths))
    assert abs(mean - mean_bytes_per_story()) < 4 * deviation / math.sqrt(len(lengths))
    assert deviation / math.sqrt(len(lengths)) < 0.003 * mean


def test_measures_of_a_grammar_that_can_be_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every story written down, with its probability: the sums must be those."""
    place, spot = Slot("place", "", "place", True), Slot("", "", "spot", True, "@", "place")
    hero = Slot("hero", "", "hero", True)
    friend = Slot("friend", "his", "hero", True, "-", "hero")
    again = Slot("place", "", "place", False)
    plots = (
        ((("In the ", place, "."),), ((spot, "."), ("Again, ", again, "."))),
        (((hero, " and ", friend, "."),),),
    )
    monkeypatch.setattr(small_world, "GRAMMAR", plots)
    total, bits, length = 0.0, 0.0, 0.0

    def write(
        plot: int, parts: list[str | Slot], bound: small_world.Bound, chance: float, text: str
    ) -> None:
        nonlocal total, bits, length
        if not parts:
            total, bits, length = (
                total + chance,
                bits - chance * math.log2(chance),
                length + chance * len(text),
            )
            return
        part, *rest = parts
        if isinstance(part, str):
            write(plot, rest, bound, chance, text + part)
            return
        assert isinstance(part, Slot)
        options = part.options(bound) if part.is_drawn else (bound[part.name],)
        for word in options:
            after = {**bound, part.name: word} if part.name else bound
            write(plot, rest, after, chance / len(options), text + word[part.form])

    for number, plot in enumerate(plots):
        paths = list(itertools.product(*plot))
        for path in paths:
            parts: list[str | Slot] = [part for row in path for part in (" ", *row)][1:]
            write(number, parts, {}, 1 / len(plots) / len(paths), "")
    small_world._measures.cache_clear()  # pyright: ignore[reportPrivateUsage]
    try:
        assert total == pytest.approx(1)
        assert entropy_bits_per_story() == pytest.approx(bits)
        assert float(mean_bytes_per_story()) == pytest.approx(length)
    finally:
        small_world._measures.cache_clear()  # pyright: ignore[reportPrivateUsage]


def test_the_world_is_small_enough_to_learn() -> None:
    words = {said for kind in WORDS.values() for word in kind for said in word[""].split()}
    assert 300 < len(words) < 700
    assert 0.15 < entropy_bits_per_byte() < 0.25
    assert 350 < mean_bytes_per_story() < 500
    chance = random.Random(0)
    text = SOME[chance.randrange(1000)]
    assert bits_of(text) == pytest.approx(math.log2(derivations(text)[0].choices))
