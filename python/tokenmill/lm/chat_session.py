# pyright: basic
"""A conversation with a model: what a person says in, what the model answers out, with what was said before in mind.

A conversation that outgrows the context loses its oldest turns, two at a time, so that it always begins with what a person said; the
system prompt stays. An answer that is stopped counts as far as it came.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from tokenmill.errors import ConfigError
from tokenmill.lm.chat_format import ChatFormat
from tokenmill.lm.config_file import settings_from
from tokenmill.lm.generate import generate
from tokenmill.lm.generate_settings import GenerateSettings
from tokenmill.lm.model import Model
from tokenmill.sources.choices import nearest_hint

CHANGEABLE = ("max_tokens", "temperature", "top_k", "top_p", "seed")
LEAST_ANSWER = 16
"""Tokens that an answer is left, however much was said before."""


@dataclass(frozen=True)
class Reply:
    """What a model answered."""

    text: str
    ids: list[int]
    ended_by: str | int
    """`stopped` where a person had heard enough; else as in a `Generation`."""
    forgotten: int
    """Turns that did not fit the context any more, and are gone."""


class ChatSession:
    """One conversation."""

    def __init__(
        self,
        model: Model,
        form: ChatFormat,
        settings: GenerateSettings | None = None,
        system: str | None = None,
    ) -> None:
        self.model, self.form = model, form
        self.settings = replace(settings or GenerateSettings(), stop_tokens=form.stop_tokens)
        self.system = system
        self.turns: list[dict[str, str]] = []

    def reset(self) -> None:
        """Forget all that was said, but for the system prompt."""
        self.turns = []

    def change(self, name: str, value: Any) -> None:
        """Another way to draw answers from now on. ConfigError if there is no such setting."""
        if name not in CHANGEABLE:
            raise ConfigError(
                f"`{name}` is nothing to change here",
                nearest_hint(name, CHANGEABLE) or f"there are {', '.join(CHANGEABLE)}",
            )
        self.settings = settings_from(GenerateSettings, {name: value}, base=self.settings)

    @property
    def parameters(self) -> dict[str, Any]:
        return {name: getattr(self.settings, name) for name in CHANGEABLE}

    def answer(self, text: str, stream: Callable[[str], None] | None = None) -> Reply:
        """What the model says to `text`; `stream` hears it as it comes, and may stop it with KeyboardInterrupt.

        ConfigError if `text` alone is longer than the context.
        """
        turns = [*self.turns, {"role": "user", "content": text}]
        ids, forgotten = self._fitting(turns)
        heard: list[str] = []

        def hear(_: int, part: str) -> None:
            heard.append(part)
            if stream is not None:
                stream(part)

        how = asdict(replace(self.settings, max_tokens=self._room(ids)))
        try:
            (found,) = generate(self.model, self.form.tokenizer, [ids], stream=hear, **how)
            reply = Reply(found.text, found.ids, found.ended_by, forgotten)
        except KeyboardInterrupt:
            reply = Reply("".join(heard), [], "stopped", forgotten)
        self.turns = [*turns[forgotten:], {"role": "assistant", "content": reply.text}]
        return reply

    def _room(self, ids: list[int]) -> int:
        """An answer never pushes its own question out of the context."""
        return min(self.settings.max_tokens, self.model.config.context - len(ids))

    def _fitting(self, turns: list[dict[str, str]]) -> tuple[list[int], int]:
        """The prompt of as many of the last `turns` as fit, and how many do not."""
        most = self.model.config.context
        wanted = min(LEAST_ANSWER, self.settings.max_tokens, most // 2)
        for forgotten in range(0, len(turns), 2):
            ids = self.form.prompt_ids([*self._system_turn(), *turns[forgotten:]])
            if len(ids) + wanted <= most:
                return ids, forgotten
        raise ConfigError(
            f"the message has {len(ids):,} tokens, and the model sees {most:,} at once, {wanted} of them for its answer",
            "say it in fewer words",
        )

    def _system_turn(self) -> list[dict[str, str]]:
        return [] if self.system is None else [{"role": "system", "content": self.system}]
