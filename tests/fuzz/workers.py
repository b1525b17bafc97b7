"""Worker processes that run cases, so that one that crashes or hangs is caught and has a name."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import re
import resource
import sys
import tempfile
from multiprocessing.connection import wait
from pathlib import Path
from typing import NamedTuple

from fuzz.cases import Outcome, run_case

TESTS = Path(__file__).parents[1]
CHUNK = 25
MEMORY = 3 * 2**30
# Allocations that are too large are refused, as elsewhere by the limit of the address space.
SANITIZER = f"detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb={MEMORY >> 20}"
# Lines of reports that say where in the interpreter we are.
OF_PYTHON = re.compile(r"^Extension modules:|^ +#\d+ .* (Objects|Python|Modules|Include)/")
FATAL = ("crash", "hang")


class Setting(NamedTuple):
    """How a run is made.

    Attributes
    ----------
    seed : int
    limit : float
        Seconds that one case may take.
    targets : list of str or None
    aloud : bool
        Whether cases write their logs at once.
    """

    seed: int = 0
    limit: float = 20.0
    targets: list | None = None
    aloud: bool = False


def run_cases(setting, numbers, n_workers=2):
    """Yield the outcomes of cases, in any order.

    A case that takes its process down is run again alone: that tells what it did, and whether it
    was itself to blame or an earlier case of the same process.
    """
    numbers = list(numbers)
    chunks = [numbers[i : i + CHUNK] for i in range(0, len(numbers), CHUNK)][::-1]
    workers = [Worker(setting) for _ in range(min(n_workers, len(chunks)))]
    try:
        for worker in workers:
            worker.assign(chunks.pop())
        while any(worker.pending for worker in workers):
            busy = {worker.connection: worker for worker in workers if worker.pending}
            for connection in wait(list(busy)):
                worker = busy[connection]
                outcome = worker.outcome()
                yield outcome if outcome.verdict not in FATAL else _alone(setting, outcome)
                if not worker.pending and chunks:
                    worker.assign(chunks.pop())
    finally:
        for worker in workers:
            worker.stop()


def _alone(setting, outcome):
    worker = Worker(setting._replace(aloud=True))
    try:
        worker.assign([outcome.number])
        again = worker.outcome()
    finally:
        worker.stop()
    if again.verdict in FATAL:
        return again
    text = f"{outcome.text}\n# Not when it runs alone: an earlier case of the process is to blame."
    return again._replace(verdict=outcome.verdict, text=text)


class Worker:
    """A process that runs the cases it is given, one after the other."""

    def __init__(self, setting):
        self._setting = setting
        self.pending = []
        self._start()

    def _start(self):
        self._report = tempfile.NamedTemporaryFile("r", suffix=".txt")
        self.connection, other = _context().Pipe()
        arguments = other, self._report.name, self._setting
        self._process = _context().Process(target=_work, args=arguments, daemon=True)
        self._process.start()
        other.close()

    def assign(self, numbers):
        self.pending = list(numbers)
        if numbers:
            self.connection.send(numbers)

    def outcome(self):
        """The outcome of the next pending case, be it that the process is gone."""
        try:
            outcome = self.connection.recv()
        except (EOFError, ConnectionResetError):
            outcome = self._autopsy()
        self.pending.remove(outcome.number)
        if outcome.verdict in FATAL:
            self.stop()
            self._start()
            self.assign(self.pending)
        return outcome

    def _autopsy(self):
        self._process.join(10.0)
        report = Path(self._report.name).read_text(errors="replace")
        verdict = "hang" if "Timeout (" in report else "crash"
        lines = [line for line in report.splitlines() if not OF_PYTHON.search(line)]
        found = [f"# {verdict}, exit code {self._process.exitcode}", *lines[:80]]
        return Outcome(self.pending[0], "?", verdict, "\n".join(found))

    def stop(self):
        self._process.kill()
        self._process.join()
        self.connection.close()


def _context():
    # Not forked from this process, whose threads of OpenMP a child would wait for.
    context = multiprocessing.get_context("forkserver")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(TESTS.parent), str(TESTS)])
    os.environ["ASAN_OPTIONS"] = SANITIZER
    context.set_forkserver_preload(["fuzz.cases"])
    return context


def _work(connection, report_name, setting):
    with open(report_name, "w") as report:
        os.dup2(report.fileno(), 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        faulthandler.enable(file=report)
        if "libasan" not in os.environ.get("LD_PRELOAD", ""):
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        while True:
            try:
                numbers = connection.recv()
            except EOFError:
                sys.exit()
            for number in numbers:
                faulthandler.dump_traceback_later(setting.limit, exit=True, file=report)
                outcome = run_case(setting.seed, number, setting.targets, setting.aloud)
                faulthandler.cancel_dump_traceback_later()
                connection.send(outcome)
