"""What users wait for: small updates, short and long sequences, wide counts, many components.

Each line is the best of several runs, in wall time and on one thread unless it says more, with what
it should be. Seconds are those of this machine, and say little of another; ratios say more.
Megabytes are by how much a new process grows that has only made its data before.

    python -m benchmarks.speed.waits --only partial_fit
"""

import argparse
import os
import subprocess
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from tempfile import TemporaryDirectory

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from benchmarks._table import Table
from benchmarks._timing import CPU, scaling, seconds
from benchmarks.scale.memory import Growth
from sklearn_onlineem import (
    GaussianHMM,
    GaussianMixture,
    KalmanFilter,
    LatentDirichletAllocation,
    MultinomialMixture,
)
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.families import Full, Gaussian, Gaussians, Tied
from sklearn_onlineem.models.mixtures.mixture import MixtureModel

COMMON = {"n_jobs": 1, "random_state": 0}
ONE_PASS = {"solver": "batch", "max_iter": 1, "tol": 0.0, "init": "random_from_data", **COMMON}
IMPORT = """
import time, sklearn.mixture
start = time.perf_counter()
from sklearn_onlineem import GaussianMixture
print(time.perf_counter() - start)
"""


def best(run, n_rounds=5, n_calls=1):
    """Milliseconds of one call, the least of several."""
    run()
    return 1e3 * min(seconds(run, n_calls=n_calls) for _ in range(n_rounds))


def rng():
    return np.random.default_rng(0)


def clusters(n_rows, d=16, n_clusters=10):
    draw = rng()
    centres = 3.0 * draw.normal(size=(n_clusters, d))
    return centres[draw.integers(n_clusters, size=n_rows)] + draw.normal(size=(n_rows, d))


def settled(mixture, X):
    """The mixture after a stream, when its start is final."""
    mixture.partial_fit(X)
    while mixture.n_rows_kept_:
        mixture.partial_fit(X)
    return mixture


# ----------------------------------------------------------------------------- many short sequences


def short_sequences(model, length):
    """A pass in mini-batches, in passes of batch EM."""
    draw = rng()
    lengths = draw.integers(2, 6, 100_000) if length is None else np.full(100_000, length)
    X = draw.normal(size=(lengths.sum(), 2))
    passes = (
        model(2, solver=solver, max_iter=1, tol=0.0, **COMMON) for solver in ("online", "batch")
    )
    online, batch = (best(partial(one.fit, X, lengths=lengths), 2) for one in passes)
    return online / batch


# ------------------------------------------------------------------------------------------ streams


def piece(model, continues=False, missing=0.0):
    draw = rng()
    X = draw.normal(size=(4_000, 3))
    X[draw.random(X.shape) < missing] = np.nan
    learner = model(3, **COMMON)
    for part in np.split(X, 40):
        learner.partial_fit(part, continues=continues)
    return best(lambda: learner.partial_fit(X[:10], continues=continues), 20, 10)


def update(covariance_type, n_rows=1):
    X = clusters(2_000)
    mixture = settled(GaussianMixture(10, covariance_type=covariance_type, **COMMON), X)
    return best(lambda: mixture.partial_fit(X[:n_rows]), 20, 20)


def frame():
    import pandas as pd

    X = pd.DataFrame(clusters(2_000), columns=[f"x{j}" for j in range(16)])
    mixture = settled(GaussianMixture(10, **COMMON), X)
    return best(lambda: mixture.partial_fit(X[:10]), 20, 10)


def empty_component():
    """The longest of 64 updates while a component is empty, in CPU time."""
    draw = rng()
    X = draw.normal(size=(2_000, 16))  # one cluster: a second component is not worth its weight
    means = np.stack([np.zeros(16), np.full(16, 1e4)])
    mixture = GaussianMixture(2, means_init=means, **COMMON).partial_fit(X)
    batches = draw.normal(size=(640, 100, 16))
    runs = [seconds(partial(mixture.partial_fit, batch), CPU) for batch in batches]
    return 1e3 * np.min(np.reshape(runs, (10, 64)).max(axis=1))


def documents(n, n_words=50_000, density=0.002):
    draw = rng()
    return sparse.random_array(
        (n, n_words), density=density, format="csr", rng=draw,
        data_sampler=lambda size: draw.geometric(0.5, size=size).astype(float),
    )  # fmt: skip


def wide_counts(model, n_components, is_settled):
    """While the start is still made from the first documents, or later."""
    first, batch = documents(2_500 if is_settled else 500), documents(10)
    learner = model(n_components, **COMMON)
    learner = settled(learner, first) if is_settled else learner.partial_fit(first)
    return best(lambda: learner.partial_fit(batch), 5)


def two_threads(n_rows):
    X = clusters(n_rows)
    common = {"random_state": 0}
    one, two = (settled(GaussianMixture(10, n_jobs=n, **common), X) for n in (1, 2))
    return scaling(lambda: one.partial_fit(X), lambda: two.partial_fit(X), 200)


# ------------------------------------------------------------------------------- passes of mixtures


def tied():
    """A pass with one covariance, in passes with one for each component."""
    return _pass(*_gaussians(Tied(), 16)) / _pass(*_gaussians(Full(), 16))


def narrow(d):
    """A pass with one narrow component among 32, in passes without."""
    family, parameters, X = _gaussians(Full(), d)
    covariances = parameters.covariance.copy()
    covariances[0] *= 1e-14
    other = Gaussians(parameters.mean + 30.0, covariances)
    return _pass(family, other, X + 30.0) / _pass(family, parameters, X)


def _gaussians(shape, d, K=32):
    draw = rng()
    means = draw.normal(size=(K, d))
    X = means[draw.integers(K, size=50_000)] + draw.normal(size=(50_000, d))
    covariances = shape.from_matrices(np.broadcast_to(np.eye(d), (K, d, d)).copy())
    covariances = covariances / K if shape.is_shared else covariances
    return Gaussian(shape), Gaussians(means, covariances), X


def _pass(family, parameters, X):
    model = MixtureModel(family, np.full(32, 1 / 32), parameters)
    rows = Rows(X)
    with threadpool_limits(1):
        return best(lambda: model.m_step(model.e_step(rows)[0]), 5)


def thousand_components(max_iter):
    X = clusters(100_000, 8, 1_000)
    mixture = GaussianMixture(1_000, max_iter=max_iter, **COMMON)
    return seconds(lambda: mixture.fit(X))


def start_memory():
    X = clusters(100_000, 8, 1_000)
    with Growth() as growth:
        GaussianMixture(1_000, max_iter=0, **COMMON).fit(X)
    return growth.megabytes


def long_documents():
    X = sparse.csr_array(rng().multinomial(100_000, np.full(2_000, 1 / 2_000), 20).astype(float))
    learner = LatentDirichletAllocation(20, **COMMON).partial_fit(X)
    return best(lambda: learner.partial_fit(X), 2) / 1e3


# ----------------------------------------------------------------------------------- long sequences


def chain_rate(n_states):
    """Thousand million multiply-adds and their like a second, as 2 operations, of one sequence."""
    X = rng().normal(size=(20_000, 2))
    model = GaussianHMM(n_states, **{k: v for k, v in ONE_PASS.items() if k != "init"}).fit(X)
    model.set_params(warm_start=True)
    return 2 * 3 * n_states**2 * len(X) / (1e6 * best(lambda: model.fit(X), 2))


def chain_memory(method):
    X = rng().normal(size=(4_000_000, 1))
    model = GaussianHMM(16, solver="batch", max_iter=1, tol=0.0, **COMMON).fit(X[:20_000])
    model.set_params(warm_start=True)
    with Growth() as growth:
        getattr(model, method)(X)
    return growth.megabytes


def long_two_threads(model, n_states):
    X = rng().normal(size=(200_000, 3))
    runs = []
    for n_jobs in (1, 2):
        one = model(
            n_states, n_jobs=n_jobs, solver="batch", max_iter=1, tol=0.0, random_state=0
        ).fit(X)
        one.set_params(warm_start=True)
        runs.append(partial(one.fit, X))
    return scaling(*runs, 5)


def kalman_gaps():
    """A pass over short sequences with a tenth of the values missing, in passes without."""
    draw = rng()
    X = draw.normal(size=(100_000, 4)).cumsum(axis=0) / 10
    gaps = np.where(draw.random(X.shape) < 0.1, np.nan, X)
    times = []
    for data in (gaps, X):
        one = KalmanFilter(3, solver="batch", max_iter=1, tol=0.0, **COMMON)
        one.fit(data, lengths=[50] * 2_000).set_params(warm_start=True)
        times.append(best(partial(one.fit, data, lengths=[50] * 2_000), 3))
    return times[0] / times[1]


def importing():
    """Milliseconds of an import whose byte code is at hand."""
    command = [sys.executable, "-c", IMPORT]
    with TemporaryDirectory() as folder:
        environment = os.environ | {"PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""}
        runs = [subprocess.check_output(command, text=True, env=environment) for _ in range(7)]
    return 1e3 * min(map(float, runs))


def in_new_process(measure):
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(measure).result()


# Each wait: what is done, its unit, how, and the bound: at most, or at least if it is a rate.
WAITS = [
    ("mini-batch pass, HMM, 2 to 5 rows", "passes", partial(short_sequences, GaussianHMM, None), 3),
    ("mini-batch pass, HMM, 4 rows", "passes", partial(short_sequences, GaussianHMM, 4), 3),
    ("mini-batch pass, Kalman, 4 rows", "passes", partial(short_sequences, KalmanFilter, 4), 3),
    ("partial_fit, HMM, 10 rows", "ms", partial(piece, GaussianHMM), 0.10),
    ("partial_fit, Kalman, 10 rows", "ms", partial(piece, KalmanFilter), 0.15),
    ("partial_fit, Kalman, continued", "ms", partial(piece, KalmanFilter, True), 0.15),
    ("partial_fit, Kalman, 10 % missing", "ms", partial(piece, KalmanFilter, False, 0.1), 0.25),
    ("partial_fit, full, 1 row", "ms", partial(update, "full"), 0.033),
    ("partial_fit, diagonal, 1 row", "ms", partial(update, "diag"), 0.030),
    ("partial_fit, spherical, 1 row", "ms", partial(update, "spherical"), 0.030),
    ("partial_fit, data frame of 10 rows", "ms", frame, 0.25),
    ("partial_fit, the longest, empty component", "ms", empty_component, 0.2),
    *(
        (f"partial_fit, {name}, {K}{when}", "ms", partial(wide_counts, model, K, is_settled), most)
        for name, model, K, most in (
            ("multinomial", MultinomialMixture, 50, 2),
            ("multinomial", MultinomialMixture, 200, 8),
            ("topics", LatentDirichletAllocation, 50, 5),
            ("topics", LatentDirichletAllocation, 200, 20),
        )
        for when, is_settled in ((", first documents", False), ("", True))
    ),
    ("partial_fit, 5,000 rows, two threads", "x", partial(two_threads, 5_000), 1.6),
    ("pass, tied, d = 16, K = 32", "full", tied, 1.0),
    ("pass, a narrow component, d = 16", "passes", partial(narrow, 16), 1.3),
    ("pass, a narrow component, d = 4", "passes", partial(narrow, 4), 1.3),
    ("1,000 components, default fit", "s", partial(thousand_components, "auto"), 6),
    ("1,000 components, start", "s", partial(thousand_components, 0), 1.5),
    ("1,000 components, start", "MB", start_memory, 100),
    ("20 documents of 100,000 tokens, topics", "s", long_documents, 0.2),
    ("one sequence, HMM, 128 states", "GF/s", partial(chain_rate, 128), 20),
    ("one sequence, HMM, 512 states", "GF/s", partial(chain_rate, 512), 20),
    ("4 million rows, HMM, fit", "MB", partial(chain_memory, "fit"), 60),
    ("4 million rows, HMM, score", "MB", partial(chain_memory, "score"), 60),
    ("4 million rows, HMM, predict", "MB", partial(chain_memory, "predict"), 60),
    ("one sequence, HMM, two threads", "x", partial(long_two_threads, GaussianHMM, 16), 1.7),
    ("one sequence, Kalman, two threads", "x", partial(long_two_threads, KalmanFilter, 4), 1.7),
    ("pass, Kalman, 10 % missing", "passes", kalman_gaps, 2.5),
    ("import, above scikit-learn's mixtures", "ms", importing, 60),
]
RATES = ("x", "GF/s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="part of the names of the lines")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    table = Table("", "unit", "measured", "required", "", width=44)
    for name, unit, measure, required in WAITS:
        if chosen.only in name:
            found = float(in_new_process(measure) if unit == "MB" else measure())
            met = found >= required if unit in RATES else found <= required
            table.row(name, unit, f"{found:.3g}", required, "met" if met else "NOT MET")


if __name__ == "__main__":
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    main()
