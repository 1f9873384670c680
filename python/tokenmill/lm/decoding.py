# pyright: basic
"""Decoding: prompts in, then a token for each row in, logits of the next one out, at the cost of one position each.

`Decoder` does it for any model and any number of rows through `Model` and its cache. `OneRow` does the same for the case that people
wait for, one text on a CPU: there a small model spends its time between operations, not in them, so it calls a third as many, into
memory that is there already.

Beyond the context the oldest position makes room. Learned positions end with the context: then the text's last half of a context
is read anew.

Shapes: B rows, V tokens, H query heads, G heads of keys and values, E width of a head.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tokenmill.lm.model import KeyValueCache, Model
from tokenmill.lm.model_config import ModelConfig


class Decoder:
    """Rows of token ids that grow together. `logits_BV` are those of the next token of each row."""

    def __init__(self, model: Model, prompts: Sequence[Sequence[int]], max_tokens: int) -> None:
        """With learned positions, prompts must be of one length: rows start anew when theirs is full."""
        self.model = model
        self.restarts = model.config.positions == "learned"
        self.rows = [list(prompt) for prompt in prompts]
        self.num_slots = max(len(row) for row in self.rows) + max_tokens
        self.logits_BV = self._read([row[-model.config.context :] for row in self.rows])

    def feed(self, ids: Sequence[int]) -> None:
        """Append a token to each row."""
        if self.restarts:
            for row, token in zip(self.rows, ids, strict=True):
                row.append(token)
            if self.cache.length == self.cache.window:
                half = max(1, self.model.config.context // 2)
                self.logits_BV = self._read([row[-half:] for row in self.rows])
                return
        ids_B1 = torch.tensor(ids, device=self.model.device).unsqueeze(1)
        self.logits_BV = self.model(ids_B1, cache=self.cache)[:, -1]

    def _read(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Fill a new cache with `rows`, padded in front to one length."""
        device = self.model.device
        length = max(len(row) for row in rows)
        ids_BT = torch.zeros(len(rows), length, dtype=torch.long)
        for place, row in enumerate(rows):
            ids_BT[place, length - len(row) :] = torch.tensor(row)
        starts = None
        if any(len(row) < length for row in rows):
            starts = torch.tensor([length - len(row) for row in rows], device=device)
        self.cache = KeyValueCache(self.model, len(rows), starts, num_slots=self.num_slots)
        hidden = self.model.hidden(ids_BT.to(device), cache=self.cache)
        return self.model.logits(hidden[:, -1])


def is_quick(model: Model, num_rows: int) -> bool:
    """Whether `OneRow` can do it: one row, on a CPU in float32, a model such as Llama or Qwen3."""
    config, weight = model.config, model.lm_head.weight
    return (
        num_rows == 1
        and weight.device.type == "cpu"
        and weight.dtype == torch.float32
        and (config.norm, config.norm_place, config.positions) == ("rmsnorm", "pre", "rope")
        and config.activation == "swiglu"
        and config.softcap is None
    )


class OneRow(Decoder):
    """`Decoder` for what `is_quick` allows: the same logits up to rounding.

    Every result has its place in memory, made once; `_Layer` holds views of those places.
    """

    def __init__(self, model: Model, prompts: Sequence[Sequence[int]], max_tokens: int) -> None:
        super().__init__(model, prompts, max_tokens)
        config, trunk = model.config, model.model
        self.places = _Places(config)
        self.layers = [
            _Layer(block, self.cache.both[number], config)
            for number, block in enumerate(trunk.layers)
        ]
        self.embedding = trunk.embed_tokens.weight.detach()
        self.last_gain = trunk.norm.weight.detach()
        self.head = model.lm_head.weight.detach().t()
        self.logits_BV = self.logits_BV.clone()

    def feed(self, ids: Sequence[int]) -> None:
        cache, places = self.cache, self.places
        cos, sin = self.model.rope(cache.length + 1)
        cos, sin = cos[cache.length], sin[cache.length, : sin.shape[1] // 2]
        slot = cache.length % cache.window
        filled = min(cache.length + 1, cache.window)
        places.stream_D.copy_(self.embedding[ids[0]])
        for layer in self.layers:
            layer.attend(places, cos, sin, slot, filled)
            layer.think(places)
        places.normalize(self.last_gain)
        torch.mm(places.normal_1D, self.head, out=self.logits_BV)
        cache.end(1)


class _Places:
    """Where the intermediate results of one position stand; all layers use the same."""

    def __init__(self, config: ModelConfig) -> None:
        d, e, f = config.d_model, config.d_head, config.ff_width
        h, g = config.num_heads, config.kv_heads
        self.eps = config.norm_eps
        self.stream_D = torch.empty(d)
        self.stream_1D = self.stream_D.unsqueeze(0)
        self.normal_D = torch.empty(d)
        self.normal_1D = self.normal_D.unsqueeze(0)
        # Queries and keys as they are made, then turned, with the values behind them.
        self.raw = torch.empty(h + g, e)
        self.raw_q, self.raw_k = self.raw[:h].view(1, h * e), self.raw[h:].view(1, g * e)
        self.raw_first, self.raw_second = self.raw[:, : e // 2], self.raw[:, e // 2 :]
        turned = torch.empty(h + 2 * g, e)
        self.turned = turned[: h + g]
        self.first, self.second = self.turned[:, : e // 2], self.turned[:, e // 2 :]
        self.q = turned[:h].view(1, h, 1, e)
        self.kv = turned[h:].view(2, 1, g, e)
        self.v = turned[h + g :].view(1, g * e)
        self.gate, self.up = torch.empty(1, f), torch.empty(1, f)

    def normalize(self, gain_D: Tensor) -> None:
        """RMSNorm of the stream into `normal`; torch's own is six operations on a CPU."""
        mean = torch.dot(self.stream_D, self.stream_D).item() / len(self.stream_D)
        torch.mul(self.stream_D, gain_D, out=self.normal_D)
        self.normal_D.mul_(1 / math.sqrt(mean + self.eps))


class _Layer:
    """One block: its weights turned as `mm` wants them, and its part of the cache."""

    def __init__(self, block: Any, both: Tensor, config: ModelConfig) -> None:
        attention, mlp = block.self_attn, block.mlp
        names = ("q_proj", "k_proj", "v_proj", "o_proj")
        self.q, self.k, self.v, self.o = (_turned(getattr(attention, name)) for name in names)
        self.gate, self.up, self.down = (
            _turned(getattr(mlp, name)) for name in ("gate_proj", "up_proj", "down_proj")
        )
        self.attention_gain = block.input_layernorm.weight.detach()
        self.mlp_gain = block.post_attention_layernorm.weight.detach()
        self.both, (self.keys, self.values) = both, both
        self.is_grouped = config.kv_heads != config.num_heads
        self.head_gains = None
        if config.qk_norm:
            q_gain = attention.q_norm.weight.detach().expand(config.num_heads, -1)
            k_gain = attention.k_norm.weight.detach().expand(config.kv_heads, -1)
            self.head_gains = torch.cat((q_gain, k_gain))

    def attend(self, places: _Places, cos: Tensor, sin: Tensor, slot: int, filled: int) -> None:
        places.normalize(self.attention_gain)
        normal = places.normal_1D
        torch.mm(normal, self.q, out=places.raw_q)
        torch.mm(normal, self.k, out=places.raw_k)
        torch.mm(normal, self.v, out=places.v)
        if self.head_gains is not None:
            width = (places.raw.shape[1],)
            places.raw.copy_(F.rms_norm(places.raw, width, None, places.eps)).mul_(self.head_gains)
        torch.mul(places.raw, cos, out=places.turned)
        places.first.addcmul_(places.raw_second, sin, value=-1)
        places.second.addcmul_(places.raw_first, sin)
        self.both.select(3, slot).copy_(places.kv)
        mixed = F.scaled_dot_product_attention(
            places.q,
            self.keys.narrow(2, 0, filled),
            self.values.narrow(2, 0, filled),
            enable_gqa=self.is_grouped,
        )
        places.stream_1D.addmm_(mixed.view(1, -1), self.o)

    def think(self, places: _Places) -> None:
        places.normalize(self.mlp_gain)
        torch.mm(places.normal_1D, self.gate, out=places.gate)
        torch.mm(places.normal_1D, self.up, out=places.up)
        F.silu(places.gate, inplace=True).mul_(places.up)
        places.stream_1D.addmm_(places.gate, self.down)


def _turned(linear: Any) -> Tensor:
    return linear.weight.detach().t()


def make_decoder(model: Model, prompts: Sequence[Sequence[int]], max_tokens: int) -> Decoder:
    """The quickest decoder for these prompts."""
    kind = OneRow if is_quick(model, len(prompts)) else Decoder
    return kind(model, prompts, max_tokens)
