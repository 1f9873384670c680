"""Sampling: what is drawn, how often, and what it depends on."""

import math
from typing import Any

import pytest
import torch

from tokenmill.errors import ConfigError, FormatError
from tokenmill.lm.generate_settings import GenerateSettings
from tokenmill.lm.sampling import Sampler, filter_logits

LOGITS = torch.tensor([[0.1, 0.4, 0.2, 0.3]]).log()


def kept(**choice: Any) -> list[int]:
    return filter_logits(LOGITS, **choice)[0].isfinite().nonzero().flatten().tolist()


def test_top_k_keeps_the_likeliest_and_their_equals() -> None:
    assert kept(top_k=2) == [1, 3]
    assert kept(top_k=9) == [0, 1, 2, 3]
    equal = torch.tensor([[1.0, 2.0, 1.0, 0.0]])
    assert filter_logits(equal, top_k=2)[0].isfinite().tolist() == [True, True, True, False]


def test_top_p_keeps_the_fewest_that_reach_it() -> None:
    assert kept(top_p=0.39) == [1]
    assert kept(top_p=0.41) == [1, 3]
    assert kept(top_p=0.69) == [1, 3]
    assert kept(top_p=0.75) == [1, 2, 3]
    assert kept(top_p=1.0) == [0, 1, 2, 3]
    assert kept(top_p=1e-9) == [1]


def test_tokens_are_drawn_as_often_as_they_should_be() -> None:
    settings = GenerateSettings(max_tokens=20_000, temperature=0.5)
    sampler = Sampler(settings, [7])
    counts = torch.zeros(4)
    for _ in range(settings.max_tokens):
        counts[sampler.draw(LOGITS)[0]] += 1
    wanted = (LOGITS[0] / 0.5).softmax(-1)
    # Five standard deviations of the rarest.
    assert (counts / counts.sum() - wanted).abs().max() < 5 * math.sqrt(0.25 / 20_000)


def test_a_row_is_drawn_by_its_seed_alone() -> None:
    settings = GenerateSettings(max_tokens=50)
    other = torch.randn(1, 4)
    together, alone = Sampler(settings, [3, 9]), Sampler(settings, [9])
    pairs = [
        (together.draw(torch.cat((other, LOGITS)))[1], alone.draw(LOGITS)[0]) for _ in range(50)
    ]
    assert [one for one, _ in pairs] == [two for _, two in pairs]
    assert len({two for _, two in pairs}) > 1
    again = Sampler(settings, [10])
    assert [again.draw(LOGITS)[0] for _ in range(50)] != [two for _, two in pairs]


def test_temperature_0_takes_the_likeliest() -> None:
    assert Sampler(GenerateSettings(temperature=0), [1, 2]).draw(LOGITS.expand(2, -1)) == [1, 1]


def test_a_token_of_no_probability_is_never_drawn() -> None:
    logits = torch.full((1, 100), -torch.inf)
    logits[0, 41] = 0.0
    sampler = Sampler(GenerateSettings(max_tokens=100), [0])
    assert {sampler.draw(logits)[0] for _ in range(100)} == {41}


def test_logits_that_are_no_numbers_are_an_error() -> None:
    sampler = Sampler(GenerateSettings(), [0])
    with pytest.raises(FormatError, match="no numbers"):
        sampler.draw(torch.full((1, 4), torch.nan))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"temperature": -0.1}, "temperature -0.1"),
        ({"temperature": math.nan}, "temperature nan"),
        ({"top_k": 0}, "top_k 0 is below 1"),
        ({"top_p": 0.0}, r"top_p 0\.0 is not above 0"),
        ({"top_p": 1.5}, r"top_p 1\.5"),
        ({"max_tokens": -1}, "max_tokens -1"),
        ({"seed": -1}, "seed -1"),
        ({"stop": "end"}, "the one string `end`"),
        ({"stop": ["a", ""]}, "is empty"),
    ],
)
def test_settings_that_make_no_sense(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        GenerateSettings(**wrong)
