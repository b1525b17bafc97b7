"""Coverage of intervals for parameters of mixtures, hidden Markov models and Kalman filters.

Data sets are drawn from a known model, which is fitted to each from its own parameters (so that
components keep their numbers), and 95 % intervals are to hold the truth in 93 to 97 % of them. By
the observed information, and by the sandwich. Fits at which there is no maximum are counted. Of few
rows intervals hold too little: the likelihood of a mixture is far from quadratic there.
"""

import argparse
import warnings
from collections import defaultdict
from functools import partial

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks._table import Table
from sklearn_onlineem import GaussianHMM, GaussianMixture, KalmanFilter, PoissonMixture
from sklearn_onlineem.diagnostics import standard_errors

LEAST, MOST = 0.93, 0.97
_PRECISE = {"solver": "batch", "tol": 1e-10, "max_iter": 5000}


def gaussian_mixture(n=2000):
    """Of two components in two features, three standard deviations apart."""
    truth = {
        "weights_": np.array([0.4, 0.6]),
        "means_": np.array([[0.0, 0.0], [3.0, 1.0]]),
        "covariances_": np.array([[[1.0, 0.3], [0.3, 1.0]], [[1.5, -0.4], [-0.4, 0.8]]]),
    }
    start = GaussianMixture(
        2, reg_covar=0.0, weights_init=truth["weights_"], means_init=truth["means_"],
        precisions_init=np.linalg.inv(truth["covariances_"]), **_PRECISE,
    )  # fmt: skip

    def draw(rng):
        roots, drawn = np.linalg.cholesky(truth["covariances_"]), rng.random(n) > 0.4
        noise = rng.standard_normal((n, 1, 2))
        return truth["means_"][drawn * 1] + (noise @ roots[drawn * 1].mT)[:, 0]

    return truth, start, draw


def poisson_mixture():
    """Of two components and one count; 500 rows."""
    truth = {"weights_": np.array([0.5, 0.5]), "rates_": np.array([[2.0], [9.0]])}
    start = PoissonMixture(
        2, weights_init=truth["weights_"], means_init=truth["rates_"], prior=None, **_PRECISE
    )

    def draw(rng):
        return rng.poisson(truth["rates_"][rng.integers(2, size=500)]).astype(float)

    return truth, start, draw


def gaussian_chain():
    """Of two states two standard deviations apart; 40 sequences of 50 rows."""
    truth = {
        "startprob_": np.array([0.5, 0.5]),
        "transmat_": np.array([[0.9, 0.1], [0.2, 0.8]]),
        "means_": np.array([[0.0], [2.0]]),
        "covars_": np.array([[[1.0]], [[0.5]]]),
    }
    start = GaussianHMM(
        2, reg_covar=0.0, startprob_init=truth["startprob_"], transmat_init=truth["transmat_"],
        means_init=truth["means_"], covars_init=truth["covars_"][:, :, 0], **_PRECISE,
    )  # fmt: skip

    def draw(rng):
        states = np.empty((50, 40), dtype=int)
        states[0] = rng.integers(2, size=40)
        for t in range(1, 50):
            states[t] = rng.random(40) > truth["transmat_"][states[t - 1], 0]
        noise = rng.standard_normal((50, 40, 1)) * np.sqrt(truth["covars_"][states][..., 0])
        return list((truth["means_"][states] + noise).transpose(1, 0, 2))

    return truth, start, draw


def local_level(n=800):
    """A random walk in noise, whose variances are learnt; one sequence."""
    truth = {
        "transition_covariance_": np.array([[0.5]]),
        "observation_covariance_": np.array([[1.0]]),
    }
    start = KalmanFilter(
        1, transition_matrices=[[1.0]], observation_matrices=[[1.0]], reg_covar=0.0,
        transition_covariance=truth["transition_covariance_"],
        observation_covariance=truth["observation_covariance_"],
        em_vars=["transition_covariance", "observation_covariance"], **_PRECISE,
    )  # fmt: skip

    def draw(rng):
        steps = rng.standard_normal(n)
        steps[1:] *= np.sqrt(truth["transition_covariance_"].item())
        return (np.cumsum(steps) + rng.standard_normal(n))[:, None]

    return truth, start, draw


def system(n_sequences=40, length=25):
    """Two states that are read with noise, which is known, as are the readings."""
    truth = {
        "transition_matrices_": np.array([[0.8, 0.2], [-0.3, 0.6]]),
        "transition_covariance_": np.array([[0.5, 0.1], [0.1, 0.4]]),
    }
    readings, noise_covariance = np.array([[1.0, 0.0], [1.0, 1.0]]), 0.3 * np.eye(2)
    start = KalmanFilter(
        2, observation_matrices=readings, observation_covariance=noise_covariance, reg_covar=0.0,
        em_vars=[name.rstrip("_") for name in truth],
        **{name.rstrip("_"): value for name, value in truth.items()}, **_PRECISE,
    )  # fmt: skip

    def draw(rng):
        A, Q = truth.values()
        states = np.empty((length, n_sequences, 2))
        states[0] = rng.standard_normal((n_sequences, 2))
        for t in range(1, length):
            noise = rng.standard_normal((n_sequences, 2)) @ np.linalg.cholesky(Q).T
            states[t] = states[t - 1] @ A.T + noise
        noise = rng.standard_normal(states.shape) @ np.linalg.cholesky(noise_covariance).T
        return list((states @ readings.T + noise).transpose(1, 0, 2))

    return truth, start, draw


MODELS = {
    "GMM of 500 rows": partial(gaussian_mixture, 500),
    "GMM": gaussian_mixture,
    "Poisson": poisson_mixture,
    "HMM": gaussian_chain,
    "Kalman, local level of 200 rows": partial(local_level, 200),
    "Kalman, local level": local_level,
    "Kalman, two states": system,
}


def main():
    arguments = _arguments()
    table = Table("model and parameter", "information", "sandwich", "least", "most", "", width=30)
    for name, model in MODELS.items():
        if arguments.only not in name:
            continue
        truth, start, draw = model()
        held, n_failed = coverage(truth, start, draw, arguments.sets)
        for attribute in truth:
            shares = [np.mean(held.get((attribute, robust), np.nan)) for robust in (False, True)]
            ends = least_and_most(held[attribute, False])
            met = "met" if LEAST <= shares[0] <= MOST else "MISSED"
            table.row(f"{name} {attribute}", *map(float, shares), *ends, met)
        print(f"{name}: {n_failed} of {arguments.sets} fits without a maximum", flush=True)


def coverage(truth, start, draw, n_sets):
    """Whether intervals hold the truth, lists by attribute and kind; and how many could not be."""
    held, n_failed = defaultdict(list), 0
    for seed in range(n_sets):
        X = draw(np.random.default_rng(seed))
        fitted = start.fit(X)
        # The sandwich needs several sequences.
        kinds = (False,) if isinstance(fitted, KalmanFilter) and len(X[0]) == 1 else (False, True)
        try:
            for robust in kinds:
                intervals = standard_errors(fitted, X, robust).intervals()
                for name, value in truth.items():
                    low, high = intervals[name]
                    held[name, robust].append((low <= value) & (value <= high))
        except ValueError:
            n_failed += 1
    return held, n_failed


def least_and_most(held):
    """Coverage of the elements of an attribute that are covered least and most."""
    shares = np.mean(held, axis=0)
    return float(shares.min()), float(shares.max())


def _arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sets", type=int, default=1000)
    parser.add_argument("--only", default="", help="part of the name of a model")
    return parser.parse_args()


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        main()
