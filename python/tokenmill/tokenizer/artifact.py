"""The tokenizer folder: a Vocab in, files that other people's tools open out, and back.

`read_tokenizer` also reads what other tools wrote: `formats.detect` tells the kinds apart.

A folder is complete or absent. It is written beside its place, read back, compared with the vocab
it came from, and only then renamed; manifest.json comes last.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tokenmill import _core
from tokenmill.errors import ConfigError, FormatError
from tokenmill.storage.files import sha256_of, unreadable, write_folder_atomically
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
    splitter = _core.Splitter(vocab.pattern, list(vocab.special_tokens))
    return _core.Bpe(vocab.core, splitter, nfc=vocab.normalizer == "nfc")


def write_tokenizer(
    vocab: Vocab,
    folder: Path,
    *,
    settings: Mapping[str, object] | None = None,
    parents: Mapping[str, object] | None = None,
    force: bool = False,
    bpe: _core.Bpe | None = None,
) -> Manifest:
    """Write `vocab` as the tokenizer folder `folder`. `bpe` is its encoder, if the caller has it.

    A folder that already holds exactly this is left as it is. Any other tokenizer folder is a
    ConfigError unless `force` is given; a folder with files we did not write is one always.
    """
    contents = _contents(vocab)
    # The proof knows them without running every token through the merges again.
    unreachable = vocab.core.unreachable() if vocab.normalizer else [*vocab.proof.unreachable]
    manifest = manifests.describe(
        vocab, contents, unreachable, settings=settings or {}, parents=parents or {}
    )
    data = _manifest_bytes(manifest)
    if _already_there(folder, data, manifest, force=force):
        return manifest
    with write_folder_atomically(folder) as partial:
        for name, content in contents.files.items():
            (partial / name).write_bytes(content)
        (partial / manifests.FILE_NAME).write_bytes(data)
        _compare(partial, vocab, bpe or build_bpe(vocab))
    return manifest


def _contents(vocab: Vocab) -> Contents:
    spelled = huggingface_json.in_letters(vocab)
    files = {
        huggingface_json.FILE_NAME: huggingface_json.write(vocab, spelled),
        transformers_config.FILE_NAME: transformers_config.write(vocab),
        **gpt2_files.write(vocab, spelled),
    }
    if vocab.extras.chat_template is not None:
        template = vocab.extras.chat_template.encode()
        files[transformers_config.TEMPLATE_FILE_NAME] = template
    notes = [*huggingface_json.notes(vocab), *gpt2_files.notes(vocab, spelled)]
    obstacle = tiktoken_ranks.obstacle(vocab)
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
    for part in ("core", "pattern", "normalizer"):
        if getattr(read, part) != getattr(vocab, part):
            raise _differs(huggingface_json.FILE_NAME, part.replace("core", "tokens or merges"))
    # Roles that are customary need not be said, so configs compare by what they come to.
    if replace(read.extras, config={}) != replace(vocab.extras, config={}):
        raise _differs(huggingface_json.FILE_NAME, "extras")
    if transformers_config.write(read) != transformers_config.write(vocab):
        raise _differs(transformers_config.FILE_NAME, "settings")
    again = build_bpe(read)
    for sample in (*_SAMPLES, "a".join(["", *vocab.special_tokens, ""])):
        ids = bpe.encode(sample, "all", ())
        if again.encode(sample, "all", ()) != ids:
            raise _differs(huggingface_json.FILE_NAME, f"the ids of {sample!r}")
        if vocab.normalizer is None and bpe.decode_bytes(ids) != sample.encode():
            raise _differs("this vocab", f"the round trip of {sample!r}")
    pair = (gpt2_files.VOCAB_FILE_NAME, gpt2_files.MERGES_FILE_NAME)
    difference = gpt2_files.difference({n: (folder / n).read_bytes() for n in pair}, vocab)
    if difference is not None:
        raise _differs(*difference)
    ranks_file = folder / tiktoken_ranks.RANKS_FILE_NAME
    # Reading these very bytes is how the proof found that they stand for the same tokens and merges.
    if ranks_file.exists() and ranks_file.read_bytes() != vocab.proof.ranks:
        raise _differs(ranks_file.name, "tokens")


def _differs(file: str, what: str) -> FormatError:
    return FormatError(
        f"`{file}` read back differs in {what}; nothing was written",
        "this is a bug in tokenmill, or the disk lost data: please report it",
    )


def read_tokenizer(
    path: Path,
    *,
    pattern: str | None = None,
    special_tokens: Sequence[str] | Mapping[str, int] | None = None,
) -> Vocab:
    """The Vocab of a tokenizer folder, or of one file of a tokenizer.

    `pattern` and `special_tokens` are for files that do not carry them: tiktoken's ranks, and
    vocab.json with merges.txt. Given for any other they are a ConfigError.
    """
    if path.is_dir():
        manifest = read_manifest(path)
        if manifest is not None:
            _refuse_settings(path, pattern, special_tokens)
            return _read_described(path / huggingface_json.FILE_NAME, manifest)
    # Every command imports this module, and few read files of others.
    from tokenmill.tokenizer.formats import course_files, detect

    found = detect.detect(path)
    if found.kind == "ranks":
        return tiktoken_ranks.read(found.file, pattern=pattern, special_tokens=special_tokens)
    if found.kind == "gpt2":
        return gpt2_files.read(found.file, pattern=pattern or "gpt2", special_tokens=special_tokens)
    if found.kind == "course":
        return course_files.read(found.file, pattern=pattern, special_tokens=special_tokens)
    _refuse_settings(found.file, pattern, special_tokens)
    return _read_huggingface(found.file, _bytes_of(found.file))


def _refuse_settings(
    path: Path, pattern: str | None, special_tokens: Sequence[str] | Mapping[str, int] | None
) -> None:
    for name, value in (("pattern", pattern), ("special_tokens", special_tokens)):
        if value is not None:
            raise ConfigError(
                f"`{path}` says itself what its {name.replace('_', ' ')} is, `{name}` may not",
                f"leave `{name}` out",
            )


def _read_huggingface(file: Path, data: bytes, pattern: str | None = None) -> Vocab:
    """`data`, which is tokenizer.json, and what stands beside `file` about roles and chats."""
    vocab = huggingface_json.read(data, str(file), pattern=pattern)
    config_file = file.with_name(transformers_config.FILE_NAME)
    template_file = file.with_name(transformers_config.TEMPLATE_FILE_NAME)
    extras = vocab.extras
    if config_file.is_file():
        config = transformers_config.read(
            _bytes_of(config_file), vocab.special_tokens, str(config_file)
        )
        extras = replace(extras, config=config.kept, chat_template=config.chat_template)
    if template_file.is_file():
        try:
            template = _bytes_of(template_file).decode()
        except UnicodeDecodeError as error:
            raise FormatError(
                f"`{template_file}` is not UTF-8: bad byte at {error.start}"
            ) from None
        extras = replace(extras, chat_template=template)
    return replace(vocab, extras=extras)


def _bytes_of(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise FormatError(str(unreadable(file, error))) from error


def _read_described(file: Path, manifest: Manifest) -> Vocab:
    """tokenizer.json under a manifest, which knows the pattern's own name and spelling."""
    if not file.is_file():
        raise FormatError(f"`{file.parent}` has a manifest but no `{file.name}`")
    data = _bytes_of(file)
    if hashlib.sha256(data).hexdigest() != manifest.files.get(file.name):
        raise FormatError(
            f"`{file}` is not the file its manifest describes: the sha256 differs",
            "it was changed or damaged; to use it as it is, load the file itself",
        )
    vocab = _read_huggingface(file, data, manifest.pattern)
    if vocab.special_tokens != manifest.special_tokens:
        raise FormatError(f"`{file}` and its manifest name different special tokens")
    return vocab
