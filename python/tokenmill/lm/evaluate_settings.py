"""How a model is evaluated: one frozen record, free of torch."""

from dataclasses import dataclass

from tokenmill.errors import ConfigError
from tokenmill.sources.choices import require_whole_number


@dataclass(frozen=True)
class EvaluateSettings:
    """What decides which tokens a token is predicted from, and how many are read at once."""

    stride: int | None = None
    """How far windows move over documents longer than the context; `None` is half of it."""
    batch_tokens: int = 8192
    """Tokens read at once; decides memory, not results."""
    max_documents: int | None = None
    """Only so many documents, the first ones; `None` takes all."""

    def __post_init__(self) -> None:
        require_whole_number("batch_tokens", self.batch_tokens, 1)
        for name in ("stride", "max_documents"):
            if getattr(self, name) is not None:
                require_whole_number(name, getattr(self, name), 1)

    def stride_for(self, context: int) -> int:
        """ConfigError if windows would leave tokens out."""
        if self.stride is None:
            return max(1, context // 2)
        if self.stride > context:
            raise ConfigError(f"stride {self.stride} is above the context {context}")
        return self.stride
