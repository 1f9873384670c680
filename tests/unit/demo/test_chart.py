"""Charts: round numbers beside them, whatever is drawn, and nothing that could leave the page's text."""

import itertools
import math
from xml.etree import ElementTree

import pytest

from tokenmill.demo.chart import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Curve, chart, ticks


def drawn(text: str, kind: str) -> list[ElementTree.Element]:
    """The parts of a chart; what is not well formed fails here."""
    return ElementTree.fromstring(text).findall(kind)


def places(line: ElementTree.Element) -> list[tuple[float, float]]:
    pairs = [pair.split(",") for pair in line.attrib["points"].split()]
    return [(float(x), float(y)) for x, y in pairs]


def texts(found: str) -> list[str]:
    return [each.text or "" for each in drawn(found, "text")]


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (0, 250),
        (0.12, 0.94),
        (-3.2, 7),
        (1e-5, 3e-4),
        (1e6, 5e9),
        (2, 2),
        (0, 0),
        (-1, -1),
        (1e17, 1e17),
    ],
)
def test_ticks_are_few_even_and_reach_around(low: float, high: float) -> None:
    found = ticks(low, high)
    assert found[0] <= low
    assert found[-1] >= high
    assert 2 <= len(found) <= 7
    steps = [after - before for before, after in itertools.pairwise(found)]
    assert steps == pytest.approx([steps[0]] * len(steps))
    assert steps[0] > 0
    leading = steps[0] / 10 ** math.floor(math.log10(steps[0]) + 1e-6)
    assert min(abs(leading - each) for each in (1, 2, 5)) < 1e-3


def test_curves_stay_in_their_frame() -> None:
    a, b = Curve("train", [(0, 7.0), (50, 3.0), (230, 2.2)]), Curve("valid", [(100, 2.9)])
    floor = Curve("entropy", [(0, 1.1), (230, 1.1)])
    found = chart("Loss", [a, b], floor=floor)
    lines = drawn(found, "polyline")
    assert [line.attrib["class"] for line in lines] == ["c0", "c1", "floor"]
    for line in lines:
        for x, y in places(line):
            assert LEFT <= x <= WIDTH - RIGHT
            assert TOP <= y <= HEIGHT - BOTTOM
    (first, _, last), lowest = places(lines[0]), places(lines[2])[0]
    assert first[0] == LEFT
    assert last[0] == WIDTH - RIGHT, "a line ends at the edge, not at the next round number"
    assert first[1] < last[1] < lowest[1], "up is more"
    assert texts(found)[0] == "Loss"
    assert texts(found)[-3:] == ["train", "valid", "entropy"]
    assert {"step", "0", "200"} <= set(texts(found))
    assert "300" not in texts(found)
    assert "tokens" in texts(chart("Loss", [a], x_label="tokens"))


def test_curves_without_points_are_left_out() -> None:
    some = Curve("some", [(0, 1.0), (1, 2.0)])
    found = chart("Loss", [Curve("none", []), some])
    assert len(drawn(found, "polyline")) == 1
    assert "none" not in texts(found)
    for empty in ([], [Curve("none", [])]):
        found = chart("Loss", empty)
        assert drawn(found, "polyline") == []
        assert texts(found)[0] == "Loss"


def test_one_point_is_a_place() -> None:
    (line,) = drawn(chart("Loss", [Curve("one", [(5, 3.0)])]), "polyline")
    ((x, y),) = places(line)
    assert x == LEFT
    assert y == HEIGHT - BOTTOM


@pytest.mark.parametrize("wild", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_has_no_place(wild: float) -> None:
    """A loss that blew up is part of a curve as much as any."""
    found = chart("Loss", [Curve("a", [(0, 2.0), (1, wild), (2, 4.0)]), Curve("b", [(0, wild)])])
    assert [len(places(line)) for line in drawn(found, "polyline")] == [2]
    assert "nan" not in found
    assert "inf" not in found


def test_names_are_text() -> None:
    name = "</text><script>\"&'"
    found = chart(name, [Curve(name, [(0, 1.0)])], x_label=name, floor=Curve(name, [(0, 0.5)]))
    assert "<script>" not in found
    assert texts(found).count(name) == 4
    assert ElementTree.fromstring(found).attrib["aria-label"] == name
