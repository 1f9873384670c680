"""Whether a run fits: what is refused cannot fit, and what the hint says does."""

from dataclasses import replace

import pytest

from tokenmill.errors import DeviceError
from tokenmill.lm.accounting import account
from tokenmill.lm.memory import MemoryNeed
from tokenmill.lm.model_config import preset

CONFIG = preset("1m")


def parts(rows: int) -> dict[str, int]:
    return {part.name: part.value for part in account(CONFIG, batch_size=rows).memory.components}


def test_16_bits_halve_what_products_keep() -> None:
    whole = MemoryNeed(CONFIG, 8, None)
    assert whole.wanted == account(CONFIG, batch_size=8).memory.total
    for precision in ("bf16", "fp16"):
        half = replace(whole, precision=precision)
        assert whole.wanted - half.wanted == pytest.approx(parts(8)["activations"] / 2, abs=1)


def test_what_is_frozen_has_no_gradients() -> None:
    whole = MemoryNeed(CONFIG, 8, None)
    saved = whole.wanted - replace(whole, is_frozen=True).wanted
    assert (
        saved
        == parts(8)["gradients"] + parts(8)["optimizer"]
        == 12 * account(CONFIG).parameters.total
    )


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("is_frozen", [False, True])
def test_the_hint_is_the_most_that_fits(precision: str, is_frozen: bool) -> None:
    there = MemoryNeed(CONFIG, 5, None, precision, is_frozen).wanted
    need = MemoryNeed(CONFIG, 64, there, precision, is_frozen)
    assert need.most_rows() == 5
    with pytest.raises(DeviceError, match=r"64 rows at once takes about .*, and .* are there") as e:
        need.require()
    assert e.value.hint == "pass `--micro-batch-size 5`: the steps stay the same"
    replace(need, rows=5).require()
    with pytest.raises(DeviceError):
        replace(need, rows=6).require()


def test_not_even_one_row_fits() -> None:
    with pytest.raises(DeviceError) as caught:
        MemoryNeed(CONFIG, 2, 1_000_000).require()
    assert caught.value.hint is not None
    assert "a smaller `--preset` or `--context`" in caught.value.hint


def test_one_row_that_did_not_fit_after_all() -> None:
    """What is there by the numbers may be taken by others."""
    assert "--micro-batch-size" not in str(MemoryNeed(CONFIG, 1, 1 << 40).error())
