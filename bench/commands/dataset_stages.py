"""`bench dataset`, what does not compare speeds: memory under streams of several lengths, and opening a large dataset."""

import shutil
import statistics
from collections.abc import Sequence
from dataclasses import replace

from bench.commands.dataset import Case, require_done, require_same, say_where
from bench.commands.setting import Setting, entrant_record, make_record, number, package_version
from bench.job import BenchError
from bench.machine import file_system_of
from bench.rounds import Entrant, Track, run_answers, run_once, run_rounds
from bench.stages import open_dataset, stream_dataset
from bench.stages.sparse_dataset import write_chosen, write_sparse
from bench.tables import Record, in_megabytes, in_small_units

STREAM, OPEN = "dataset-stream", "dataset-open"
SLOWEST_BYTES_PER_SECOND = 10_000_000
"""A stream that is slower than this has hung."""


def memory_record(case: Case, gigabytes: Sequence[float], setting: Setting) -> Record:
    """One run for each length: peaks are what is asked for, and a long stream takes a minute."""
    about = setting.cases.dataset_memory
    say_where(case, about.name, setting)
    tracks = [_streamed(case, round(length * 1e9), setting) for length in sorted(gigabytes)]
    records = [_stream_entrant(track) for track in tracks]
    record = make_record(STREAM, f"dataset-{about.name}", case.text, setting, records)
    record |= {"vocabulary": case.vocabulary.name, "vocab_size": case.vocabulary.size}
    record |= {"threads": setting.threads, "file_system": file_system_of(case.folder)}
    shortest, longest = tracks[0], tracks[-1]
    ratio = longest.peak_bytes / shortest.peak_bytes
    numbers = [
        number(
            f"peak memory, {longest.entrant.name} of {case.text.name}",
            f"≤ {in_megabytes(about.max_bytes)}",
            in_megabytes(longest.peak_bytes),
            longest.peak_bytes <= about.max_bytes,
        ),
        number(
            f"peak memory, {longest.entrant.name} beside {shortest.entrant.name}",
            f"≤ {about.max_ratio:g}×",
            f"{ratio:.2f}×",
            ratio <= about.max_ratio,
        ),
    ]
    return record | {"numbers": numbers}


def _streamed(case: Case, num_bytes: int, setting: Setting) -> Track:
    job = replace(case.job(stream_dataset.PROGRAM, setting), size=num_bytes)
    track = Track(Entrant(f"stream of {num_bytes / 1e9:g} GB", job))
    timeout = max(setting.plan.timeout_seconds, num_bytes / SLOWEST_BYTES_PER_SECOND)
    outcome, answer = run_once(track.entrant, timeout, with_answer=True)
    if answer[1] != answer[2]:
        given, held = (int(row[0]) for row in answer[1:])
        raise BenchError(f"the dataset holds {held:,} bytes of text, the stream gave {given:,}")
    track.answer = answer
    track.outcomes.append(outcome)
    setting.plan.say(
        f"  {track.entrant.name}: {outcome.seconds:.1f} s, {in_megabytes(outcome.peak_bytes)}"
    )
    return track


def _stream_entrant(track: Track) -> Record:
    documents, num_bytes, _ = (int(row[0]) for row in track.answer)
    return entrant_record(track, package_version(), f"{documents:,} documents") | {
        "bytes": num_bytes
    }


def open_record(case: Case, token_bytes: int, documents: int, setting: Setting) -> Record:
    """The same number of tokens in one shard and in many; every document timed with the opening before it."""
    about = setting.cases.dataset_open
    say_where(case, about.name, setting)
    entrants: list[Entrant] = []
    right: list[list[tuple[bytes, ...]]] = []
    for shards in about.shards:
        folder = case.folder / f"{shards}-shards"
        chosen = write_sparse(
            folder,
            case.vocabulary.tokenizer,
            num_tokens=token_bytes // 2,
            tokens_each=about.tokens_each,
            num_shards=shards,
            num_chosen=documents,
            seed=setting.cases.dataset.seed,
        )
        names = case.folder / f"{shards}-shards.json"
        write_chosen(names, chosen)
        job = replace(case.job(open_dataset.PROGRAM, setting), path=str(folder), threads=1)
        job = replace(job, warm_path=str(names))
        name = f"{token_bytes / 1e9:g} GB, {shards} shard{'s' if shards > 1 else ''}"
        entrants.append(Entrant(name, job))
        right.append(open_dataset.right_answer(chosen))
    tracks = run_answers(entrants, setting.plan)
    require_done(tracks)
    for track, answer in zip(tracks, right, strict=True):
        require_same(track, answer, track.answer)
    run_rounds(tracks, setting.plan)
    require_done(tracks)
    for track in tracks:
        shutil.rmtree(track.entrant.job.path)
    records = [_open_entrant(track) for track in tracks]
    record = make_record(OPEN, OPEN, case.text, setting, records)
    return record | {
        "file_system": file_system_of(case.folder),
        "numbers": [each for track in tracks for each in _open_numbers(track, setting)],
    }


def _open_entrant(track: Track) -> Record:
    text = f"{len(track.answer):,} documents, each as written"
    return entrant_record(track, package_version(), text) | {
        name: [outcome.extra[name] for outcome in track.outcomes]
        for name in ("median_seconds", "worst_seconds", "growth_bytes")
    }


def _open_numbers(track: Track, setting: Setting) -> list[Record]:
    about = setting.cases.dataset_open
    extras = [outcome.extra for outcome in track.outcomes]
    middle = statistics.median(each["median_seconds"] for each in extras)
    worst = max(each["worst_seconds"] for each in extras)
    growth = max(each["growth_bytes"] for each in extras)
    what, limit = f"open {track.entrant.name}, one document", about.max_seconds
    return [
        number(f"{what}: median", f"< {limit * 1e3:g} ms", in_small_units(middle), middle < limit),
        number(f"{what}: worst", f"< {limit * 1e3:g} ms", in_small_units(worst), worst < limit),
        number(
            f"{what}: memory grows by",
            f"< {in_megabytes(about.max_growth_bytes)}",
            f"{growth / 1e6:.1f} MB",
            growth < about.max_growth_bytes,
        ),
    ]
