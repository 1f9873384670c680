"""What a model costs, before anything is made: its shape in, parameters, FLOPs and bytes by component out.

Every number is a sum of products, and every product keeps its factors, so that they can be shown. Parameters are those of
`Model`; FLOPs are those of torch's counter: 2·m·n·p for each matrix product, attention over all pairs of positions, nothing
for what is done element by element. Activations are what autograd keeps in float32 on a CPU.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from tokenmill.lm.model_config import ModelConfig
from tokenmill.sources.choices import require_whole_number

FLOAT_BYTES = 4
CHUNK_BYTES = 4 << 20
"""Logits that are held at a time when the loss is made in chunks; loss.py's."""
BACKWARD_TO_FORWARD = 2
"""Each matrix product has two in the way back: for the gradient of either side."""


@dataclass(frozen=True)
class Product:
    """Numbers with names, to be multiplied. A factor without a name is a plain number of the formula."""

    what: str
    factors: tuple[tuple[str, int], ...]

    @property
    def value(self) -> int:
        return math.prod(number for _, number in self.factors)

    def __str__(self) -> str:
        names = " · ".join(name or f"{number:,}" for name, number in self.factors)
        numbers = " · ".join(f"{number:,}" for _, number in self.factors)
        is_alone = len(self.factors) == 1
        return f"{names} = {numbers}" if is_alone else f"{names} = {numbers} = {self.value:,}"


@dataclass(frozen=True)
class Component:
    """A part of the model, or of its memory."""

    name: str
    products: tuple[Product, ...]

    @property
    def value(self) -> int:
        return sum(product.value for product in self.products)


@dataclass(frozen=True)
class Breakdown:
    """Components that add up to a whole."""

    components: tuple[Component, ...]

    @property
    def total(self) -> int:
        return sum(component.value for component in self.components)

    def __getitem__(self, name: str) -> int:
        """The value of one component, 0 where a model has none of it."""
        return sum(each.value for each in self.components if each.name == name)

    def share(self, name: str) -> float:
        return self[name] / self.total

    def as_json(self) -> dict[str, Any]:
        return {
            "total": self.total,
            "components": {each.name: each.value for each in self.components},
            "shares": {each.name: each.value / self.total for each in self.components},
        }


@dataclass(frozen=True)
class Account:
    """The costs of one shape. `config.context` is the length that FLOPs and memory are for."""

    config: ModelConfig
    batch_size: int
    parameters: Breakdown
    forward: Breakdown
    """FLOPs of one sequence of `context` tokens."""
    memory: Breakdown
    """Bytes while training in float32 with AdamW, eager, the loss in chunks."""
    other_memory: dict[str, int] = field(compare=False)
    """Bytes of what may take a part's place: compiled, whole logits, and generating."""

    @property
    def without_input_embedding(self) -> int:
        """What multiplies: all but tables that are looked up. A tied matrix is the head, so it counts."""
        tables = self.parameters["positions"]
        return self.parameters.total - tables - (0 if self.config.tied_head else self._table)

    @property
    def non_embedding(self) -> int:
        """The blocks and norms alone: no table and no head."""
        heads = self.parameters["head"]
        return self.parameters.total - self.parameters["positions"] - self._table - heads

    @property
    def _table(self) -> int:
        return self.config.vocab_size * self.config.d_model

    @property
    def training_flops(self) -> int:
        """Of one sequence, forth and back."""
        return (1 + BACKWARD_TO_FORWARD) * self.forward.total

    @property
    def training_flops_per_token(self) -> float:
        return self.training_flops / self.config.context

    @property
    def causal_forward_flops(self) -> int:
        """As if attention looked at T·(T+1)/2 pairs of positions, those it may see, and not at all T²."""
        context = self.config.context
        return self.forward.total - self.forward["attention"] * (context - 1) // (2 * context)

    @property
    def rule_of_thumb(self) -> int:
        """6·N·D for one sequence, with all parameters."""
        return 6 * self.parameters.total * self.config.context

    def as_json(self) -> dict[str, Any]:
        return {
            "model": self.config.as_json(),
            "context": self.config.context,
            "batch_size": self.batch_size,
            "parameters": {
                **self.parameters.as_json(),
                "without_input_embedding": self.without_input_embedding,
                "non_embedding": self.non_embedding,
            },
            "forward_flops": self.forward.as_json(),
            "training_flops": self.training_flops,
            "training_flops_per_token": self.training_flops_per_token,
            "causal_forward_flops": self.causal_forward_flops,
            "rule_of_thumb": self.rule_of_thumb,
            "memory_bytes": {**self.memory.as_json(), **self.other_memory},
        }


def account(config: ModelConfig, *, context: int | None = None, batch_size: int = 1) -> Account:
    """What `config` costs with sequences of `context` tokens, `batch_size` of them at a time.

    Another `context` than the config's is taken as that of a model made for it, with as many learned positions.

    >>> from tokenmill.lm.model_config import preset
    >>> xl = account(preset("gpt2-xl"))
    >>> f"{xl.parameters.total:,}", f"{xl.forward.total:,}", f"{xl.forward.share('ffn'):.2%}"
    ('2,127,057,600', '4,513,336,524,800', '66.91%')
    """
    if context is not None:
        config = replace(config, context=require_whole_number("context", context, 1))
    require_whole_number("batch size", batch_size, 1)
    parameters = Breakdown(tuple(_present(_parameters(config))))
    activations = _activations(config, batch_size)
    memory = _training_memory(config, batch_size, parameters.total, activations)
    other = {
        "activations_compiled": FLOAT_BYTES * _compiled(config, batch_size, activations),
        "logits_whole": _logits(config, batch_size).value,
        "key_value_cache": key_value_cache_bytes(config) * config.context * batch_size,
    }
    return Account(config, batch_size, parameters, Breakdown(tuple(_flops(config))), memory, other)


def key_value_cache_bytes(config: ModelConfig) -> int:
    """Of one position, while generating."""
    return 2 * config.num_layers * config.kv_heads * config.d_head * FLOAT_BYTES


def _present(components: Iterator[Component]) -> Iterator[Component]:
    """Without the parts that a model does not have."""
    return (each for each in components if each.value)


def _sizes(config: ModelConfig) -> tuple[tuple[str, int], ...]:
    layers, width = ("layers", config.num_layers), ("d_model", config.d_model)
    queries = ("heads·d_head", config.num_heads * config.d_head)
    keys = ("kv_heads·d_head", config.kv_heads * config.d_head)
    return layers, width, queries, keys, ("d_ff", config.ff_width), ("vocab", config.vocab_size)


def _matrices(config: ModelConfig) -> tuple[str, int]:
    return ("matrices", 3 if config.is_gated else 2)


def _parameters(config: ModelConfig) -> Iterator[Component]:
    layers, width, queries, keys, inner, vocab = _sizes(config)
    shared = "token embedding, also the head" if config.tied_head else "token embedding"
    yield Component("embedding", (Product(shared, (vocab, width)),))
    if config.positions == "learned":
        learned = Product("learned positions", (("context", config.context), width))
        yield Component("positions", (learned,))
    yield Component(
        "attention",
        (
            Product("queries and output", (layers, ("", 2), width, queries)),
            Product("keys and values", (layers, ("", 2), width, keys)),
        ),
    )
    yield Component("ffn", (Product("feed-forward", (layers, _matrices(config), width, inner)),))
    norms: list[Product] = []
    if config.norm_place != "none":
        norms.append(Product("norms of the blocks", (layers, ("", 2), width)))
    if config.norm_place == "pre":
        norms.append(Product("last norm", (width,)))
    if config.qk_norm:
        per_head = ("d_head", config.d_head)
        norms.append(Product("norms of queries and keys", (layers, ("", 2), per_head)))
    yield Component("norms", tuple(norms))
    yield Component("head", () if config.tied_head else (Product("head", (width, vocab)),))


def _flops(config: ModelConfig) -> Iterator[Component]:
    layers, width, queries, keys, inner, vocab = _sizes(config)
    two, tokens = ("", 2), ("tokens", config.context)
    yield Component(
        "projections",
        (
            Product("queries and output", (layers, two, two, tokens, width, queries)),
            Product("keys and values", (layers, two, two, tokens, width, keys)),
        ),
    )
    yield Component(
        "attention",
        (
            Product("queries by keys", (layers, two, tokens, tokens, queries)),
            Product("weights by values", (layers, two, tokens, tokens, queries)),
        ),
    )
    feed_forward = (layers, _matrices(config), two, tokens, width, inner)
    yield Component("ffn", (Product("feed-forward", feed_forward),))
    yield Component("head", (Product("head", (two, tokens, width, vocab)),))


def _training_memory(
    config: ModelConfig, batch_size: int, parameters: int, activations: list[Product]
) -> Breakdown:
    float_bytes, weights = ("bytes", FLOAT_BYTES), ("parameters", parameters)
    kept = tuple(Product(each.what, (float_bytes, *each.factors)) for each in activations)
    return Breakdown(
        (
            Component("weights", (Product("weights", (float_bytes, weights)),)),
            Component("gradients", (Product("gradients", (float_bytes, weights)),)),
            Component("optimizer", (Product("two averages", (float_bytes, ("", 2), weights)),)),
            Component("activations", kept),
            Component("logits", (_held_logits(config, batch_size),)),
        )
    )


def _logits(config: ModelConfig, batch_size: int) -> Product:
    """Bytes of a batch's logits, their log probabilities and their gradients."""
    tokens, vocab = ("tokens", batch_size * config.context), ("vocab", config.vocab_size)
    return Product("logits", (("", 3), ("bytes", FLOAT_BYTES), tokens, vocab))


def _held_logits(config: ModelConfig, batch_size: int) -> Product:
    """Those that are there at a time: of one chunk, or of all."""
    chunk = Product("logits of a chunk", (("", 3), ("chunk bytes", CHUNK_BYTES)))
    return min(chunk, _logits(config, batch_size), key=lambda product: product.value)


def _activations(config: ModelConfig, batch_size: int) -> list[Product]:
    """Numbers that autograd keeps between the way forth and back; the tensors behind each product are in its name.

    Of the model as it stands in `model.py`; with `passes`, in training on a CPU, they are somewhat fewer."""
    tokens = ("tokens", batch_size * config.context)
    layers, width, queries, keys, inner, _ = _sizes(config)
    per_layer: list[tuple[str, tuple[tuple[str, int], ...]]] = [
        ("what enters attention and feed-forward", (("", 2), width)),
        ("queries and mixed values", (("", 2), queries)),
        ("keys and values", (("", 2), queries if config.dropout else keys)),
        (
            "feed-forward, before and behind the activation",
            (("", 4 if config.is_gated else 2), inner),
        ),
    ]
    heads = ("heads", config.num_heads)
    if config.dropout:
        # With dropout torch has no fused attention on a CPU: weights, mask and their product stay.
        pairs = (("", 3), heads, ("tokens", config.context))
        per_layer += [("attention weights", pairs), ("dropped", (("", 2), width))]
    else:
        per_layer.append(("log sums of attention", (heads,)))
    if config.norm_place != "none":
        per_layer.append(("norms", (("", 2), ("norm", _kept_by_norm(config, config.d_model)))))
    if config.qk_norm:
        # Of each head of each token: what enters, what it is divided by, the quotient.
        a_head = ("norm of a head", 2 * config.d_head + 1)
        per_layer.append(("norms of queries and keys", (("all heads", _all_heads(config)), a_head)))
    found = [Product(what, (layers, tokens, *factors)) for what, factors in per_layer]
    if config.norm_place == "pre":
        found.append(
            Product("last norm", (tokens, ("norm", _kept_by_norm(config, config.d_model))))
        )
    if config.dropout:
        found.append(Product("dropped behind the embedding", (tokens, width)))
    return [*found, *_tables(config, tokens), Product("what enters the head", (tokens, width))]


def _tables(config: ModelConfig, tokens: tuple[str, int]) -> Iterator[Product]:
    """Integers have 8 bytes, as two floats."""
    yield Product("token ids", (("", 2), tokens))
    if config.positions == "rope":
        yield Product(
            "sines and cosines", (("", 2), ("context", config.context), ("d_head", config.d_head))
        )
    elif config.positions == "learned":
        yield Product("positions", (("", 2), ("context", config.context)))


def _all_heads(config: ModelConfig) -> int:
    return config.num_heads + config.kv_heads


def _kept_by_norm(config: ModelConfig, width: int) -> int:
    """Of each token: RMSNorm keeps what enters, its size and their quotient; LayerNorm what enters, mean and size."""
    return 2 * width + 1 if config.norm == "rmsnorm" else width + 2


def _compiled(config: ModelConfig, batch_size: int, eager: list[Product]) -> int:
    """Numbers kept when compiled, about: quotients of norms and the gate's SiLU are made again on the way back."""
    tokens = batch_size * config.context
    per_layer = config.ff_width if config.is_gated else 0
    if config.norm == "rmsnorm" and config.norm_place != "none":
        per_layer += 2 * config.d_model
    if config.qk_norm:
        per_layer += _all_heads(config) * config.d_head
    return sum(each.value for each in eager) - tokens * config.num_layers * per_layer
