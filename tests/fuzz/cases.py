"""Cases: numbers that stand for something that is done to the library, the same at any time."""

from __future__ import annotations

import collections
import os
import sys
import traceback
import warnings
from typing import NamedTuple

import numpy as np

from fuzz.benches import BENCHES
from fuzz.choosing import one_of
from fuzz.sessions import estimator_session
from fuzz.values import world_session
from fuzz.verdicts import Fault
from fuzz.worlds import WORLDS

TARGETS = {
    **{f"estimator: {name}": estimator_session(name) for name in BENCHES},
    **{name: world_session(name) for name in WORLDS},
}

# Estimators, and the layers below them, have like shares of the cases.
KINDS = [
    [name for name in TARGETS if name.startswith("estimator") == of_estimators]
    for of_estimators in (True, False)
]


class Outcome(NamedTuple):
    """What came out of a case.

    Attributes
    ----------
    number : int
    target : str
    verdict : str
        "passed", or that of a `Fault`.
    text : str
        The program of the case, and what was found.
    calls : list of pairs of str
        Its calls with valid arguments, each with the message of its refusal; empty if it passed.
    """

    number: int
    target: str
    verdict: str
    text: str
    calls: list = []


class Log(list):
    """Lines of a program; and of its calls with valid arguments, which were refused, and why."""

    def __init__(self):
        super().__init__()
        self.calls = []


class Aloud(Log):
    """A log that is also written to the standard error, line by line, lest it die with us."""

    def append(self, line):
        super().append(line)
        print(line, file=sys.stderr, flush=True)


def run_case(seed, number, targets=None, aloud=False):
    """Run a case in this process.

    Parameters
    ----------
    seed, number : int
        Which together are the case.
    targets : list of str, default=None
        Names that chance chooses from; None: all.
    aloud : bool, default=False
        Whether the log is written to the standard error at once.
    """
    rng = np.random.default_rng([seed, number])
    log, unraisable = Aloud() if aloud else Log(), []
    name = one_of(rng, targets or KINDS[int(rng.integers(len(KINDS)))])
    sys.unraisablehook = unraisable.append
    log.append(f"# {name}")
    try:
        with warnings.catch_warnings(), np.errstate(all="warn"), open(os.devnull, "w") as nothing:
            warnings.simplefilter("ignore")
            sys.stdout = nothing
            TARGETS[name](rng, log)
            if unraisable:
                raise Fault("unraisable", repr(unraisable[0].exc_value))
    except Fault as fault:
        found = f"{fault.verdict}: {fault.message}"
        log += [f"# {found}", *_innermost(fault)]
        return Outcome(number, name, fault.verdict, "\n".join(log))
    except Exception:
        log += ["# the fuzzer itself failed", traceback.format_exc()]
        return Outcome(number, name, "harness", "\n".join(log))
    finally:
        sys.stdout, sys.unraisablehook = sys.__stdout__, sys.__unraisablehook__
    return Outcome(number, name, "passed", "\n".join(log), log.calls)


def always_refused(outcomes, least=25):
    """Return calls that were made so often with valid arguments, and never passed.

    Each with how often, and why last: what is refused is not tested, and the arguments may be those
    of an earlier version.
    """
    reasons = collections.defaultdict(list)
    for outcome in outcomes:
        for what, reason in outcome.calls:
            reasons[what].append(reason)
    return {
        what: f"{len(found)} times, {found[-1]}"
        for what, found in reasons.items()
        if len(found) >= least and all(found)
    }


def _innermost(fault):
    """Where the exception behind a fault was raised."""
    if fault.__cause__ is None:
        return []
    lines = traceback.format_exception(fault.__cause__)
    return "".join(lines).splitlines()[-12:]
