"""The tokenizer folder: a Vocab in, files that other people's tools open out, and back.

A folder is complete or absent. It is written beside its place, read back, compared with the vocab
it came from, and only then renamed; manifest.json comes last.
"""

from collections.abc import Mapping
from pathlib import Path

from tokenmill import _core
from tokenmill.errors import ConfigError, FormatError
from tokenmill.storage.files import sha256_of, write_folder_atomically
from tokenmill.tokenizer import manifest as manifests
from tokenmill.tokenizer.formats import (
    gpt2_files,
    huggingface_json,
    tiktoken_ranks,
    transformers_config,
)
from tokenmill.tokenizer.manifest import Contents, Manifest, read_manifest
from tokenmill.tokenizer.vocab import Vocab

# Encoded by the vocab and by what was read back before a folder gets its name.
_SAMPLES = (
    "The quick brown fox can't jump over 1234567 lazy dogs, said O'Neill.",
    "def f(x):\n    return {'a': x ** 2}  # done\n\n\n",
    "  leading, trailing  \r\n\t tabs \u00a0 and \u3000 wide spaces   ",
    "Größe, naïve, Ελληνικά, русский, עברית, العربية, हिन्दी, ไทย, 日本語の文章, 한국어, 汉字",
    "👩‍👩‍👧‍👦 🇩🇪 e\u0301 ½ ² Ⅷ \u0000 \u007f ﬁ ǅ",
)


def build_bpe(vocab: Vocab) -> _core.Bpe:
    """The compiled encoder of `vocab`."""
    splitter = _core.Splitter(vocab.pattern)
    return _core.Bpe(vocab.tokens, vocab.merges, vocab.special_tokens, splitter)


def write_tokenizer(
    vocab: Vocab,
    folder: Path,
    *,
    settings: Mapping[str, object] | None = None,
    parents: Mapping[str, object] | None = None,
    force: bool = False,
) -> Manifest:
    """Write `vocab` as the tokenizer folder `folder`.

    A folder that already holds exactly this is left as it is. Any other tokenizer folder is a
    ConfigError unless `force` is given; a folder with files we did not write is one always.
    """
    bpe = build_bpe(vocab)
    unreachable = bpe.unreachable()
    contents = _contents(vocab, unreachable)
    manifest = manifests.describe(
        vocab, unreachable, contents, settings=settings or {}, parents=parents or {}
    )
    data = _manifest_bytes(manifest)
    if _already_there(folder, data, manifest, force=force):
        return manifest
    with write_folder_atomically(folder) as partial:
        for name, content in contents.files.items():
            (partial / name).write_bytes(content)
        (partial / manifests.FILE_NAME).write_bytes(data)
        _compare(partial, vocab, bpe)
    return manifest


def _contents(vocab: Vocab, unreachable: list[int]) -> Contents:
    files = {
        huggingface_json.FILE_NAME: huggingface_json.write(vocab),
        transformers_config.FILE_NAME: transformers_config.write(vocab),
        **gpt2_files.write(vocab),
    }
    notes = [*huggingface_json.notes(vocab), *gpt2_files.notes(vocab)]
    obstacle = tiktoken_ranks.obstacle(vocab, unreachable)
    if obstacle is not None:
        return Contents(files, notes, {tiktoken_ranks.RANKS_FILE_NAME: obstacle})
    return Contents(
        files | tiktoken_ranks.write(vocab), notes + tiktoken_ranks.notes(vocab), not_written={}
    )


def _manifest_bytes(manifest: Manifest) -> bytes:
    try:
        return manifest.to_json()
    except (TypeError, ValueError) as error:
        raise ConfigError(f"settings or parents are not JSON values: {error}") from error


def _already_there(folder: Path, data: bytes, manifest: Manifest, *, force: bool) -> bool:
    """Whether `folder` holds just what would be written. ConfigError if it may not be replaced."""
    if folder.is_dir() and not any(folder.iterdir()):
        return False
    if not folder.exists():
        return False
    path = folder / manifests.FILE_NAME
    found = read_manifest(folder) if folder.is_dir() else None
    if found is None:
        raise ConfigError(
            f"`{folder}` exists and is not a tokenizer folder",
            "choose a folder that does not exist yet",
        )
    if path.read_bytes() == data and all(
        (folder / name).is_file() and sha256_of(folder / name) == digest
        for name, digest in manifest.files.items()
    ):
        return True
    foreign = sorted(p.name for p in folder.iterdir() if p.name not in {*found.files, path.name})
    if force and foreign:
        raise ConfigError(
            f"`{folder}` holds `{foreign[0]}`"
            + (f" and {len(foreign) - 1} more files" if len(foreign) > 1 else "")
            + " that tokenmill did not write, and replacing the folder would delete it",
            "move it away first",
        )
    if not force:
        raise ConfigError(
            f"`{folder}` already holds another tokenizer, of vocab size {found.vocab_size}",
            "choose another folder, or pass `--force` (`force=True`) to replace it",
        )
    return False


def _compare(folder: Path, vocab: Vocab, bpe: _core.Bpe) -> None:
    """Read every file of `folder` back; FormatError where one does not say what `vocab` says."""
    read = read_tokenizer(folder)
    for part in ("tokens", "merges", "special_tokens", "pattern"):
        if getattr(read, part) != getattr(vocab, part):
            raise _differs(huggingface_json.FILE_NAME, part)
    again = build_bpe(read)
    specials = list(vocab.special_tokens)
    for sample in (*_SAMPLES, "a".join(["", *specials, ""])):
        ids = bpe.encode(sample, specials)
        if again.encode(sample, specials) != ids:
            raise _differs(huggingface_json.FILE_NAME, f"the ids of {sample!r}")
        if bpe.decode_bytes(ids) != sample.encode():
            raise _differs("this vocab", f"the round trip of {sample!r}")
    vocab_file = folder / gpt2_files.VOCAB_FILE_NAME
    merges_file = folder / gpt2_files.MERGES_FILE_NAME
    keys = huggingface_json.letters_by_id(vocab)
    if gpt2_files.read_vocab(vocab_file.read_bytes()) != {key: i for i, key in enumerate(keys)}:
        raise _differs(vocab_file.name, "tokens")
    if gpt2_files.read_merges(merges_file.read_bytes()) != vocab.merges_as_bytes():
        raise _differs(merges_file.name, "merges")
    ranks_file = folder / tiktoken_ranks.RANKS_FILE_NAME
    if ranks_file.exists():
        special_ids = set(vocab.special_tokens.values())
        expected = {t: i for i, t in enumerate(vocab.tokens) if i not in special_ids}
        if tiktoken_ranks.read_ranks(ranks_file.read_bytes()) != expected:
            raise _differs(ranks_file.name, "tokens")


def _differs(file: str, what: str) -> FormatError:
    return FormatError(
        f"`{file}` read back differs in {what}; nothing was written",
        "this is a bug in tokenmill, or the disk lost data: please report it",
    )


def read_tokenizer(path: Path) -> Vocab:
    """The Vocab of a tokenizer folder, or of one tokenizer.json."""
    if not path.exists():
        raise FormatError(f"`{path}` does not exist", "pass a tokenizer folder or a tokenizer.json")
    if not path.is_dir():
        return _read_huggingface(path)
    manifest = read_manifest(path)
    file = path / huggingface_json.FILE_NAME
    if not file.is_file():
        names = sorted(entry.name for entry in path.iterdir())[:5]
        found = ", ".join(f"`{name}`" for name in names) or "nothing"
        raise FormatError(f"`{path}` has no `{file.name}`, found {found}")
    if manifest is None:
        return _read_huggingface(file)
    return _read_described(file, manifest)


def _read_huggingface(file: Path, pattern: str | None = None) -> Vocab:
    try:
        data = file.read_bytes()
    except OSError as error:
        raise FormatError(f"`{file}` cannot be read: {error.strerror}") from error
    return huggingface_json.read(data, str(file), pattern=pattern)


def _read_described(file: Path, manifest: Manifest) -> Vocab:
    """tokenizer.json under a manifest, which knows the pattern's own name and spelling."""
    if sha256_of(file) != manifest.files.get(file.name):
        raise FormatError(
            f"`{file}` is not the file its manifest describes: the sha256 differs",
            "it was changed or damaged; to use it as it is, load the file itself",
        )
    vocab = _read_huggingface(file, manifest.pattern)
    if vocab.special_tokens != manifest.special_tokens:
        raise FormatError(f"`{file}` and its manifest name different special tokens")
    return vocab
