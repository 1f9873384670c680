"""What is said while preferences are learned: when, once, and with which numbers."""

import json
from dataclasses import dataclass, field

import pytest

from tokenmill.lm.preference_watch import WINDOW, PreferenceWatch

EVEN = (10.0, 10.0)


@dataclass(frozen=True)
class FakeStep:
    more: dict[str, float] = field(default_factory=dict[str, float])


def step(chosen: float = 0.0, margin: float = 0.0, log_prob: float = -20.0) -> FakeStep:
    return FakeStep({"rewards/chosen": chosen, "rewards/margins": margin, "logps/chosen": log_prob})


def said(watch: PreferenceWatch, steps: list[FakeStep]) -> list[tuple[int, str]]:
    """What is said after which step, counted from 1 on."""
    return [(number, text) for number, each in enumerate(steps, 1) for text in watch(each)]


def test_a_quiet_run_is_quiet() -> None:
    good = [step(chosen=0.3, margin=2.0, log_prob=-17.0)] * 100
    assert said(PreferenceWatch(0.1, EVEN), good) == []


@pytest.mark.parametrize(
    ("tokens", "word"),
    [((20.0, 10.0), "longer"), ((10.0, 12.5), "shorter"), ((12.4, 10.0), None), (EVEN, None)],
)
def test_lengths_that_differ_are_told_at_once(
    tokens: tuple[float, float], word: str | None
) -> None:
    found = said(PreferenceWatch(0.1, tokens), [step()] * 3)
    if word is None:
        assert found == []
    else:
        ((at, text),) = found
        assert at == 1
        assert f"{tokens[0]:.1f} tokens and rejected ones {tokens[1]:.1f}" in text
        assert f"answer {word} rather than better" in text


@pytest.mark.parametrize(
    ("lost", "first", "is_told"),
    [
        (5.5, -20.0, True),  # more than 5 nats, and than 15 %
        (4.9, -20.0, False),  # 15 % of 20 are 3, but 5 nats are the least
        (10.0, -100.0, False),
        (15.5, -100.0, True),
    ],
)
def test_chosen_answers_that_become_unlikely(lost: float, first: float, is_told: bool) -> None:
    beta = 0.2
    steps = [step(chosen=-beta * lost, margin=1.0, log_prob=first - lost)] * (3 * WINDOW)
    found = said(PreferenceWatch(beta, EVEN), steps)
    assert [at for at, _ in found] == ([WINDOW] if is_told else [])
    if is_told:
        assert f"lost {lost:.1f} nats" in found[0][1]
        assert f"from {first:.1f} to {first - lost:.1f}" in found[0][1]
        assert "--sft-weight" in found[0][1]


def test_margins_that_explode_are_told_once_and_by_the_mean() -> None:
    calm, wild = step(margin=4.0), step(margin=20.0)
    # 12 of 20 at 20 and 8 at 4 are 13.6 on average; 10 is passed with the eighth.
    found = said(PreferenceWatch(0.1, EVEN), [calm] * 30 + [wild] * 40)
    ((at, text),) = found
    assert at == 38
    assert "margin between chosen and rejected is 10.4" in text
    assert said(PreferenceWatch(0.1, EVEN), [wild] * (WINDOW - 1)) == []


def test_all_that_is_wrong_is_told_each_once() -> None:
    bad = step(chosen=-3.0, margin=12.0, log_prob=-60.0)
    found = said(PreferenceWatch(0.1, (30.0, 10.0)), [bad] * 60)
    assert [at for at, _ in found] == [1, WINDOW, WINDOW]
    assert len({text for _, text in found}) == 3


@pytest.mark.parametrize("at", [1, 10, WINDOW, 59, 60, 61, 62, 120])
def test_a_run_that_goes_on_says_what_one_that_was_not_stopped_says(at: int) -> None:
    steps = [step(chosen=-0.01 * n, margin=0.1 * n, log_prob=-20 - 0.1 * n) for n in range(150)]
    whole = said(PreferenceWatch(0.1, (30.0, 10.0)), steps)
    assert len(whole) == 3
    first, second = (PreferenceWatch(0.1, (30.0, 10.0)) for _ in range(2))
    before = said(first, steps[:at])
    second.restore(json.loads(json.dumps(first.state())))
    assert before + [(at + n, text) for n, text in said(second, steps[at:])] == whole
