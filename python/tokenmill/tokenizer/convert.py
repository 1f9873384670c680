"""Convert a tokenizer: anything that `read_tokenizer` reads in, the files of one other tool out.

A target that would give other ids is refused with the reason. What was written is read back and
compared before it gets its name, and what the target cannot say is in `Conversion.notes`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from tokenmill import _core
from tokenmill.errors import ConfigError, FormatError, VocabError
from tokenmill.progress import quantity
from tokenmill.storage.files import write_atomically, write_folder_atomically
from tokenmill.tokenizer.artifact import read_tokenizer
from tokenmill.tokenizer.formats import (
    gguf,
    gpt2_files,
    huggingface_json,
    nanochat,
    tiktoken_ranks,
    transformers_config,
)
from tokenmill.tokenizer.vocab import Vocab, show

Files = dict[str, bytes]
"""File name → bytes. A target of one file calls it by the empty name."""


@dataclass(frozen=True)
class Target:
    """One way to write a vocab."""

    obstacle: Callable[[Vocab], str | None]
    write: Callable[[Vocab], Files]
    notes: Callable[[Vocab], list[str]]
    compare: Callable[[Files, Vocab], str | None]
    """What of a vocab its files do not say, having been read back; None if they say it all."""
    ending: str | None = None
    """Of the name of a file that may be asked for instead of a folder."""


@dataclass(frozen=True)
class Conversion:
    """What `convert` did."""

    vocab: Vocab
    to: str
    out: Path
    files: list[Path]
    notes: list[str]
    already_done: bool
    """Whether all of it was there before, byte by byte."""


def convert(
    tokenizer: Path,
    to: str,
    out: Path,
    *,
    pattern: str | None = None,
    special_tokens: Sequence[str] | Mapping[str, int] | None = None,
    force: bool = False,
) -> Conversion:
    """Write the tokenizer at `tokenizer` as the kind `to`, a name of `TARGETS`, to `out`.

    `pattern` and `special_tokens` are for files that do not carry them. `out` is a folder, but a
    file for `gguf`, and for `tiktoken` if its name ends in `.tiktoken`. One that holds the same
    already is left as it is, anything else there is a ConfigError unless `force` is given; files
    of others are never removed.
    """
    target = TARGETS.get(to)
    if target is None:
        known = ", ".join(f"`{name}`" for name in TARGETS)
        raise ConfigError(f"`{to}` is not something to convert to", f"choose one of {known}")
    vocab = read_tokenizer(tokenizer, pattern=pattern, special_tokens=special_tokens)
    obstacle = target.obstacle(vocab)
    if obstacle is not None:
        hint = None if to == "hf" else "`--to hf` keeps everything"
        raise VocabError(f"`{tokenizer}` cannot be written for `{to}`: {obstacle}", hint)
    files = target.write(vocab)
    missing = target.compare(files, vocab)
    if missing is not None:
        _differs(out, missing)
    paths = _places(files, target, out)
    already_done = _already_there(files, paths, out, force=force)
    if not already_done:
        _write(files, paths, out)
    return Conversion(
        vocab, to, out, list(paths.values()), _notes(vocab) + target.notes(vocab), already_done
    )


def _differs(out: Path, what: str) -> NoReturn:
    raise FormatError(
        f"`{out}` read back differs in {what}; nothing was written",
        "this is a bug in tokenmill, or the disk lost data: please report it",
    )


def _places(files: Files, target: Target, out: Path) -> dict[str, Path]:
    """Where each file goes."""
    if list(files) == [""]:
        return {"": out}
    if target.ending is not None and out.name.endswith(target.ending):
        return {name: out.with_suffix(Path(name).suffix) for name in files}
    return {name: out / name for name in files}


def _already_there(files: Files, paths: Mapping[str, Path], out: Path, *, force: bool) -> bool:
    """Whether `out` holds just what would be written. ConfigError if it may not be replaced."""
    in_folder = out not in paths.values()
    if in_folder and out.is_dir():
        there = sorted(entry.name for entry in out.iterdir())
        foreign = [name for name in there if name not in files]
        if foreign:
            raise ConfigError(
                f"`{out}` holds `{foreign[0]}`, which is no part of what would be written",
                "choose a folder that does not exist yet",
            )
        if not there:
            return False
    elif in_folder and out.exists():
        raise ConfigError(f"`{out}` is a file, not a folder", "choose another name")
    for path in paths.values():
        if path.is_dir():
            raise ConfigError(f"`{path}` is a folder, not a file", "choose another name")
    if all(p.is_file() and p.read_bytes() == files[name] for name, p in paths.items()):
        return True
    found = next((path for path in paths.values() if path.exists()), None)
    if found is not None and not force:
        raise ConfigError(
            f"`{found}` exists and holds something else",
            "choose another place, or pass `--force` (`force=True`) to replace it",
        )
    return False


def _write(files: Files, paths: Mapping[str, Path], out: Path) -> None:
    if out in paths.values():
        # What is asked for by name comes last: while it is absent, nothing is complete.
        for name, path in sorted(paths.items(), key=lambda item: item[1] == out):
            write_atomically(path, files[name])
            if path.read_bytes() != files[name]:
                _differs(path, "its bytes")
        return
    with write_folder_atomically(out) as partial:
        for name, data in files.items():
            (partial / name).write_bytes(data)
            if (partial / name).read_bytes() != data:
                _differs(out / name, "its bytes")


def _notes(vocab: Vocab) -> list[str]:
    """What is worth knowing about `vocab` wherever it goes."""
    unreachable = vocab.proof.unreachable
    if not unreachable:
        return []
    token = show(vocab.tokens[unreachable[0]])
    tokens = quantity(len(unreachable), "token")
    verb = "is" if len(unreachable) == 1 else "are"
    if vocab.ignore_merges:
        made = "made by no merges, only as whole pretokens"
    else:
        made = "in no text's ids, because no merges lead there"
    return [f"{tokens} {verb} {made}, such as {unreachable[0]}, {token}"]


# One target after another.


def _write_huggingface(vocab: Vocab) -> Files:
    files = {
        huggingface_json.FILE_NAME: huggingface_json.write(vocab),
        transformers_config.FILE_NAME: transformers_config.write(vocab),
    }
    if vocab.extras.chat_template is not None:
        template = vocab.extras.chat_template
        files[transformers_config.TEMPLATE_FILE_NAME] = template.encode()
    return files


def _compare_huggingface(files: Files, vocab: Vocab) -> str | None:
    read = huggingface_json.read(files[huggingface_json.FILE_NAME], pattern=vocab.pattern)
    if (read.core, read.normalizer) != (vocab.core, vocab.normalizer):
        return "tokens, merges or normalizer"
    if read.extras.post_processor != vocab.extras.post_processor:
        return "its post-processor"
    if read.extras.not_special != vocab.extras.not_special:
        return "its special tokens"
    return None


def _compare_ranks(files: Files, vocab: Vocab) -> str | None:
    settings = tiktoken_ranks.read_settings(files[tiktoken_ranks.SETTINGS_FILE_NAME])
    ranks = files[tiktoken_ranks.RANKS_FILE_NAME]
    read = tiktoken_ranks.read_ranks(ranks, settings.special_tokens, settings.pattern)
    used = [vocab.merges[rank] for rank in vocab.core.used_merges()]
    if read.tokens != vocab.tokens or list(read.merges) != used:
        return "tokens"
    if read.special_tokens != vocab.special_tokens:
        return "special tokens"
    return None


def _gpt2_obstacle(vocab: Vocab) -> str | None:
    if not (vocab.ignore_merges and vocab.proof.unreachable):
        return None
    first = vocab.proof.unreachable[0]
    return (
        f"no merges lead to token {first}, {show(vocab.tokens[first])}, and these files cannot say "
        "`ignore_merges`"
    )


def _gpt2_notes(vocab: Vocab) -> list[str]:
    pattern = _core.Splitter(vocab.pattern).name or vocab.pattern
    found = [f"these files carry no split pattern: their reader has to know `{pattern}`"]
    if vocab.special_tokens:
        tokens = ", ".join(f"`{token}`" for token in list(vocab.special_tokens)[:5])
        more = ", …" if len(vocab.special_tokens) > 5 else ""
        found.append(f"these files do not say which tokens are special: {tokens}{more}")
    return found + gpt2_files.notes(vocab)


def _compare_gpt2(files: Files, vocab: Vocab) -> str | None:
    difference = gpt2_files.difference(files, vocab)
    return None if difference is None else difference[1]


TARGETS = {
    "hf": Target(
        lambda vocab: None, _write_huggingface, huggingface_json.notes, _compare_huggingface
    ),
    "tiktoken": Target(
        tiktoken_ranks.obstacle,
        tiktoken_ranks.write,
        tiktoken_ranks.notes,
        _compare_ranks,
        ending=Path(tiktoken_ranks.RANKS_FILE_NAME).suffix,
    ),
    "gpt2": Target(_gpt2_obstacle, gpt2_files.write, _gpt2_notes, _compare_gpt2),
    "nanochat": Target(
        tiktoken_ranks.obstacle,
        nanochat.write,
        lambda vocab: nanochat.notes(vocab) + tiktoken_ranks.notes(vocab),
        nanochat.compare,
    ),
    "gguf": Target(
        gguf.obstacle,
        lambda vocab: {"": gguf.write(vocab)},
        gguf.notes,
        lambda files, vocab: gguf.compare(files[""], vocab),
    ),
}
"""What `--to` takes."""
