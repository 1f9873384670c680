"""Curves as SVG: numbers in, a small chart out that a page holds as it is. Colours are the page's, by class."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 460, 250
LEFT, RIGHT, TOP, BOTTOM = 52, 22, 34, 38
Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Curve:
    """A line with a name."""

    name: str
    points: Points


def chart(
    title: str, curves: Sequence[Curve], *, x_label: str = "step", floor: Curve | None = None
) -> str:
    """All `curves` in one frame; `floor` is drawn with dashes, as what cannot be passed. Points that are no numbers are left out."""
    curves = [Curve(curve.name, _finite(curve.points)) for curve in curves]
    drawn = [curve for curve in curves if curve.points]
    lines = [*drawn, *([] if floor is None else [floor])]
    frame = _Frame([point for curve in lines for point in curve.points])
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">',
        f'<text class="title" x="{LEFT}" y="15">{escape(title)}</text>',
        *frame.grid(x_label),
    ]
    for number, curve in enumerate(lines):
        style = "floor" if curve is floor else f"c{number}"
        parts.append(f'<polyline class="{style}" points="{frame.path(curve.points)}"/>')
    parts += _legend(
        [(curve.name, "floor" if curve is floor else f"c{n}") for n, curve in enumerate(lines)]
    )
    return "\n".join([*parts, "</svg>"])


def _finite(points: Points) -> Points:
    return [(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)]


def _legend(names: Sequence[tuple[str, str]]) -> list[str]:
    parts: list[str] = []
    x = LEFT
    for name, style in names:
        parts.append(f'<line class="{style}" x1="{x}" x2="{x + 16}" y1="25" y2="25"/>')
        parts.append(f'<text class="small" x="{x + 20}" y="28">{escape(name)}</text>')
        x += 32 + 6 * len(name)
    return parts


class _Frame:
    """Where numbers are on the page."""

    def __init__(self, points: Points) -> None:
        xs, ys = [x for x, _ in points] or [0.0], [y for _, y in points] or [0.0]
        self.x_ticks, self.y_ticks = ticks(min(xs), max(xs)), ticks(min(ys), max(ys))
        # A line may end anywhere; only what it is read against is round.
        self.x_range = (min(*xs, self.x_ticks[0]), max(xs))
        self.x_ticks = [tick for tick in self.x_ticks if tick <= max(xs)]
        self.y_range = (self.y_ticks[0], self.y_ticks[-1])

    def x(self, value: float) -> float:
        low, high = self.x_range
        return LEFT + (value - low) / (high - low or 1.0) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        low, high = self.y_range
        return HEIGHT - BOTTOM - (value - low) / (high - low or 1.0) * (HEIGHT - TOP - BOTTOM)

    def path(self, points: Points) -> str:
        return " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)

    def grid(self, x_label: str) -> list[str]:
        parts: list[str] = []
        for tick in self.y_ticks:
            y = self.y(tick)
            parts.append(
                f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            )
            parts.append(
                f'<text class="small right" x="{LEFT - 6}" y="{y + 3.5:.1f}">{tick:g}</text>'
            )
        base = HEIGHT - BOTTOM
        for tick in self.x_ticks:
            parts.append(
                f'<text class="small middle" x="{self.x(tick):.1f}" y="{base + 15}">{tick:,g}</text>'
            )
        middle = (LEFT + WIDTH - RIGHT) / 2
        parts.append(
            f'<text class="small middle" x="{middle:.0f}" y="{HEIGHT - 6}">{escape(x_label)}</text>'
        )
        return parts


def ticks(low: float, high: float) -> list[float]:
    """About five round numbers from at most `low` to at least `high`.

    >>> ticks(0, 250), ticks(0.12, 0.94)
    ([0.0, 50.0, 100.0, 150.0, 200.0, 250.0], [0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
    """
    if high <= low:
        # One is lost beside a number that is large enough.
        high = low + max(1.0, abs(low) / 8)
    rough = (high - low) / 5
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * unit for factor in (1, 2, 5, 10) if factor * unit >= rough)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]
