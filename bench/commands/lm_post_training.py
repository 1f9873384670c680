"""`bench lm`, post-training: steps of SFT and of DPO beside TRL, from the same weights on the same rows of mixed length.

What is compared is how many tokens that are not padding are trained on in a second. Ours packs rows and asks the reference once; TRL runs as
it comes, in float32 without recomputing activations, and that with packing or with log-probs computed before. The loss of the first
rows is compared before anything is timed.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.cases import LmPostTrainingCase
from bench.commands.dataset import peer_entrants, require_done
from bench.commands.lm import OURS, require_near
from bench.commands.setting import (
    Setting,
    entrant_record,
    make_record,
    missing_record,
    number,
    package_version,
)
from bench.corpora import Corpus
from bench.job import BenchError, Job
from bench.mixed_lengths import Lengths, Speaker, write_conversations, write_pairs
from bench.rounds import Entrant, Track, run_answers, run_once, run_rounds
from bench.stages import post_train_model, post_train_trl
from bench.stages.post_train_trl import DEFAULTS, FORMS, LIBRARY, PLAIN
from bench.tables import Record, in_megabytes, median

KIND = "lm-post-training"
UNIT_TOKENS = 1000
"""A record's seconds are those of so many tokens."""


@dataclass(frozen=True)
class Base:
    """What is fine-tuned: a folder that transformers opens, and a text to say something of."""

    corpus: Corpus
    text: Path
    folder: Path
    tokenizer: Any


@dataclass(frozen=True)
class _Rows:
    """The same rows as JSON lines and as a dataset of ours."""

    lines: Path
    dataset: Path


def post_training_record(
    base: Base, about: LmPostTrainingCase, folder: Path, setting: Setting
) -> Record:
    lengths = Lengths(about.median, about.sigma, about.least, about.most)
    setting.plan.say(
        f"lm-{about.name}, {about.preset}, {about.steps} steps, documents of {lengths} tokens"
    )
    rows = _write_rows(base, about, lengths, folder)
    job = Job(
        program=post_train_model.PROGRAM,
        path=str(rows.dataset),
        threads=setting.threads,
        tokenizer=str(base.folder),
        form=about.name,
        size=about.steps,
        options={
            "batch_size": about.packed_rows,
            "warm_steps": min(about.warm_steps, about.steps - 1),
        },
    )
    options = {**job.options, "batch_size": about.batch_size, "context": _context(base)}
    theirs = replace(
        job,
        program=post_train_trl.PROGRAM,
        path=str(rows.lines),
        out=str(folder / "trl-cache"),
        options=options,
    )
    forms = [f"{about.name}, {how}" for how in FORMS[about.name]]
    peers, absent = peer_entrants(LIBRARY, theirs, forms, setting)
    tracks = run_answers([Entrant(OURS, job), *_without_defaults(peers)], setting.plan)
    require_done(tracks[:1])
    for track in tracks[1:]:
        require_near(track, tracks[0], about.max_difference)
    run_rounds(tracks, setting.plan)
    require_done(tracks[:1])
    for entrant in peers:
        if entrant.job.form.endswith(DEFAULTS):
            tracks.append(_once(entrant, setting))
            require_near(tracks[-1], tracks[0], about.max_difference)
    entrants = [_entrant(track) for track in tracks]
    missing = [missing_record(each, setting.threads) for each in absent]
    record = make_record(
        KIND,
        f"lm-{about.name}",
        base.corpus,
        setting,
        [*entrants, *missing],
        lengths=str(lengths),
    )
    return record | {"numbers": _numbers(about, entrants)}


def _write_rows(base: Base, about: LmPostTrainingCase, lengths: Lengths, folder: Path) -> _Rows:
    import tokenmill as tm

    text = base.text.read_text(encoding="utf-8")[: about.documents * 8 * about.most]
    ids = base.tokenizer.encode(text, allowed_special="all")
    speaker = Speaker(ids, base.tokenizer.decode)
    lines, dataset = folder / f"{about.name}.jsonl", folder / f"{about.name}-rows"
    write, mode = {
        "sft": (write_conversations, "sft"),
        "dpo": (write_pairs, "preference"),
    }[about.name]
    write(lines, about.documents, lengths, speaker, seed=0)
    tm.encode_dataset(lines, base.tokenizer, dataset, mode=mode, progress=False)
    return _Rows(lines, dataset)


def _context(base: Base) -> int:
    import json

    return json.loads((base.folder / "config.json").read_text())["max_position_embeddings"]


def _without_defaults(peers: Sequence[Entrant]) -> list[Entrant]:
    """TRL as it comes trains in bfloat16, which takes a CPU without instructions for it minutes a step: that is run once, and alone."""
    return [entrant for entrant in peers if not entrant.job.form.endswith(DEFAULTS)]


def _once(entrant: Entrant, setting: Setting) -> Track:
    """The fewest steps of which one can be timed."""
    short = replace(entrant.job, size=2, options={**entrant.job.options, "warm_steps": 1})
    track = Track(replace(entrant, job=short))
    try:
        outcome, track.answer = run_once(
            track.entrant, setting.plan.timeout_seconds, with_answer=True
        )
    except BenchError as error:
        track.failure = str(error)
        setting.plan.say(f"  once  {entrant.label}, {DEFAULTS}: {track.failure}")
        return track
    track.outcomes = [outcome]
    setting.plan.say(f"  once  {entrant.label}, {DEFAULTS}: {outcome.seconds:.1f} s")
    return track


def _entrant(track: Track) -> Record:
    """A record whose seconds are those of a thousand tokens, and whose memory is what came on top of the imports."""
    version = package_version() if track.entrant.name == OURS else LIBRARY.version
    loss = float(track.answer[0][0]) if track.answer else 0.0
    found = [outcome.extra for outcome in track.outcomes]
    above = [outcome.peak_bytes - outcome.extra["imported_bytes"] for outcome in track.outcomes]
    more = {
        name: [each[name] for each in found]
        for name in ("used_share", "whole_tokens_per_second")
        if found and name in found[0]
    }
    record = entrant_record(track, version, f"loss {loss:.4f}")
    return (
        record
        | more
        | {
            "seconds": [UNIT_TOKENS * each["step_seconds"] / each["tokens"] for each in found],
            "above_imports_bytes": max(above, default=None),
            "form": track.entrant.job.form,
        }
    )


def _numbers(about: LmPostTrainingCase, entrants: Sequence[Record]) -> list[Record]:
    ours, own = entrants[0], UNIT_TOKENS / (median(entrants[0]) or 1.0)
    found: list[Record] = []
    for entrant in entrants[1:]:
        seconds = median(entrant)
        if seconds is None:
            continue
        how = entrant["form"].split(", ")[1]
        ratio = own * seconds / UNIT_TOKENS
        wanted = about.faster_than if how in (PLAIN, DEFAULTS) else None
        found.append(
            number(
                f"{about.name} of {about.preset}: tokens a second, beside TRL, {how}",
                "" if wanted is None else f"≥ {wanted:g}×",
                f"{ratio:.2f}× ({own:,.0f} and {UNIT_TOKENS / seconds:,.0f})",
                None if wanted is None else ratio >= wanted,
            )
        )
        found.append(_memory_number(about, ours, entrant, how))
    whole = statistics.median(ours["whole_tokens_per_second"])
    found.append(
        number(
            f"{about.name}: tokens a second of the whole run, from the call to the saved checkpoint",
            "",
            f"{whole:,.0f}",
            None,
        )
    )
    share = statistics.median(ours["used_share"])
    found.append(
        number(
            f"{about.name}: places of packed rows that are used",
            "" if about.min_used is None else f"≥ {about.min_used:.0%}",
            f"{share:.1%}",
            None if about.min_used is None else share >= about.min_used,
        )
    )
    return found


def _memory_number(about: LmPostTrainingCase, ours: Record, theirs: Record, how: str) -> Record:
    own, other = ours["above_imports_bytes"], theirs["above_imports_bytes"]
    wanted = about.max_memory if how in (PLAIN, DEFAULTS) else None
    return number(
        f"{about.name}: peak memory above the imports, of that of TRL, {how}",
        "" if wanted is None else f"≤ {wanted:g}×",
        f"{own / other:.2f}× ({in_megabytes(own)} and {in_megabytes(other)})",
        None if wanted is None else own / other <= wanted,
    )
