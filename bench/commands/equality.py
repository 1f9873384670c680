"""`bench equality`: every merge equal to the peers' on whole files, or the first one that is not.

On a difference, the counts of the pairs in question are computed by plain Python from the pretokens, so the
message says which trainer chose the more frequent pair.
"""

from dataclasses import dataclass, replace

from bench.answers import compare_answers, first_repeated_token, pair_counts_after
from bench.commands.setting import Setting, named_patterns, place
from bench.corpora import Corpus
from bench.job import Answer, BenchError, Job
from bench.peers import PEERS, tokenmill
from bench.rounds import Entrant, run_once

EXACT_PEERS = ("tokenizers", "rustbpe")


@dataclass(frozen=True)
class Verdict:
    equal: bool
    line: str


def check_equality(
    corpus: Corpus, pattern: str, setting: Setting, peers: tuple[str, ...] = EXACT_PEERS
) -> list[Verdict]:
    """One verdict for each peer that knows the pattern."""
    return [
        _check_peer(corpus, pattern, name, setting) for name in peers if PEERS[name].knows(pattern)
    ]


def _check_peer(corpus: Corpus, pattern: str, name: str, setting: Setting) -> Verdict:
    peer = PEERS[name]
    where = place(peer, setting)
    if where.python is None:
        raise BenchError(f"{peer.name} {where.reason}")
    ours = Job(
        program=tokenmill.PROGRAM,
        path=str(corpus.path),
        threads=setting.threads,
        vocab_size=setting.vocab_size,
        pattern=pattern,
        regex=named_patterns()[pattern],
        ties=peer.ties,
        separator=setting.cases.separator,
    )
    theirs = Entrant(peer.name, replace(ours, program=peer.program), where.python)
    our_answer = _trained(Entrant(tokenmill.NAME, ours), setting)
    their_answer = _trained(theirs, setting)
    comparison = compare_answers(our_answer, their_answer)
    prefix = f"{corpus.name}  {pattern}  {peer.name} {peer.version} ({peer.ties})"
    if not comparison.equal:
        reason = explain(our_answer, their_answer, comparison.first_difference or 0, ours)
        return Verdict(False, f"{prefix}: {comparison.describe()}\n{reason}")
    short = setting.vocab_size - 256 - len(our_answer)
    note = f" (the text has no pairs for {short:,} more)" if short > 0 else ""
    return Verdict(True, f"{prefix}: {comparison.describe()}{note}")


def _trained(entrant: Entrant, setting: Setting) -> Answer:
    try:
        outcome, answer = run_once(entrant, setting.plan.timeout_seconds, with_answer=True)
    except BenchError as error:
        raise BenchError(f"{entrant.name} {error}") from None
    setting.plan.say(f"  {entrant.name}: {len(answer):,} merges, {outcome.seconds:.2f} s")
    return answer


def explain(ours: Answer, theirs: Answer, index: int, job: Job) -> str:
    """The first differing merge on both sides, and how often each pair occurs at that moment."""
    rows = {"tokenmill": ours[index : index + 1], "peer": theirs[index : index + 1]}
    wanted = {side: b"".join(row[0]) for side, row in rows.items() if row}
    counts = pair_counts_after(
        _pretokens(job), [(row[0], row[-1]) for row in ours[:index]], wanted.values()
    )
    lines: list[str] = []
    for side in rows:
        if side not in wanted:
            lines.append(f"  {side}: has no merge {index:,}")
            continue
        pairs = [pair for pair in counts if b"".join(pair) == wanted[side]]
        spelled = ", ".join(
            f"{left!r} + {right!r} × {counts[left, right]:,}" for left, right in pairs
        )
        lines.append(f"  {side}: {wanted[side]!r} ({spelled or 'no such pair is left'})")
    repeated = first_repeated_token(ours)
    if repeated is not None and repeated <= index:
        lines.append(
            f"  merge {repeated:,} spells a token that exists already: tokenmill and Hugging Face share its "
            "id, rustbpe makes a second one and may differ from there on"
        )
    return "\n".join(lines)


def _pretokens(job: Job) -> list[tuple[bytes, int]]:
    import tokenmill as tm

    counted = tm.count(job.path, pattern=job.pattern, special_tokens=[], threads=job.threads)
    return list(counted.to_dict().items())
