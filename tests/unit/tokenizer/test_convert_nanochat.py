"""tokenizer.pkl and token_bytes.pt: what is in them, without opening a pickle."""

import io
import pickletools
import struct
import zipfile

from tokenmill.tokenizer.formats import nanochat
from tokenmill.tokenizer.vocab import Vocab, vocab_from_bytes


def example(special_tokens: list[str]) -> Vocab:
    tokens = {byte: bytes([byte]) for byte in range(256)} | {256: b"th", 257: "ü".encode()}
    pairs = [(b"t", b"h"), (b"\xc3", b"\xbc")]
    return vocab_from_bytes(tokens, pairs, special_tokens, "nanochat")


def test_the_pickle_names_one_class_and_calls_nothing() -> None:
    data = nanochat.write(example(["<|bos|>"]))["tokenizer.pkl"]
    steps = [(step.name, value) for step, value, _ in pickletools.genops(data)]
    assert [value for name, value in steps if name == "GLOBAL"] == ["tiktoken.core Encoding"]
    assert not {"REDUCE", "INST", "OBJ", "STACK_GLOBAL", "EXT1"} & {name for name, _ in steps}
    # Everything is taken from the stack again.
    pickletools.dis(data, out=io.StringIO())


def test_bytes_of_each_token_and_none_for_special_ones() -> None:
    data = nanochat.write(example(["<|bos|>", "<|x|>"]))["token_bytes.pt"]
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_STORED}
        assert archive.read("archive/version") == b"3\n"
        assert archive.read("archive/byteorder") == b"little"
        sizes = [size for (size,) in struct.iter_unpack("<i", archive.read("archive/data/0"))]
        steps = list(pickletools.genops(archive.read("archive/data.pkl")))
    assert sizes == [1] * 256 + [2, 2, 0, 0]
    names = [value for step, value, _ in steps if step.name == "GLOBAL"]
    assert names == [
        "torch._utils _rebuild_tensor_v2",
        "torch IntStorage",
        "collections OrderedDict",
    ]
    numbers = [value for step, value, _ in steps if step.name == "BININT"]
    # Length of the storage, where the tensor begins in it, its length, its stride.
    assert numbers == [260, 0, 260, 1]


def test_the_same_vocab_gives_the_same_bytes() -> None:
    assert nanochat.write(example(["<|bos|>"])) == nanochat.write(example(["<|bos|>"]))


def test_notes_name_what_nanochat_will_look_for() -> None:
    _, missing = nanochat.notes(example(["<|bos|>"]))
    assert "`<|user_start|>`" in missing
    assert "`<|bos|>`" not in missing
    (sizes,) = nanochat.notes(example(list(nanochat.SPECIAL_TOKENS)))
    assert sizes.startswith("`token_bytes.pt`")


def test_another_vocab_is_noticed() -> None:
    ours, other = example(["<|bos|>"]), example(["<|xxx|>", "<|y|>"])
    files = nanochat.write(ours)
    assert nanochat.compare(files, ours) is None
    assert nanochat.compare(files, other) == "`token_bytes.pt`"
    swapped = nanochat.write(other)["tokenizer.pkl"].replace(b"th", b"ht")
    assert nanochat.compare({**nanochat.write(other), "tokenizer.pkl": swapped}, other) == (
        "`tokenizer.pkl`"
    )
