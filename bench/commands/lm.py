"""`bench lm`, what is raced: steps of training and tokens written, beside transformers with the same weights and rows.

Losses and tokens are compared before anything is timed. A step's time is the median over a run's steps, without the first ones,
which bring memory and, compiled, the compiler's work.
"""

import statistics
from dataclasses import dataclass, replace
from pathlib import Path

from bench.commands.dataset import peer_entrants, require_done
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
from bench.rounds import Entrant, Track, run_answers, run_rounds
from bench.stages import generate_llama, generate_model, train_llama, train_model
from bench.stages.transformers_chats import LIBRARY
from bench.tables import Record, fastest, in_megabytes, in_small_units, median

STEP, GENERATE = "lm-step", "lm-generate"
OURS = "tokenmill"


@dataclass(frozen=True)
class Ids:
    """A .npy of a corpus's ids in a vocab of the preset's size."""

    corpus: Corpus
    preset: str
    path: Path


def step_record(ids: Ids, num_steps: int, setting: Setting, *, with_compiled: bool) -> Record:
    """Steps of `ids.preset`, ours, transformers' and ours compiled."""
    about = setting.cases.lm_step
    setting.plan.say(f"{STEP}, {ids.preset}, {num_steps} steps of {about.batch_size} rows")
    job = Job(
        program=train_model.PROGRAM,
        path=str(ids.path),
        threads=setting.threads,
        form=ids.preset,
        size=num_steps,
        options={
            "batch_size": about.batch_size,
            "warm_steps": min(about.warm_steps, num_steps - 1),
        },
    )
    peers, absent = peer_entrants(
        LIBRARY, replace(job, program=train_llama.PROGRAM), [ids.preset], setting
    )
    compiled = Entrant(OURS, replace(job, form=ids.preset + train_model.COMPILED))
    entered = [Entrant(OURS, job), *peers, *([compiled] if with_compiled else [])]
    tracks = run_answers(entered, setting.plan)
    require_done(tracks[:1])
    for track in tracks[1:]:
        require_near(track, tracks[0], about.max_difference)
    run_rounds(tracks, setting.plan)
    require_done(tracks[:1])
    entrants = [_step_entrant(track) for track in tracks]
    missing = [missing_record(each, setting.threads) for each in absent]
    record = make_record(STEP, f"{STEP}-{ids.preset}", ids.corpus, setting, [*entrants, *missing])
    return record | {"numbers": _step_numbers(ids.preset, record, setting)}


def require_near(track: Track, right: Track, most: float) -> None:
    """Another order of adding shows in the last digits, another model or other rows in the first."""
    if track.failure is not None:
        return
    for number_of, (found, wanted) in enumerate(zip(track.answer, right.answer, strict=True)):
        if abs(float(found[0]) - float(wanted[0])) > most:
            raise BenchError(
                f"{track.entrant.label}: the loss of step {number_of + 1} is {found[0].decode()}, ours {wanted[0].decode()}"
            )


def _step_entrant(track: Track) -> Record:
    """A record whose seconds are those of one step."""
    last = float(track.answer[-1][0]) if track.answer else 0.0
    record = entrant_record(track, _version(track), f"loss {last:.4f}")
    seconds = [outcome.extra["step_seconds"] for outcome in track.outcomes]
    extras = {
        name: [outcome.extra[name] for outcome in track.outcomes]
        for name in ("first_step_seconds", "load_seconds")
        if track.outcomes and name in track.outcomes[0].extra
    }
    return record | {"seconds": seconds, "form": track.entrant.job.form} | extras


def _version(track: Track) -> str:
    return package_version() if track.entrant.name == OURS else LIBRARY.version


def _step_numbers(preset: str, record: Record, setting: Setting) -> list[Record]:
    about = setting.cases.lm_step
    ours = record["entrants"][0]
    own, what = median(ours) or 0.0, f"a step of {preset}"
    found: list[Record] = []
    theirs = fastest(record, LIBRARY.name)
    if theirs is not None:
        ratio = (median(theirs) or 0.0) / own
        wanted = about.faster_than[preset]
        found.append(
            number(
                f"{what}: faster than transformers",
                f"≥ {wanted:g}×",
                f"{ratio:.2f}×",
                ratio >= wanted,
            )
        )
        peaks = ours["peak_bytes"], theirs["peak_bytes"]
        measured = " and ".join(in_megabytes(peak) for peak in peaks)
        found.append(
            number(f"{what}: peak memory, ours and theirs", "≤", measured, peaks[0] <= peaks[1])
        )
    share = statistics.median(ours["load_seconds"]) / own
    found.append(
        number(
            f"{what}: loading its rows",
            f"< {about.max_load_share:.0%}",
            f"{share:.2%}",
            share < about.max_load_share,
        )
    )
    for entrant in record["entrants"][1:]:
        if entrant["name"] == OURS and entrant["seconds"]:
            found.append(_compiled_number(what, own, entrant))
    return found


def _compiled_number(what: str, own: float, compiled: Record) -> Record:
    later = median(compiled) or 0.0
    cost = statistics.median(compiled["first_step_seconds"]) - later
    repaid = f", repaid after {cost / (own - later):,.0f} steps" if later < own else ""
    measured = f"{own / later:.2f}×, {cost:.0f} s to compile{repaid}"
    return number(f"{what}: compiled beside not", "", measured, None)


def generate_record(preset: str, num_tokens: int, corpus: Corpus, setting: Setting) -> Record:
    """Tokens of `preset`, one row; `corpus` is only what the run was about."""
    about = setting.cases.lm_generate
    setting.plan.say(f"{GENERATE}, {preset}, {num_tokens} tokens")
    job = Job(
        program=generate_model.PROGRAM,
        path="",
        threads=setting.threads,
        form=preset,
        size=num_tokens,
        options={"context": about.context, "prompt_tokens": about.prompt_tokens},
    )
    peers, absent = peer_entrants(
        LIBRARY, replace(job, program=generate_llama.PROGRAM), [preset], setting
    )
    tracks = run_answers([Entrant(OURS, job), *peers], setting.plan)
    require_done(tracks[:1])
    for track in tracks[1:]:
        if track.failure is None and track.answer != tracks[0].answer:
            raise BenchError(f"{track.entrant.label} wrote other tokens than we did")
    run_rounds(tracks, setting.plan)
    require_done(tracks[:1])
    entrants = [
        entrant_record(track, _version(track), f"same, {num_tokens} tokens", equal=True)
        | {"form": preset}
        for track in tracks
    ]
    missing = [missing_record(each, setting.threads) for each in absent]
    record = make_record(GENERATE, f"{GENERATE}-{preset}", corpus, setting, [*entrants, *missing])
    return record | {"numbers": _generate_numbers(preset, num_tokens, record, tracks[0], setting)}


def _generate_numbers(
    preset: str, num_tokens: int, record: Record, ours: Track, setting: Setting
) -> list[Record]:
    about = setting.cases.lm_generate
    found: list[Record] = []
    own, theirs = median(record["entrants"][0]) or 0.0, fastest(record, LIBRARY.name)
    if theirs is not None:
        ratio, wanted = (median(theirs) or 0.0) / own, about.faster_than[preset]
        found.append(
            number(
                f"{num_tokens} tokens of {preset}: faster than transformers",
                f"≥ {wanted:g}×",
                f"{ratio:.2f}×",
                ratio >= wanted,
            )
        )
    early = statistics.median(outcome.extra["early_seconds"] for outcome in ours.outcomes)
    late = statistics.median(outcome.extra["late_seconds"] for outcome in ours.outcomes)
    found.append(
        number(
            f"a token of {preset} in the last quarter of {about.context}, beside the first",
            f"≤ {about.max_growth:g}×",
            f"{late / early:.2f}× ({in_small_units(early)}, {in_small_units(late)})",
            late / early <= about.max_growth,
        )
    )
    return found
