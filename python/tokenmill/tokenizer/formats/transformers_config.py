"""tokenizer_config.json: what transformers wants to know beside tokenizer.json.

It changes no id of ordinary text. It names the class that opens tokenizer.json and, where the
special tokens have customary names, which of them begins, ends and pads a text.
"""

from tokenmill.tokenizer.formats.checked_json import dump_json
from tokenmill.tokenizer.vocab import Vocab

FILE_NAME = "tokenizer_config.json"
_ROLES = {
    "bos_token": ("<|bos|>", "<|begin_of_text|>", "<|startoftext|>", "<s>"),
    "eos_token": ("<|endoftext|>", "<|end_of_text|>", "</s>"),
    "pad_token": ("<|pad|>", "<|padding|>", "<pad>"),
}


def write(vocab: Vocab) -> bytes:
    """The bytes of tokenizer_config.json."""
    roles = {
        role: next(name for name in names if name in vocab.special_tokens)
        for role, names in _ROLES.items()
        if not vocab.special_tokens.keys().isdisjoint(names)
    }
    others = [token for token in vocab.special_tokens if token not in roles.values()]
    return dump_json(
        {
            "tokenizer_class": "TokenizersBackend",
            # transformers' own way to say "no limit that the tokenizer knows of".
            "model_max_length": int(1e30),
            # Decoding must give back the text, not a tidied one.
            "clean_up_tokenization_spaces": False,
            **roles,
            **({"extra_special_tokens": others} if others else {}),
        }
    )
