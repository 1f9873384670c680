"""What a person should be told while preferences are learned: steps in, a sentence now and then out. No torch.

Numbers of single steps are noisy, so means of some steps are looked at, and each thing is said once.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

WINDOW = 20
"""Steps that a mean is taken over."""
FALLEN = 0.15
"""Of its log probability at first: what a chosen answer may lose before it is worth a word."""
FALLEN_NATS = 5.0
HIGH_MARGIN = 10.0
"""−log σ(10) is 5e-5: behind it there is nothing to be learned, and all movement is drift."""
LONGER = 1.25


class Step(Protocol):
    """What is looked at."""

    @property
    def more(self) -> Mapping[str, float]: ...


class PreferenceWatch:
    """Looks at the steps of one run."""

    def __init__(self, beta: float, mean_tokens: tuple[float, float]) -> None:
        self._beta = beta
        self._chosen_tokens, self._rejected_tokens = mean_tokens
        self._last: deque[tuple[float, float, float]] = deque(maxlen=WINDOW)
        self._said: set[str] = set()

    def __call__(self, result: Step) -> Iterator[str]:
        """What is to be said after this step."""
        more = result.more
        self._last.append((more["rewards/chosen"], more["rewards/margins"], more["logps/chosen"]))
        if "length" not in self._said:
            yield from self._once("length", self._length())
        if len(self._last) < WINDOW:
            return
        reward, margin, log_prob = (sum(each) / WINDOW for each in zip(*self._last, strict=True))
        yield from self._once("fallen", self._fallen(reward, log_prob))
        yield from self._once("margin", self._exploded(margin))

    def state(self) -> dict[str, Any]:
        """What a run that goes on has to know, as JSON: or it would say things again."""
        return {"last": [list(each) for each in self._last], "said": sorted(self._said)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave."""
        self._last.extend((reward, margin, log_prob) for reward, margin, log_prob in state["last"])
        self._said.update(state["said"])

    def _once(self, what: str, text: str | None) -> Iterator[str]:
        if text is not None and what not in self._said:
            self._said.add(what)
            yield text

    def _length(self) -> str | None:
        longer, shorter = self._chosen_tokens, self._rejected_tokens
        name = "longer"
        if longer < shorter:
            longer, shorter, name = shorter, longer, "shorter"
        if longer < LONGER * shorter:
            return None
        return (
            f"chosen answers have {self._chosen_tokens:.1f} tokens and rejected ones {self._rejected_tokens:.1f}: the model may "
            f"learn to answer {name} rather than better; compare the lengths of its answers before and after"
        )

    def _fallen(self, reward: float, log_prob: float) -> str | None:
        change = reward / self._beta
        first = log_prob - change
        if change > -max(FALLEN_NATS, FALLEN * abs(first)):
            return None
        return (
            f"chosen answers have lost {-change:.1f} nats of log probability, from {first:.1f} to {log_prob:.1f}: that both kinds "
            "fall is usual, but so far the model forgets what it should say; try a lower `--lr`, a higher `--beta`, or `--sft-weight 0.1`"
        )

    def _exploded(self, margin: float) -> str | None:
        if margin < HIGH_MARGIN:
            return None
        return (
            f"the margin between chosen and rejected is {margin:.1f}, where the loss is 0 and all that changes is drift: "
            "stop earlier, or try a lower `--lr` or a higher `--beta`"
        )
