"""The estimators that the laws of sequences run over, each with data that suit it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.special import expit

from cases.capabilities import (
    BINARY,
    COUNTS,
    DOCUMENTS,
    GAUSSIAN,
    NOMINAL,
    POSITIVE,
    RowCapabilities,
)
from cases.estimator_cases import (
    count_clusters,
    document_clusters,
    named,
    normal_clusters,
    waiting_clusters,
)
from sklearn_onlineem import (
    GMMHMM,
    HMM,
    CategoricalHMM,
    GaussianHMM,
    KalmanFilter,
    MultinomialHMM,
    PoissonHMM,
    RegressionHMM,
)
from sklearn_onlineem.families import Diagonal, Gaussian, MixtureOf
from sklearn_onlineem.structure import Cycle, Level

N_STATES = 3


@dataclass(frozen=True)
class SequenceCase(RowCapabilities):
    """A hidden Markov estimator, and sequences whose states it can tell apart."""

    make: Callable
    rows: Callable
    arguments: dict = field(default_factory=dict)
    name: str = ""
    # Whether the model itself says where sequences end.
    ends_by_itself: bool = False
    # First rows of a sequence that say nothing, as rows are given those before them.
    n_before: int = 0

    # Methods that return something for each row, and the name of the size of the hidden variable.
    row_methods = ("predict", "predict_proba", "filter", "score_rows")
    size = "n_components"
    # Makes `y` known states.
    labelled = MappingProxyType({"semi_supervised": True})

    def __repr__(self):
        return self.name or named(self.make, self.arguments)

    def __call__(self, n_components=N_STATES, **arguments):
        return self.make(n_components, **{"random_state": 0, **self.arguments, **arguments})

    @property
    def inference(self):
        """Methods that take sequences."""
        return (*self.row_methods, "transform", "score", "score_samples", "bic", "aic")

    @property
    def regular(self):
        """Whether the statistics of any data are those of a model: lengths must not be given."""
        return self.ends_by_itself

    def moves(self, transmat):
        """Transitions as the model has them: with durations, only those to other states."""
        if "durations" not in self.arguments:
            return transmat
        is_left = np.diagonal(transmat) < 1.0
        apart = np.where(np.eye(len(transmat), dtype=bool) & is_left, 0.0, transmat)
        # What is left of a row is the end.
        return apart / (1.0 - transmat.sum(axis=1) + apart.sum(axis=1))[:, None]

    def data(self, rng, n_sequences=20):
        """Sequences of 1 to 30 rows, and the states of these, which are rarely left."""
        least = 1 + self.n_before
        lengths = np.append(least, rng.integers(least + 1, 31, n_sequences - 1))
        states = [sticky_states(rng, length) for length in lengths]
        X = self.rows(rng, np.concatenate(states))
        return np.split(X, np.cumsum(lengths)[:-1]), states

    def centres(self, sequences, states):
        """Start values without chance: for `init`, where these decide."""
        X, y = np.concatenate(sequences), np.concatenate(states)
        return np.array([X[y == k].mean(axis=0) for k in range(N_STATES)])

    def start(self, sequences, states):
        """Arguments that leave nothing to chance."""
        return {"init": self.centres(sequences, states)}


class KalmanCase(SequenceCase):
    """A Kalman filter, whose state follows the clusters that the rows of hidden states are in."""

    row_methods = ("predict", "transform", "impute", "score_rows")
    size = "n_dim_state"
    labelled = MappingProxyType({})

    def __call__(self, n_components=2, **arguments):
        return super().__call__(n_components, **arguments)

    def start(self, sequences, states):
        return {}


class StructureCase(KalmanCase):
    """A Kalman filter whose structure has all sizes."""

    # Of two columns.
    n_dim_state = 6

    def __call__(self, n_components=None, **arguments):
        return self.make(**{"random_state": 0, **self.arguments, **arguments})


class PartlyKnownCase(KalmanCase):
    """A Kalman filter whose states move apart from each other, the first at a learnt rate."""

    def __call__(self, n_components=2, **arguments):
        apart = np.eye(n_components, dtype=bool)
        known = {
            "transition_matrices": 0.9 * apart,
            "transition_covariance": 1.0 * apart,
            "params": {
                "transition_matrices": apart & (np.arange(n_components) == 0),
                "transition_covariance": apart,
            },
        }
        return super().__call__(n_components, **{**known, **arguments})


def sticky_states(rng, length):
    states = [rng.integers(N_STATES)]
    for _ in range(length - 1):
        states.append(states[-1] if rng.random() < 0.9 else rng.integers(N_STATES))
    return np.array(states)


def symbol_clusters(rng, y):
    """A column of codes, most of them that of the state."""
    noise = rng.integers(0, 4, len(y))
    return np.where(rng.random(len(y)) < 0.1, noise, y)[:, None].astype(float)


def pairs_of_clusters(rng, y):
    """Two clusters of each state, along the last column."""
    X = normal_clusters(rng, y)
    X[:, 3] += 3.0 * rng.choice([-1.0, 1.0], len(X))
    return X


def alternating_clusters(rng, y):
    """Rows on the other side of where their state rests than the row before."""
    rows = normal_clusters(rng, y)
    for t in range(1, len(rows)):
        rows[t] -= 0.7 * rows[t - 1]
    return rows


def alternating_bits(rng, y):
    """Two columns of ones for each state, rather where the row before has zeros."""
    ones, draws = np.repeat(np.eye(N_STATES)[y], 2, axis=1), rng.random((len(y), 2 * N_STATES))
    rows = np.full(draws.shape, 0.5)
    for t in range(len(y)):
        odds = 6.0 * (ones[t] - 0.5) - (rows[t - 1] - 0.5)
        rows[t] = draws[t] < expit(odds)
    return rows


def alternating_counts(rng, y):
    """One column of large counts for each state, which are less after larger ones."""
    levels, rows = np.log(1.0 + 20.0 * np.eye(N_STATES)[y]), np.ones((len(y), N_STATES))
    for t in range(len(y)):
        rows[t] = rng.poisson(np.exp(levels[t] - 0.2 * np.log1p(rows[t - 1])))
    return rows


def slow_levels(rng, y):
    """Levels that change little beside cycles of 8 rows that fade, whatever the states are."""
    draws = rng.standard_normal((2, len(y), 2))
    return 0.1 * draws[0].cumsum(axis=0) + lfilter([1.0], [1.0, -1.37, 0.94], draws[1], axis=0)


SEQUENCE_ESTIMATORS = [
    *(
        SequenceCase(GaussianHMM, normal_clusters, {"covariance_type": kind}, **GAUSSIAN)
        for kind in ("diag", "full", "tied", "spherical")
    ),
    SequenceCase(GMMHMM, pairs_of_clusters, {"n_mix": 2}, "GMMHMM(diag)", **GAUSSIAN),
    SequenceCase(
        HMM,
        pairs_of_clusters,
        {"family": MixtureOf(Gaussian(Diagonal()), 6, tied=True)},
        "HMM(shared parts)",
        **GAUSSIAN,
    ),  # fmt: skip
    SequenceCase(CategoricalHMM, symbol_clusters, {"n_features": 4}, **NOMINAL),
    SequenceCase(MultinomialHMM, document_clusters, **DOCUMENTS),
    SequenceCase(PoissonHMM, count_clusters, **COUNTS),
    SequenceCase(
        RegressionHMM,
        alternating_clusters,
        {"lags": 1},
        "RegressionHMM(lags)",
        n_before=1,
        **GAUSSIAN,
    ),  # fmt: skip
    # First rows of a stream separate zeros from ones, and coefficients of few rows explode, without
    # a prior.
    SequenceCase(
        RegressionHMM,
        alternating_bits,
        {"response": "bernoulli", "lags": 1, "prior": {"matrix_precision": 2.0}},
        "RegressionHMM(bits)",
        n_before=1,
        **BINARY,
    ),  # fmt: skip
    SequenceCase(
        RegressionHMM,
        alternating_counts,
        {"response": "poisson", "lags": 1, "prior": {"matrix_precision": 2.0}},
        "RegressionHMM(counts)",
        n_before=1,
        **COUNTS,
    ),  # fmt: skip
    # A 0 is no exponential variable.
    SequenceCase(HMM, waiting_clusters, {"family": "exponential"}, **POSITIVE),
    SequenceCase(
        GaussianHMM,
        normal_clusters,
        {"durations": "poisson", "max_duration": 30},
        "GaussianHMM(Poisson durations)",
        **GAUSSIAN,
    ),  # fmt: skip
    SequenceCase(
        PoissonHMM,
        count_clusters,
        {
            "durations": "categorical",
            "max_duration": 30,
            "left_censored": True,
            "durationprob_prior": 1.0,
        },
        "PoissonHMM(durations, left-censored)",
        **COUNTS,
    ),  # fmt: skip
    SequenceCase(
        CategoricalHMM,
        symbol_clusters,
        {"n_features": 4, "durations": "poisson", "max_duration": 30, "termination": "end_state"},
        "CategoricalHMM(durations, absorbing)",
        ends_by_itself=True,
        **NOMINAL,
    ),  # fmt: skip
    SequenceCase(
        HMM,
        normal_clusters,
        {"family": "gaussian_diag", "termination": "end_state"},
        "HMM(gaussian, absorbing)",
        ends_by_itself=True,
        **GAUSSIAN,
    ),  # fmt: skip
]
KALMAN_FILTERS = [
    KalmanCase(KalmanFilter, normal_clusters, **GAUSSIAN),
    KalmanCase(
        KalmanFilter,
        normal_clusters,
        {"transition_covariance_type": "spherical", "observation_covariance_type": "diag"},
        "KalmanFilter(simple noise)",
        **GAUSSIAN,
    ),  # fmt: skip
    PartlyKnownCase(KalmanFilter, normal_clusters, {}, "KalmanFilter(partly known)", **GAUSSIAN),
    *(
        StructureCase(
            KalmanFilter,
            slow_levels,
            {"structure": Level() + cycle},
            f"KalmanFilter({name})",
            starts_are_given=True,
            is_diffuse=True,
            **GAUSSIAN,
        )
        for name, cycle in (("structure", Cycle(8.0)), ("cyclic", Cycle()))
    ),  # fmt: skip
]
all_estimators = pytest.mark.parametrize("case", SEQUENCE_ESTIMATORS, ids=repr)
all_models = pytest.mark.parametrize("case", SEQUENCE_ESTIMATORS + KALMAN_FILTERS, ids=repr)
finite_models = pytest.mark.parametrize(
    "case",
    [case for case in SEQUENCE_ESTIMATORS + KALMAN_FILTERS if not case.ends_by_itself],
    ids=repr,
)
finite_estimators = pytest.mark.parametrize(
    "case", [case for case in SEQUENCE_ESTIMATORS if not case.ends_by_itself], ids=repr
)


def accuracy(states, found):
    return np.mean(np.concatenate(states) == np.concatenate(found))


def flat(sequences):
    return np.concatenate(sequences), [len(sequence) for sequence in sequences]
