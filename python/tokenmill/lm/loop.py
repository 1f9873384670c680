# pyright: basic
"""The one training loop: step, evaluate, save, resume.

A step is a function of weights, moments and its number: rows, learning rate and dropout follow from (seed, step). So a run that
is killed and goes on from a checkpoint ends with the bits it would have ended with.
"""

import contextlib
import math
import signal
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from tokenmill.errors import ConfigError, TokenmillError
from tokenmill.lm.batches import Batch, Rows
from tokenmill.lm.checkpoint import (
    Checkpoint,
    best_checkpoint,
    copy_weights,
    find_checkpoints,
    remove_checkpoint,
    save_checkpoint,
    step_folder,
    weights_of,
)
from tokenmill.lm.compiling import compiled_or_none
from tokenmill.lm.distributed import Ranks
from tokenmill.lm.hardware import autocast
from tokenmill.lm.lanes import Lanes, lanes_of
from tokenmill.lm.metrics import Metrics
from tokenmill.lm.model import Model
from tokenmill.lm.objective import Objective
from tokenmill.lm.optimizer import make_optimizer, moments_of, restore_moments
from tokenmill.lm.permutation import mixed
from tokenmill.lm.progress_line import ProgressLine
from tokenmill.lm.settings import TrainSettings

CHECKPOINTS = "checkpoints"
DIVERGED_NATS = 3.0
DIVERGED_STEPS = 20


class Stopped(TokenmillError):
    """A signal asked training to stop; everything is saved."""

    def __init__(self, step: int, signal_name: str) -> None:
        super().__init__(f"stopped by {signal_name} after step {step:,}; all is saved")
        self.step, self.signal_name = step, signal_name


class Diverged(TokenmillError, ArithmeticError):
    """The loss is not a number any more, or far above what it was."""


@dataclass(frozen=True)
class StepResult:
    """What a step has to say."""

    step: int
    """Steps done, this one included."""
    loss: float
    lr: float
    grad_norm: float
    seconds: float
    tokens: int
    """Without padding."""
    more: Mapping[str, float] = field(default_factory=dict[str, float])
    """What the objective says besides its loss, as means."""


class Watch(Protocol):
    """What looks at each step, has something to say now and then, and goes on where it was."""

    def __call__(self, result: StepResult) -> Iterable[str]: ...
    def state(self) -> dict[str, Any]: ...
    def restore(self, state: Mapping[str, Any]) -> None: ...


@dataclass
class Loop:
    """Training under way."""

    model: Model
    objective: Objective
    settings: TrainSettings
    train: Rows
    validation: Rows | None
    folder: Path
    metrics: Metrics | None
    """Only the first rank has them."""
    state: Mapping[str, Any]
    """What every checkpoint says besides the step: model, data, tokenizer."""
    ranks: Ranks
    flops_per_token: float
    peak_flops: float | None = None
    on_step: list[Callable[[StepResult], None]] = field(default_factory=list)
    on_sample: Callable[[int], list[str]] | None = None
    on_validation: list[Callable[[int, float], None]] = field(default_factory=list)
    watch: Watch | None = None
    on_warning: list[Callable[[str], None]] = field(default_factory=list)
    bytes_per_token: float | None = None
    """Of the whole validation text; without it there are no bits per byte."""
    step: int = 0
    tokens: int = 0
    """In all steps, without padding."""
    last_loss: float | None = None
    """Of the last step."""
    _validation_loss: tuple[int, float] | None = None
    """The last one, and its step."""
    _worse_steps: int = 0
    _lowest: float = math.inf
    _asked_to_stop: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        settings = self.settings
        self.device = self.model.device
        self.rates = settings.learning_rates()
        self.optimizer = make_optimizer(
            self.model,
            settings.optimizer,
            lr=settings.lr,
            betas=(settings.beta1, settings.beta2),
            eps=settings.eps,
            weight_decay=settings.weight_decay,
        )
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=settings.precision == "fp16")
        share = settings.batch_size // self.ranks.world_size
        if share * self.ranks.world_size != settings.batch_size:
            raise ConfigError(
                f"batch size {settings.batch_size} cannot be shared equally by {self.ranks.world_size} ranks"
            )
        self.rows_per_rank = share
        self.micro_batch_size = min(settings.micro_batch_size or share, share)
        self.forward: nn.Module = self.objective

    def prepare(self, *, compiled: bool) -> None:
        """Put the compiler and the other ranks around the objective."""
        if compiled and self.step < self.settings.max_steps:
            found = compiled_or_none(self.objective, self._try)
            # All or none: they add up what they make.
            is_missing = self.ranks.any(found is None, self.device)
            self.forward = self.objective if is_missing or found is None else found
        if not self.ranks.is_alone:
            self.forward = nn.parallel.DistributedDataParallel(self.forward)

    def _try(self, forward: nn.Module) -> None:
        """The way forth and back of a micro-batch, to no effect."""
        self.objective.train()
        with self._autocast():
            sums = forward(self._load(self._rows())[0].to(self.device))
        sums[0].backward()
        self.optimizer.zero_grad(set_to_none=True)

    def show_progress(self) -> ProgressLine:
        """A line on stderr from now on."""
        shown = ProgressLine(self.settings.max_steps, self.flops_per_token, self.peak_flops)
        self.on_step.append(
            lambda done: shown.step(done.step, done.loss, done.lr, done.tokens, done.seconds)
        )
        self.on_validation.append(shown.validation)
        self.on_warning.append(shown.warning)
        return shown

    @property
    def last_validation_loss(self) -> float | None:
        return None if self._validation_loss is None else self._validation_loss[1]

    def resume(self, checkpoint: Checkpoint) -> None:
        """Go on from `checkpoint`."""
        copy_weights(self.model, checkpoint.weights(), f"`{checkpoint.folder}`")
        restore_moments(self.model, self.optimizer, checkpoint.optimizer())
        self.step = checkpoint.step
        self.tokens = checkpoint.state.get("tokens") or 0
        self.last_loss = checkpoint.state.get("loss")
        validated = checkpoint.state.get("validation_loss")
        self._validation_loss = None if validated is None else (checkpoint.step, validated)
        self._lowest = checkpoint.state.get("lowest") or math.inf
        if self.watch is not None and checkpoint.state.get("watch") is not None:
            self.watch.restore(checkpoint.state["watch"])
        if self.settings.precision == "fp16":
            self.scaler.load_state_dict(checkpoint.state["scaler"])

    def run(self) -> None:
        """All steps that are left. Stopped after a signal, Diverged when the loss has gone."""
        settings = self.settings
        with self._signals():
            while self.step < settings.max_steps:
                result = self._step()
                for call in self.on_step:
                    call(result)
                self._record(result)
                self._look_at(result)
                is_last = self.step == settings.max_steps
                saves = is_last or _is_due(self.step, settings.steps_between_saves)
                # A checkpoint is known by its loss, or nobody could say which is the best.
                every = settings.steps_between_evals
                if every and (saves or _is_due(self.step, every)):
                    self._evaluate()
                if is_last or _is_due(self.step, settings.sample_every):
                    self._sample()
                stop = self.ranks.any(self._asked_to_stop is not None, self.device)
                if saves or stop:
                    self.save()
                if stop and not is_last:
                    raise Stopped(self.step, self._asked_to_stop or "a signal to another rank")

    def _step(self) -> StepResult:
        started = time.perf_counter()
        lr = self.rates.rate(self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        rows = self._rows()
        micro_batches = self._load(rows)
        counts = self._counts(micro_batches)
        self.objective.train()
        total = torch.zeros_like(counts)
        # Ranks average their gradients, and we want the sum over targets.
        shares = [
            self.ranks.world_size * weight / count
            for weight, count in zip(self.objective.terms, counts.tolist(), strict=False)
        ]
        for number, batch in enumerate(micro_batches):
            is_last = number == len(micro_batches) - 1
            self._seed_dropout(number)
            total += self._backward(batch.to(self.device), shares, is_last).double()
        mean, named = self._means(self.ranks.sum(total), counts)
        grad_norm = self._clipped_norm()
        self._require_sound(mean, grad_norm)
        if self.step == 0:
            self.objective.require_start(mean, named)
        self.last_loss = mean
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        tokens = self.train.num_tokens(rows)
        self.step, self.tokens = self.step + 1, self.tokens + tokens
        seconds = time.perf_counter() - started
        return StepResult(self.step, mean, lr, grad_norm, seconds, tokens, named)

    def _counts(self, batches: list[Batch]) -> Tensor:
        """Over how many each sum of the objective is, on all ranks; at least 1, to divide by."""
        ours = [self.objective.counts(batch) for batch in batches]
        counts = torch.tensor(ours, device=self.device, dtype=torch.float64).sum(0)
        return self.ranks.sum(counts).clamp(min=1)

    def _means(self, sums: Tensor, counts: Tensor) -> tuple[float, dict[str, float]]:
        """The loss, and what is reported beside it."""
        means = (sums / counts).tolist()
        terms = self.objective.terms
        loss = math.fsum(weight * mean for weight, mean in zip(terms, means, strict=False))
        return loss, dict(zip(self.objective.names, means[len(terms) :], strict=True))

    def _backward(self, batch: Batch, shares: list[float], is_last: bool) -> Tensor:
        """The sums of a micro-batch; the gradients of its terms, each times its share, are added to those there are."""

        def sums_of(part: Batch) -> tuple[Tensor, Tensor]:
            with self._autocast():
                sums = self.forward(part)
                loss = sums[0] * shares[0]
                for place, share in enumerate(shares[1:], 1):
                    loss = loss + sums[place] * share
                return sums, self.scaler.scale(loss)

        if self.lanes is not None:
            return self.lanes.backward(self.model, sums_of, batch)
        with self._without_sync(is_last):
            sums, scaled = sums_of(batch)
            scaled.backward()
        return sums.detach()

    @property
    def lanes(self) -> Lanes | None:
        """Where each row is for itself until gradients are added: with no compiler or other ranks around it, and no random numbers."""
        is_plain = self.forward is self.objective and self.settings.precision != "fp16"
        if self.device.type != "cpu" or not is_plain or self.model.config.dropout:
            return None
        return lanes_of(torch.get_num_threads())

    def _rows(self) -> list[int]:
        """Of this step, on all ranks."""
        return self.train.rows_of(self.step, self.settings.batch_size, self.settings.seed).tolist()

    def _load(self, rows: list[int]) -> list[Batch]:
        first = self.ranks.rank * self.rows_per_rank
        ours = rows[first : first + self.rows_per_rank]
        size = self.micro_batch_size
        return [self.train.load(ours[at : at + size]) for at in range(0, len(ours), size)]

    def _seed_dropout(self, micro_batch: int) -> None:
        if self.model.config.dropout:
            torch.manual_seed(mixed(self.settings.seed, self.step, micro_batch, self.ranks.rank))

    def _without_sync(self, is_last: bool) -> Any:
        if self.ranks.is_alone or is_last:
            return contextlib.nullcontext()
        return self.forward.no_sync()  # pyright: ignore

    def _autocast(self) -> Any:
        return autocast(self.device, self.settings.precision)

    def _clipped_norm(self) -> float:
        self.scaler.unscale_(self.optimizer)
        longest = math.inf if self.settings.clip is None else self.settings.clip
        return float(torch.nn.utils.clip_grad_norm_(self.model.parameters(), longest))

    def _require_sound(self, loss: float, grad_norm: float) -> None:
        """Diverged before a bad step is taken; the weights are still good, and are saved."""
        self._lowest = min(self._lowest, loss)
        self._worse_steps = self._worse_steps + 1 if loss > self._lowest + DIVERGED_NATS else 0
        # With fp16 a gradient that overflows is skipped, and the scale lowered.
        is_overflow = self.settings.precision == "fp16" and math.isfinite(loss)
        if math.isfinite(loss) and (math.isfinite(grad_norm) or is_overflow):
            if self._worse_steps < DIVERGED_STEPS:
                return
            what = (
                f"the loss has been more than {DIVERGED_NATS:g} above its lowest, {self._lowest:.3f}, for "
                f"{DIVERGED_STEPS} steps"
            )
        else:
            what = f"the loss is {loss} and the gradient's norm {grad_norm}"
        self.optimizer.zero_grad(set_to_none=True)
        self.save()
        raise Diverged(
            f"{what}, at step {self.step + 1:,}; the weights before it are saved",
            f"try a lower `--lr` (it is {self.settings.lr:g}), more `--warmup-steps`, or `--precision fp32`",
        )

    def _record(self, result: StepResult) -> None:
        if self.metrics is None:
            return
        if (
            result.step != 1
            and result.step != self.settings.max_steps
            and not _is_due(result.step, self.settings.log_every)
        ):
            return
        rate = result.tokens / result.seconds
        record = {
            "kind": "train",
            "step": result.step,
            "tokens": self.tokens,
            "loss": result.loss,
            **result.more,
            "lr": result.lr,
            "grad_norm": result.grad_norm,
            "tokens_per_second": rate,
            "mfu": None
            if self.peak_flops is None
            else rate * self.flops_per_token / self.peak_flops,
            "time": time.time(),
        }
        self.metrics.add(record)

    def _look_at(self, result: StepResult) -> None:
        for text in () if self.watch is None else self.watch(result):
            for call in self.on_warning:
                call(text)
            if self.metrics is not None:
                self.metrics.add({"kind": "warning", "step": result.step, "text": text})

    @torch.no_grad()
    def validation_means(self) -> tuple[float, dict[str, float]] | None:
        """The loss and what else the objective says over the same rows each time; ranks share them."""
        if self.validation is None:
            return None
        self.objective.eval()
        rows = list(self.validation.first(self.settings.eval_rows))[
            self.ranks.rank :: self.ranks.world_size
        ]
        size = len(self.objective.terms) + len(self.objective.names)
        sums, counts = torch.zeros(2, size, device=self.device, dtype=torch.float64)
        for at in range(0, len(rows), self.micro_batch_size):
            batch = self.validation.load(rows[at : at + self.micro_batch_size])
            sums += self._sums_only(batch.to(self.device))
            counts += torch.tensor(self.objective.counts(batch), device=self.device)
        return self._means(self.ranks.sum(sums), self.ranks.sum(counts))

    def _sums_only(self, batch: Batch) -> Tensor:
        def sums(part: Batch) -> Tensor:
            with torch.no_grad(), self._autocast():
                return self.objective(part).double()

        parts = [sums(batch)] if self.lanes is None else self.lanes.map(sums, batch)
        return torch.stack(parts).sum(0)

    def _evaluate(self) -> None:
        means = self.validation_means()
        if means is None:
            return
        loss, named = means
        self._validation_loss = (self.step, loss)
        for call in self.on_validation:
            call(self.step, loss)
        if self.metrics is not None:
            record = {"kind": "validation", "step": self.step, "loss": loss, **named}
            if self.bytes_per_token is not None:
                # Close to what `lm evaluate` says exactly, which reads all documents whole.
                record["bits_per_byte"] = loss / (math.log(2) * self.bytes_per_token)
            self.metrics.add({**record, "time": time.time()})

    def _sample(self) -> None:
        if self.on_sample is None or self.metrics is None:
            return
        self.model.eval()
        for text in self.on_sample(self.step):
            self.metrics.add({"kind": "sample", "step": self.step, "text": text})

    def save(self) -> None:
        """A checkpoint of now. Older ones go, but for the last few and the best."""
        if self.ranks.is_first:
            if self.metrics is not None:
                self.metrics.sync()
            folder = self.folder / CHECKPOINTS
            folder.mkdir(parents=True, exist_ok=True)
            save_checkpoint(
                step_folder(folder, self.step),
                weights_of(self.model),
                moments_of(self.model, self.optimizer),
                self._state(),
            )
            self._forget(folder)
        self.ranks.wait()

    def _state(self) -> dict[str, Any]:
        last = self._validation_loss
        return {
            "step": self.step,
            "tokens": self.tokens,
            "loss": self.last_loss,
            "validation_loss": last[1] if last is not None and last[0] == self.step else None,
            "lowest": None if math.isinf(self._lowest) else self._lowest,
            "scaler": self.scaler.state_dict(),
            "watch": None if self.watch is None else self.watch.state(),
            **self.state,
        }

    def _forget(self, folder: Path) -> None:
        best = best_checkpoint(folder)
        for old in find_checkpoints(folder)[self.settings.keep_last :]:
            if old != best:
                remove_checkpoint(old)

    @contextlib.contextmanager
    def _signals(self) -> Generator[None]:
        """SIGINT, SIGTERM and SIGHUP end the run behind the step under way."""

        def ask(number: int, _: object) -> None:
            self._asked_to_stop = signal.Signals(number).name

        names = [name for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
        before: dict[int, Any] = {}
        try:
            for name in names:
                number = getattr(signal, name)
                with contextlib.suppress(ValueError):  # not the main thread: signals are not ours
                    before[number] = signal.signal(number, ask)
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _is_due(step: int, every: int) -> bool:
    return every > 0 and step % every == 0
