"""A .gguf file with a tokenizer and no tensors, for llama.cpp: a Vocab in, bytes out, and back.

llama.cpp keeps no regex in its files: it knows split patterns by name, each written in C++. Only
patterns that it splits as we do are written; docs/convert.md has the measurement. The file carries
the whole tokenizer.json as well, which other readers of such files look for.
"""

import struct
from collections.abc import Sequence
from typing import Any, cast

from tokenmill import _core
from tokenmill.errors import FormatError
from tokenmill.tokenizer.formats import huggingface_json, transformers_config
from tokenmill.tokenizer.formats.byte_letters import from_letters, to_letters
from tokenmill.tokenizer.vocab import Vocab, show

FILE_NAME_ENDING = ".gguf"
_NAMES = {"gpt2": "gpt-2", "gpt4": "dbrx", "llama3": "dbrx", "qwen2": "qwen2"}
# The same, where a pretoken that is a token becomes its id at once: the name says that, too.
_TAKING_WHOLE_PRETOKENS = {"gpt4": "llama-bpe", "llama3": "llama-bpe"}
_APPROXIMATED = {
    "gpt4o": "its `gpt-4o` tells capital from small letters in ASCII only and leaves combining "
    "marks out of words, so text in most languages would get other ids"
}
_NORMAL, _CONTROL, _USER_DEFINED, _UNUSED = 1, 3, 4, 5
_ROLES = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}
_LOOKED_UP = {"bos_token": "begins", "eos_token": "ends"}


def obstacle(vocab: Vocab) -> str | None:
    """Why llama.cpp would give other ids than `vocab` does, or None if it gives the same."""
    pattern = _core.Splitter(vocab.pattern).name
    if pattern in _APPROXIMATED:
        return f"llama.cpp does not split by `{pattern}` exactly: {_APPROXIMATED[pattern]}"
    if pattern not in _NAMES:
        known = ", ".join(f"`{name}`" for name in _NAMES)
        return (
            f"llama.cpp has no name for the split pattern `{vocab.pattern}`, and its files carry "
            f"no regex; it knows {known}"
        )
    if _name_of_pattern(vocab) is None:
        first = vocab.proof.unreachable[0]
        return (
            f"no merges lead to token {first}, {show(vocab.tokens[first])}, which `ignore_merges` "
            f"makes all the same, and llama.cpp does that for `gpt4` and `llama3` only"
        )
    return None


def _name_of_pattern(vocab: Vocab) -> str | None:
    """What llama.cpp calls the way `vocab` splits and takes whole pretokens, None if nothing."""
    splitter = _core.Splitter(vocab.pattern)
    by_merges, at_once = (
        names.get(splitter.name or "") for names in (_NAMES, _TAKING_WHOLE_PRETOKENS)
    )
    if not vocab.proof.unreachable:
        # Merges lead to every token, so both ways give the same ids; Llama 3's name is the one
        # that most readers of .gguf files know. Only special tokens could tell them apart.
        return by_merges if at_once is None or _has_special_pretoken(vocab, splitter) else at_once
    return at_once if vocab.ignore_merges else by_merges


def _has_special_pretoken(vocab: Vocab, splitter: _core.Splitter) -> bool:
    """Whether a special token reads like the letters of a pretoken, such as `hello`."""
    for token in vocab.special_tokens:
        try:
            letters = from_letters(token)
        except ValueError:
            continue
        if splitter.split(letters) == [letters]:
            return True
    return False


def notes(vocab: Vocab) -> list[str]:
    """What llama.cpp does differently with text that no key of the file can say."""
    found = [
        "llama.cpp's Unicode tables are older: it splits at letters and numbers that came with "
        "Unicode 16 as if they were symbols"
    ]
    roles = transformers_config.roles(vocab)
    missing = [name for role, name in _LOOKED_UP.items() if role not in roles]
    if missing:
        found.append(
            f"no special token {' or '.join(missing)} a text, and llama.cpp then takes id 11, "
            f"{show(vocab.tokens[11])}, for it"
        )
    if vocab.normalizer is not None:
        found.append("llama.cpp does not normalize text: bring it into form NFC first")
    return found


def write(vocab: Vocab) -> bytes:
    """The bytes of the file. Ask `obstacle` first."""
    writer = _Writer()
    # Of the architectures llama.cpp knows one has to be named; a file without tensors is none.
    writer.add("general.architecture", "llama")
    writer.add("tokenizer.ggml.model", "gpt2")
    writer.add("tokenizer.ggml.pre", _name_of_pattern(vocab) or "")
    tokens, kinds = _tokens(vocab)
    writer.add("tokenizer.ggml.tokens", tokens)
    writer.add("tokenizer.ggml.token_type", kinds)
    writer.add("tokenizer.ggml.merges", _merges(vocab))
    for role, token_id in transformers_config.roles(vocab).items():
        writer.add(f"tokenizer.ggml.{_ROLES[role]}_token_id", token_id)
    writer.add("tokenizer.ggml.add_bos_token", _adds(vocab, "bos_token"))
    writer.add("tokenizer.ggml.add_eos_token", _adds(vocab, "eos_token"))
    if vocab.extras.chat_template is not None:
        writer.add("tokenizer.chat_template", vocab.extras.chat_template)
    writer.add("tokenizer.huggingface.json", huggingface_json.write(vocab).decode())
    return writer.finish()


def _tokens(vocab: Vocab) -> tuple[list[str], list[int]]:
    """Spelling and kind of every id. An id without a token gets a spelling that nothing makes."""
    spellings = [to_letters(token) for token in vocab.tokens]
    kinds = [_NORMAL] * len(spellings)
    for token, token_id in vocab.special_tokens.items():
        spellings[token_id] = token
        kinds[token_id] = _USER_DEFINED if token in vocab.extras.not_special else _CONTROL
    for token_id, token in enumerate(vocab.tokens):
        if not token:
            spellings[token_id] = f"[PAD{token_id}]"
            kinds[token_id] = _UNUSED
    return spellings, kinds


def _merges(vocab: Vocab) -> list[str]:
    return [f"{to_letters(left)} {to_letters(right)}" for left, right in vocab.merges_as_bytes()]


def _adds(vocab: Vocab, role: str) -> bool:
    """Whether Hugging Face puts the token of `role` around a text by itself."""
    token_id = transformers_config.roles(vocab).get(role)
    if token_id is None:
        return False
    step = {"SpecialToken": {"id": vocab.tokens[token_id].decode(), "type_id": 0}}
    parts: list[Any] = [vocab.extras.post_processor]
    while parts:
        part = parts.pop()
        if isinstance(part, dict):
            processor = cast(dict[str, Any], part)
            parts += processor.get("processors", [])
            if step in processor.get("single", []):
                return True
    return False


def compare(data: bytes, vocab: Vocab) -> str | None:
    """What of `vocab` the file `data` does not say, None if it says it all."""
    keys = read_keys(data, FILE_NAME_ENDING)
    spellings, kinds = keys["tokenizer.ggml.tokens"], keys["tokenizer.ggml.token_type"]
    tokens = [
        from_letters(spelling) if kind == _NORMAL else b"" if kind == _UNUSED else spelling.encode()
        for spelling, kind in zip(spellings, kinds, strict=True)
    ]
    if tuple(tokens) != vocab.tokens:
        return "tokens"
    special = {i for i, kind in enumerate(kinds) if kind in (_CONTROL, _USER_DEFINED)}
    if special != set(vocab.special_tokens.values()):
        return "special tokens"
    halves = [merge.split(" ") for merge in keys["tokenizer.ggml.merges"]]
    if [(from_letters(a), from_letters(b)) for a, b in halves] != vocab.merges_as_bytes():
        return "merges"
    return None


_UINT32, _INT32, _BOOL, _STRING, _ARRAY = 4, 5, 7, 8, 9
_ALIGNMENT_BYTES = 32
_HEADER = struct.Struct("<4sIQQ")
_MAGIC, _VERSION = b"GGUF", 3


class _Writer:
    """Keys and typed values one after another, as version 3 of the format lays them out."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._num_keys = 0

    def add(self, key: str, value: str | bool | int | Sequence[str] | Sequence[int]) -> None:
        self._num_keys += 1
        self._string(key)
        if isinstance(value, str):
            self._parts.append(struct.pack("<I", _STRING))
            self._string(value)
        elif isinstance(value, bool):
            self._parts.append(struct.pack("<I?", _BOOL, value))
        elif isinstance(value, int):
            self._parts.append(struct.pack("<II", _UINT32, value))
        else:
            self._array(value)

    def _array(self, values: Sequence[str] | Sequence[int]) -> None:
        numbers = [value for value in values if isinstance(value, int)]
        kind = _INT32 if numbers else _STRING
        self._parts.append(struct.pack("<IIQ", _ARRAY, kind, len(values)))
        self._parts.append(struct.pack(f"<{len(numbers)}i", *numbers))
        for value in values:
            if isinstance(value, str):
                self._string(value)

    def _string(self, text: str) -> None:
        data = text.encode()
        self._parts.append(struct.pack("<Q", len(data)) + data)

    def finish(self) -> bytes:
        data = _HEADER.pack(_MAGIC, _VERSION, 0, self._num_keys) + b"".join(self._parts)
        return data + bytes(-len(data) % _ALIGNMENT_BYTES)


def read_keys(data: bytes, file: str) -> dict[str, Any]:
    """Every key of a .gguf file without tensors, and its value."""
    reader = _Reader(data, file)
    magic, version, num_tensors, num_keys = reader.unpack(_HEADER.format)
    if (magic, version, num_tensors) != (_MAGIC, _VERSION, 0):
        raise FormatError(f"`{file}` is not a .gguf file of version {_VERSION} without tensors")
    return {reader.string(): reader.value(reader.unpack("<I")[0]) for _ in range(num_keys)}


class _Reader:
    """Reads what `_Writer` wrote. Sizes are held against the bytes there are before they are used."""

    def __init__(self, data: bytes, file: str) -> None:
        self._data, self._file, self._at = data, file, 0

    def _take(self, size: int) -> bytes:
        start, self._at = self._at, self._at + size
        if self._at > len(self._data):
            raise FormatError(f"`{self._file}` ends within the value at byte {start}")
        return self._data[start : self._at]

    def unpack(self, layout: str) -> tuple[Any, ...]:
        return struct.unpack(layout, self._take(struct.calcsize(layout)))

    def string(self) -> str:
        start = self._at
        try:
            return self._take(self.unpack("<Q")[0]).decode()
        except UnicodeDecodeError:
            raise FormatError(f"`{self._file}`: the string at byte {start} is not UTF-8") from None

    def value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.string()
        if kind == _ARRAY:
            element, count = self.unpack("<IQ")
            if element == _ARRAY:
                raise FormatError(f"`{self._file}`: a list of lists at byte {self._at}")
            return [self.value(element) for _ in range(count)]
        layouts = {_UINT32: "<I", _INT32: "<i", _BOOL: "<?"}
        if kind not in layouts:
            raise FormatError(f"`{self._file}`: value type {kind} at byte {self._at} is not known")
        return self.unpack(layouts[kind])[0]
