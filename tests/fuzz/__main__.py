"""Run cases: ``python -m fuzz --cases 20000 --seed 0``, or one of them: ``--case 123``."""

import argparse
import collections
import time

from fuzz.cases import always_refused
from fuzz.workers import Setting, run_cases


def main():
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int, help="run this one only, and show it")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--limit", type=float, default=20.0, help="seconds for a case")
    parser.add_argument("--targets", nargs="+")
    arguments = parser.parse_args()
    one = arguments.case is not None
    numbers = [arguments.case] if one else range(arguments.cases)
    start, counts, outcomes = time.perf_counter(), collections.Counter(), []
    setting = Setting(arguments.seed, arguments.limit, arguments.targets)
    for outcome in run_cases(setting, numbers, arguments.workers):
        counts[outcome.verdict] += 1
        outcomes.append(outcome)
        if one or outcome.verdict != "passed":
            command = f"make fuzz SEED={arguments.seed} CASE={outcome.number}"
            print(f"\n{outcome.verdict.upper()} {outcome.target}: {command}\n{outcome.text}")
    refused = always_refused(outcomes)
    for what, why in refused.items():
        print(
            f"\nALWAYS REFUSED, so not tested, though its arguments should be valid: {what}: {why}"
        )
    seconds = time.perf_counter() - start
    print(f"\n{sum(counts.values())} cases in {seconds:.0f} s: {dict(counts)}")
    return bool(refused) or any(verdict != "passed" for verdict in counts)


if __name__ == "__main__":
    raise SystemExit(main())
