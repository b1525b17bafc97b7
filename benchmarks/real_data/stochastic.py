"""Drawn hidden variables, and averages of iterates, against batch EM from the same start.

Fits of `Stochastic` and of `Online` take as many passes as the table says, and average the iterates
of the latter ones or return the last; batch EM goes on until it has converged to `tol`, and is also
shown after as many passes. Mixtures are those of `tasks`, hidden Markov models and Kalman filters
those of `hidden_markov` and `kalman`. Cells are held-out mean log-likelihoods in nats per row less
those of batch EM that has converged, medians over seeds; each seed splits the data anew, or where
their order matters starts anew. "worst" is the least of "SEM mean" over seeds. The last columns say
whether the median of "SEM mean" is at most 0.03 nats below batch EM that has converged, and below
batch EM of as many passes.

Kalman filters take batch EM hundreds of passes or more, so that fits are still on their way: there
the latter tenth of the passes is averaged, and batch EM of as many is what to compare with.

    python -m benchmarks.real_data.stochastic --only air
"""

import argparse
import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split

from benchmarks import datasets
from benchmarks._table import Table
from benchmarks.real_data.hidden_markov import labelled_start
from benchmarks.real_data.kalman import WEEK
from benchmarks.real_data.tasks import TASKS
from sklearn_onlineem import CategoricalHMM, GaussianHMM, GaussianMixture, KalmanFilter
from sklearn_onlineem.em import Batch, Online, Stochastic

REQUIRED = -0.03
MOST_ROWS = 20_000
COLUMNS = "SEM mean", "SEM last", "online mean", "online last", "batch"


@dataclass(frozen=True)
class Fit:
    """What is fitted to which data.

    Parameters
    ----------
    name : str
    parts : callable
        From a seed to a list of (start, train, test): an estimator, with a model if it has
        `warm_start`; training data, and held-out data. What parts have held out is added up.
    n_passes : int, default=60
    average_from : int, default=31
        First pass that is averaged.
    """

    name: str
    parts: Callable
    n_passes: int = 60
    average_from: int = 31

    @property
    def solvers(self):
        averaging = {"average_from": self.average_from}
        return Stochastic(**averaging), Stochastic(), Online(**averaging), Online(), Batch()

    def gains(self, seed, tol):
        """Held-out nats per row of each solver less those of batch EM, and these at the end."""
        parts = list(self.parts(seed))
        n_rows = sum(_n_rows(test) for *_, test in parts)
        converging = {"solver": "batch", "max_iter": 2000, "tol": tol}
        batch = sum(_held_out(*part, converging) for part in parts) / n_rows
        for solver in self.solvers:
            learning = {"solver": solver, "max_iter": self.n_passes, "tol": 0.0}
            yield sum(_held_out(*part, learning) for part in parts) / n_rows - batch
        yield batch


def _held_out(start, train, test, learning):
    """Log-likelihood of all held-out rows."""
    batch_size = min(1000, max(1, len(train) // 20))
    estimator = copy.deepcopy(start).set_params(batch_size=batch_size, **learning)
    return float(estimator.fit(train).score_samples(test).sum())


def _n_rows(data):
    return sum(map(len, data)) if isinstance(data, list) else len(data)


# ---------------------------------------------------------------------------------------- mixtures


def mixture(task, seed):
    train, test = task.split(seed, MOST_ROWS)
    yield GaussianMixture(task.n_components, random_state=seed), train, test


# --------------------------------------------------------------------------- hidden Markov models


def speech(covariance_type, seed):
    """One model for each digit; its start is made of a few recordings."""
    recordings, digits, takes = datasets.load_spoken_recordings()
    order = np.random.default_rng(seed).permutation(len(recordings))
    for digit in range(10):
        mine = [i for i in order if digits[i] == digit]
        train = [recordings[i] for i in mine if takes[i] >= 5]
        test = [recordings[i] for i in mine if takes[i] < 5]
        start = labelled_start(train, covariance_type)
        yield start.set_params(warm_start=True, random_state=seed), train, test


def msnbc(seed):
    train, test = train_test_split(datasets.load_msnbc(), test_size=0.2, random_state=seed)
    start = CategoricalHMM(
        8, n_features=17, emissionprob_prior=1.1, warm_start=True, random_state=seed
    )
    yield start.partial_fit(train[:10]), train, test


def geyser(seed):
    X = datasets.load_geyser()
    yield GaussianHMM(2, random_state=seed), [X[:240]], [X[240:]]


# ---------------------------------------------------------------------------------- Kalman filters


def air(seed):
    X = datasets.load_air_quality_hours()
    X = (X - np.nanmean(X, axis=0)) / np.nanstd(X, axis=0)
    weeks = np.array_split(X, len(X) // WEEK)
    train, test = train_test_split(weeks, test_size=0.2, random_state=seed)
    yield KalmanFilter(4, random_state=seed), train, test


def macro(seed):
    """Half of the quarters, and the rest."""
    X = datasets.load_us_macro()
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    yield KalmanFilter(4, random_state=seed), [X[:150]], [X[150:]]


FITS = (
    *(
        Fit(f"mixture, {task.name}", partial(mixture, task))
        for task in TASKS
        if task.name.partition(",")[0] not in ("covertype", "fashion-mnist")
    ),
    Fit("HMMs, spoken digits, diag", partial(speech, "diag")),
    Fit("HMMs, spoken digits, full", partial(speech, "full")),
    Fit("HMM, clicks", msnbc),
    Fit("HMM, Old Faithful", geyser),
    Fit("Kalman filter, air quality", air, average_from=55),
    Fit("Kalman filter, air quality, 600 passes", air, n_passes=600, average_from=541),
    Fit("Kalman filter, US economy", macro, average_from=55),
    Fit("Kalman filter, US economy, 600 passes", macro, n_passes=600, average_from=541),
)


def main():
    arguments = _arguments()
    warnings.simplefilter("ignore", ConvergenceWarning)
    table = Table("held-out nats a row", *COLUMNS, "worst", "batch EM", "", "as many")
    for fit in FITS:
        if arguments.only in fit.name:
            rounds = [list(fit.gains(seed, arguments.tol)) for seed in range(arguments.seeds)]
            *gains, batch = zip(*rounds, strict=True)
            medians = [median(column) for column in gains]
            verdicts = [_verdict(medians[0]), _verdict(medians[0] - medians[-1])]
            table.row(fit.name, *medians, min(gains[0]), median(batch), *verdicts)


def _verdict(gain):
    return "met" if gain >= REQUIRED else "NOT MET"


def _arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--tol", type=float, default=1e-3, help="of batch EM")
    parser.add_argument("--only", default="", help="part of the names of the fits to make")
    return parser.parse_args()


if __name__ == "__main__":
    main()
