"""`bench dataset`, conversations: JSON lines of `messages` to ids and masks on disk, beside transformers."""

from dataclasses import replace

from bench.commands.dataset import (
    IN_MEMORY,
    OURS,
    Case,
    case_record,
    faster_numbers,
    peer_entrants,
    require_done,
    require_same,
    say_where,
    share_number,
)
from bench.commands.setting import Setting, entrant_record, package_version
from bench.corpora import Corpus
from bench.rounds import Entrant, Track, run_answers, run_rounds
from bench.stages import encode_chats, encode_memory, transformers_chats
from bench.tables import Record
from bench.vocabularies import Vocabulary


def sft_record(case: Case, setting: Setting) -> Record:
    """Rows to a dataset, beside encoding their contents alone and beside every form of transformers."""
    about, peer = setting.cases.dataset_sft, transformers_chats.LIBRARY
    say_where(case, about.name, setting)
    job = case.job(encode_chats.PROGRAM, setting)
    contents = replace(job, program=encode_memory.PROGRAM, shape=encode_memory.CONTENTS)
    theirs = replace(job, program=transformers_chats.PROGRAM)
    forms = (*transformers_chats.TIMED_FORMS, transformers_chats.MASK)
    peers, absent = peer_entrants(peer, theirs, forms, setting)
    ours = [Entrant(OURS, job), Entrant(IN_MEMORY, contents)]
    tracks = run_answers([*ours, *peers], setting.plan)
    require_done(tracks[:2])
    right = tracks[0].answer
    require_same(tracks[1], right[3:], tracks[1].answer)
    for track in tracks[2:]:
        require_same(track, right[:2], track.answer[:2])
        if track.entrant.job.form == transformers_chats.MASK:
            require_same(track, right[:3], track.answer)
    masked = [track for track in tracks if track.entrant.job.form == transformers_chats.MASK]
    tracks = [track for track in tracks if track not in masked]
    run_rounds(tracks, setting.plan)
    require_done(tracks[:2])
    versions = {OURS: package_version(), IN_MEMORY: package_version(), peer.name: peer.version}
    entrants = [_entrant(track, versions[track.entrant.name]) for track in tracks]
    if masked and masked[0].failure is None:
        entrants[0]["answer"] += ", masks too"
    record = case_record(case, about.name, setting, entrants, absent)
    what = f"conversations to disk, {case.text.name}"
    shares = [share_number(f"{what}: of the speed in memory", record, IN_MEMORY, about.share)]
    return record | {"numbers": shares + faster_numbers(what, record, about.faster_than)}


def _entrant(track: Track, version: str) -> Record:
    done = track.failure is None
    text = f"same, {int(track.answer[1][0]):,}" if done else ""
    return entrant_record(track, version, text, equal=done) | {"form": track.entrant.job.form}


def chat_vocabulary(vocabulary: Vocabulary) -> Vocabulary:
    """With the special tokens and the template of the profile `chat`, in a folder that transformers opens too."""
    from tokenmill.chat import prepare_tokenizer

    tokenizer = prepare_tokenizer(vocabulary.tokenizer, "chat")
    folder = vocabulary.folder.with_name(f"{vocabulary.folder.name}-chat")
    tokenizer.save(folder)
    return replace(vocabulary, folder=folder, size=tokenizer.vocab_size, tokenizer=tokenizer)


def chat_case(case: Case, conversations: Corpus) -> Case:
    return Case(conversations, chat_vocabulary(case.vocabulary), case.folder)
