"""Stop strings: text in parts in, the text before the first stop string out.

Text that may turn out to begin a stop string is held back until it does or does not; so what was given out never has to be taken back,
and the same stop string is found wherever the parts are cut: the one that is complete first, of two the longer.
"""

from collections.abc import Sequence


class StopStrings:
    """Watches one text. `found` is the string that ended it."""

    def __init__(self, stop: Sequence[str]) -> None:
        self._stop = tuple(stop)
        self._held = ""
        self.found: str | None = None

    def feed(self, text: str) -> str:
        """What is certain to come before any stop string."""
        if not self._stop:
            return text
        held = self._held + text
        places = [(at + len(stop), at, stop) for stop in self._stop if (at := held.find(stop)) >= 0]
        if places:
            _, at, self.found = min(places)
            self._held = ""
            return held[:at]
        keep = max(_overlap(held, stop) for stop in self._stop)
        self._held = held[len(held) - keep :]
        return held[: len(held) - keep]

    def finish(self) -> str:
        """What was held back, when no more comes."""
        rest, self._held = self._held, ""
        return rest


def _overlap(text: str, stop: str) -> int:
    """Characters at the end of `text` that `stop` begins with."""
    for length in range(min(len(text), len(stop) - 1), 0, -1):
        if stop.startswith(text[-length:]):
            return length
    return 0
