"""Does another build of the kernels cost speed? CPU time of the same work, by turns.

    python -m benchmarks.speed.builds FOLDER [--rounds 9] [--only Kalman]

FOLDER holds a checkout of the project whose kernels were built in another way: by other flags of
the compiler, against Python's limited API, or for another Python that `--python` names. Rows of
the table are its seconds to ours: above 1, it is slower. Each side of a row is a process of its
own, on one thread; of three such pairs, the quickest process of each side counts, by its lower
quartile.
"""

import argparse
import gc
import os
import subprocess
import sys
import time
from math import exp, log
from pathlib import Path
from statistics import fmean, quantiles


def gaussian_passes(covariance_type, n_features, dtype="float64"):
    from sklearn_onlineem import GaussianMixture

    X = _rng().normal(size=(1_600_000 // n_features**2 + 2_000, n_features)).astype(dtype)
    return _fits(GaussianMixture(8, covariance_type=covariance_type, **ONE_PASS), X)


def gaussian_updates():
    from sklearn_onlineem import GaussianMixture

    batches = _rng().normal(size=(100, 10, 16))
    mixture = GaussianMixture(10, random_state=0, n_jobs=1)
    mixture.partial_fit(batches.reshape(-1, 16))
    return lambda: [mixture.partial_fit(batch) for batch in batches]


def count_passes(name, **parameters):
    import sklearn_onlineem

    X = _rng().poisson(0.5, size=(5_000, 50)).astype(float) + (name == "GammaMixture")
    if name == "BernoulliMixture":
        X = (X > 0).astype(float)
    mixture = getattr(sklearn_onlineem, name)(8, **ONE_PASS | parameters)
    return _fits(mixture, X)


def sparse_counts(name):
    from scipy import sparse

    import sklearn_onlineem

    X = sparse.csr_array(_rng().poisson(0.05, size=(10_000, 400)).astype(float))
    return _fits(getattr(sklearn_onlineem, name)(8, **ONE_PASS), X)


def sampled_gaussians():
    from sklearn_onlineem import GaussianMixture

    prior = {"mean": 0.0, "mean_precision": 0.1, "covariance": 1.0, "degrees_of_freedom": 8.0}
    mixture = GaussianMixture(8, solver="gibbs", prior=prior, **ONE_PASS)
    return _fits(mixture, _rng().normal(size=(3_000, 6)))


def sampled_counts():
    from sklearn_onlineem import MultinomialMixture

    mixture = MultinomialMixture(8, solver="gibbs", prior={"concentration": 2.0}, **ONE_PASS)
    return _fits(mixture, _rng().poisson(0.5, size=(3_000, 40)))


def hidden_markov(name, n_features, lengths, **parameters):
    import sklearn_onlineem

    rng = _rng()
    n_rows = sum(lengths)
    X = (
        rng.normal(size=(n_rows, n_features))
        if name == "GaussianHMM"
        else rng.integers(8, size=(n_rows, 1))
    )
    model = getattr(sklearn_onlineem, name)(6, random_state=0, n_jobs=1, **parameters)
    if "solver" not in parameters:
        model.set_params(max_iter=1, tol=0)
    return lambda: model.fit(X, lengths=lengths)


def hidden_markov_paths():
    from sklearn_onlineem import GaussianHMM

    X = _rng().normal(size=(20_000, 2))
    model = GaussianHMM(6, random_state=0, n_jobs=1, max_iter=1, tol=0).fit(X)
    return lambda: model.predict(X)


def kalman(n_dim_state, lengths, missing=0.0):
    import numpy as np

    from sklearn_onlineem import KalmanFilter

    rng = _rng()
    X = rng.normal(size=(sum(lengths), 3)).cumsum(0) / 10
    X[rng.random(X.shape) < missing] = np.nan
    model = KalmanFilter(n_dim_state, max_iter=1, tol=0, random_state=0, n_jobs=1)
    return lambda: model.fit(X, lengths=lengths)


def topics(e_step):
    from scipy import sparse

    from sklearn_onlineem import LatentDirichletAllocation

    X = sparse.csr_array(_rng().poisson(0.05, size=(400, 1_000)))
    model = LatentDirichletAllocation(20, e_step=e_step, random_state=0, n_jobs=1)
    return lambda: model.partial_fit(X)


def compound_dirichlet():
    from sklearn_onlineem import CompoundDirichlet

    X = _rng().poisson(2.0, size=(3_000, 20))
    return _fits(CompoundDirichlet(max_iter=100, tol=0), X)


def edit_distances():
    from sklearn_onlineem import EditDistance

    rng = _rng()
    words = ["".join(rng.choice(list("abcdef"), size=12)) for _ in range(400)]
    model = EditDistance(max_iter=1, tol=0)
    return lambda: model.fit(list(zip(words[::2], words[1::2], strict=True)))


def _rng():
    import numpy as np

    return np.random.default_rng(0)


def _fits(estimator, X):
    return lambda: estimator.fit(X)


ONE_PASS = {
    "init": "random_from_data", "max_iter": 1, "tol": 0, "n_jobs": 1, "random_state": 0,
}  # fmt: skip
LONG, SHORT = [20_000], [50] * 400
# Pairs of processes: where one has its memory moves its times by some percent.
N_PAIRS = 3
WORK = {
    "Gaussian, full, 2 features": (gaussian_passes, "full", 2),
    "Gaussian, full, 16 features": (gaussian_passes, "full", 16),
    "Gaussian, full, 64 features": (gaussian_passes, "full", 64),
    "Gaussian, full, 16 features, single": (gaussian_passes, "full", 16, "float32"),
    "Gaussian, tied, 16 features": (gaussian_passes, "tied", 16),
    "Gaussian, diagonal, 16 features": (gaussian_passes, "diag", 16),
    "Gaussian, spherical, 4 features": (gaussian_passes, "spherical", 4),
    "Gaussian, updates of 10 rows": (gaussian_updates,),
    "Poisson": (count_passes, "PoissonMixture"),
    "Bernoulli": (count_passes, "BernoulliMixture"),
    "multinomial": (count_passes, "MultinomialMixture"),
    "gamma": (count_passes, "GammaMixture"),
    "Laplace": (count_passes, "LaplaceMixture"),
    "multinomial, CSR": (sparse_counts, "MultinomialMixture"),
    "Poisson, CSR": (sparse_counts, "PoissonMixture"),
    "Gibbs, full Gaussian": (sampled_gaussians,),
    "Gibbs, multinomial": (sampled_counts,),
    "HMM, Gaussian, one sequence": (hidden_markov, "GaussianHMM", 2, LONG),
    "HMM, Gaussian, many sequences": (hidden_markov, "GaussianHMM", 2, SHORT),
    "HMM, symbols, one sequence": (hidden_markov, "CategoricalHMM", 1, LONG),
    "HMM, symbols, many sequences": (hidden_markov, "CategoricalHMM", 1, SHORT),
    "HMM, best path": (hidden_markov_paths,),
    "Kalman, one sequence": (kalman, 4, [20_000]),
    "Kalman, many sequences": (kalman, 4, SHORT),
    "Kalman, a tenth missing": (kalman, 4, [5_000], 0.1),
    "topics, Gibbs": (topics, "gibbs"),
    "topics, map": (topics, "map"),
    "compound Dirichlet": (compound_dirichlet,),
    "edit distance": (edit_distances,),
}


def work(name):
    """Time the work of a name for each line of standard input, until it ends."""
    make, *arguments = WORK[name]
    run = make(*arguments)
    run()
    gc.disable()  # as `timeit` does
    print("ready", flush=True)
    for _ in sys.stdin:
        start = time.process_time()
        run()
        print(time.process_time() - start, flush=True)


def start(python, folder, name):
    environment = os.environ | {
        "PYTHONPATH": str(Path(folder).resolve()),
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONWARNINGS": "ignore",
    }
    worker = subprocess.Popen(
        [python, "-P", __file__, "--worker", name],
        env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    if worker.stdout.readline() != "ready\n":
        raise SystemExit(f"the library in {folder} does not do the work")
    return worker


def ask(worker):
    print(file=worker.stdin, flush=True)
    return float(worker.stdout.readline())


def quartiles_of(folder, python, name, n_rounds):
    """Return the lower quartiles of seconds there and here, of two processes by turns."""
    workers = start(python, folder, name), start(sys.executable, Path(__file__).parents[2], name)
    times = [list(map(ask, workers)) for _ in range(n_rounds)]
    for worker in workers:
        worker.communicate()
    return [quantiles(of_one, n=4)[0] for of_one in zip(*times, strict=True)]


def compare(folder, python, only, n_rounds, least):
    from benchmarks._table import Table

    table = Table("work", "there / here")
    ratios = []
    for name in (name for name in WORK if only in name):
        found = [quartiles_of(folder, python, name, n_rounds) for _ in range(N_PAIRS)]
        others, own = map(min, zip(*found, strict=True))
        ratios.append(others / own)
        table.row(name, ratios[-1])
    mean = exp(fmean(map(log, ratios)))
    table.row("geometric mean", mean)
    if mean < least:
        sys.exit(f"this build takes longer: the mean is below {least}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--python", default=sys.executable, help="interpreter of the other side")
    parser.add_argument("--only", default="", help="part of the names of the rows")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--least", type=float, default=0.0, help="fail if the mean is below it")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.worker:
        work(chosen.worker)
    elif chosen.folder is None:
        parser.error("name a folder with another build")
    else:
        compare(chosen.folder, chosen.python, chosen.only, chosen.rounds, chosen.least)
