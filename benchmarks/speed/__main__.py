"""The tables of speed: how many times faster than rivals, and how far above the floor.

    python -m benchmarks.speed --write

writes the record from which README and pages take them, and takes some minutes: run it on an idle
machine, with the extra `rivals`.

All on one thread, by wall seconds, by turns with the rival, at equal log-likelihood if both have
one. Each module is a process of its own on one processor. The floor is what that can do at least,
see `benchmarks/floors.py`; the baseline is what a user could write on a page, in NumPy, or in numba
where NumPy would loop in Python. Rivals that are not installed are named. If a module fails,
nothing is written.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from statistics import median

from benchmarks import records
from benchmarks._rows import Row
from benchmarks._table import Table
from benchmarks.floors import measured_rates

ROOT = Path(__file__).parents[2]
MODULES = (
    "mixtures", "several_kinds", "hidden_markov", "kalman", "topic_sweeps", "edit_distance",
    "compound_dirichlet", "gaps",
)  # fmt: skip
# Lines of the README, each of the groups of a module that begin so.
LINES = [
    ("mixtures", "a pass of EM, full Gaussians"),
    ("mixtures", "`partial_fit` of 1 to 100 rows"),
    ("several_kinds", "a pass of EM, columns of several kinds"),
    ("hidden_markov", "a pass of EM, HMM, many sequences"),
    ("hidden_markov", "a pass of EM, HMM, one long sequence"),
    ("kalman", "a pass of EM, Kalman filter, many sequences"),
    ("topic_sweeps", "topics: a sweep"),
    ("edit_distance", "all edit distances"),
]
HEADING = ["times faster", "than the baseline", "times the floor"]
LONGEST = 1800  # seconds of a module


def main():
    arguments = _arguments()
    if arguments.worker:
        return work(arguments)
    found, failed = [], []
    table = Table("what", "faster", "x baseline", "x floor", "rival", width=88)
    for name in MODULES:
        if arguments.only not in name:
            continue
        rows, error = measured(name, arguments)
        for row in rows:
            table.row(f"{row.group}: {row.case}", *cells(row), row.rival)
        if error:
            failed.append(name)
            print(f"benchmarks.speed.{name} failed: {error}", flush=True)
        found += rows
    if arguments.write and not failed:
        rates = measured_rates() or "no compiler for the floors"
        where = f"one thread of {records.processor()} ({rates})"
        records.write("speed", figures(found), where)
    return bool(failed)


def measured(name, arguments):
    """Rows of a module, from a process of its own, and what went wrong, or ""."""
    command = [sys.executable, "-m", "benchmarks.speed", "--worker", name]
    command += ["--rounds", str(arguments.rounds), "--share", str(arguments.share)]
    environment = os.environ | {
        f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")
    }
    try:
        done = subprocess.run(
            command,
            cwd=records.ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=LONGEST,
        )
        output, error = done.stdout, done.stderr if done.returncode else ""
    except subprocess.TimeoutExpired as expired:
        output, error = (expired.stdout or b"").decode(), f"not done after {LONGEST} s"
    rows = [Row(*json.loads(line)) for line in output.splitlines() if line.startswith("[")]
    return rows, (error.strip().splitlines() or [""])[-1]


def work(arguments):
    """Print the rows of one module as they come."""
    for row in import_module(f"benchmarks.speed.{arguments.worker}").rows(
        arguments.rounds, arguments.share
    ):
        print(json.dumps(row), flush=True)


def cells(row):
    numbers = row.faster, row.baseline, row.floor
    return ["" if number is None else f"{number:.3g}" for number in numbers]


def figures(rows):
    """What the record has: how many times faster by group and rival, and two tables."""
    groups = {}
    for row in rows:
        if row.faster is not None:
            group = groups.setdefault(name_of(row.group.removeprefix("a pass of EM, ")), {})
            group.setdefault(name_of(row.rival), []).append(row.faster)
    details = [
        (
            *row[:3],
            "not installed" if row.rival and not row.faster else row.faster,
            row.baseline,
            row.floor,
        )
        for row in rows
    ]
    return groups | {
        "readme": [["", "rival", *HEADING, "`python -m`"], *map(list, summary(rows))],
        "table": [["", "", "rival", *HEADING], *map(list, details)],
    }


def name_of(text):
    """Words as a name: `kalman_filter_one_long_sequence`."""
    return re.sub(r"\W+", "_", text.lower()).strip("_")


def summary(rows):
    """Lines of the README: ratios to the best of the rivals, and the rivals that are missing."""
    for module, line in LINES:
        chosen, faster = [row for row in rows if row.group.startswith(line)], {}
        for row in chosen:
            faster.setdefault(row.rival, []).extend([] if row.faster is None else [row.faster])
        known = {rival: median(values) for rival, values in faster.items() if values}
        best = min(known, key=known.get, default="")
        absent = [f"{rival} (not installed)" for rival, values in faster.items() if not values]
        others = [
            [value for row in chosen if (value := getattr(row, column)) is not None]
            for column in ("baseline", "floor")
        ]
        rivals = ", ".join([best] * bool(best) + absent)
        yield line, rivals, faster.get(best), *others, f"`benchmarks.speed.{module}`"


def _arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help=records.HELP)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="part of the name of a module")
    parser.add_argument("--share", type=float, default=1.0, help="of the data, to try it out")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.write and (chosen.only or chosen.share != 1.0):
        parser.error("--write takes all modules and all of the data")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-1:])
    return chosen


if __name__ == "__main__":
    sys.exit(main())
