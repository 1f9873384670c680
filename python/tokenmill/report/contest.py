"""Contest: several engines take turns on the same batches while a clock runs.

Every engine starts fresh; its first round is the cold one. Rounds are interleaved, A B C A B C, so
that a slow minute of the machine falls on all of them. Answers are compared outside the clock, in
the first round, and an engine whose answer differs, or that fails, is out.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tokenmill.errors import VocabError
from tokenmill.progress import Meter
from tokenmill.report.engines import Engine, TokenmillEngine, bpe_of
from tokenmill.report.peers import as_refusal
from tokenmill.report.sampling import Text, num_bytes_of
from tokenmill.tokenizer.token_batch import TokenBatch
from tokenmill.tokenizer.vocab import show

Check = Callable[[Engine, int, Any], str | None]
"""Who, which batch, what came out → what is wrong with it, if anything."""


@dataclass
class Entrant:
    """An engine, and what the clock showed so far."""

    engine: Engine
    encode_seconds: list[float] = field(default_factory=list[float])
    decode_seconds: list[float] = field(default_factory=list[float])
    difference: str | None = None
    """How its answer differs; it is out."""
    failure: str | None = None
    """What it threw; it is out."""

    @property
    def is_in(self) -> bool:
        return self.difference is None and self.failure is None


class Contest:
    """tokenmill and its peers on `batches`."""

    def __init__(
        self,
        own: TokenmillEngine,
        peers: Sequence[Engine],
        batches: Sequence[list[Text]],
        meter: Meter,
        *,
        rounds: int,
        validate: bool,
    ) -> None:
        self.own = Entrant(own)
        self.peers = [Entrant(peer) for peer in peers]
        self.ids: list[TokenBatch] = []
        """Our ids, batch by batch."""
        self._engine = own
        self._batches = batches
        self._first_document = _starts(batches)
        self._batch_bytes = [sum(map(num_bytes_of, batch)) for batch in batches]
        self._rounds = rounds
        self._validate = validate
        self._meter = meter
        self._done_bytes = 0
        passes = 2 * (1 + rounds) * (1 + len(peers))
        self._total_bytes = max(1, passes * sum(self._batch_bytes))

    def run(self) -> None:
        """All rounds of encoding, then all of decoding."""
        self._meter.begin("measuring", "bytes")
        self._pass(self.own, self.own.encode_seconds, self._encoding, self._keep)
        check = self._compare_ids if self._validate else None
        for peer in self.peers:
            self._pass(peer, peer.encode_seconds, self._encoding, check)
        for _ in range(self._rounds):
            for entrant in (self.own, *self.peers):
                self._pass(entrant, entrant.encode_seconds, self._encoding)
        self._pass(self.own, self.own.decode_seconds, self._decoding, self._compare_text)
        if self.own.difference is not None:
            raise VocabError(f"decoding does not give the text back: {self.own.difference}")
        check = self._compare_text if self._validate else None
        for peer in self.peers:
            self._pass(peer, peer.decode_seconds, self._decoding, check)
        for _ in range(self._rounds):
            for entrant in (self.own, *self.peers):
                self._pass(entrant, entrant.decode_seconds, self._decoding)

    def expected_bytes(self, batch: int) -> list[bytes]:
        """What decoding must give for each document: its bytes, normalized where the vocab does."""
        return list(map(bpe_of(self._engine.tokenizer).normalize, self._batches[batch]))

    def document_number(self, batch: int, index: int) -> int:
        """Where the document stands in the sample."""
        return self._first_document[batch] + index

    def _pass(
        self,
        entrant: Entrant,
        seconds: list[float],
        prepare: Callable[[Engine, int], tuple[Callable[[Any], Any], Any]],
        check: Check | None = None,
    ) -> None:
        """One round of one engine. What it throws is ours to raise, a peer's to be out by."""
        if not entrant.is_in:
            return
        try:
            spent = 0.0
            for batch, num_bytes in enumerate(self._batch_bytes):
                call, argument = prepare(entrant.engine, batch)
                started = time.perf_counter()
                result = call(argument)
                spent += time.perf_counter() - started
                if check is not None:
                    entrant.difference = check(entrant.engine, batch, result)
                if not entrant.is_in:
                    return
                self._done_bytes += num_bytes
                self._meter.update(self._done_bytes, self._done_bytes / self._total_bytes)
            seconds.append(spent)
        except BaseException as error:
            if entrant is self.own:
                raise
            entrant.failure = str(as_refusal(error))

    def _encoding(self, engine: Engine, batch: int) -> tuple[Callable[[Any], Any], Any]:
        return engine.encode, self._batches[batch]

    def _decoding(self, engine: Engine, batch: int) -> tuple[Callable[[Any], Any], Any]:
        return engine.decode, engine.for_decode(self.ids[batch])

    def _keep(self, _engine: Engine, _batch: int, encoded: TokenBatch) -> None:
        self.ids.append(encoded)

    def _compare_ids(self, engine: Engine, batch: int, encoded: Any) -> str | None:
        theirs = engine.to_lists(encoded)
        ours = self.ids[batch].to_lists()
        if theirs == ours:
            return None
        rows = enumerate(zip(ours, theirs, strict=True))
        index, (mine, other) = next(item for item in rows if item[1][0] != item[1][1])
        number = self.document_number(batch, index)
        return f"document {number}: {self._first_difference(mine, other)}"

    def _first_difference(self, ours: list[int], theirs: list[int]) -> str:
        pairs = enumerate(zip(ours, theirs, strict=False))
        at = next((index for index, (a, b) in pairs if a != b), None)
        if at is None:
            return f"{len(ours):,} tokens here, {len(theirs):,} there"
        return f"token {at} is {self._shown(ours[at])} here, {self._shown(theirs[at])} there"

    def _shown(self, token_id: int) -> str:
        tokenizer = self._engine.tokenizer
        known = token_id < tokenizer.vocab_size
        return f"{token_id} ({show(tokenizer.token_bytes(token_id))})" if known else str(token_id)

    def _compare_text(self, _engine: Engine, batch: int, decoded: Any) -> str | None:
        for index, (text, expected) in enumerate(
            zip(decoded, self.expected_bytes(batch), strict=True)
        ):
            wanted = expected if isinstance(text, bytes) else expected.decode("utf-8", "replace")
            if text != wanted:
                return f"document {self.document_number(batch, index)} decodes to other text"
        return None


def _starts(batches: Sequence[list[Text]]) -> list[int]:
    starts = [0]
    for batch in batches:
        starts.append(starts[-1] + len(batch))
    return starts
