"""tokenizer_config.json and chat_template.jinja: what transformers wants to know beside tokenizer.json.

They change no id of ordinary text. The config names the class that opens tokenizer.json and which
special tokens begin, end and pad a text. What others wrote there is kept and written back, but for
what tokenizer.json says already and what names code to run. A template is never rendered here.
"""

from typing import Any, NamedTuple

from tokenmill.tokenizer.formats.checked_json import Place, dump_json, parse_json, show_json
from tokenmill.tokenizer.vocab import Vocab

FILE_NAME = "tokenizer_config.json"
TEMPLATE_FILE_NAME = "chat_template.jinja"
_CUSTOMARY = {
    "bos_token": ("<|bos|>", "<|begin_of_text|>", "<|startoftext|>", "<s>"),
    "eos_token": ("<|endoftext|>", "<|end_of_text|>", "</s>"),
    "pad_token": ("<|pad|>", "<|padding|>", "<pad>"),
}
_ROLES = ("bos_token", "eos_token", "pad_token", "unk_token")
_DEFAULTS: dict[str, Any] = {
    # transformers' own way to say "no limit that the tokenizer knows of".
    "model_max_length": int(1e30),
    # Decoding must give back the text, not a tidied one.
    "clean_up_tokenization_spaces": False,
}
# Said by tokenizer.json or by a file of its own, true of one machine only, or the name of code.
_NOT_KEPT = frozenset(
    {
        "added_tokens_decoder",
        "additional_special_tokens",
        "auto_map",
        "backend",
        "chat_template",
        "extra_special_tokens",
        "is_local",
        "local_files_only",
        "name_or_path",
        "special_tokens_map_file",
        "tokenizer_class",
        "tokenizer_file",
    }
)


class Config(NamedTuple):
    """`kept` goes into `Extras.config`."""

    kept: dict[str, Any]
    chat_template: str | None


def write(vocab: Vocab) -> bytes:
    """The bytes of tokenizer_config.json."""
    kept = dict(vocab.extras.config)
    roles = {role: kept.pop(role) for role in _ROLES if role in kept}
    if not roles:
        roles = _customary_roles(vocab.special_tokens)
    named = {*roles.values(), *vocab.extras.not_special}
    others = [token for token in vocab.special_tokens if token not in named]
    config = {
        "tokenizer_class": "TokenizersBackend",
        **{key: kept.pop(key, value) for key, value in _DEFAULTS.items()},
        **roles,
        **kept,
        **({"extra_special_tokens": others} if others else {}),
    }
    return dump_json(config)


def _customary_roles(special_tokens: dict[str, int]) -> dict[str, str]:
    return {
        role: next(name for name in names if name in special_tokens)
        for role, names in _CUSTOMARY.items()
        if not special_tokens.keys().isdisjoint(names)
    }


def roles(vocab: Vocab) -> dict[str, int]:
    """`bos_token`, `eos_token`, `pad_token` and `unk_token` → id, those that the vocab has."""
    config = vocab.extras.config
    named = {role: config[role] for role in _ROLES if role in config}
    named = named or _customary_roles(vocab.special_tokens)
    ids = vocab.special_tokens
    return {role: ids[token] for role, token in named.items() if token in ids}


def read(data: bytes, special_tokens: dict[str, int], file: str = FILE_NAME) -> Config:
    """What is worth keeping of a tokenizer_config.json. `special_tokens` are those of the vocab.

    What `write` would say by itself is not kept.
    """
    document = parse_json(data, file)
    kept = {key: v for key, v in document.as_object().items() if key not in _NOT_KEPT}
    for role in _ROLES:
        token = _role(document.child(role))
        kept.pop(role, None)
        if token is not None:
            kept[role] = token
    customary = _customary_roles(special_tokens)
    if {role: kept[role] for role in _ROLES if role in kept} == customary:
        kept = {key: value for key, value in kept.items() if key not in _ROLES}
    kept = {k: v for k, v in kept.items() if k not in _DEFAULTS or v != _DEFAULTS[k]}
    return Config(kept, _template(document.child("chat_template")))


def _role(place: Place) -> str | None:
    """A special token by name, or in the long form with its settings."""
    if isinstance(place.value, dict):
        place = place["content"]
    return None if place.value is None else place.as_string()


def _template(place: Place) -> str | None:
    """The template, or of several the one that is called default."""
    if place.value is None or isinstance(place.value, str):
        return place.value
    for named in place.items():
        if named["name"].as_string() == "default":
            return named["template"].as_string()
    names = [named["name"].value for named in place.items()]
    place.fail(f"none of the templates {show_json(names)} is called `default`")
