"""The small world: a seed in, simple stories out, with what is known about them exactly.

A story is a plot and, for each of its rows, a template and the words it draws; all choices are uniform, and which templates
there are never depends on words. So entropy and mean length are sums over the grammar. The text of a story tells
every choice that made it (the tests prove it on the automaton of all stories), so the entropy of the choices is
that of the text: no model can need fewer bits.
"""

import functools
import hashlib
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from tokenmill.lm.small_world_words import BELONGS, PLOTS, WORDS, Word
from tokenmill.sources.choices import require_whole_number

_SLOT = re.compile(
    r"\{(?P<name>\w*)(?:\.(?P<form>\w+))?(?:=(?P<kind>\w+)(?:(?P<how>[-@])(?P<given>\w+))?)?\}"
)
_SENTENCE_END = re.compile(r'(?<=[.!?]) (?=[A-Z"])|(?<=[.!?]") (?=[A-Z"])')
_SEED_BYTES = 128
"""More than the choices of any story use up by several hundred bits, so that none is likelier than another."""

Bound = dict[str, Word]
"""The words that have names so far."""


@dataclass(frozen=True)
class Slot:
    """A place in a template where a word stands."""

    name: str
    """Empty for a word that nobody comes back to."""
    form: str
    kind: str
    is_drawn: bool
    """Drawn here, or said again."""
    how: str = ""
    given: str = ""

    def options(self, bound: Bound) -> tuple[Word, ...]:
        """The words that may be drawn here. What depends on a word that is not bound may be anything."""
        given = bound.get(self.given)
        if given is None:
            return WORDS[self.kind]
        if self.how == "@":
            return BELONGS[self.kind][given[""]]
        return tuple(word for word in WORDS[self.kind] if word != given)


Template = tuple[str | Slot, ...]
Plot = tuple[tuple[Template, ...], ...]


def _parse_plot(rows: tuple[tuple[str, ...], ...]) -> Plot:
    kinds = {
        found["name"]: found["kind"]
        for row in rows
        for found in _SLOT.finditer(" ".join(row))
        if found["name"] and found["kind"]
    }
    return tuple(tuple(_parse_template(text, kinds) for text in row) for row in rows)


def _parse_template(text: str, kinds: dict[str, str]) -> Template:
    parts: list[str | Slot] = []
    at = 0
    for found in _SLOT.finditer(text):
        name, kind = found["name"], found["kind"]
        drawn = kind is not None
        how, given = found["how"] or "", found["given"] or ""
        slot = Slot(name, found["form"] or "", kind or kinds[name], drawn, how, given)
        parts += [text[at : found.start()], slot]
        at = found.end()
    return tuple(part for part in (*parts, text[at:]) if part)


GRAMMAR: tuple[Plot, ...] = tuple(_parse_plot(rows) for rows in PLOTS.values())


# Writing


@dataclass(frozen=True)
class Telling:
    """A story and what it is about."""

    plot: str
    sentences: tuple[str, ...]
    words: Bound
    """By name, as the plot's templates have them."""


def story(seed: int, index: int) -> str:
    """Story number `index` of the world `seed`.

    >>> story(1, 0) == next(stories(1, 1))
    True
    """
    return " ".join(telling(seed, index).sentences)


def telling(seed: int, index: int) -> Telling:
    """The same story in its parts."""
    digest = hashlib.shake_256(f"tokenmill small world {seed} {index}".encode())
    return _tell(int.from_bytes(digest.digest(_SEED_BYTES), "little"))


def stories(seed: int, count: int, start: int = 0) -> Iterator[str]:
    """`count` stories of the world `seed`, from number `start` on, without making those before."""
    require_whole_number("count", count, 0)
    require_whole_number("start", start, 0)
    return (story(seed, index) for index in range(start, start + count))


def _tell(chance: int) -> Telling:
    """The story that the digits of `chance` choose."""
    chance, plot = divmod(chance, len(GRAMMAR))
    bound: Bound = {}
    sentences: list[str] = []
    for row in GRAMMAR[plot]:
        chance, which = divmod(chance, len(row))
        words: list[str] = []
        for part in row[which]:
            if isinstance(part, str):
                words.append(part)
                continue
            if part.is_drawn:
                options = part.options(bound)
                chance, drawn = divmod(chance, len(options))
                word = options[drawn]
                bound |= {part.name: word} if part.name else {}
            else:
                word = bound[part.name]
            words.append(word[part.form])
        sentences.append("".join(words))
    return Telling(tuple(PLOTS)[plot], tuple(sentences), bound)


# Reading


def split_sentences(text: str) -> list[str]:
    """The sentences of a story, or of what a model takes for one.

    >>> split_sentences('"Are you cold?" asked Mia. The owl was gone!')
    ['"Are you cold?" asked Mia.', 'The owl was gone!']
    """
    return _SENTENCE_END.split(text)


def is_sentence(text: str) -> bool:
    """Whether some story has this sentence.

    >>> is_sentence("The puppy was cold and whined softly."), is_sentence("The puppy quacked.")
    (True, False)
    """
    templates = (template for plot in GRAMMAR for row in plot for template in row)
    return any(_has_reading(template, text) for template in templates)


def _has_reading(template: Template, text: str) -> bool:
    return next(_readings(template, text, {}), None) is not None


def accepts(text: str) -> bool:
    """Whether `text` is a whole story: its sentences in order, and every word true to those before."""
    return bool(derivations(text))


@dataclass(frozen=True)
class Derivation:
    """How a story was made."""

    plot: int
    choices: int
    """The product of the numbers of options at each choice, the plot included: one over the probability."""


def derivations(text: str) -> list[Derivation]:
    """All ways to make `text`: one, or none where it is no story."""
    sentences = split_sentences(text)
    found: list[Derivation] = []
    for number, plot in enumerate(GRAMMAR):
        if len(plot) != len(sentences):
            continue
        ways: list[tuple[Bound, int]] = [({}, len(GRAMMAR))]
        for row, sentence in zip(plot, sentences, strict=True):
            ways = [
                (after, choices * len(row) * more)
                for bound, choices in ways
                for template in row
                for after, more in _readings(template, sentence, bound)
            ]
        found += [Derivation(number, choices) for _, choices in ways]
    return found


def bits_of(text: str) -> float:
    """−log2 of the probability of a story; infinite for what is none."""
    found = derivations(text)
    return -math.log2(math.fsum(1 / each.choices for each in found)) if found else math.inf


def _readings(
    template: Template, text: str, bound: Bound, choices: int = 1
) -> Iterator[tuple[Bound, int]]:
    """What `bound` becomes, and among how many choices, for each way that `template` can say `text`.

    A word that is said again but has no name yet, as in a sentence that stands alone, may be any of its kind.
    """
    if not template:
        if not text:
            yield bound, choices
        return
    part, *rest = template
    if isinstance(part, str):
        if text.startswith(part):
            yield from _readings(tuple(rest), text[len(part) :], bound, choices)
        return
    is_known = not part.is_drawn and part.name in bound
    options = (bound[part.name],) if is_known else part.options(bound)
    for word in options:
        said = word[part.form]
        if text.startswith(said):
            after = {**bound, part.name: word} if part.name else bound
            more = choices * (len(options) if part.is_drawn else 1)
            yield from _readings(tuple(rest), text[len(said) :], after, more)


# Measuring


def entropy_bits_per_story() -> float:
    """Bits of surprise in a story, on average: exact."""
    return _measures()[0]


def mean_bytes_per_story() -> Fraction:
    """Bytes of a story, on average: exact."""
    return _measures()[1]


def entropy_bits_per_byte() -> float:
    """The least bits per byte that a model can reach on stories it has not seen."""
    return entropy_bits_per_story() / float(mean_bytes_per_story())


@functools.cache
def _measures() -> tuple[float, Fraction]:
    of_plots = [_measure_plot(plot) for plot in GRAMMAR]
    bits = math.log2(len(GRAMMAR)) + math.fsum(bits for bits, _ in of_plots) / len(GRAMMAR)
    return bits, sum((length for _, length in of_plots), Fraction()) / len(GRAMMAR)


Chances = dict[str, Fraction]
"""How likely a name stands for each word, by the word's plain form."""


def _measure_plot(plot: Plot) -> tuple[float, Fraction]:
    known: dict[str, Chances] = {}
    bits: list[float] = []
    length = Fraction(len(plot) - 1)
    for row in plot:
        bits.append(math.log2(len(row)))
        before = dict(known)
        for template in row:
            known = dict(before)
            for part in template:
                if isinstance(part, str):
                    length += Fraction(len(part.encode()), len(row))
                    continue
                chances = known[part.name] if not part.is_drawn else {}
                if part.is_drawn:
                    chances, surprise = _drawn(part, known)
                    bits.append(surprise / len(row))
                    known |= {part.name: chances} if part.name else {}
                length += _mean_length(part, chances) / len(row)
    return math.fsum(bits), length


def _drawn(slot: Slot, known: dict[str, Chances]) -> tuple[Chances, float]:
    """How likely each word is drawn, and the bits it takes to say which.

    A draw depends on one earlier word at most, so chances of single words are all that is needed.
    """
    chances: Chances = {}
    bits: list[float] = []
    before: Chances = known[slot.given] if slot.given else {"": Fraction(1)}
    for given, chance in before.items():
        bound = {slot.given: _word(slot, given)} if slot.given else {}
        options = slot.options(bound)
        bits.append(float(chance) * math.log2(len(options)))
        for word in options:
            chances[word[""]] = chances.get(word[""], Fraction()) + chance / len(options)
    return chances, math.fsum(bits)


def _word(slot: Slot, plain: str) -> Word:
    """What another word goes with is known by its plain form; what is left out must be whole."""
    if slot.how == "@":
        return {"": plain}
    return next(word for word in WORDS[slot.kind] if word[""] == plain)


def _mean_length(slot: Slot, chances: Chances) -> Fraction:
    return sum(
        (
            chances.get(word[""], Fraction()) * len(word[slot.form].encode())
            for word in WORDS[slot.kind]
        ),
        Fraction(),
    )
