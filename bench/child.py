"""Run one job in this process: `python -m bench.child JOB OUTCOME [ANSWER]`, all three paths.

Timed is `run` alone: from the call with a path to the object it gives back. Interpreter start, imports
(`load`) and taking the answer apart (`answer`) lie outside, and the peak of memory is read before `answer`.
A program may have `extra(result)` for further numbers; `peak_bytes` among them takes the place of this process's
own peak, for programs that run in several processes.
"""

import gc
import hashlib
import importlib
import os
import sys
import time
from pathlib import Path

from bench.job import Outcome, job_from_json, to_json, write_answer


def status_bytes(name: str) -> int | None:
    """A line of /proc/self/status; `None` where there is no /proc."""
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            for line in status:
                if line.startswith(f"{name}:"):
                    return int(line.split()[1]) * 1024
    except FileNotFoundError:
        pass
    return None


def peak_bytes() -> int:
    """The most memory this process ever held: VmHWM, or ru_maxrss where there is no /proc."""
    if (found := status_bytes("VmHWM")) is not None:
        return found
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def main(job_file: str, outcome_file: str, answer_file: str | None = None) -> None:
    job = job_from_json(Path(job_file).read_text(encoding="utf-8"))
    program = importlib.import_module(job.program)
    library = program.load(job)
    gc.collect()

    before = os.times()
    start = time.perf_counter()
    result = program.run(library, job)
    seconds = time.perf_counter() - start
    after = os.times()
    peak = peak_bytes()

    extra: dict[str, float] = program.extra(result) if hasattr(program, "extra") else {}
    answer = program.answer(result)
    digest = hashlib.sha256(repr(answer).encode()).hexdigest()
    outcome = Outcome(
        seconds=seconds,
        user_seconds=after.user - before.user,
        system_seconds=after.system - before.system,
        peak_bytes=int(extra.pop("peak_bytes", peak)),
        digest=digest,
        num_rows=len(answer),
        extra=extra,
    )
    if answer_file is not None:
        write_answer(Path(answer_file), answer)
    Path(outcome_file).write_text(to_json(outcome), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
