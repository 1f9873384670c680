# pyright: basic
"""Generate: a model and prompts in, text out, all at once or as it comes.

What a row becomes depends on its prompt and its seed, not on the rows beside it, up to rounding. The text is what the tokens spell, cut
before a stop string or a stop token.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from tokenmill.errors import ConfigError, VocabError
from tokenmill.lm.decoding import make_decoder
from tokenmill.lm.generate_settings import GenerateSettings
from tokenmill.lm.model import Model
from tokenmill.lm.sampling import Sampler, not_numbers
from tokenmill.lm.stop_strings import StopStrings
from tokenmill.tokenizer.formats import transformers_config
from tokenmill.tokenizer.tokenizer import Tokenizer

log = logging.getLogger("tokenmill")


@dataclass(frozen=True)
class Generation:
    """What became of one prompt."""

    prompt_ids: list[int]
    ids: list[int]
    """New tokens, a stop token left out; those of a stop string are there."""
    text: str
    """What the new tokens spell, without a stop string; empty where there is no tokenizer."""
    ended_by: str | int
    """`max_tokens`, the stop string, or the id of the stop token."""


def generate(
    model: Model,
    tokenizer: Tokenizer | None,
    prompts: str | Sequence[str | Sequence[int]],
    *,
    stream: Callable[[int, str], None] | None = None,
    **settings: Any,
) -> list[Generation]:
    """Go on with each of `prompts`, texts or lists of token ids, by the settings of `GenerateSettings`.

    Row i of the answer is that of prompt i, drawn by seed + i. An empty prompt begins a document: behind the tokenizer's end of
    text, or its beginning of text. Special tokens in a text are a VocabError; pass ids to use them. Of a prompt longer than the
    context the end is read, with a warning. `stream(i, text)` hears the text of row i as it comes.
    """
    chosen = GenerateSettings(**settings)
    texts = [prompts] if isinstance(prompts, str) else list(prompts)
    rows = [_prompt_ids(prompt, tokenizer, model) for prompt in texts]
    ends = _stop_ids(chosen.stop_tokens, tokenizer)
    if chosen.stop and tokenizer is None:
        raise ConfigError("stop strings are given, but the model comes without a tokenizer")
    answers: dict[int, Generation] = {}
    was_training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            for group in _groups(rows, model):
                batch = _Batch(model, tokenizer, {row: rows[row] for row in group}, chosen, ends)
                answers |= batch.run(stream)
    finally:
        model.train(was_training)
    return [answers[row] for row in range(len(rows))]


def _prompt_ids(
    prompt: str | Sequence[int], tokenizer: Tokenizer | None, model: Model
) -> list[int]:
    if isinstance(prompt, str):
        if tokenizer is None:
            raise ConfigError(
                "a text is given, but the model comes without a tokenizer",
                "pass token ids, or `--tokenizer DIR` (`tokenizer=`)",
            )
        ids = tokenizer.encode(prompt)
    else:
        ids = [int(token) for token in prompt]
    if not ids:
        ids = [_first_id(tokenizer)]
    if min(ids) < 0 or max(ids) >= model.config.vocab_size:
        wrong = next(token for token in ids if not 0 <= token < model.config.vocab_size)
        raise VocabError(
            f"token id {wrong} is none of the {model.config.vocab_size:,} the model knows"
        )
    if len(ids) > model.config.context:
        log.warning(
            "a prompt of %s tokens is longer than the context: its last %s are read",
            f"{len(ids):,}",
            f"{model.config.context:,}",
        )
    return ids


def _first_id(tokenizer: Tokenizer | None) -> int:
    """What stands before a document in training data."""
    roles = roles_of(tokenizer)
    for role in ("bos_token", "eos_token"):
        if role in roles:
            return roles[role]
    raise ConfigError("a prompt is empty, and no special token says how a text begins")


def roles_of(tokenizer: Tokenizer | None) -> dict[str, int]:
    """Role, such as `eos_token`, → token id."""
    return {} if tokenizer is None else transformers_config.roles(tokenizer._vocab)


def _stop_ids(given: Sequence[int | str] | None, tokenizer: Tokenizer | None) -> frozenset[int]:
    if given is None:
        return frozenset(
            token for role, token in roles_of(tokenizer).items() if role == "eos_token"
        )
    ids = set[int]()
    for token in given:
        if isinstance(token, int):
            ids.add(token)
            continue
        known = {} if tokenizer is None else tokenizer.special_tokens
        if token not in known:
            raise VocabError(
                f"`{token}` is no special token, so it cannot be a stop token",
                f"there are {', '.join(f'`{name}`' for name in known) or 'none'}; "
                "a stop string may be any text",
            )
        ids.add(known[token])
    return frozenset(ids)


def _groups(rows: Sequence[Sequence[int]], model: Model) -> Iterable[list[int]]:
    """Rows that go together: all, or with learned positions those of one length."""
    if model.config.positions != "learned":
        return [list(range(len(rows)))] if rows else []
    by_length: dict[int, list[int]] = {}
    for number, row in enumerate(rows):
        by_length.setdefault(len(row), []).append(number)
    return by_length.values()


class _Text:
    """One row as it grows."""

    def __init__(
        self, prompt_ids: list[int], tokenizer: Tokenizer | None, settings: GenerateSettings
    ) -> None:
        self.prompt_ids = prompt_ids
        self.ids: list[int] = []
        self.parts: list[str] = []
        self.ended_by: str | int | None = None
        self.decoder = None if tokenizer is None else tokenizer.decode_stream()
        self.stop = StopStrings(settings.stop)

    def take(self, token: int, ends: frozenset[int], is_last: bool) -> str:
        """Append a token; the text that is certain with it."""
        text = ""
        if token in ends:
            self.ended_by = token
        else:
            self.ids.append(token)
            if self.decoder is not None:
                text = self.stop.feed(self.decoder.feed(token))
            self.ended_by = self.stop.found
        if self.ended_by is None and is_last:
            self.ended_by = "max_tokens"
        if self.ended_by is not None:
            text += self._rest()
        self.parts.append(text)
        return text

    def _rest(self) -> str:
        if self.decoder is None or self.stop.found is not None:
            return ""
        rest = self.stop.feed(self.decoder.finish())
        if self.stop.found is not None:
            self.ended_by = self.stop.found
            return rest
        return rest + self.stop.finish()

    def answer(self) -> Generation:
        ended_by = "max_tokens" if self.ended_by is None else self.ended_by
        return Generation(self.prompt_ids, self.ids, "".join(self.parts), ended_by)


class _Batch:
    """Rows that are generated together."""

    def __init__(
        self,
        model: Model,
        tokenizer: Tokenizer | None,
        rows: dict[int, list[int]],
        settings: GenerateSettings,
        ends: frozenset[int],
    ) -> None:
        self.model, self.settings, self.ends = model, settings, ends
        self.known_ids = model.config.vocab_size if tokenizer is None else tokenizer.vocab_size
        self.rows = rows
        self.texts = {row: _Text(ids, tokenizer, settings) for row, ids in rows.items()}

    def run(self, stream: Callable[[int, str], None] | None) -> dict[int, Generation]:
        max_tokens = self.settings.max_tokens
        if max_tokens:
            decoder = make_decoder(self.model, list(self.rows.values()), max_tokens)
            if not decoder.logits_BV.isfinite().all():
                raise not_numbers()
            sampler = Sampler(self.settings, [self.settings.seed + row for row in self.rows])
            for step in range(max_tokens):
                # A model may have room for more ids than its tokenizer has; those spell nothing.
                ids = sampler.draw(decoder.logits_BV[:, : self.known_ids])
                self._take(ids, step + 1 == max_tokens, stream)
                if all(text.ended_by is not None for text in self.texts.values()):
                    break
                decoder.feed(ids)
        return {row: text.answer() for row, text in self.texts.items()}

    def _take(
        self, ids: list[int], is_last: bool, stream: Callable[[int, str], None] | None
    ) -> None:
        """Rows that have ended go on unseen: taking them out would cost more than it saves."""
        for (row, text), token in zip(self.texts.items(), ids, strict=True):
            if text.ended_by is None:
                part = text.take(token, self.ends, is_last)
                if part and stream is not None:
                    stream(row, part)
