"""Train: text or counts in, Tokenizer out.

Counting and merging are two phases; each can run alone. What comes out depends on the text and on
the settings, never on threads, the order of files (unless limits cut the text), the engine or an
interruption.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Unpack

from tokenmill.errors import ConfigError
from tokenmill.progress import ProgressChoice
from tokenmill.sources.choices import require_one_of
from tokenmill.sources.inputs import Inputs
from tokenmill.sources.options import ReadKeywords, ReadOptions
from tokenmill.storage.files import local_path
from tokenmill.tokenizer.threads import num_threads
from tokenmill.tokenizer.tokenizer import Tokenizer
from tokenmill.train.counts import PretokenCounts, described
from tokenmill.train.run import TrainingRun
from tokenmill.train.settings import (
    ENGINES,
    TrainSettings,
    normalise_special_tokens,
    profile_values,
)


def train(
    inputs: Inputs | None = None,
    *,
    counts: PretokenCounts | str | os.PathLike[str] | None = None,
    vocab_size: int | None = None,
    pattern: str | None = None,
    special_tokens: Sequence[str] | None = None,
    special_placement: str | None = None,
    reserve: int | None = None,
    ties: str | None = None,
    min_count: int | None = None,
    max_token_bytes: int | None = None,
    profile: str | None = None,
    engine: str = "rust",
    threads: int | None = None,
    out: str | os.PathLike[str] | None = None,
    force: bool = False,
    progress: ProgressChoice = None,
    **read: Unpack[ReadKeywords],
) -> Tokenizer:
    """Learn a tokenizer from the documents of `inputs`, or from `counts` made earlier.

    `inputs` is a path, glob, folder or `-`, a list of these, an iterable of documents, or a table;
    `read` takes the fields of ReadOptions. What is left out comes from `profile` (`gpt4`,
    `nanochat`, `cs336`), else from TrainSettings: 32,768 ids, pattern `gpt4`, `<|endoftext|>` last.
    Too little text gives a smaller vocab, and the report in `Tokenizer.training` says why. With
    `out` the tokenizer is also saved there: an interrupted run goes on where it stopped, a finished
    one with the same settings is loaded, one with other settings is refused unless `force`. The
    result does not depend on `threads` or `engine`.

    >>> tokenizer = train(iter(["low low lower lowest"]), vocab_size=260, pattern="gpt2")
    >>> [tokenizer.token_bytes(i) for i in tokenizer.encode("lower")]
    [b'low', b'e', b'r']
    """
    return prepare_training(
        inputs,
        counts=counts,
        vocab_size=vocab_size,
        pattern=pattern,
        special_tokens=special_tokens,
        special_placement=special_placement,
        reserve=reserve,
        ties=ties,
        min_count=min_count,
        max_token_bytes=max_token_bytes,
        profile=profile,
        engine=engine,
        threads=threads,
        out=out,
        force=force,
        progress=progress,
        **read,
    ).run()


def prepare_training(
    inputs: Inputs | None = None,
    *,
    counts: PretokenCounts | str | os.PathLike[str] | None = None,
    vocab_size: int | None = None,
    pattern: str | None = None,
    special_tokens: Sequence[str] | None = None,
    special_placement: str | None = None,
    reserve: int | None = None,
    ties: str | None = None,
    min_count: int | None = None,
    max_token_bytes: int | None = None,
    profile: str | None = None,
    engine: str = "rust",
    threads: int | None = None,
    out: str | os.PathLike[str] | None = None,
    force: bool = False,
    progress: ProgressChoice = None,
    **read: Unpack[ReadKeywords],
) -> TrainingRun:
    """A training checked and ready to run, or to be asked for its plan. The arguments are those of
    `train`."""
    require_one_of("engine", engine, ENGINES)
    chosen = {
        "vocab_size": vocab_size,
        "pattern": pattern,
        "special_tokens": normalise_special_tokens(special_tokens),
        "special_placement": special_placement,
        "reserve": reserve,
        "ties": ties,
        "min_count": min_count,
        "max_token_bytes": max_token_bytes,
    }
    loaded = _load_counts(inputs, counts, pattern)
    settings, options = resolve(chosen, read, profile, loaded)
    final = None if out is None else local_path(out)
    return TrainingRun(
        settings, options, inputs, loaded, engine, num_threads(threads), final, force, progress
    )


def _load_counts(
    inputs: Inputs | None,
    counts: PretokenCounts | str | os.PathLike[str] | None,
    pattern: str | None,
) -> PretokenCounts | None:
    """The counts to start from, `None` to start from inputs. ConfigError unless exactly one is
    given."""
    if isinstance(inputs, PretokenCounts):
        raise ConfigError("the input is counts, not text", "pass them as `counts=`")
    if (inputs is None) == (counts is None):
        raise ConfigError(
            "training needs text or counts"
            if inputs is None
            else "training takes text or counts, not both"
        )
    if counts is None or isinstance(counts, PretokenCounts):
        return counts
    return PretokenCounts.load(counts, pattern=pattern)


def resolve(
    chosen: Mapping[str, object],
    read: ReadKeywords,
    profile: str | None,
    counts: PretokenCounts | None = None,
) -> tuple[TrainSettings, ReadOptions]:
    """Settings and read options: what the caller chose, else the profile's, else the counts', else
    the default."""
    values = dict(profile_values(profile))
    values |= {name: value for name, value in chosen.items() if value is not None}
    values |= read
    if counts is not None:
        _require_no_read_options(read)
        values.setdefault("pattern", counts.pattern)
        if counts.special_tokens is not None:
            values.setdefault("special_tokens", counts.special_tokens)
    names = {field.name for field in fields(TrainSettings)}
    settings = TrainSettings(**{name: values[name] for name in values if name in names})  # pyright: ignore
    options = ReadOptions.from_keywords(
        {name: values[name] for name in values if name not in names}
    )
    if counts is not None:
        _require_fitting_counts(counts, settings, options)
    return settings, options


def _require_no_read_options(read: ReadKeywords) -> None:
    for name in read:
        raise ConfigError(f"`{name}` is about reading text, but the training starts from counts")


def _require_fitting_counts(
    counts: PretokenCounts, settings: TrainSettings, options: ReadOptions
) -> None:
    wanted = described(settings.pattern, settings.special_tokens)
    counts.origin.require_same_split(wanted, "the counts", "this training")
    for name in ("doc_cap", "max_chars", "max_bytes"):
        cap, theirs = getattr(options, name), (counts.origin.read or {}).get(name)
        if cap is not None and counts.origin.read is not None and theirs != cap:
            raise ConfigError(
                f"the profile sets {name.replace('_', ' ')} {cap}, but the counts were made with `{theirs}`",
                "count again with the profile's limits",
            )
