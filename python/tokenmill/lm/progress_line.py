"""The line that training shows: step, loss, speed, time left; redrawn on a terminal, now and then in a log."""

import sys
import time
from typing import TextIO

from tokenmill.progress import PLAIN_LINE_SECONDS, duration


class ProgressLine:
    """What a person sees of a run."""

    def __init__(self, max_steps: int, flops_per_token: float, peak_flops: float | None) -> None:
        self._max_steps = max_steps
        self._flops_per_token, self._peak_flops = flops_per_token, peak_flops
        self._stream: TextIO = sys.stderr
        self._redraws = self._stream.isatty()
        self._last_shown = 0.0
        self._seconds_per_step: float | None = None
        self._validation = ""

    def step(self, step: int, loss: float, lr: float, tokens: int, seconds: float) -> None:
        """A step is done."""
        old = self._seconds_per_step
        # The first step warms up caches and compilers; the pace is that of the last dozen.
        self._seconds_per_step = seconds if old is None or step < 3 else 0.9 * old + 0.1 * seconds
        now = time.monotonic()
        wait = 0.1 if self._redraws else PLAIN_LINE_SECONDS
        if now - self._last_shown < wait and step not in (1, self._max_steps):
            return
        self._last_shown = now
        rate = tokens / self._seconds_per_step
        parts = [
            f"step {step:,}/{self._max_steps:,}",
            f"loss {loss:.4f}{self._validation}",
            f"lr {lr:.2e}",
        ]
        parts.append(f"{rate:,.0f} tokens/s")
        if self._peak_flops:
            parts.append(f"MFU {rate * self._flops_per_token / self._peak_flops:.0%}")
        left = (self._max_steps - step) * self._seconds_per_step
        parts.append(f"{duration(left)} left" if step < self._max_steps else "done")
        self._write("  ".join(parts))

    def validation(self, step: int, loss: float) -> None:
        """A validation loss was taken."""
        self._validation = f" (validation {loss:.4f})"
        if not self._redraws:
            self._write(f"step {step:,}: validation loss {loss:.4f}")

    def warning(self, text: str) -> None:
        """Something a person should know, on a line that stays."""
        if self._redraws:
            self._stream.write("\r\x1b[2K")
        self._stream.write(f"note: {text}\n")
        self._stream.flush()

    def _write(self, text: str) -> None:
        if self._redraws:
            self._stream.write(f"\r\x1b[2K{text}")
        else:
            self._stream.write(text + "\n")
        self._stream.flush()

    def end(self) -> None:
        if self._redraws and self._last_shown:
            self._stream.write("\n")
