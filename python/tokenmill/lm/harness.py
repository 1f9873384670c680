# pyright: basic
"""lm-evaluation-harness: its requests in, our scores and texts out. Needs the extra `eval`.

    lm_eval.simple_evaluate(model=HarnessModel("run"), tasks=["hellaswag"])
    python -m tokenmill.lm.harness --model tokenmill --model_args path=run --tasks hellaswag

What the harness leaves open is decided so that its numbers are those of other backends on the same weights, and of `lm evaluate`:

* A context and its continuation are encoded together, spaces at the join belonging to the continuation, and cut where the context
  ends. Where a token would span the join, each is encoded by itself, so that a continuation is never without tokens of its own.
* An empty context, and the start of a rolled text, is the token that stands before a document: the tokenizer's beginning of text, or else
  its end of text; `prefix_token` names another. Contexts that are not empty begin with it only if `add_bos_token` says so.
* A rolled text is scored whole, by the windows of `lm evaluate`. Special tokens in a text are text.
* What does not fit is cut from the left, and a warning says so once.
"""

import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from lm_eval.api.model import LM
from lm_eval.api.registry import register_model
from lm_eval.models.utils import normalize_gen_kwargs

from tokenmill.dataset.windows import NOT_TRAINED
from tokenmill.errors import ConfigError
from tokenmill.lm.evaluate_settings import EvaluateSettings
from tokenmill.lm.generate import generate, roles_of
from tokenmill.lm.open_model import LoadedModel, open_model
from tokenmill.lm.scoring import Window, cut, score
from tokenmill.progress import Meter

MAX_TOKENS = 256
"""Of a generated text for which a task says no length, as in other backends."""

log = logging.getLogger("tokenmill")


class HarnessModel(LM):
    """A model for `lm_eval.simple_evaluate`."""

    def __init__(
        self,
        path: str | os.PathLike[str] | LoadedModel,
        *,
        step: str | int = "last",
        device: str | None = None,
        tokenizer: str | os.PathLike[str] | None = None,
        prefix_token: str | None = None,
        add_bos_token: bool = False,
        stride: int | None = None,
        batch_tokens: int = EvaluateSettings.batch_tokens,
        batch_size: int | str | None = None,
        max_batch_size: int | None = None,
    ) -> None:
        """Open the model at `path`: a run, a checkpoint, a folder of transformers.

        `batch_size` and `max_batch_size`, which the harness passes, mean nothing: `batch_tokens` are read at once.
        """
        super().__init__()
        if not isinstance(path, LoadedModel):
            path = open_model(path, step=step, device=device, tokenizer=tokenizer)
        if path.tokenizer is None:
            raise ConfigError(
                f"`{path.folder}` comes without a tokenizer, and the harness asks in text",
                "pass `tokenizer=DIR`",
            )
        self.loaded, self.model, self.tokenizer = path, path.model, path.tokenizer
        self.settings = EvaluateSettings(stride, batch_tokens)
        self.context = self.model.config.context
        self.stride = self.settings.stride_for(self.context)
        self.prefix_id = _prefix_id(self.loaded, prefix_token)
        self.add_bos_token = add_bos_token
        self._has_said_cut = False

    @property
    def device(self) -> Any:
        return self.model.device

    @property
    def max_length(self) -> int:
        return self.context

    @property
    def tokenizer_name(self) -> str:
        return self.tokenizer.sha256

    def get_model_info(self) -> dict[str, Any]:
        """For the record that the harness keeps."""
        return {
            "model_num_parameters": self.model.num_parameters,
            "model_folder": str(self.loaded.folder),
            "model_step": self.loaded.step,
            "tokenizer_sha256": self.tokenizer.sha256,
        }

    def loglikelihood(self, requests: Sequence[Any]) -> list[tuple[float, bool]]:
        """For each (context, continuation): log p of the continuation, and whether each token of it is the likeliest."""
        windows: list[Window] = []
        for number, request in enumerate(requests):
            before, after = self._pair(*request.args)
            self._say_cut(len(before) + len(after) - 1)
            ids = [*before, *after]
            windows += cut(ids, self.context, self.stride, sequence=number, given=len(before))
        answers = [(-nats, greedy) for nats, greedy in self._scored(windows, len(requests))]
        return self._remembered("loglikelihood", requests, answers)

    def loglikelihood_rolling(self, requests: Sequence[Any]) -> list[float]:
        """For each (text,): log p of all of it."""
        windows = (
            window
            for number, request in enumerate(requests)
            for window in self._rolled(request.args[0], number)
        )
        answers = [-nats for nats, _ in self._scored(windows, len(requests))]
        return self._remembered("loglikelihood_rolling", requests, answers)

    def _rolled(self, text: str, number: int) -> Iterator[Window]:
        """Windows that see what those of `lm evaluate` see: there a token stands behind the text, which is scored apart."""
        ids = [self.prefix_id, *self.tokenizer.encode_ordinary(text), self.prefix_id]
        for window in cut(ids, self.context, self.stride, sequence=number):
            if window.is_last:
                window.targets[-1] = NOT_TRAINED
            yield window

    def _scored(self, windows: Iterable[Window], count: int) -> list[tuple[float, bool]]:
        """Nats of each sequence, and whether all its tokens are the likeliest; 0 and yes for one without tokens."""
        sums, greedy = [0.0] * count, [True] * count
        meter = Meter(None)
        meter.begin("scoring", "tokens")
        done = 0
        try:
            for scored in score(self.model, windows, self.settings.batch_tokens):
                number = scored.window.sequence
                sums[number] += float(scored.nats.sum())
                greedy[number] = greedy[number] and bool(scored.is_likeliest.all())
                done += len(scored.nats)
                meter.update(done, None)
        finally:
            meter.end()
        return list(zip(sums, greedy, strict=True))

    def _pair(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        """The ids of both, the first never empty."""
        stripped = context.rstrip()
        context, continuation = stripped, context[len(stripped) :] + continuation
        encode = self.tokenizer.encode_ordinary
        before, whole = encode(context), encode(context + continuation)
        # Where a token spans the join, the ids of the whole do not begin with those of the context.
        is_split = whole[: len(before)] == before
        after = whole[len(before) :] if is_split else encode(continuation)
        if self.add_bos_token or not before:
            before = [self.prefix_id, *before]
        return before, after

    def generate_until(self, requests: Sequence[Any]) -> list[str]:
        """For each (context, settings): the text that follows, up to one of its `until`."""
        answers = [""] * len(requests)
        for wanted, numbers in _by_settings(requests):
            prompts = [
                (number, self._prompt(requests[number].args[0], wanted["max_tokens"]))
                for number in numbers
            ]
            # The longest first, as in scoring; rows of one length waste nothing.
            prompts.sort(key=lambda prompt: -len(prompt[1]))
            rows = max(1, self.settings.batch_tokens // self.context)
            for start in range(0, len(prompts), rows):
                batch = prompts[start : start + rows]
                made = generate(self.model, self.tokenizer, [ids for _, ids in batch], **wanted)
                for (number, _), text in zip(batch, made, strict=True):
                    answers[number] = text.text
        return self._remembered("generate_until", requests, answers)

    def _prompt(self, context: str, max_tokens: int) -> list[int]:
        """The end of `context` that leaves room for `max_tokens`, or else half of what the model sees."""
        ids = self.tokenizer.encode_ordinary(context)
        if self.add_bos_token or not ids:
            ids = [self.prefix_id, *ids]
        room = max(self.context - max_tokens, self.context // 2, 1)
        self._say_cut(len(ids), room)
        return ids[-room:]

    def _say_cut(self, num_tokens: int, room: int | None = None) -> None:
        room = self.context if room is None else room
        if num_tokens > room and not self._has_said_cut:
            self._has_said_cut = True
            log.warning(
                "a request of %s tokens is longer than the %s there is room for: such are cut from the left",
                f"{num_tokens:,}",
                f"{room:,}",
            )

    def _remembered(self, kind: str, requests: Sequence[Any], answers: list[Any]) -> list[Any]:
        for request, answer in zip(requests, answers, strict=True):
            self.cache_hook.add_partial(kind, request.args, answer)
        return answers


# Not as a decorator, which would hide the class from type checkers.
register_model("tokenmill")(HarnessModel)


def _prefix_id(loaded: LoadedModel, given: str | None) -> int:
    """What stands before a document."""
    tokenizer = loaded.tokenizer
    special = {} if tokenizer is None else tokenizer.special_tokens
    if given is not None:
        if given not in special:
            raise ConfigError(
                f"`{given}` is no special token of `{loaded.folder}`",
                f"there are {', '.join(f'`{name}`' for name in special) or 'none'}",
            )
        return special[given]
    roles = roles_of(tokenizer)
    for role in ("bos_token", "eos_token"):
        if role in roles:
            return roles[role]
    raise ConfigError(
        f"no special token of `{loaded.folder}` says how a text begins", "pass `prefix_token=`"
    )


def _by_settings(requests: Sequence[Any]) -> Iterable[tuple[dict[str, Any], list[int]]]:
    """Settings of `generate`, and the requests that ask for them."""
    groups: dict[str, tuple[dict[str, Any], list[int]]] = {}
    for number, request in enumerate(requests):
        wanted = _settings(request.args[1])
        groups.setdefault(repr(wanted), (wanted, []))[1].append(number)
    return groups.values()


def _settings(asked: Mapping[str, Any]) -> dict[str, Any]:
    known: dict[str, Any] = {**normalize_gen_kwargs(dict(asked), MAX_TOKENS)}
    samples = known.get("do_sample", False)
    wanted: dict[str, Any] = {
        "max_tokens": known["max_gen_toks"],
        "stop": [text for text in known["until"] if text],
        "temperature": float(known.get("temperature", 1.0)) if samples else 0.0,
    }
    for name in ("top_k", "top_p", "seed"):
        if asked.get(name):
            wanted[name] = asked[name]
    return wanted


if __name__ == "__main__":
    from lm_eval.__main__ import cli_evaluate

    cli_evaluate()
