"""tokenizer.pkl and token_bytes.pt, as nanochat keeps a tokenizer: a Vocab in, two files out.

This is the one place that writes pickles, and nothing here or elsewhere reads one. Both streams are
laid out by hand, so neither tiktoken nor torch has to be installed, and each names one class only:
`tiktoken.Encoding` and an int32 tensor. The same vocab gives the same bytes.
"""

import io
import json
import pickle
import pickletools
import struct
import zipfile

from tokenmill.tokenizer.formats import tiktoken_ranks
from tokenmill.tokenizer.vocab import Vocab

PICKLE_FILE_NAME = "tokenizer.pkl"
SIZES_FILE_NAME = "token_bytes.pt"
SPECIAL_TOKENS = (
    "<|bos|>",
    "<|user_start|>",
    "<|user_end|>",
    "<|assistant_start|>",
    "<|assistant_end|>",
    "<|python_start|>",
    "<|python_end|>",
    "<|output_start|>",
    "<|output_end|>",
)
"""Those that nanochat's chat and training scripts look up."""
# nanochat gives its encodings this name; it appears in messages only.
_NAME = "rustbpe"


def notes(vocab: Vocab) -> list[str]:
    """What a nanochat that opens these files would trip over, and where its own would differ."""
    found = [
        f"`{SIZES_FILE_NAME}` counts the bytes of each token; nanochat's own script counts three "
        "for each part that is not UTF-8, which makes its bits per byte too low"
    ]
    missing = [token for token in SPECIAL_TOKENS if token not in vocab.special_tokens]
    if missing:
        shown = ", ".join(f"`{token}`" for token in missing)
        found.append(f"`{PICKLE_FILE_NAME}`: nanochat looks for {shown}, which this vocab lacks")
    return found


def write(vocab: Vocab) -> dict[str, bytes]:
    """File name → bytes. Ask `tiktoken_ranks.obstacle` first."""
    special_ids = set(vocab.special_tokens.values())
    sizes = [0 if i in special_ids else len(token) for i, token in enumerate(vocab.tokens)]
    return {PICKLE_FILE_NAME: _pickled_encoding(vocab), SIZES_FILE_NAME: _saved_tensor(sizes)}


def compare(files: dict[str, bytes], vocab: Vocab) -> str | None:
    """What of `vocab` the files do not say, None if they say it all. Opcodes are looked at, none is
    run."""
    special_ids = set(vocab.special_tokens.values())
    with zipfile.ZipFile(io.BytesIO(files[SIZES_FILE_NAME])) as archive:
        sizes = [size for (size,) in struct.iter_unpack("<i", archive.read("archive/data/0"))]
    if sizes != [0 if i in special_ids else len(token) for i, token in enumerate(vocab.tokens)]:
        return f"`{SIZES_FILE_NAME}`"
    steps = list(pickletools.genops(files[PICKLE_FILE_NAME]))
    values = [value for step, value, _ in steps if "PUT" not in step.name]
    tokens = {value: values[at + 1] for at, value in enumerate(values) if type(value) is bytes}
    ordinary = {t: i for i, t in enumerate(vocab.tokens) if t and i not in special_ids}
    names = [value for step, value, _ in steps if step.name == "GLOBAL"]
    if tokens != ordinary or names != ["tiktoken.core Encoding"]:
        return f"`{PICKLE_FILE_NAME}`"
    return None


def _pickled_encoding(vocab: Vocab) -> bytes:
    """What pickling a `tiktoken.Encoding` gives: its class, and the state it is built from."""
    special_ids = set(vocab.special_tokens.values())
    settings = json.loads(tiktoken_ranks.write(vocab)[tiktoken_ranks.SETTINGS_FILE_NAME])
    state = {
        "name": _NAME,
        "pat_str": settings["pat_str"],
        "mergeable_ranks": {
            token: i for i, token in enumerate(vocab.tokens) if token and i not in special_ids
        },
        "special_tokens": dict(vocab.special_tokens),
    }
    # Protocol 3 is the last without frames, whose sizes would cover what is put in here.
    start, values, stop = b"\x80\x03", pickle.dumps(state, protocol=3)[2:-1], pickle.STOP
    make = pickle.GLOBAL + b"tiktoken.core\nEncoding\n" + pickle.EMPTY_TUPLE + pickle.NEWOBJ
    return start + make + values + pickle.BUILD + stop


def _saved_tensor(values: list[int]) -> bytes:
    """What `torch.save` gives for a one-dimensional int32 tensor on the CPU: a zip archive."""
    members = {
        "data.pkl": _pickled_tensor(len(values)),
        "byteorder": b"little",
        "data/0": struct.pack(f"<{len(values)}i", *values),
        "version": b"3\n",
    }
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            # Without a date of its own a member would get today's.
            archive.writestr(zipfile.ZipInfo(f"archive/{name}", (1980, 1, 1, 0, 0, 0)), data)
    return file.getvalue()


def _pickled_tensor(length: int) -> bytes:
    """`torch._utils._rebuild_tensor_v2(storage 0, 0, (length,), (1,), False, OrderedDict())`."""

    def text(value: str) -> bytes:
        return pickle.BINUNICODE + struct.pack("<I", len(value)) + value.encode()

    def number(value: int) -> bytes:
        return pickle.BININT + struct.pack("<i", value)

    storage = [text("storage"), pickle.GLOBAL + b"torch\nIntStorage\n", text("0"), text("cpu")]
    return b"".join(
        [
            pickle.PROTO + b"\x02",
            pickle.GLOBAL + b"torch._utils\n_rebuild_tensor_v2\n",
            pickle.MARK,
            *(pickle.MARK, *storage, number(length), pickle.TUPLE, pickle.BINPERSID),
            *(number(0), number(length), pickle.TUPLE1, number(1), pickle.TUPLE1),
            pickle.NEWFALSE,
            *(pickle.GLOBAL + b"collections\nOrderedDict\n", pickle.EMPTY_TUPLE, pickle.REDUCE),
            *(pickle.TUPLE, pickle.REDUCE, pickle.STOP),
        ]
    )
