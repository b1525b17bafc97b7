"""How much one has to read to follow a call: one of each kind, on tiny data, is traced.

    python -m benchmarks.reading.call_paths
    python -m benchmarks.reading.call_paths --list GaussianHMM.fit

functions   distinct Python functions of this package that the call enters; lambdas are among them,
            and generator expressions and comprehensions, of which Python 3.12 runs most in place:
            compare counts of one version only; kernels, being compiled, are not seen
files       that these functions stand in
depth       the most functions of this package on the stack at once, whatever stands between them
classes     of this package that the call is about: those in the estimator's method resolution
            order, and those whose methods are entered
bases       of these, the ones in the method resolution order, with the estimator itself
hooks       names that one of these declares and any class of this package below it declares again,
            but for special names and those that scikit-learn asks for or makes by itself

Each call is made once beforehand, on an estimator of its own, so that imports and caches have no
part in it. Counts depend a little on the form of the data (`GaussianHMM.fit` passes some ten
functions less where X is one sequence) and on their size: here there is more of them than goes into
a mini-batch, so that a fit makes online passes before it ends in batch EM.
"""

import argparse
import inspect
import pkgutil
import re
import sys
import threading
import warnings
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

import numpy as np

import sklearn_onlineem
from benchmarks._table import Table
from sklearn_onlineem import (
    EditDistance,
    GaussianHMM,
    GaussianMixture,
    KalmanFilter,
    combine_estimators,
)
from sklearn_onlineem.distributed import DistributedEM

PACKAGE = Path(sklearn_onlineem.__file__).parent
NOT_OURS = re.compile("__.*|_abc_.*|_sklearn_.*|_parameter_constraints|set_.*_request")


@dataclass
class Calls:
    """What was passed while the context was open."""

    codes: set = field(default_factory=set)
    depth: int = 0

    def __enter__(self):
        threading.setprofile(self.see)
        sys.setprofile(self.see)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)
        threading.setprofile(None)

    def see(self, frame, event, _):
        if event != "call" or not is_own(frame.f_code):
            return
        self.codes.add(frame.f_code)
        self.depth = max(self.depth, own_frames(frame))

    @property
    def files(self):
        return {code.co_filename for code in self.codes}

    @property
    def classes(self):
        return {owner for owner in map(owner_of, self.codes) if owner}


def is_own(code):
    return code.co_name != "<module>" and PACKAGE in Path(code.co_filename).parents


def own_frames(frame):
    n = 0
    while frame is not None:
        n += is_own(frame.f_code)
        frame = frame.f_back
    return n


def owner_of(code):
    """File and name of the class that a function stands in, if it does."""
    name, _, _ = code.co_qualname.partition(".<locals>")
    owner, _, _ = name.rpartition(".")
    return (code.co_filename, owner) if owner else None


def own_bases(estimator):
    """Classes of this package in the method resolution order."""
    return [c for c in type(estimator).__mro__ if c.__module__.startswith(PACKAGE.name)]


def named(kind):
    return inspect.getfile(kind), kind.__qualname__


def hooks(bases):
    return {name for base in bases for name in members(base) if declared_below(base, name)}


def members(kind):
    return {name for name in vars(kind) if not NOT_OURS.fullmatch(name)}


def declared_below(base, name):
    return any(
        (below.__module__.startswith(PACKAGE.name) and name in vars(below))
        or declared_below(below, name)
        for below in base.__subclasses__()
    )


# ------------------------------------------------------------------------------------- the calls


def rows(seed=0, n=40):
    return np.random.default_rng(seed).normal(size=(n, 3)) + 6.0 * np.eye(3)[np.arange(n) % 3]


def sequences():
    return list(rows(n=2000).reshape(200, 10, 3))


def pairs():
    return [("abc", "ac"), ("bca", "bba"), ("cab", "cab"), ("b", "ab")] * 50


def gaussian_mixture():
    mixture = GaussianMixture(3, random_state=0)
    return mixture, lambda: mixture.partial_fit(rows())


def gaussian_mixture_steady():
    """The start is final, and what the first calls prepare is at hand."""
    mixture = GaussianMixture(3, random_state=0)
    for seed in range(12):
        mixture.partial_fit(rows(seed))
    return mixture, lambda: mixture.partial_fit(rows())


def gaussian_hmm():
    hmm = GaussianHMM(3, random_state=0)
    return hmm, lambda: hmm.fit(sequences())


def kalman_filter():
    kalman = KalmanFilter(2, random_state=0)
    return kalman, lambda: kalman.fit(sequences())


def edit_distance():
    edit = EditDistance(random_state=0)
    return edit, lambda: edit.fit(pairs())


def combination():
    members = [GaussianMixture(3, random_state=0).partial_fit(rows(seed)) for seed in range(2)]
    return None, lambda: combine_estimators(members)


def distributed():
    learner = DistributedEM(GaussianMixture(3, random_state=0), n_shards=2)
    return learner, lambda: learner.fit(rows())


CALLS = {
    "GaussianMixture.partial_fit": gaussian_mixture,
    "GaussianMixture.partial_fit, steady": gaussian_mixture_steady,
    "GaussianHMM.fit": gaussian_hmm,
    "KalmanFilter.fit": kalman_filter,
    "EditDistance.fit": edit_distance,
    "combine_estimators": combination,
    "DistributedEM.fit": distributed,
}


def traced(prepare):
    _, warm_up = prepare()
    warm_up()
    estimator, call = prepare()
    with Calls() as calls:
        call()
    return estimator, calls


def report(table, name, estimator, calls):
    bases = own_bases(estimator)
    classes = calls.classes | set(map(named, bases))
    counts = len(calls.codes), len(calls.files), calls.depth, len(classes)
    faces = (len(bases), len(hooks(bases))) if bases else ("", "")
    table.row(name, *counts, *faces)


def list_functions(calls):
    for file in sorted(calls.files):
        print(Path(file).relative_to(PACKAGE))
        lines = [(c.co_firstlineno, c.co_qualname) for c in calls.codes if c.co_filename == file]
        print(*(f"{line:6} {name}" for line, name in sorted(lines)), sep="\n")


def import_everything():
    """Whatever may override something."""
    for module in pkgutil.walk_packages([str(PACKAGE)], f"{PACKAGE.name}."):
        import_module(module.name)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--list", choices=CALLS, help="print the functions that a call passes")
    wanted = parser.parse_args().list
    warnings.simplefilter("ignore")
    if wanted:
        return list_functions(traced(CALLS[wanted])[1])
    import_everything()
    columns = ("functions", "files", "depth", "classes", "bases", "hooks")
    table = Table("call", *columns, width=36)
    for name, prepare in CALLS.items():
        report(table, name, *traced(prepare))


if __name__ == "__main__":
    main()
