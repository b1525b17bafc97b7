"""The linear dynamical systems that the laws of models run over."""

from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from cases import kalman
from cases.random_rows import positive_definite
from sklearn_onlineem.data import Rows, Sequences
from sklearn_onlineem.families import (
    DiagonalCovariance,
    FullCovariance,
    LinearGaussian,
    SphericalCovariance,
)
from sklearn_onlineem.models import LinearDynamicalModel, LinearDynamicalStatistics

PARAMETERS = (
    "initial_mean",
    "initial_covariance",
    "transition",
    "transition_offset",
    "transition_covariance",
    "observation",
    "observation_offset",
    "observation_covariance",
)
NAMES = (
    "initial_state_mean",
    "initial_state_covariance",
    "transition_matrices",
    "transition_offsets",
    "transition_covariance",
    "observation_matrices",
    "observation_offsets",
    "observation_covariance",
)


def draw_model(rng, k, d, shape=None, learnt=frozenset(NAMES)):
    """A stable model, whose noise has the given shape."""
    shape = FullCovariance() if shape is None else shape
    A = 0.9 * np.linalg.qr(rng.standard_normal((k, k)))[0]
    V, Q, R = (positive_definite(rng, 1, side)[0] for side in (k, k, d))
    return LinearDynamicalModel(
        rng.standard_normal(k),
        V,
        A,
        rng.standard_normal(k),
        shape.nearest(Q),
        rng.standard_normal((d, k)),
        rng.standard_normal(d),
        shape.nearest(R),
        learnt=learnt,
        transitions=LinearGaussian(shape),
        emissions=LinearGaussian(shape),
    )


def draw_data(rng, lengths, d, missing=0.0):
    lengths = np.asarray(lengths)
    X = 2.0 * rng.standard_normal((lengths.sum(), d))
    X[rng.random(X.shape) < missing] = np.nan
    return Sequences(Rows(X), np.concatenate(([0], np.cumsum(lengths))))


@dataclass(frozen=True)
class DynamicalCase:
    """A linear dynamical system whose data are sequences of 1 to 5 rows."""

    shape: object
    missing: float = 0.0
    is_quick: bool = False

    is_mixture = False
    has_labels = False
    has_time = True
    regular = False

    def __repr__(self):
        gaps = ", gaps" if self.missing else ""
        return f"LinearDynamicalModel({type(self.shape).__name__}{gaps})"

    def draw(self, rng, n_components=3, d=2):
        return draw_model(rng, n_components, d, self.shape)

    def data(self, rng, n, d=2, n_threads=1):
        data = draw_data(rng, rng.integers(1, 6, n), d, self.missing)
        return replace(data, rows=replace(data.rows, n_threads=n_threads))

    rich_data = data

    def with_gaps(self, data, rng):
        X = data.X.copy()
        X[rng.random(X.shape) < 0.3] = np.nan
        return replace(data, rows=replace(data.rows, X=X))

    def before(self, model, rng):
        """Moments of a state that a sequence continues from."""
        k = model.n_components
        return rng.standard_normal(k), positive_definite(rng, 1, k)[0]

    def single(self, data):
        return replace(data, rows=Rows(data.X.astype(np.float32)))

    def mean_log_likelihood(self, model, data):
        return kalman.filtered(model, data.X, data.offsets).log_likelihood.sum() / len(data)

    def prior(self, model, n_features, concentration):
        k = model.n_components
        return LinearDynamicalStatistics(
            model.initial.prior_statistics(
                0, k, offset=0.3, offset_precision=2.0, covariance=1.5, degrees_of_freedom=k + 2.0
            ),
            model.transitions.prior_statistics(
                k, k, matrix=0.2, matrix_precision=1.5, covariance=0.7, degrees_of_freedom=k + 3.0
            ),
            model.emissions.prior_statistics(
                k, n_features, matrix_precision=2.5, covariance=0.9, degrees_of_freedom=5.0
            ),
        )

    def log_prior(self, model, concentration):
        k, d = model.n_components, model.n_features
        start = stats.multivariate_normal(np.full(k, 0.3), model.initial_covariance / 2.0)
        wishart = stats.invwishart(k + 2.0, 1.5 * np.eye(k))
        move = stats.matrix_normal(
            np.full((k, k), 0.2), model.transition_covariance, np.eye(k) / 1.5
        )
        emission = stats.matrix_normal(
            np.zeros((d, k)), model.observation_covariance, np.eye(k) / 2.5
        )
        return (
            start.logpdf(model.initial_mean)
            + wishart.logpdf(model.initial_covariance)
            + move.logpdf(model.transition)
            + stats.invwishart(k + 3.0, 0.7 * np.eye(k)).logpdf(model.transition_covariance)
            + emission.logpdf(model.observation)
            + stats.invwishart(5.0, 0.9 * np.eye(d)).logpdf(model.observation_covariance)
        )

    def usage(self, evidence):
        parts = evidence.initial, evidence.transitions, evidence.emissions
        return np.concatenate([part.weight for part in parts])


DYNAMICAL = [
    DynamicalCase(FullCovariance()),
    DynamicalCase(FullCovariance(), missing=0.3),
    DynamicalCase(DiagonalCovariance()),
    DynamicalCase(SphericalCovariance(), is_quick=True),
]
