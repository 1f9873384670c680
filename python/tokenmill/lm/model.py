# pyright: basic
"""The transformer: token ids in, logits out.

Weights have the names and layout of transformers' Llama (with `qk_norm`, Qwen3), RoPE in its half-split form, so what is
trained here opens there as it is. One file, to be read from top to bottom.

Shapes: B rows, T positions, D width of the stream, H query heads, G heads of keys and values, E width of a head, F width
of the feed-forward part, V tokens.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tokenmill.errors import ConfigError
from tokenmill.lm import passes
from tokenmill.lm.model_config import ModelConfig


def rope_table(config: ModelConfig, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Cosines and sines for each position: (..., E), the second half equal to the first."""
    half = torch.arange(0, config.d_head, 2, dtype=torch.float32, device=positions.device)
    frequencies = 1.0 / config.rope_theta ** (half / config.d_head)
    angles = positions.float().unsqueeze(-1) * frequencies
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn each pair (x[i], x[i + E/2]) by its position's angle."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class Norm(nn.Module):
    """RMSNorm or LayerNorm, with a gain and no bias."""

    def __init__(self, width: int, config: ModelConfig, kind: str) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = config.norm_eps
        self.kind = kind

    def forward(self, x: Tensor) -> Tensor:
        if self.kind == "rmsnorm":
            if passes.pays_off(x):
                return passes.rms_norm(x, self.weight, self.eps)
            return F.rms_norm(x, self.weight.shape, self.weight, self.eps)
        return F.layer_norm(x, self.weight.shape, self.weight, None, self.eps)


@dataclass
class View:
    """What one call sees beside its tokens."""

    cos_TE: Tensor | None
    sin_TE: Tensor | None
    mask: Tensor | None
    """True where a query may look at a key, (B, 1, T, S); `None` is everything up to itself."""
    cache: "KeyValueCache | None" = None
    turns_TP: Tensor | None = None
    """Cosines and sines once more, as `passes` wants them; `None` is not to use it."""


class Attention(nn.Module):
    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        d, e = config.d_model, config.d_head
        self.config, self.layer = config, layer
        self.q_proj = nn.Linear(d, config.num_heads * e, bias=False)
        self.k_proj = nn.Linear(d, config.kv_heads * e, bias=False)
        self.v_proj = nn.Linear(d, config.kv_heads * e, bias=False)
        self.o_proj = nn.Linear(config.num_heads * e, d, bias=False)
        if config.qk_norm:
            self.q_norm = Norm(e, config, "rmsnorm")
            self.k_norm = Norm(e, config, "rmsnorm")

    def forward(self, x_BTD: Tensor, view: View) -> Tensor:
        config = self.config
        if view.turns_TP is None:
            q, k = self._queries_and_keys(x_BTD, view)
        else:
            q, k = self._queries_and_keys_at_once(x_BTD, view.turns_TP)
        v = self.v_proj(x_BTD).unflatten(-1, (-1, config.d_head)).transpose(1, 2)
        if view.cache is not None:
            k, v = view.cache.extend(self.layer, k, v)
        mixed_BHTE = F.scaled_dot_product_attention(
            q,
            k,
            v,
            attn_mask=view.mask,
            dropout_p=config.dropout if self.training else 0.0,
            # One query sees all there is.
            is_causal=view.mask is None and q.shape[2] > 1,
            enable_gqa=config.kv_heads != config.num_heads,
        )
        return self.o_proj(mixed_BHTE.transpose(1, 2).flatten(2))

    def _queries_and_keys(self, x_BTD: Tensor, view: View) -> tuple[Tensor, Tensor]:
        """(B, H, T, E) and (B, G, T, E)."""
        q_BTHE = self.q_proj(x_BTD).unflatten(-1, (-1, self.config.d_head))
        k_BTGE = self.k_proj(x_BTD).unflatten(-1, (-1, self.config.d_head))
        if self.config.qk_norm:
            q_BTHE, k_BTGE = self.q_norm(q_BTHE), self.k_norm(k_BTGE)
        q, k = q_BTHE.transpose(1, 2), k_BTGE.transpose(1, 2)
        if view.cos_TE is not None and view.sin_TE is not None:
            q, k = rotate(q, view.cos_TE, view.sin_TE), rotate(k, view.cos_TE, view.sin_TE)
        return q, k

    def _queries_and_keys_at_once(self, x_BTD: Tensor, turns_TP: Tensor) -> tuple[Tensor, Tensor]:
        """The same up to the order within heads, in one product and one pass."""
        config, e = self.config, self.config.d_head
        weights = (passes.side_by_side(each.weight, e) for each in (self.q_proj, self.k_proj))
        both = F.linear(x_BTD, torch.cat(tuple(weights))).unflatten(-1, (-1, e))
        if config.qk_norm:
            q_gain, k_gain = (
                passes.side_by_side(each.weight, e) for each in (self.q_norm, self.k_norm)
            )
            gains = torch.cat(
                (q_gain.expand(config.num_heads, e), k_gain.expand(config.kv_heads, e))
            )
            both = passes.unit_rms(both, config.norm_eps) * gains
        q, k = passes.turned(both, turns_TP).split((config.num_heads, config.kv_heads), dim=1)
        return q, k


class FeedForward(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        d, f = config.d_model, config.ff_width
        self.activation = config.activation
        if config.is_gated:
            self.gate_proj = nn.Linear(d, f, bias=False)
        self.up_proj = nn.Linear(d, f, bias=False)
        self.down_proj = nn.Linear(f, d, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        match self.activation:
            case "swiglu":
                inner = F.silu(self.gate_proj(x)) * self.up_proj(x)
            case "silu":
                inner = F.silu(self.up_proj(x))
            case "gelu":
                inner = F.gelu(self.up_proj(x))
            case _:
                inner = F.relu(self.up_proj(x)).square()
        return self.down_proj(inner)


class Block(nn.Module):
    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        self.place = config.norm_place
        self.self_attn = Attention(config, layer)
        self.mlp = FeedForward(config)
        self.dropout = nn.Dropout(config.dropout)
        if self.place != "none":
            self.input_layernorm = Norm(config.d_model, config, config.norm)
            self.post_attention_layernorm = Norm(config.d_model, config, config.norm)

    def forward(self, x: Tensor, view: View) -> Tensor:
        match self.place:
            case "pre":
                x = x + self.dropout(self.self_attn(self.input_layernorm(x), view))
                return x + self.dropout(self.mlp(self.post_attention_layernorm(x)))
            case "post":
                x = self.input_layernorm(x + self.dropout(self.self_attn(x, view)))
                return self.post_attention_layernorm(x + self.dropout(self.mlp(x)))
            case _:
                x = x + self.dropout(self.self_attn(x, view))
                return x + self.dropout(self.mlp(x))


class Trunk(nn.Module):
    """Everything before the head; called `model` in the names of weights, as in Llama."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.embed_tokens = _embedding(config.vocab_size, config.d_model)
        if config.positions == "learned":
            self.embed_positions = _embedding(config.context, config.d_model)
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(Block(config, layer) for layer in range(config.num_layers))
        if config.norm_place == "pre":
            self.norm = Norm(config.d_model, config, config.norm)


def _embedding(number: int, width: int) -> nn.Embedding:
    """Without the weights that torch would draw; where there is no memory for them, that imports 900 of its modules."""
    return nn.Embedding.from_pretrained(torch.empty(number, width), freeze=False)


class Model(nn.Module):
    """A decoder-only transformer of the shape `config`, with fresh weights from `seed`."""

    def __init__(self, config: ModelConfig, *, seed: int = 0) -> None:
        super().__init__()
        self.config = config
        self.model = Trunk(config)
        self.lm_head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        if config.tied_head:
            self.lm_head.weight = self.model.embed_tokens.weight
        self._tables: tuple[Tensor, Tensor] | None = None
        self._turn_table: Tensor | None = None
        if self.lm_head.weight.device.type != "meta":
            self.reset(seed)

    @classmethod
    def empty(cls, config: ModelConfig, device: torch.device) -> "Model":
        """A model that waits for its weights: drawing some takes longer than reading them."""
        with torch.device("meta"):
            model = cls(config)
        weights = model.state_dict().items()
        blank = {name: torch.empty(weight.shape, device=device) for name, weight in weights}
        model.load_state_dict(blank, assign=True)
        if config.tied_head:
            model.lm_head.weight = model.model.embed_tokens.weight
        return model

    @torch.no_grad()
    def reset(self, seed: int) -> None:
        """Draw all weights anew: the same ones for the same seed, on any device."""
        config = self.config
        generator = torch.Generator().manual_seed(seed)
        into_stream = 0.02 / math.sqrt(2 * config.num_layers)
        for name, weight in self.named_parameters():
            if weight.ndim < 2:
                weight.fill_(1.0)
                continue
            if config.init == "gpt2":
                deviation = (
                    into_stream if name.endswith(("o_proj.weight", "down_proj.weight")) else 0.02
                )
            elif "embed" in name:
                deviation = 1.0
            else:
                deviation = math.sqrt(2.0 / sum(weight.shape))
            drawn = torch.empty(weight.shape)
            limit = 3 * deviation
            nn.init.trunc_normal_(drawn, 0.0, deviation, -limit, limit, generator=generator)
            weight.copy_(drawn)

    @property
    def device(self) -> torch.device:
        return self.lm_head.weight.device

    @property
    def num_parameters(self) -> int:
        return sum(weight.numel() for weight in self.parameters())

    def forward(
        self,
        ids_BT: Tensor,
        *,
        segments_BT: Tensor | None = None,
        cache: "KeyValueCache | None" = None,
    ) -> Tensor:
        """Logits (B, T, V). The arguments are those of `hidden`."""
        return self.logits(self.hidden(ids_BT, segments_BT=segments_BT, cache=cache))

    def logits(self, hidden: Tensor) -> Tensor:
        """What the head makes of the stream."""
        return softcapped(self.lm_head(hidden), self.config.softcap)

    def hidden(
        self,
        ids_BT: Tensor,
        *,
        segments_BT: Tensor | None = None,
        cache: "KeyValueCache | None" = None,
    ) -> Tensor:
        """The stream before the head (B, T, D).

        `segments` numbers the document of each position: no position looks into another document, and learned positions
        begin anew. With a `cache`, ids go on where the last call ended.
        """
        trunk = self.model
        x = trunk.embed_tokens(ids_BT)
        if cache is not None:
            view, positions = cache.begin(self, ids_BT)
        else:
            view, positions = self._whole_view(ids_BT, segments_BT)
        if self.config.positions == "learned":
            end = ids_BT.shape[1] + (0 if cache is None else cache.length)
            if end > self.config.context:
                raise ConfigError(
                    f"{end} positions are more than the {self.config.context} that were learned"
                )
            x = x + trunk.embed_positions(positions)
        x = trunk.dropout(x)
        for block in trunk.layers:
            x = block(x, view)
        if cache is not None:
            cache.end(ids_BT.shape[1])
        return trunk.norm(x) if self.config.norm_place == "pre" else x

    def _whole_view(self, ids_BT: Tensor, segments_BT: Tensor | None) -> tuple[View, Tensor]:
        length = ids_BT.shape[1]
        positions = torch.arange(length, device=ids_BT.device)
        mask = None
        if segments_BT is not None:
            same = segments_BT.unsqueeze(2) == segments_BT.unsqueeze(1)
            mask = (same & torch.ones_like(same[0]).tril()).unsqueeze(1)
            if self.config.positions == "learned":
                is_start = F.pad(segments_BT[:, 1:] != segments_BT[:, :-1], (1, 0), value=True)
                positions = positions - (positions * is_start).cummax(dim=1).values
        if self.config.positions != "rope":
            return View(None, None, mask), positions
        turns = self._turns(length) if passes.pays_off(self.lm_head.weight) else None
        return View(*self.rope(length), mask, turns_TP=turns), positions

    def rope(self, length: int) -> tuple[Tensor, Tensor]:
        """Tables for the positions from 0 on, kept for the next call. Several threads may ask at once, for different lengths."""
        tables = self._tables
        if tables is None or len(tables[0]) < length or tables[0].device != self.device:
            # Beyond the context twice what is needed, so that a text that goes on and on does not make them for each token.
            most = self.config.context if length <= self.config.context else 2 * length
            # Generating must not leave tensors behind that training cannot use.
            with torch.inference_mode(False):
                tables = rope_table(self.config, torch.arange(most, device=self.device))
            self._tables = tables
        return tables[0][:length], tables[1][:length]

    def _turns(self, length: int) -> Tensor:
        table, kind = self._turn_table, self.lm_head.weight.dtype.to_complex()
        if table is None or len(table) < length or table.dtype != kind:
            config = self.config
            cos_sin = self.rope(max(length, config.context))
            table = passes.turn_table(*cos_sin, config.num_heads + config.kv_heads).to(kind)
            self._turn_table = table
        return table[:length]


def softcapped(logits: Tensor, softcap: float | None) -> Tensor:
    return logits if softcap is None else softcap * torch.tanh(logits / softcap)


class KeyValueCache:
    """Keys and values of the last `context` positions, so that a new token costs one position.

    A ring: beyond `context` the oldest position makes room, and what is new looks at the `context` last ones. Rows may start
    at different places: `starts` says how many positions at the front of each are padding that nobody looks at.
    """

    def __init__(
        self,
        model: Model,
        num_rows: int,
        starts: Tensor | None = None,
        *,
        num_slots: int | None = None,
    ) -> None:
        """With `num_slots`, room for as many positions as will come, if those are fewer than `context`."""
        config = model.config
        self.window = min(config.context, num_slots or config.context)
        shape = (config.num_layers, 2, num_rows, config.kv_heads, self.window, config.d_head)
        weight = model.lm_head.weight
        self.both = torch.zeros(shape, dtype=weight.dtype, device=weight.device)
        """Keys and values of each layer."""
        self.length = 0
        """Positions seen so far, those that made room included."""
        self.starts = starts

    def begin(self, model: Model, ids_BT: Tensor) -> tuple[View, Tensor]:
        """What new positions see, and their numbers."""
        new = ids_BT.shape[1]
        if new > self.window or (new > 1 and self.length + new > self.window):
            raise ConfigError(
                f"{new} new positions behind {self.length} do not fit a context of {self.window}"
            )
        at = torch.arange(self.length, self.length + new, device=ids_BT.device)
        cos = sin = None
        if model.config.positions == "rope":
            cos, sin = (table[self.length :] for table in model.rope(self.length + new))
        positions = at
        if self.starts is not None:
            positions = (at - self.starts.unsqueeze(1)).clamp(min=0)
        return View(cos, sin, self._mask(at), self), positions

    def _mask(self, at: Tensor) -> Tensor | None:
        """Which slots each new position may look at; `None` where it is all that there is."""
        if self.starts is None and (len(at) == 1 or self.length == 0):
            return None
        filled = min(self.length + len(at), self.window)
        slots = torch.arange(filled, device=at.device)
        # The latest position that was written to each slot.
        last = self.length + len(at) - 1
        held = last - (last - slots) % self.window
        mask = (held <= at.unsqueeze(1)).unsqueeze(0)
        if self.starts is not None:
            mask = mask & (held >= self.starts.unsqueeze(1)).unsqueeze(1)
            # A padding position looks at itself, since looking at nothing has no answer.
            mask = mask | (held == at.unsqueeze(1)).unsqueeze(0)
        return mask.unsqueeze(1)

    def extend(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Keep the new keys and values of a layer; those it has now."""
        new = k.shape[2]
        slot = self.length % self.window
        keys, values = self.both[layer]
        keys[:, :, slot : slot + new] = k
        values[:, :, slot : slot + new] = v
        filled = min(self.length + new, self.window)
        return keys[:, :, :filled], values[:, :, :filled]

    def end(self, new: int) -> None:
        self.length += new
