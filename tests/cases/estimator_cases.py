"""The list of mixture estimators that the laws run over, each with data that suit it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from cases.capabilities import (
    BINARY,
    COUNTS,
    DOCUMENTS,
    DURATIONS,
    GAUSSIAN,
    MATRICES,
    NOMINAL,
    POSITIVE,
    REAL,
    RowCapabilities,
)
from sklearn_onlineem import (
    BernoulliMixture,
    CategoricalMixture,
    CompoundDirichletMixture,
    ExponentialMixture,
    GammaMixture,
    GaussianMixture,
    LaplaceMixture,
    MarkovChainMixture,
    Mixture,
    MultinomialMixture,
    PoissonMixture,
    StudentTMixture,
    WishartMixture,
)
from sklearn_onlineem.families import Categorical, GaussianRegression


def named(make, arguments):
    """The name of a class, with those of its settings that are texts."""
    texts = ", ".join(value for value in arguments.values() if isinstance(value, str))
    return f"{make.__name__}({texts})" if texts else make.__name__


@dataclass(frozen=True)
class EstimatorCase(RowCapabilities):
    """A mixture estimator, and clusters that it can tell apart."""

    make: Callable
    clusters: Callable
    arguments: dict = field(default_factory=dict)
    name: str = ""
    sparse: bool = False
    # Whether components have hidden variables of their own.
    hidden: bool = False
    # Whether the statistics of any data are those of some parameters, so that steps from a common
    # start, merged, are the step on the pooled batch.
    regular: bool = True
    # The mean of a component, as a function of its rows.
    centre: Callable = np.mean
    # Makes rows of what is drawn.
    rows_of: Callable = np.asarray
    # Columns of narrow rows, and what makes rows of another width.
    n_few: int = 3
    resized: Callable = lambda X: np.hstack([X, X])

    def __repr__(self):
        return self.name or named(self.make, self.arguments)

    def __call__(self, n_components=3, **arguments):
        return self.make(n_components, **{"random_state": 0, **self.arguments, **arguments})

    def data(self, rng, n=300, n_clusters=3):
        """Shuffled rows and the cluster of each; every cluster has rows."""
        y = rng.permutation(np.arange(n) % n_clusters)
        return self.clusters(rng, y), y


def normal_clusters(rng, y):
    return rng.standard_normal((len(y), 4)) + 8.0 * np.eye(4)[y]


def output_clusters(rng, y):
    """The first column is an input, and alike in all clusters."""
    return np.hstack([rng.standard_normal((len(y), 1)), normal_clusters(rng, y)])


def count_clusters(rng, y):
    return rng.poisson(1.0 + 20.0 * np.eye(4)[y]).astype(float)


def document_clusters(rng, y):
    topics = (0.05 + 0.8 * np.eye(5)[y]) / 1.05
    return rng.multinomial(rng.integers(5, 60, len(y)), topics).astype(float)


def sequence_clusters(rng, y):
    """Sequences of three symbols, which go round one way or the other, or stay."""
    lengths = rng.integers(10, 40, len(y))
    return [_turning(rng, turn, n) for turn, n in zip(np.array([1, 2, 0])[y], lengths, strict=True)]


def chain_clusters(rng, y):
    """The first symbols and the transitions of such sequences."""
    return counts_of(sequence_clusters(rng, y))


def counts_of(sequences, n_symbols=3):
    """First symbols and transitions, one by one."""
    X = np.zeros((len(sequences), n_symbols + 1, n_symbols), np.result_type(sequences[0], "f4"))
    for counts, sequence in zip(X, sequences, strict=True):
        symbols = sequence[:, 0].astype(int)
        counts[0, symbols[0]] = 1.0
        np.add.at(counts[1:], (symbols[:-1], symbols[1:]), 1.0)
    return X.reshape(len(X), -1)


def _turning(rng, turn, length):
    steps = np.where(rng.random(length) < 0.2, rng.integers(0, 3, length), turn)
    steps[0] = rng.integers(0, 3)
    return (np.cumsum(steps) % 3)[:, None]


def bit_clusters(rng, y):
    ones = np.repeat(np.eye(3)[y], 4, axis=1)
    return (rng.random(ones.shape) < 0.1 + 0.8 * ones).astype(float)


def code_clusters(rng, y):
    noise = rng.integers(0, 4, (len(y), 6))
    return np.where(rng.random((len(y), 6)) < 0.15, noise, y[:, None]).astype(float)


def waiting_clusters(rng, y):
    return rng.exponential(1.0 + 60.0 * np.repeat(np.eye(3)[y], 3, axis=1))


def gamma_clusters(rng, y):
    return rng.gamma(20.0, np.array([0.1, 1.0, 10.0])[y][:, None], (len(y), 3))


def matrix_clusters(rng, y):
    scales = np.array([np.diag([1.0, 30.0]), np.diag([30.0, 1.0]), [[20.0, 18.0], [18.0, 20.0]]])
    roots = np.linalg.cholesky(scales)[y] @ rng.standard_normal((len(y), 2, 10))
    return (roots @ roots.transpose(0, 2, 1)).reshape(len(y), 4)


ESTIMATORS = [
    *(
        EstimatorCase(GaussianMixture, normal_clusters, {"covariance_type": kind}, **GAUSSIAN)
        for kind in ("full", "tied", "diag", "spherical")
    ),
    EstimatorCase(PoissonMixture, count_clusters, sparse=True, **COUNTS),
    EstimatorCase(MultinomialMixture, document_clusters, sparse=True, **DOCUMENTS),
    EstimatorCase(BernoulliMixture, bit_clusters, sparse=True, **BINARY),
    EstimatorCase(
        CompoundDirichletMixture, document_clusters, sparse=True, hidden=True, **DOCUMENTS
    ),
    EstimatorCase(
        MarkovChainMixture,
        chain_clusters,
        sparse=True,
        rows_of=counts_of,
        n_few=4,
        resized=lambda X: X[:, 3:],
        **DOCUMENTS,
    ),
    EstimatorCase(ExponentialMixture, waiting_clusters, **DURATIONS),
    EstimatorCase(GammaMixture, gamma_clusters, **POSITIVE),
    EstimatorCase(GammaMixture, gamma_clusters, {"shape": 20.0}, "GammaMixture(shape)", **POSITIVE),
    EstimatorCase(LaplaceMixture, normal_clusters, regular=False, centre=np.median, **REAL),
    *(
        EstimatorCase(
            StudentTMixture, normal_clusters, kinds, hidden=True, regular=False, **GAUSSIAN
        )
        for kinds in (
            {"covariance_type": "full", "degrees_of_freedom": "each"},
            {"covariance_type": "tied", "degrees_of_freedom": "shared"},
            {"covariance_type": "diag", "degrees_of_freedom": "each"},
            {"covariance_type": "spherical", "degrees_of_freedom": "each"},
        )
    ),
    EstimatorCase(WishartMixture, matrix_clusters, **MATRICES),
    EstimatorCase(
        WishartMixture,
        matrix_clusters,
        {"degrees_of_freedom": 10.0},
        "WishartMixture(degrees)",
        **MATRICES,
    ),  # fmt: skip
    EstimatorCase(
        Mixture,
        code_clusters,
        {"family": Categorical(n_categories=4)},
        "Mixture(Categorical)",
        **NOMINAL,
    ),  # fmt: skip
    EstimatorCase(CategoricalMixture, code_clusters, {"n_categories": 4}, **NOMINAL),
    EstimatorCase(Mixture, normal_clusters, {"family": "gaussian_full"}, **GAUSSIAN),
    EstimatorCase(
        Mixture,
        output_clusters,
        {"family": GaussianRegression(n_inputs=1)},
        "Mixture(GaussianRegression)",
        **GAUSSIAN,
    ),  # fmt: skip
]


def by_likelihood(cases):
    """The cases without priors, for laws of maximum likelihood: counts have a prior by default."""
    return [
        replace(case, arguments={**case.arguments, "prior": None})
        if "prior" in case().get_params()
        else case
        for case in cases
    ]


SPARSE_ESTIMATORS = [case for case in ESTIMATORS if case.sparse]


def covariance_matrices(mixture):
    """Covariances of components, as scikit-learn's attributes define them."""
    kind, covariances = mixture.covariance_type, mixture.covariances_
    K, d = mixture.means_.shape
    return {
        "full": lambda: covariances,
        "tied": lambda: np.broadcast_to(covariances, (K, d, d)),
        "diag": lambda: covariances[:, :, None] * np.eye(d),
        "spherical": lambda: covariances[:, None, None] * np.eye(d),
    }[kind]()
