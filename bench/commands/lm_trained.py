"""`bench lm`, what is not raced: checkpoints, and models trained for some minutes beside what is known about their text."""

import statistics
from dataclasses import dataclass
from pathlib import Path

from bench.commands.setting import Setting, entrant_record, make_record, number, package_version
from bench.corpora import Corpus
from bench.job import BenchError, Job
from bench.machine import file_system_of
from bench.rounds import Entrant, Track, run_once
from bench.stages import byte_ngrams, save_and_resume, train_for_seconds
from bench.tables import Record, in_small_units

CHECKPOINT, TRAINED = "lm-checkpoint", "lm-trained"
RESUMED_STEP = 3
"""The second step's checkpoint is the last one when `save_and_resume` ends its first run."""


def checkpoint_record(ids: Path, corpus: Corpus, folder: Path, setting: Setting) -> Record:
    about = setting.cases.lm_checkpoint
    setting.plan.say(f"{CHECKPOINT}, {about.preset}, written to {file_system_of(folder)}")
    tracks: list[Track] = []
    for turn in range(setting.plan.runs):
        out = folder / f"checkpoint-{turn}"
        job = Job(
            program=save_and_resume.PROGRAM,
            path=str(ids),
            threads=setting.threads,
            form=about.preset,
            out=str(out),
            options={"batch_size": about.batch_size},
        )
        tracks.append(_once(Entrant("tokenmill", job), setting))
    track = tracks[0]
    track.outcomes = [each.outcomes[0] for each in tracks]
    if any(int(each.answer[0][0]) != RESUMED_STEP for each in tracks):
        raise BenchError(f"a run did not go on with step {RESUMED_STEP}")
    entrant = entrant_record(track, package_version(), f"went on with step {RESUMED_STEP}")
    numbers: list[Record] = []
    for name in ("save", "resume"):
        entrant[f"{name}_seconds"] = [each.extra[f"{name}_seconds"] for each in track.outcomes]
        seconds = statistics.median(entrant[f"{name}_seconds"])
        numbers.append(
            number(
                f"{name} a checkpoint of {about.preset}",
                f"< {about.max_seconds:g} s",
                in_small_units(seconds),
                seconds < about.max_seconds,
            )
        )
    record = make_record(CHECKPOINT, CHECKPOINT, corpus, setting, [entrant])
    return record | {"file_system": file_system_of(folder), "numbers": numbers}


def _once(entrant: Entrant, setting: Setting) -> Track:
    """One run with its answer: a model is trained for minutes, and saving leaves files behind."""
    outcome, answer = run_once(entrant, setting.plan.timeout_seconds, with_answer=True)
    setting.plan.say(f"  {entrant.label}: {outcome.seconds:.1f} s {outcome.extra}")
    return Track(entrant, answer, outcome.digest, [outcome])


@dataclass(frozen=True)
class Texts:
    """A text to learn and one to be asked about, as files and as datasets, and the tokenizer."""

    corpus: Corpus
    training: Path
    held_out: Path
    training_ids: Path
    held_out_ids: Path
    tokenizer: Path


def _train_job(texts: Texts, preset: str, out: Path, setting: Setting, **options: float) -> Entrant:
    job = Job(
        program=train_for_seconds.PROGRAM,
        path=str(texts.training_ids),
        warm_path=str(texts.held_out_ids),
        tokenizer=str(texts.tokenizer),
        threads=setting.threads,
        form=preset,
        out=str(out),
        options=options,
    )
    return Entrant(f"tokenmill, {preset}", job)


def _trained_entrant(track: Track) -> Record:
    extra = track.outcomes[0].extra
    text = f"{extra['num_steps']:,.0f} steps, {extra['bits_per_byte']:.4f} bits per byte"
    return entrant_record(track, package_version(), text) | {"found": extra}


def small_world_record(texts: Texts, seconds: float, folder: Path, setting: Setting) -> Record:
    from tokenmill.lm.small_world import entropy_bits_per_byte

    about = setting.cases.lm_small_world
    setting.plan.say(f"lm-{about.name}, {about.preset} for {seconds:.0f} s")
    entrant = _train_job(
        texts,
        about.preset,
        folder / about.name,
        setting,
        seconds=seconds,
        batch_size=about.batch_size,
        lr=about.lr,
        samples=about.samples,
    )
    track = _once(entrant, setting)
    record = make_record(
        TRAINED, f"lm-{about.name}", texts.corpus, setting, [_trained_entrant(track)]
    )
    extra, took = track.outcomes[0].extra, f"{about.preset}, {track.seconds[0]:.0f} s"
    ratio = extra["bits_per_byte"] / entropy_bits_per_byte()
    return record | {
        "numbers": [
            number(
                f"{took} of the small world: bits of the entropy",
                f"≤ {about.max_ratio:g}×",
                f"{ratio:.3f}×",
                ratio <= about.max_ratio,
            ),
            number(
                f"{took} of the small world: sentences the grammar accepts",
                f"≥ {about.min_accepted:.0%}",
                f"{extra['accepted']:.1%} of {extra['sentences']:,.0f}",
                extra["accepted"] >= about.min_accepted,
            ),
        ]
    }


def english_record(texts: Texts, seconds: float, folder: Path, setting: Setting) -> Record:
    about = setting.cases.lm_english
    setting.plan.say(f"lm-{about.name}, {about.preset} for {seconds:.0f} s")
    job = Job(
        program=byte_ngrams.PROGRAM,
        path=str(texts.training),
        warm_path=str(texts.held_out),
        threads=1,
        options={"order": about.order},
    )
    counted = _once(Entrant(f"{about.order}-grams of bytes", job), setting)
    best = min(counted.outcomes[0].extra.values())
    entrant = _train_job(
        texts,
        about.preset,
        folder / about.name,
        setting,
        seconds=seconds,
        batch_size=about.batch_size,
        lr=about.lr,
    )
    track = _once(entrant, setting)
    found = track.outcomes[0].extra["bits_per_byte"]
    ngrams = entrant_record(counted, "", f"{best:.4f} bits per byte")
    ngrams |= {"found": counted.outcomes[0].extra}
    record = make_record(
        TRAINED, f"lm-{about.name}", texts.corpus, setting, [_trained_entrant(track), ngrams]
    )
    took = f"{about.preset}, {track.seconds[0]:.0f} s of {texts.corpus.name}"
    return record | {
        "numbers": [
            number(
                f"{took}: bits per byte, beside a byte {about.order}-gram model",
                f"< {best:.3f}",
                f"{found:.3f}",
                found < best,
            )
        ]
    }
