"""The shape of a model: one frozen record, the presets, and nothing of torch."""

from dataclasses import asdict, dataclass, fields
from typing import Any

from tokenmill.errors import ConfigError
from tokenmill.sources.choices import nearest_hint, require_one_of, require_whole_number

NORMS = ("rmsnorm", "layernorm")
NORM_PLACES = ("pre", "post", "none")
POSITIONS = ("rope", "learned", "none")
ACTIVATIONS = ("swiglu", "silu", "gelu", "relu2")
INITS = ("course", "gpt2")


def default_d_ff(d_model: int) -> int:
    """8/3 of the width, rounded up to a multiple of 64: three matrices then cost what two of 4 would."""
    return -(-8 * d_model // 192) * 64


@dataclass(frozen=True)
class ModelConfig:
    """Everything that decides the weights' shapes and what is computed with them."""

    vocab_size: int = 2048
    context: int = 128
    """Tokens a model sees at once."""
    num_layers: int = 4
    d_model: int = 128
    num_heads: int = 4
    num_kv_heads: int | None = None
    """Heads of keys and values, shared by groups of query heads; `None` gives each its own."""
    head_dim: int | None = None
    """Width of one head; `None` shares `d_model` among the heads."""
    d_ff: int | None = None
    """Width of the feed-forward part; `None` is 8/3 of `d_model`, rounded up to 64."""
    norm: str = "rmsnorm"
    norm_place: str = "pre"
    """Before each part, behind its sum with the stream (then there is no last norm), or nowhere."""
    norm_eps: float = 1e-5
    positions: str = "rope"
    rope_theta: float = 10_000.0
    activation: str = "swiglu"
    """`swiglu` has three matrices, the others two."""
    tied_head: bool = False
    """Whether embedding and head are one matrix."""
    qk_norm: bool = False
    """RMSNorm on each head's queries and keys."""
    softcap: float | None = None
    """Logits become `softcap * tanh(logits / softcap)`."""
    dropout: float = 0.0
    init: str = "course"
    """`course`: deviation sqrt(2 / (in + out)), cut at three of them, embedding 1; `gpt2`: 0.02, projections into the
    stream divided by sqrt(2 layers)."""

    def __post_init__(self) -> None:
        for name in ("vocab_size", "context", "num_layers", "d_model", "num_heads"):
            require_whole_number(name.replace("_", " "), getattr(self, name), 1)
        for name in ("num_kv_heads", "head_dim", "d_ff"):
            if getattr(self, name) is not None:
                require_whole_number(name.replace("_", " "), getattr(self, name), 1)
        for name, known in (
            ("norm", NORMS),
            ("norm_place", NORM_PLACES),
            ("positions", POSITIONS),
            ("activation", ACTIVATIONS),
            ("init", INITS),
        ):
            require_one_of(name.replace("_", " "), getattr(self, name), known)
        self._require_heads()
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"dropout {self.dropout} is not between 0 and 1")
        for name in ("softcap", "rope_theta", "norm_eps"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ConfigError(f"{name.replace('_', ' ')} {value} is not above 0")

    def _require_heads(self) -> None:
        if self.head_dim is None and self.d_model % self.num_heads:
            raise ConfigError(
                f"d_model {self.d_model} is not a multiple of num_heads {self.num_heads}",
                "each head takes an equal part of the width",
            )
        if self.num_heads % self.kv_heads:
            raise ConfigError(
                f"num_heads {self.num_heads} is not a multiple of num_kv_heads {self.kv_heads}"
            )
        if self.positions == "rope" and self.d_head % 2:
            made = f"d_model {self.d_model} over num_heads {self.num_heads}"
            raise ConfigError(
                f"{'head_dim' if self.head_dim is not None else made} is {self.d_head}, but RoPE "
                "needs an even number for each head"
            )

    @property
    def kv_heads(self) -> int:
        """Heads of keys and of values."""
        return self.num_kv_heads if self.num_kv_heads is not None else self.num_heads

    @property
    def d_head(self) -> int:
        """Width of one head."""
        return self.head_dim if self.head_dim is not None else self.d_model // self.num_heads

    @property
    def ff_width(self) -> int:
        """Width of the feed-forward part."""
        return self.d_ff if self.d_ff is not None else default_d_ff(self.d_model)

    @property
    def is_gated(self) -> bool:
        return self.activation == "swiglu"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(values: dict[str, Any]) -> "ModelConfig":
        """ConfigError for a name that is none, with the nearest."""
        known = [field.name for field in fields(ModelConfig)]
        for name in values:
            if name not in known:
                raise ConfigError(f"unknown setting `{name}` of a model", nearest_hint(name, known))
        return ModelConfig(**values)


def _shape(
    vocab_size: int, context: int, num_layers: int, d_model: int, num_heads: int, **more: Any
) -> ModelConfig:
    return ModelConfig(vocab_size, context, num_layers, d_model, num_heads, **more)


PRESETS = {
    "1m": _shape(2048, 128, 4, 128, 4),
    "4m": _shape(4096, 256, 6, 192, 6, tied_head=True, init="gpt2"),
    # The TinyStories model of the CS336 course: 17 million without the input embedding.
    "17m": _shape(10_000, 256, 4, 512, 16, d_ff=1344),
    "30m": _shape(8192, 512, 8, 512, 8),
    "60m": _shape(8192, 1024, 12, 640, 10, tied_head=True, init="gpt2"),
    "124m": _shape(16_384, 1024, 12, 768, 12, d_ff=2048),
    "160m": _shape(16_384, 1024, 16, 832, 13),
    # GPT-2's widths and depths in our architecture, as the course's accounting problem has them.
    "gpt2": _shape(50_257, 1024, 12, 768, 12, d_ff=3072),
    "gpt2-medium": _shape(50_257, 1024, 24, 1024, 16, d_ff=4096),
    "gpt2-large": _shape(50_257, 1024, 36, 1280, 20, d_ff=5120),
    "gpt2-xl": _shape(50_257, 1024, 48, 1600, 25, d_ff=6400),
}


def preset(name: str, **changes: Any) -> ModelConfig:
    """The preset `name` with some settings changed. ConfigError for an unknown one."""
    values = PRESETS[require_one_of("preset", name, PRESETS)].as_json()
    return ModelConfig.from_json({**values, **changes})
