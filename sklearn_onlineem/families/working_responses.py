"""Regressions of which the M-step is least squares of working responses.

The expected log density of an output with the linear predictor psi is a quadratic form,
-w (z - psi)^2 / 2, with a precision w and a working response z that y and the old psi determine.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from sklearn_onlineem._checks import at_least, positive_semidefinite
from sklearn_onlineem._kernels._rows import are_finite
from sklearn_onlineem._python import cached_property
from sklearn_onlineem._typing import Floats, Generator, Integers
from sklearn_onlineem.families.capabilities import ConjugatePriors, Distribution
from sklearn_onlineem.families.covariance_shapes import NEGLIGIBLE
from sklearn_onlineem.families.gaussian import Gaussian
from sklearn_onlineem.families.gaussian_regression import (
    COEFFICIENTS,
    LEAST_SHARE,
    ROUNDING,
    RegressionFamily,
    coefficients,
)
from sklearn_onlineem.families.tangents import BOUND, Tangents, inverse
from sklearn_onlineem.statistics import Moments, Statistics, combine

# Steps to the outputs at rest.
_RESTING = 30
# Values of deviations of rows, for each component, that are held at a time.
_BLOCK_VALUES = 1 << 20


@dataclass(frozen=True, eq=False)
class WorkingRegressions:
    """Parameters of K regressions of p outputs on q inputs, and the moments of their inputs.

    Parameters
    ----------
    input_mean : ndarray of shape (K, q)
        Means of the inputs that each component has seen.
    input_covariance : ndarray of shape (K, q, q)
        Their covariances.
    matrix : ndarray of shape (K, p, q)
        Coefficients of the inputs in the linear predictor of each output: log odds or a log rate.
    level : ndarray of shape (K, p)
        Linear predictors where the inputs are at `centre`.
    precision : ndarray of shape (K, p)
        Mean precisions of the working responses.
    centre : ndarray of shape (K, p, q)
        Means of the inputs, weighted by precisions.
    spread : ndarray of shape (K, p, q, q)
        Covariances of the inputs, weighted by precisions.

    Attributes
    ----------
    offset : ndarray of shape (K, p)
        Linear predictors where all inputs are 0.
    """

    input_mean: Floats
    input_covariance: Floats
    matrix: Floats
    level: Floats
    precision: Floats
    centre: Floats
    spread: Floats

    def __post_init__(self):
        if not (are_finite(self.spread) and are_finite(self.matrix)):
            raise ValueError("the moments of the inputs overflow; is matrix_precision too large?")

    @property
    def offset(self) -> Floats:
        return self.level - np.einsum("kpq,kpq->kp", self.matrix, self.centre)

    def __len__(self):
        return len(self.matrix)

    def _errors(self, mean):
        """Return deviations of mean responses (K, p), and of inputs, from means (K, p, q + 1)."""
        deviation = mean[:, :, :-1] - self.centre
        shift = np.einsum("kpq,kpq->kp", self.matrix, deviation)
        return mean[:, :, -1] - self.level - shift, deviation

    def _with(self, matrix, offset):
        level = offset + np.einsum("kpq,kpq->kp", matrix, self.centre)
        return replace(self, matrix=matrix, level=level)


@dataclass(frozen=True)
class WorkingStatistics(Statistics):
    """Expected statistics of rows (x, y), with the working responses of their outputs.

    `inputs` are moments of x, weighted by responsibilities; `outputs`, for each output, those of
    (x, z), where z is its working response, weighted by responsibilities times precisions.
    """

    inputs: Moments
    outputs: tuple[Moments, ...]

    @property
    def weight(self) -> Floats:
        """Responsibilities, of shape (K,)."""
        return self.inputs.weight

    @property
    def by_output(self) -> tuple[Floats, Floats, Floats]:
        """Weights (K, p), means (K, p, q + 1) and scatters (K, p, q + 1, q + 1) of (x, z)."""
        arrays = ([m.weight, m.mean, m.scatter] for m in self.outputs)
        return tuple(np.stack(array, axis=1) for array in zip(*arrays, strict=True))


def _moments(x, z, weights):
    """Return the moments of (x, z_c) with weights w_c; z and weights are (C, n_rows)."""
    (n, q), C = x.shape, len(z)
    total = weights.sum(axis=1)
    origin = x.mean(axis=0) if n else np.zeros(q)
    rows = np.empty((C, n, q + 1))
    rows[..., :q], rows[..., q] = x - origin, z
    mean = (weights[:, None] @ rows)[:, 0] * inverse(total)[:, None]
    rows -= mean[:, None]
    scatter = (weights[:, :, None] * rows).mT @ rows
    mean[total > 0.0, :q] += origin
    return Moments(total, total, mean, scatter)


class WorkingTangents(Tangents):
    """Tangents of linear predictors at the centres, and of coefficients, given the precisions.

    Precisions depend on the parameters.
    """

    def about(self, statistics):
        # Steps change precisions, and with them the information of complete data.
        known = self.parameters
        seen = self.family._least_squares(statistics, known)._with(known.matrix, known.offset)
        return WorkingTangents(self.family, seen)

    @property
    def n_own(self):
        p, q = self.parameters.matrix.shape[1:]
        return p * (q + 1)

    @property
    def parts(self):
        p = self.parameters.matrix.shape[1]
        return {"intercepts": slice(0, p), "coefficients": slice(p, None)}

    @property
    def _is_precise(self):
        """Which outputs tell of their predictors, (K, p): rates near 0 stay."""
        return self.parameters.precision > BOUND

    @cached_property
    def _whitening(self):
        """Inverse roots W, W' W the inverse information, of coefficients, and which are free."""
        information = self.parameters.precision[:, :, None, None] * self.parameters.spread
        deviation = np.sqrt(np.einsum("kpqq->kpq", information))
        units = inverse(deviation)
        # What does not vary, or depends on other inputs, does not move.
        values, vectors = np.linalg.eigh(information * units[..., None] * units[..., None, :])
        free = (values > LEAST_SHARE) & self._is_precise[..., None]
        roots = np.sqrt(inverse(np.where(free, values, 0.0)))
        return roots[..., None] * vectors.mT * units[..., None, :], free

    @property
    def is_free(self):
        free, precise = self._whitening[1], self._is_precise
        return np.hstack([precise, free.reshape(len(free), -1)])

    def score(self, statistics):
        known, (weight, mean, scatter) = self.parameters, statistics.by_output
        B, q = known.matrix, known.matrix.shape[2]
        error, deviation = known._errors(mean)
        error *= weight
        slopes = scatter[:, :, q, :q] - np.einsum("kpq,kpqr->kpr", B, scatter[:, :, :q, :q])
        slopes += error[:, :, None] * deviation
        slopes = np.einsum("kpqr,kpr->kpq", self._whitening[0], slopes)
        return np.hstack([error / np.sqrt(known.precision), slopes.reshape(len(B), -1)])

    def is_proper(self, prior):
        return all((part.weight >= 0.0).all() for part in prior.outputs)

    def moved(self, v):
        known = self.parameters
        K, p, q = known.matrix.shape
        slopes = np.einsum("kpqr,kpq->kpr", self._whitening[0], v[:, p:].reshape(K, p, q))
        level = known.level + v[:, :p] / np.sqrt(known.precision)
        return replace(known, level=level, matrix=known.matrix + slopes)


Regressions = TypeVar("Regressions", bound=WorkingRegressions)
Evidence = TypeVar("Evidence", bound=WorkingStatistics)


@dataclass(frozen=True, eq=False)
class WorkingRegression(
    RegressionFamily[Regressions, Evidence], ConjugatePriors[Regressions, Evidence]
):
    """Contract of regressions whose M-step is least squares of working responses."""

    parts = COEFFICIENTS
    parameters_class: ClassVar[type[WorkingRegressions]] = WorkingRegressions

    @abstractmethod
    def _working(self, psi, y):
        """Return precisions and working responses of outputs with these linear predictors."""

    @abstractmethod
    def _first_predictors(self, y):
        """Return linear predictors of outputs, where no parameters are known."""

    @abstractmethod
    def _means(self, psi):
        """Return expected outputs."""

    @abstractmethod
    def distribution_given(self, means: Floats, variances: Floats | None = None) -> Distribution:
        """Return independent outputs with these expectations, which determine variances."""

    @abstractmethod
    def _drawn(self, means, rng):
        """Draw independent outputs with these expectations."""

    @abstractmethod
    def _of_rows(self, inputs, outputs, old=None, x=()):
        """Return statistics with these moments, of rows with inputs x and predictors of `old`."""

    def _taken(self, inputs, n_outputs):
        """Return inputs as linear predictors take them."""
        return inputs.astype(np.float64, copy=False)

    def blank(self, n_components: int, n_outputs: int) -> Regressions:
        """Return parameters of K components with p outputs, into which known ones are put."""
        K, p, q = n_components, n_outputs, self.n_inputs
        unit = np.eye(q)
        return self.parameters_class(
            np.zeros((K, q)), np.tile(unit, (K, 1, 1)), np.zeros((K, p, q)), np.zeros((K, p)),
            np.full((K, p), 0.25), np.zeros((K, p, q)), np.tile(unit, (K, p, 1, 1)),
        )  # fmt: skip

    def with_inputs_of(
        self, parameters: Regressions, X: Floats, sample_weight: Floats | None = None
    ) -> Regressions:
        """Return known parameters with the moments of the inputs of first rows."""
        weight = np.ones(len(X)) if sample_weight is None else sample_weight
        shares = np.repeat(weight[:, None], len(parameters), axis=1)
        seen = self._least_squares(self.posterior_statistics(parameters, X, shares), parameters)
        return seen._with(parameters.matrix, parameters.offset)

    def covariances_given(self, parameters: Regressions, means: Floats) -> Floats:
        """Return covariances of outputs with these expectations, of shape (..., K, p, p)."""
        return self.distribution_given(means).var()[..., None] * np.eye(means.shape[-1])

    def rest(self, parameters: Regressions, component: int, inputs: Floats) -> Floats:
        """Return expected outputs that, as all lags of a component, nearly follow, (p,)."""
        p = parameters.matrix.shape[1]
        n_lags, rest = (self.n_inputs - len(inputs)) // p, np.full(p, 0.5)
        for _ in range(_RESTING):
            x = np.append(np.tile(rest, n_lags), inputs)[None]
            rest = 0.5 * (rest + self.predicted(parameters, x)[0, component])
        return rest

    def linear_predictor(self, parameters: Regressions, inputs: Floats) -> Floats:
        """Return the linear predictors of inputs, (n_rows, n_inputs), of shape (n_rows, K, p)."""
        K, p, q = parameters.matrix.shape
        # About a centre, as a large offset would cost digits.
        origin = parameters.centre[0, 0]
        deviation = self._taken(inputs, p) - origin
        shift = np.einsum("kpq,kpq->kp", parameters.matrix, parameters.centre - origin)
        linear = deviation @ parameters.matrix.reshape(K * p, q).T
        return linear.reshape(len(inputs), K, p) + (parameters.level - shift)

    def predicted(self, parameters: Regressions, inputs: Floats) -> Floats:
        """Return the outputs expected of inputs, (n_rows, n_inputs), of shape (n_rows, K, p)."""
        return self._means(self.linear_predictor(parameters, inputs))

    def expected_statistics(
        self, X: Floats, responsibilities: Floats, n_threads: int = 1
    ) -> Evidence:
        psi = self._first_predictors(X[:, self.n_inputs :].astype(np.float64, copy=False))
        shape = (len(X), responsibilities.shape[1], psi.shape[1])
        psi = np.broadcast_to(psi[:, None], shape)
        return self._statistics(X, responsibilities, psi, n_threads)

    def posterior_statistics(
        self, parameters: Regressions, X: Floats, posterior: Floats, n_threads: int = 1
    ) -> Evidence:
        psi = self.linear_predictor(parameters, X[:, : self.n_inputs])
        return self._statistics(X, posterior, psi, n_threads, parameters)

    def _statistics(self, X, responsibilities, psi, n_threads, old=None):
        x = self._taken(X[:, : self.n_inputs], X.shape[1] - self.n_inputs)
        y = X[:, None, self.n_inputs :].astype(np.float64, copy=False)
        shares = responsibilities.astype(np.float64, copy=False)
        inputs = Gaussian().expected_statistics(np.ascontiguousarray(x), shares, n_threads)
        precisions, z = self._working(psi, y)
        # Columns after columns, components within them.
        weights, z = (a.T.reshape(-1, len(X)) for a in (shares[:, :, None] * precisions, z))
        size, K = max(1, _BLOCK_VALUES // (len(z) * (self.n_inputs + 1))), shares.shape[1]
        blocks = (slice(start, start + size) for start in range(0, max(len(X), 1), size))
        moments = combine([(1.0, _moments(x[i], z[:, i], weights[:, i])) for i in blocks])
        outputs = [moments.components(slice(j, j + K), len(z)) for j in range(0, len(z), K)]
        return self._of_rows(inputs, tuple(outputs), old, x[shares.any(axis=1)])

    def own_statistics(self, parameters: Regressions, weights: Floats) -> Evidence:
        scatter = weights[:, None, None] * parameters.input_covariance
        inputs = Moments(weights, weights, parameters.input_mean, scatter)
        weight = weights[:, None] * parameters.precision
        units = np.broadcast_to(np.eye(self.n_inputs), parameters.spread.shape)
        whole = np.concatenate([units, parameters.matrix[:, :, None]], axis=2)
        scatter = weight[:, :, None, None] * (whole @ parameters.spread @ whole.mT)
        mean = np.concatenate([parameters.centre, parameters.level[:, :, None]], axis=2)
        of_all = (np.swapaxes(array, 0, 1).copy() for array in (weight, weight, mean, scatter))
        return self._of_rows(inputs, tuple(map(Moments, *of_all)))

    def m_step(self, statistics: Evidence, previous: Regressions | None = None) -> Regressions:
        return self._least_squares(statistics, previous)

    def _least_squares(self, statistics, previous=None):
        count, q = statistics.weight, self.n_inputs
        if previous is None:
            previous = self.blank(len(count), len(statistics.outputs))
        seen = count > NEGLIGIBLE
        share = np.where(seen, count, 1.0)

        weight, mean, scatter = statistics.by_output
        weight = np.where(seen[:, None], weight, 1.0)
        resolution = weight[:, :, None] * (ROUNDING * mean[:, :, :q]) ** 2
        arrays = scatter, previous.matrix[:, :, None], resolution
        flat = (array.reshape(-1, *array.shape[2:]) for array in arrays)
        found = {
            "input_mean": statistics.inputs.mean,
            "input_covariance": statistics.inputs.scatter / share[:, None, None],
            "matrix": np.array([*map(coefficients, *flat)]).reshape(previous.matrix.shape),
            "level": mean[:, :, q],
            "precision": weight / share[:, None],
            "centre": mean[:, :, :q],
            "spread": scatter[:, :, :q, :q] / weight[:, :, None, None],
        }
        for name, new in found.items():
            among = seen.reshape(-1, *[1] * (new.ndim - 1))
            found[name] = np.where(among, new, getattr(previous, name))
        return replace(previous, **found)

    def expected_log_density(self, parameters: Regressions, statistics: Evidence) -> float:
        weight, mean, scatter = statistics.by_output
        error, _ = parameters._errors(mean)
        residual = np.concatenate([-parameters.matrix, np.ones((*error.shape, 1))], axis=2)
        squares = np.einsum("kpi,kpij,kpj->kp", residual, scatter, residual)
        return -0.5 * float((squares + weight * error**2).sum())

    def kl_divergence(self, p: Regressions, q: Regressions) -> Floats:
        # Half the mean squares of differences of predictors, weighted by precisions.
        slopes = q.matrix - p.matrix
        level = q.level + np.einsum("kpq,kpq->kp", q.matrix, p.centre - q.centre) - p.level
        squares = level**2 + np.einsum("kpi,kpij,kpj->kp", slopes, p.spread, slopes)
        return 0.5 * (p.precision * squares).sum(axis=1)

    def sample_outputs(
        self, parameters: Regressions, components: Integers, inputs: Floats, rng: Generator
    ) -> Floats:
        """Draw the outputs of inputs, (n_rows, n_inputs), an ndarray of shape (n_rows, p)."""
        means = self.predicted(parameters, inputs)[np.arange(len(inputs)), components]
        return self._drawn(means, rng)

    def n_parameters(self, parameters: Regressions) -> int:
        return parameters.matrix.size + parameters.level.size

    def prior_statistics(
        self,
        n_components: int,
        *,
        n_features: int,
        matrix_precision: ArrayLike = 0.0,
        offset_precision: float = 0.0,
    ) -> Evidence:
        r"""Return normal priors about 0 on the coefficients and intercepts of all components.

        .. math:: B_j \sim N(0, K^{-1}), \quad c_j \sim N(0, 1 / k)

        Parameters
        ----------
        matrix_precision : float or array of shape (n_inputs, n_inputs)
            K, positive semidefinite; a number is a ridge penalty, the same for all inputs.
        offset_precision : float
            k, not below 0.
        """
        q, K = self.n_inputs, n_components
        weight = np.full(K, at_least("offset_precision", offset_precision, 0.0))
        precision = positive_semidefinite("matrix_precision", matrix_precision, q)
        scatter = np.zeros((K, q + 1, q + 1))
        scatter[:, :q, :q] = precision
        nothing = Moments(np.zeros(K), np.zeros(K), np.zeros((K, q)), np.zeros((K, q, q)))
        column = Moments(weight, weight, np.zeros((K, q + 1)), scatter)
        return self._of_rows(nothing, (column,) * (n_features - q))
