"""The bits of fits and streams of all models, to show that a change of structure changes none.

    PYTHONPATH=tests python -m benchmarks.reading.bits FILE              records them
    PYTHONPATH=tests python -m benchmarks.reading.bits FILE --against    says which are others

A fit or stream is one digest: of fitted attributes, of the updates, of scores and of draws. Bits
depend on the processor and on versions, so that both runs belong on one machine.
"""

import argparse
import hashlib
import json
import warnings
from pathlib import Path

import numpy as np
from cases.estimator_cases import normal_clusters
from cases.merged_cases import MERGED
from cases.sequence_cases import KALMAN_FILTERS, SEQUENCE_ESTIMATORS

from sklearn_onlineem import (
    GaussianHMM,
    GaussianMixture,
    KalmanFilter,
    PoissonMixture,
    StudentTMixture,
    combine_estimators,
)
from sklearn_onlineem.distributed import DistributedEM
from sklearn_onlineem.em import Adaptive, BayesianOnline, Online, SplitMerge, Stochastic

SOLVERS = [
    "auto",
    "online",
    "batch",
    "stochastic",
    "bayesian",
    "adaptive",
    "gibbs",
    "componentwise",
]
N_BATCHES = 12
MIXTURE = {"n_components": 3, "random_state": 0}


def digest(estimator, X):
    """What a user can see of a fitted estimator, as some letters."""
    seen = hashlib.sha256()
    for name in sorted(name for name in dir(type(estimator)) if name.endswith("_")):
        if not name.startswith("_") and name not in ("model_", "chains_", "scorer_"):
            try:
                _update(seen, getattr(estimator, name))
            except (AttributeError, TypeError, ValueError):
                continue
    for result in (estimator.score, lambda X: estimator.sample(3)):
        try:
            _update(seen, result(X))
        except (AttributeError, TypeError, ValueError) as error:
            seen.update(type(error).__name__.encode())
    return seen.hexdigest()[:16]


def _update(seen, value):
    if isinstance(value, (list, tuple)):
        for one in value:
            _update(seen, one)
    elif value is not None:
        array = np.asarray(value)
        seen.update(repr(array.tolist() if array.dtype == object else array.dtype).encode())
        if array.dtype != object:
            seen.update(np.ascontiguousarray(array).tobytes())


def fitted(estimator, X, **where):
    return estimator.fit(X, **where)


def streamed(estimator, X, n_batches=N_BATCHES, **where):
    """An estimator that has learnt X in batches of several sizes."""
    cuts = np.unique((len(X) * np.linspace(0.0, 1.0, n_batches + 1) ** 1.5).astype(int))
    for start, stop in zip(cuts[:-1], cuts[1:], strict=True):
        part = {name: value[start:stop] for name, value in where.items()}
        estimator = estimator.partial_fit(X[start:stop], **part)
    return estimator


def runs():
    """Yield names, functions that learn, and data."""
    for case in MERGED:
        is_sequences = case in SEQUENCE_ESTIMATORS or case in KALMAN_FILTERS
        X = case.data(np.random.default_rng(7), 60 if is_sequences else 1200)[0]
        for solver in SOLVERS:
            yield f"{case!r}.fit {solver}", fitted, case(solver=solver, max_iter=15), X
        yield f"{case!r} as a stream", streamed, case(), X
        yield f"{case!r} as a stream, first batch", streamed, case(solver=Online(start_rows=0)), X
        yield f"{case!r} as a stream, adaptive", streamed, case(solver="adaptive"), X
        yield f"{case!r} as a stream, bayesian", streamed, case(solver="bayesian"), X
        yield f"{case!r} as a stream, draws", streamed, case(solver="stochastic"), X
        yield f"{case!r} as a stream, sample", streamed, case(solver=Online(sample=200)), X
    yield from habits()


def habits():
    """Yield streams and fits in which something happens."""
    rng = np.random.default_rng(8)
    X = normal_clusters(rng, rng.integers(0, 3, 6000))
    spikes, gaps, jump = X.copy(), X.copy(), X.copy()
    spikes[::701, 1] = 1e5
    gaps[rng.random(X.shape) < 0.2] = np.nan
    jump[3000:] += 40.0
    y = np.where(rng.random(len(X)) < 0.1, np.argmax(X, axis=1) % 3, -1)
    moved = Online(start_rows=0, reinitialises=True)
    for name, data in {
        "spikes": spikes,
        "gaps": gaps,
        "a jump": jump,
        "order": np.sort(X, 0),
    }.items():
        for solver in ("auto", moved, Adaptive(), BayesianOnline(forgetting=0.9), Stochastic()):
            estimator = GaussianMixture(**MIXTURE, solver=solver)
            yield f"{name}, {solver}", lambda e, X: streamed(e, X, 40), estimator, data
    yield "gaps, fit", fitted, GaussianMixture(**MIXTURE), gaps[:1000]
    yield from options(X, y)
    level = (
        np.cumsum(rng.standard_normal((3000, 1)), axis=0) + 50.0 * (np.arange(3000) > 1500)[:, None]
    )
    pieces = np.array_split(level, 60)
    yield "pieces of a level", _continued, KalmanFilter(1, random_state=0), pieces
    yield "pieces of states", _continued, GaussianHMM(3, random_state=0), np.array_split(jump, 60)


def options(X, y):
    """Yield streams and fits of rows with labels and weights, of settings, and of several."""
    yield (
        "labels",
        lambda e, X: streamed(e, X, y=y),
        GaussianMixture(**MIXTURE, semi_supervised=True),
        X,
    )
    yield (
        "weights",
        lambda e, X: streamed(e, X, sample_weight=1.0 + (np.arange(len(X)) % 3)),
        StudentTMixture(**MIXTURE),
        X,
    )
    yield (
        "masks",
        fitted,
        GaussianMixture(**MIXTURE, params={"means": [False, True, True]}),
        X[:900],
    )
    yield (
        "prior",
        streamed,
        PoissonMixture(3, prior={"shape": 2.0, "rate": 1.0}, random_state=0),
        abs(X.round()),
    )
    yield (
        "split and merge",
        fitted,
        GaussianMixture(8, solver=SplitMerge(), random_state=0),
        X[:1500],
    )
    yield "six components", fitted, GaussianMixture(6, random_state=0), X[:1500]
    yield (
        "shards",
        fitted,
        DistributedEM(GaussianMixture(**MIXTURE), n_shards=3, n_jobs=1),
        X[:1500],
    )
    parts = [streamed(GaussianMixture(**MIXTURE), part) for part in np.array_split(X, 3)]
    yield "merged and continued", lambda e, X: streamed(e, X), combine_estimators(parts), X


def _continued(estimator, pieces):
    for piece in pieces:
        estimator = estimator.partial_fit(piece, continues=True)
    return estimator


def found():
    """A digest for each run; the name of the error where one is refused."""
    digests = {}
    for name, learn, estimator, X in runs():
        try:
            digests[name] = digest(learn(estimator, X), X)
        except (ValueError, TypeError, AttributeError) as error:
            digests[name] = type(error).__name__
    return digests


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--against", action="store_true", help="compare with what the file has")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    digests = found()
    if not arguments.against:
        arguments.file.write_text(json.dumps(digests, indent=1) + "\n")
        print(f"{len(digests)} fits and streams, {sum(map(str.isalpha, digests.values()))} refused")
        return
    before = json.loads(arguments.file.read_text())
    others = [name for name in digests if digests[name] != before.get(name)]
    print("\n".join([*others, f"{len(others)} of {len(digests)} are others"]))


if __name__ == "__main__":
    main()
