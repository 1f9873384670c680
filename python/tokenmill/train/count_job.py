"""One count under way: sources in, counts out, in one pass or unit by unit.

Units are counted in order, each by all threads, so that limits carry over from one to the next and
an interrupted run has a clean front: everything before it is done.
"""

import contextlib
import logging
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tokenmill import _core
from tokenmill.progress import Meter, quantity
from tokenmill.sources.options import ReadOptions
from tokenmill.sources.source import TextSource
from tokenmill.sources.stored_files import StoredFile, is_stored
from tokenmill.train.counts import PretokenCounts
from tokenmill.train.origin import Origin
from tokenmill.train.unit_counts import UnitResult, file_names, load_unit, save_unit
from tokenmill.work.folder import WorkFolder, units_done
from tokenmill.work.input_records import BackgroundHashes
from tokenmill.work.read_report import ReadReport
from tokenmill.work.reading import BLOCK_BYTES, Reading, new_reader
from tokenmill.work.units import UNIT_BYTES, Unit, plan_as_json, plan_units

log = logging.getLogger("tokenmill")


@dataclass(frozen=True)
class CountPlan:
    """What a count is going to do."""

    num_inputs: int
    input_bytes: int | None
    """`None` if some input does not know its size."""
    threads: int
    units_done: int
    """By an earlier run that was interrupted."""
    units: int | None
    """Planned by that run."""


@dataclass
class CountJob:
    """Sources and how to count them."""

    sources: Sequence[TextSource]
    options: ReadOptions
    origin: Origin
    threads: int
    unit_bytes: int = UNIT_BYTES
    block_bytes: int = BLOCK_BYTES

    def plan(self, out: Path | None) -> CountPlan:
        """What there is to read, and how much of it an interrupted run towards `out` has done."""
        sizes = [source.size_in_bytes for source in self.sources]
        known = None if None in sizes else sum(size for size in sizes if size is not None)
        done, units = (units_done(out) if out is not None else None) or (0, None)
        return CountPlan(len(self.sources), known, self.threads, done, units)

    @contextlib.contextmanager
    def run(
        self, out: Path | None, meter: Meter
    ) -> Generator[tuple[PretokenCounts, WorkFolder | None]]:
        """Count. With an `out`, units go to its work folder, which stays until the caller removes
        it."""
        files = [source for source in self.sources if is_stored(source)]
        if out is None or len(files) < len(self.sources):
            # What is not a file cannot be read a second time, so there is nothing to resume.
            yield self._in_memory(meter), None
            return
        hashes = BackgroundHashes(self.origin.inputs)
        try:
            with WorkFolder(out) as work:
                counts = self._in_units(files, work, hashes, meter)
                counts.origin = replace(
                    counts.origin, inputs=hashes.result()[: len(counts.origin.inputs)]
                )
                yield counts, work
        finally:
            hashes.cancel()

    @contextlib.contextmanager
    def run_reference(self) -> Generator[tuple[PretokenCounts, None]]:
        """Count the same documents with tokenmill/reference.py."""
        from tokenmill import reference

        specials = self.origin.special_tokens or ()
        started = time.perf_counter()
        reading = Reading([(source, None) for source in self.sources], self.options, Meter(False))
        reader = new_reader(self.options, block_bytes=self.block_bytes)
        with contextlib.closing(reading.sources()) as sources:
            documents = reader.documents(sources)
            split = _core.Splitter(self.origin.pattern).split
            counted = reference.count_pretokens(documents, split, specials)
        reading.require_unchanged()
        report = ReadReport(
            inputs=reading.num_inputs,
            **reader.report,
            skipped=reader.skipped,
            limit_reached=reader.limit_reached,
        )
        counts = _core.Counts.from_mapping(counted)
        yield self._finish(counts, report, time.perf_counter() - started), None

    def _in_memory(self, meter: Meter) -> PretokenCounts:
        started = time.perf_counter()
        reading = Reading([(source, None) for source in self.sources], self.options, meter)
        result = self._count(reading, UnitTally(0))
        return self._finish(result.counts, result.report, time.perf_counter() - started)

    def _in_units(
        self, files: Sequence[StoredFile], work: WorkFolder, hashes: BackgroundHashes, meter: Meter
    ) -> PretokenCounts:
        started = time.perf_counter()
        settings = {**self.origin.without_inputs().as_json(), "version": _core.__version__}
        units = plan_units(files, self.options, settings, self.unit_bytes)
        work.begin(plan_as_json("count", units, settings), file_names(units))
        tally = UnitTally(sum(unit.size_in_bytes for unit in units))
        resumed = False
        for unit in units:
            result = load_unit(work, unit)
            if result is None:
                if not resumed:
                    meter.begin("counting", "bytes", tally.report.bytes, tally.fraction)
                    resumed = True
                result = self._count_unit(unit, tally, meter)
                save_unit(work, unit, result)
            tally.add(unit, result)
            hashes.want(tally.report.inputs)
            if result.report.limit_reached:
                break
        return self._finish(tally.counts(), tally.report, time.perf_counter() - started)

    def _count_unit(self, unit: Unit, tally: "UnitTally", meter: Meter) -> UnitResult:
        parts = [(part.file, part.part) for part in unit.parts]
        reading = Reading(parts, self.options, meter, tally.before(), tally.total_bytes)
        return self._count(reading, tally)

    def _count(self, reading: Reading, tally: "UnitTally") -> UnitResult:
        splitter = _core.Splitter(self.origin.pattern, self.origin.special_tokens or ())
        counter = _core.Counter(splitter, self.threads)
        reader = new_reader(self.options, tally.report.chars, tally.report.bytes, self.block_bytes)
        reading.run(reader, lambda sources, progress: counter.count(reader, sources, progress))
        report = ReadReport(
            inputs=reading.num_inputs,
            **reader.report,
            **counter.report,
            skipped=reader.skipped,
            limit_reached=reader.limit_reached,
        )
        return UnitResult(counter.take(), report)

    def _finish(self, counts: _core.Counts, report: ReadReport, seconds: float) -> PretokenCounts:
        log.info(
            "counted %s, %s, %s in %.2f s",
            quantity(report.documents, "document"),
            quantity(report.bytes, "byte"),
            quantity(len(counts), "distinct pretoken"),
            seconds,
        )
        if log.isEnabledFor(logging.DEBUG):
            for pretoken, occurrences in counts.most_common(20):
                log.debug("pretoken %r occurs %s", pretoken, quantity(occurrences, "time"))
        report.seconds = seconds
        origin = self.origin.having_read(report.inputs) if report.limit_reached else self.origin
        result = PretokenCounts(counts, origin)
        result.report = report
        return result


class UnitTally:
    """What the units so far add up to."""

    def __init__(self, total_bytes: int) -> None:
        self.total_bytes = total_bytes
        self.report = ReadReport()
        self._done_bytes = 0
        # Sums of 1, 2, 4 … units, largest first: each unit is added log(n) times instead of n
        # times.
        self._sums: list[tuple[int, _core.Counts]] = []

    def before(self) -> tuple[int, int]:
        """(input bytes, text bytes) of the units so far."""
        return self._done_bytes, self.report.bytes

    @property
    def fraction(self) -> float:
        return self._done_bytes / self.total_bytes if self.total_bytes else 0.0

    def add(self, unit: Unit, result: UnitResult) -> None:
        self.report.add(result.report)
        self._done_bytes += unit.size_in_bytes
        units, counts = 1, result.counts
        while self._sums and self._sums[-1][0] == units:
            _, earlier = self._sums.pop()
            units, counts = 2 * units, earlier.add(counts)
        self._sums.append((units, counts))

    def counts(self) -> _core.Counts:
        """The sum of all, once: the parts are let go on the way, so that memory holds each pretoken
        once or twice."""
        if not self._sums:
            return _core.Counts.from_mapping({})
        _, total = self._sums.pop()
        while self._sums:
            _, counts = self._sums.pop()
            total = counts.add(total)
        return total
