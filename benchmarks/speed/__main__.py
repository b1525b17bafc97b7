"""The tables of speed: how many times faster than rivals, and how far above the floor.

    python -m benchmarks.speed --write

All on one thread, by wall seconds, by turns with the rival, at equal log-likelihood if both have
one. Each module is a process of its own on one processor. The floor is what that can do at least,
see `benchmarks/floors.py`; the baseline is what a user could write on a page, in NumPy, or in numba
where NumPy would loop in Python. Rivals that are not installed are named, and so are modules that
fail.

`--write` replaces the tables in README.md and benchmarks/README.md, with the date, the commit, the
processor and the versions of the libraries. It takes some minutes; run it on an idle machine.
"""

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import textwrap
from datetime import UTC, datetime
from importlib import import_module, metadata
from pathlib import Path
from statistics import median

from benchmarks._rows import Row
from benchmarks._table import Table
from benchmarks.floors import measured_rates

ROOT = Path(__file__).parents[2]
MODULES = (
    "mixtures", "several_kinds", "hidden_markov", "kalman", "topic_sweeps", "edit_distance",
    "compound_dirichlet", "gaps",
)  # fmt: skip
LIBRARIES = (
    "scikit-learn", "numpy", "scipy", "hmmlearn", "dynamax", "jax", "pomegranate", "torch",
    "statsmodels", "stepmix", "tomotopy", "rapidfuzz", "numba",
)  # fmt: skip
BEGIN, END = "<!-- python -m benchmarks.speed --write -->", "<!-- end -->"
HEADER = "| | | rival | times faster | than the baseline | times the floor |"
RULE = "|---|---|---|---|---|---|"
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
        found += [(name, row) for row in rows]
    stamp = stamped(failed)
    print(f"\n{stamp}")
    if arguments.write:
        write(ROOT / "README.md", summary(found), stamp)
        write(ROOT / "benchmarks/README.md", details(found), stamp)
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
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=LONGEST
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


def summary(found):
    """The table of the README: a line for each group, with the best of its rivals."""
    groups = {}
    for name, row in found:
        groups.setdefault((name, row.group), []).append(row)
    lines, last = (
        [HEADER.replace("| | |", "| |", 1) + " `python -m` |", RULE],
        "",
    )
    for (name, group), rows in groups.items():
        faster, least = {}, {"baseline": {}, "floor": {}}
        for row in rows:
            faster.setdefault(row.rival, []).extend([] if row.faster is None else [row.faster])
            for column, cases in least.items():
                if (value := getattr(row, column)) is not None:
                    cases[row.case] = min(value, cases.get(row.case, value))
        known = {rival: median(values) for rival, values in faster.items() if values}
        best = min(known, key=known.get, default=None)
        rivals = [best] if best else []
        absent = [rival for rival, values in faster.items() if rival and not values]
        rivals += [f"{rival} (not installed)" for rival in absent]
        module = "" if name == last else f"`benchmarks.speed.{name}`"
        cells = (
            group,
            ", ".join(rivals),
            span(faster.get(best, ())),
            *(span(cases.values()) for cases in least.values()),
            module,
        )
        lines.append(f"| {' | '.join(cells)} |")
        last = name
    return lines


def span(values):
    """The least and the largest of some numbers."""
    ends = dict.fromkeys(map(rounded, sorted(values)[:: max(1, len(values) - 1)]))
    return " to ".join(ends)


def rounded(value):
    """Two digits, or whole numbers of more."""
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def details(found):
    """The table of the benchmarks: a line for each row."""
    lines = [HEADER, RULE]
    for _, row in found:
        numbers = row.faster, row.baseline, row.floor
        faster, *others = ["" if number is None else rounded(number) for number in numbers]
        faster = faster or ("not installed" if row.rival else "")
        lines.append(f"| {' | '.join([row.group, row.case, row.rival, faster, *others])} |")
    return lines


def stamped(failed):
    """When and where the numbers were taken, and beside which versions."""
    versions, absent = [], []
    for library in LIBRARIES:
        try:
            versions.append(f"{library} {metadata.version(library)}")
        except metadata.PackageNotFoundError:
            absent.append(library)
    text = f"Measured on {datetime.now(UTC):%Y-%m-%d} at commit {commit()}, on one thread of"
    text += f" {processor()} ({measured_rates() or 'no compiler for the floors'}), with Python"
    text += f" {platform.python_version()}, {', '.join(versions)}."
    if absent:
        text += f" Not installed: {', '.join(absent)}."
    if failed:
        text += f" Failed: {', '.join(failed)}."
    return text


def commit():
    def git(*words):
        return subprocess.run(
            ["git", *words], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no")
        return git("rev-parse", "--short", "HEAD") + (" with changes" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def processor():
    try:
        models = re.findall(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    except OSError:
        models = []
    return models[0] if models else platform.processor() or platform.machine()


def write(path, lines, stamp):
    """Replace what stands between the markers of a file."""
    text = path.read_text()
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"{path} has no markers for the table.")
    table = "\n".join([BEGIN, *lines, "", textwrap.fill(stamp, 100), END])
    path.write_text(before + table + after)


def _arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="into README.md, benchmarks/README.md")
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
