"""Throughput: a tokenizer and a sample of documents in, how fast it encodes and decodes out.

Cold is the first round with a new tokenizer, whose cache is empty; warm are the rounds after it.
Every document is decoded and compared with itself before a number is given, by all three decoders.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from tokenmill.errors import VocabError
from tokenmill.progress import Meter, ProgressChoice
from tokenmill.report.contest import Contest, Entrant
from tokenmill.report.decoders import Decoder, decoders_of
from tokenmill.report.engines import Engine, TokenmillEngine
from tokenmill.report.peers import Refusal, open_peer, peers_use
from tokenmill.report.sampling import Sample, sample_documents
from tokenmill.report.settings import ThroughputSettings
from tokenmill.report.timing import ColdAndWarm, Timing, Work
from tokenmill.sources.inputs import Inputs, find_inputs
from tokenmill.sources.options import ReadOptions
from tokenmill.tokenizer.threads import num_threads
from tokenmill.tokenizer.tokenizer import Tokenizer


@dataclass(frozen=True)
class DecoderResult:
    """One of the three ways to decode."""

    name: str
    num_bytes: int
    """Memory it takes."""
    timing: Timing

    def as_json(self) -> dict[str, object]:
        return {"name": self.name, "bytes": self.num_bytes, **self.timing.as_json()}


@dataclass(frozen=True)
class PeerResult:
    """Another library on the same vocab and documents."""

    name: str
    version: str | None
    refused: str | None = None
    """Why it was not measured."""
    same_ids: bool | None = None
    """`None` if nobody compared them."""
    difference: str | None = None
    """Where its answer is another one; then nothing of it was timed."""
    encode: ColdAndWarm | None = None
    decode: ColdAndWarm | None = None

    def as_json(self, own: "ThroughputReport") -> dict[str, object]:
        return {
            "name": self.name,
            "version": self.version,
            "refused": self.refused,
            "same_ids": self.same_ids,
            "difference": self.difference,
            "encode": None if self.encode is None else self.encode.as_json(),
            "decode": None if self.decode is None else self.decode.as_json(),
            "times_faster": self.times_faster(own),
        }

    def times_faster(self, own: "ThroughputReport") -> dict[str, float] | None:
        """Its seconds over ours, encoding and decoding, cold and warm."""
        if self.encode is None or self.decode is None:
            return None
        return {
            "encode_cold": self.encode.cold.seconds / own.encode.cold.seconds,
            "encode_warm": self.encode.warm.seconds / own.encode.warm.seconds,
            "decode_cold": self.decode.cold.seconds / own.decode.cold.seconds,
            "decode_warm": self.decode.warm.seconds / own.decode.warm.seconds,
        }


@dataclass(frozen=True)
class ThroughputReport:
    """Everything that was measured."""

    vocab_size: int
    pattern: str
    sample: Sample
    work: Work
    batch_size: int
    threads: int
    encode: ColdAndWarm
    decode: ColdAndWarm
    memory: dict[str, int]
    """Bytes held by each part of the tokenizer after the last round."""
    decoders: tuple[DecoderResult, ...]
    peers: tuple[PeerResult, ...]

    @property
    def all_the_same(self) -> bool:
        """Whether no peer gave another answer."""
        return all(peer.difference is None for peer in self.peers)

    def extrapolated_seconds(self, num_bytes: int) -> dict[str, float]:
        """How long encoding `num_bytes` takes at the rates measured."""
        return {
            "cold": num_bytes / self.encode.cold.bytes_per_second,
            "warm": num_bytes / self.encode.warm.bytes_per_second,
        }

    def as_json(self, extrapolate_bytes: int | None = None) -> dict[str, object]:
        work = self.work
        return {
            "vocab_size": self.vocab_size,
            "pattern": self.pattern,
            "sample": {
                "documents": work.num_documents,
                "documents_read": self.sample.read.documents,
                "skipped_records": self.sample.read.skipped_records,
                "bytes": work.num_bytes,
                "tokens": work.num_tokens,
                "document_bytes": work.num_bytes / work.num_documents,
                "bytes_per_token": work.num_bytes / work.num_tokens,
                "seed": self.sample.seed,
            },
            "batch_size": self.batch_size,
            "batches": work.num_batches,
            "rounds": len(self.encode.warm.rounds),
            "threads": self.threads,
            "encode": self.encode.as_json(),
            "decode": self.decode.as_json(),
            "memory_bytes": self.memory,
            "decoders": [decoder.as_json() for decoder in self.decoders],
            "peers": [peer.as_json(self) for peer in self.peers],
            "extrapolation": None
            if extrapolate_bytes is None
            else {
                "bytes": extrapolate_bytes,
                "seconds": self.extrapolated_seconds(extrapolate_bytes),
            },
        }


def throughput_on(
    inputs: Inputs,
    tokenizer: Tokenizer,
    settings: ThroughputSettings | None = None,
    *,
    options: ReadOptions | None = None,
    peers: Sequence[str] = (),
    validate: bool = False,
    progress: ProgressChoice = None,
) -> ThroughputReport:
    """Sample documents of `inputs` and time `tokenizer` on them, beside the libraries in `peers`.

    `inputs` is what `tm.count` takes, `options` how it is read. SourceError if there is no document.
    """
    settings, options = settings or ThroughputSettings(), options or ReadOptions()
    meter = Meter(progress)
    try:
        sources = find_inputs(inputs, options)
        sample = sample_documents(sources, options, settings.sample_size, settings.seed, meter)
        return measure_throughput(
            tokenizer, sample, settings, meter, peers=peers, validate=validate
        )
    finally:
        meter.end()


def measure_throughput(
    tokenizer: Tokenizer,
    sample: Sample,
    settings: ThroughputSettings,
    meter: Meter,
    *,
    peers: Sequence[str] = (),
    validate: bool = False,
) -> ThroughputReport:
    """Time encoding and decoding of `sample` by `tokenizer` and by the libraries named in `peers`.

    With `validate` every id and every decoded document of a peer is compared with ours, and a peer
    that differs is not timed. VocabError if a document does not come back as it was.
    """
    threads = num_threads(settings.threads)
    own = TokenmillEngine(tokenizer, threads)
    batches = sample.batches(settings.batch_size)
    with peers_use(threads):
        engines, refused = _open_peers(peers, tokenizer, sample, threads)
        contest = Contest(own, engines, batches, meter, rounds=settings.rounds, validate=validate)
        contest.run()
    work = _work_of(sample, contest)
    results = {entrant.engine.name: _result(entrant, work, validate) for entrant in contest.peers}
    results |= {name: PeerResult(name, None, refused=why) for name, why in refused.items()}
    held = own.tokenizer.memory()
    return ThroughputReport(
        tokenizer.vocab_size,
        tokenizer.pattern,
        sample,
        work,
        settings.batch_size,
        threads,
        _cold_and_warm(contest.own.encode_seconds, work),
        _cold_and_warm(contest.own.decode_seconds, work),
        {part: held[part] for part in sorted(held, key=_place_of)},
        tuple(_time_decoders(decoders_of(own.tokenizer), contest, work, meter)),
        tuple(results[name] for name in peers),
    )


def _open_peers(
    names: Sequence[str], tokenizer: Tokenizer, sample: Sample, threads: int
) -> tuple[list[Engine], dict[str, str]]:
    """The peers that take part, and why the others do not."""
    engines: list[Engine] = []
    refused: dict[str, str] = {}
    for name in names:
        try:
            engines.append(open_peer(name, tokenizer, sample.documents, threads))
        except Refusal as refusal:
            refused[name] = str(refusal)
    return engines, refused


_PARTS = ("vocab", "merges", "cache", "decoder")


def _place_of(part: str) -> tuple[int, str]:
    """Parts of a tokenizer in the order text meets them, new ones after those known here."""
    return (_PARTS.index(part) if part in _PARTS else len(_PARTS), part)


def _work_of(sample: Sample, contest: Contest) -> Work:
    num_tokens = sum(batch.num_tokens for batch in contest.ids)
    return Work(len(contest.ids), len(sample.documents), sample.num_bytes, num_tokens)


def _cold_and_warm(seconds: Sequence[float], work: Work) -> ColdAndWarm:
    return ColdAndWarm(Timing((seconds[0],), work), Timing(tuple(seconds[1:]), work))


def _result(entrant: Entrant, work: Work, validated: bool) -> PeerResult:
    name, version = entrant.engine.name, entrant.engine.version
    if entrant.failure is not None:
        return PeerResult(name, version, refused=entrant.failure)
    if entrant.difference is not None:
        # Ids are compared in the first round, before it is written down.
        same_ids = len(entrant.encode_seconds) > 0
        return PeerResult(name, version, same_ids=same_ids, difference=entrant.difference)
    return PeerResult(
        name,
        version,
        same_ids=True if validated else None,
        encode=_cold_and_warm(entrant.encode_seconds, work),
        decode=_cold_and_warm(entrant.decode_seconds, work),
    )


def _time_decoders(
    decoders: Sequence[Decoder], contest: Contest, work: Work, meter: Meter
) -> list[DecoderResult]:
    """Each decoder over all batches, in turns. VocabError where one gives other bytes."""
    meter.begin("decoding", "bytes")
    seconds = dict.fromkeys((decoder.name for decoder in decoders), 0.0)
    done = 0
    for index, batch in enumerate(contest.ids):
        expected = contest.expected_bytes(index)
        for decoder in decoders:
            started = time.perf_counter()
            decoded = decoder.decode(batch)
            seconds[decoder.name] += time.perf_counter() - started
            if decoded != expected:
                pairs = zip(decoded, expected, strict=True)
                wrong = next(at for at, (one, other) in enumerate(pairs) if one != other)
                number = contest.document_number(index, wrong)
                raise VocabError(f"the {decoder.name} decodes document {number} to other bytes")
        done += sum(map(len, expected))
        meter.update(done, done / max(1, work.num_bytes))
    return [
        DecoderResult(each.name, each.num_bytes, Timing((seconds[each.name],), work))
        for each in decoders
    ]
