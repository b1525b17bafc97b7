"""Linear-Gaussian regressions as families, for the laws: of rows (x, y) with known inputs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from cases.family_cases import FamilyCase, regression_codes, regression_log_density
from cases.random_rows import normal_rows, positive_definite
from sklearn_onlineem.families import Diagonal, Family, Full, Spherical
from sklearn_onlineem.families.linear_gaussian import AffineGaussian, LinearGaussian
from sklearn_onlineem.statistics import Moments

N_INPUTS = 1


@dataclass(frozen=True, eq=False)
class GivenInputs(Family):
    """Regressions whose inputs have the same known distribution in all components."""

    regressions: LinearGaussian
    input_mean: np.ndarray
    input_covariance: np.ndarray

    def inputs(self, weights):
        """Moments of the inputs of components with these weights."""
        mean = np.tile(self.input_mean, (len(weights), 1))
        scatter = weights[:, None, None] * self.input_covariance
        return Moments(weights, weights, mean, scatter)

    def log_density(self, parameters, X, n_threads=1):
        return self.regressions.log_density(parameters, X, n_threads)

    def expected_statistics(self, X, responsibilities, n_threads=1):
        return self.regressions.expected_statistics(X, responsibilities, n_threads)

    def own_statistics(self, parameters, weights):
        return self.regressions.own_statistics(parameters, self.inputs(weights))

    def m_step(self, statistics, previous=None):
        if previous is None:
            n_components, n_columns = statistics.mean.shape
            previous = AffineGaussian.zeros(n_components, N_INPUTS, n_columns - N_INPUTS)
        return self.regressions.m_step(statistics, previous)

    def kl_divergence(self, p, q):
        return self.regressions.kl_divergence(p, q, self.inputs(np.ones(len(p))))

    def sample(self, parameters, components, rng):
        x = rng.multivariate_normal(self.input_mean, self.input_covariance, len(components))
        return np.hstack([x, self.regressions.sample(parameters, components, rng, x)])

    def n_parameters(self, parameters):
        return self.regressions.n_parameters(parameters)

    @property
    def prior_statistics(self):
        return partial(self.regressions.prior_statistics, n_inputs=N_INPUTS)


@dataclass(frozen=True)
class RegressionCase(FamilyCase):
    """A shape of the noise."""

    def __repr__(self):
        return f"LinearGaussian({type(self.family.regressions.shape).__name__})"


def _case(shape):
    encode_noise, decode_noise = regression_codes(shape)

    def draw(rng, n_components, d):
        covariances = positive_definite(rng, n_components, d - N_INPUTS)
        return AffineGaussian(
            rng.standard_normal((n_components, d - N_INPUTS, N_INPUTS)),
            rng.standard_normal((n_components, d - N_INPUTS)),
            np.array([shape.nearest(covariance) for covariance in covariances]),
        )

    def encode(parameters):
        linear = parameters.matrix.ravel(), parameters.offset.ravel()
        return np.concatenate([*linear, encode_noise(parameters.covariance)])

    def decode(vector, like):
        n, m = like.matrix.size, like.matrix.size + like.offset.size
        return AffineGaussian(
            vector[:n].reshape(like.matrix.shape),
            vector[n:m].reshape(like.offset.shape),
            decode_noise(vector[m:], like.covariance.shape),
        )

    family = GivenInputs(LinearGaussian(shape), np.array([0.7]), np.array([[1.3]]))
    prior = {"matrix": 0.3, "matrix_precision": 2.0, "offset": 0.5, "offset_precision": 2.0}
    return RegressionCase(
        family,
        draw,
        normal_rows,
        regression_log_density,
        encode,
        decode,
        lambda d: {**prior, "covariance": 1.5 * np.eye(d), "degrees_of_freedom": d + 3.0},
        log_prior=None,
    )


REGRESSIONS = [_case(shape) for shape in (Full(), Diagonal(), Spherical())]
