"""Characters of a text in form C, and where they come from."""

import random
import re
import unicodedata

from tokenmill.compat.alignment import align_nfc
from tokenmill.compat.encoding import cut_parts
from tokenmill.compat.parts import ListedPart, added_part


def test_joined_characters_have_the_place_of_the_first() -> None:
    assert align_nfc("e\u0301x", None) == ("éx", [0, 2])
    assert align_nfc("\u1100\u1161\u11a8!", None) == ("각!", [0, 3])


def test_a_character_that_comes_apart_is_in_one_place() -> None:
    assert align_nfc("a\u0958b", None) == ("a\u0915\u093cb", [0, 1, 1, 2])


def test_marks_that_change_places_take_the_places_they_get() -> None:
    assert align_nfc("q\u0307\u0323", None) == ("q\u0323\u0307", [0, 1, 2])


def test_special_tokens_stay_as_they_are_and_separate() -> None:
    regex = re.compile(re.escape("<|e\u0301|>"))
    text = "e\u0301<|e\u0301|>\u0301"
    assert align_nfc(text, regex) == ("é<|e\u0301|>\u0301", [0, *range(2, 9)])


def test_the_text_is_that_of_unicodedata() -> None:
    rng = random.Random(0)
    letters = "aeqo\u0301\u0323\u0307\u0338\u0344\u212b\u1100\u1161\u11a8\uac00\u0958\u093c\u0915Å<"
    for _ in range(5000):
        text = "".join(rng.choices(letters, k=rng.randrange(9)))
        aligned, places = align_nfc(text, None)
        assert aligned == unicodedata.normalize("NFC", text)
        assert len(places) == len(aligned)
        assert all(0 <= place < len(text) for place in places)


def test_parts_are_cut_where_tokens_are() -> None:
    parts = [added_part([1, 2, 3], ["a", "b", "c"], 0, 1), added_part([4, 5], ["d", "e"], 1, 0)]
    cut = cut_parts([*parts], 1, 4)
    assert [part.ids() for part in cut] == [[2, 3], [4]]
    assert [part.attention_mask() for part in cut] == [[1, 1], [0]]
    assert cut_parts([*parts], 3, 3) == []
    assert isinstance(cut[0], ListedPart)
