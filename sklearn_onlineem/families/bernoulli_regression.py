"""Logistic regressions of bits on known inputs, as components of mixtures."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from sklearn_onlineem._kernels._rows import are_finite
from sklearn_onlineem._python import cached_property
from sklearn_onlineem._typing import Floats, Integers
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.families._checks import at_least, positive_semidefinite
from sklearn_onlineem.families._family import Family
from sklearn_onlineem.families.capabilities import ConjugatePriors, FewValues
from sklearn_onlineem.families.covariance_shapes import NEGLIGIBLE
from sklearn_onlineem.families.gaussian import Gaussian
from sklearn_onlineem.families.gaussian_regression import LEAST_SHARE, ROUNDING, coefficients
from sklearn_onlineem.families.linear_gaussian import square_roots
from sklearn_onlineem.families.parts import Part
from sklearn_onlineem.families.tangents import Tangents, inverse
from sklearn_onlineem.statistics import Moments, Statistics

# Log odds below which the expected precision is its series.
_NEAR_ZERO = 1e-3
# Steps to the probabilities at rest.
_RESTING = 30


@dataclass(frozen=True, eq=False)
class BernoulliRegressions:
    """Parameters of K logistic regressions of p bits on q inputs, and the moments of their inputs.

    Parameters
    ----------
    input_mean : ndarray of shape (K, q)
        Means of the inputs that each component has seen.
    input_covariance : ndarray of shape (K, q, q)
        Their covariances.
    matrix : ndarray of shape (K, p, q)
        Coefficients of the inputs, in log odds, for each of the bits.
    level : ndarray of shape (K, p)
        Log odds where the inputs are at `centre`.
    precision : ndarray of shape (K, p)
        Means of the hidden precisions of the bits, at most 1/4.
    centre : ndarray of shape (K, p, q)
        Means of the inputs, weighted by these.
    spread : ndarray of shape (K, p, q, q)
        Covariances of the inputs, weighted by these.

    Attributes
    ----------
    offset : ndarray of shape (K, p)
        Log odds where all inputs are 0.
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


@dataclass(frozen=True)
class BernoulliRegressionStatistics(Statistics):
    """Expected statistics of rows (x, y) and of the precisions of their bits.

    Parameters
    ----------
    inputs : Moments
        Those of x, weighted by responsibilities.
    outputs : tuple of Moments
        For each bit those of (x, z), weighted by responsibilities times precisions, where z, the
        working response, is (y - 1/2) over the precision.
    """

    inputs: Moments
    outputs: tuple[Moments, ...]

    @property
    def weight(self) -> Floats:
        """Responsibilities, of shape (K,)."""
        return self.inputs.weight


def _expected_precision(log_odds):
    """Return tanh(log_odds / 2) / (2 log_odds), which is 1/4 at 0."""
    near = np.abs(log_odds) < _NEAR_ZERO
    far = np.where(near, 1.0, log_odds)
    return np.where(near, 0.25 - log_odds**2 / 48.0, np.tanh(0.5 * far) / (2.0 * far))


def _moments(x, z, weights):
    """Return the moments of (x, z_k) for each component; z and weights are (n_rows, K)."""
    (n, q), K = x.shape, z.shape[1]
    total, mean, scatter = weights.sum(axis=0), np.zeros((K, q + 1)), np.zeros((K, q + 1, q + 1))
    origin = x.mean(axis=0) if n else np.zeros(q)
    for k in np.flatnonzero(total > 0.0):
        rows, share = np.column_stack([x - origin, z[:, k]]), weights[:, k]
        mean[k] = share @ rows / total[k]
        rows -= mean[k]
        scatter[k] = (share[:, None] * rows).T @ rows
        mean[k, :q] += origin
    return Moments(total, total, mean, scatter)


def _put_matrix(family, parameters, matrix):
    changed = replace(parameters, matrix=matrix)
    return _put_offset(family, changed, parameters.offset)


def _put_offset(family, parameters, offset):
    level = offset + np.einsum("kpq,kpq->kp", parameters.matrix, parameters.centre)
    return replace(parameters, level=level)


class BernoulliRegressionTangents(Tangents):
    """Tangents of log odds at the centres, and of coefficients, given the precisions.

    Precisions are hidden: there are no features of rows, only expectations.
    """

    has_features = False

    @property
    def n_own(self):
        p, q = self.parameters.matrix.shape[1:]
        return p * (q + 1)

    @property
    def parts(self):
        p = self.parameters.matrix.shape[1]
        return {"intercepts": slice(0, p), "coefficients": slice(p, None)}

    @cached_property
    def _whitening(self):
        """Inverse roots W, W' W the inverse information, of coefficients, and which are free."""
        information = self.parameters.precision[:, :, None, None] * self.parameters.spread
        deviation = np.sqrt(np.einsum("kpqq->kpq", information))
        units = inverse(deviation)
        # What does not vary, or depends on other inputs, does not move.
        values, vectors = np.linalg.eigh(information * units[..., None] * units[..., None, :])
        free = values > LEAST_SHARE
        roots = np.sqrt(inverse(np.where(free, values, 0.0)))
        return roots[..., None] * vectors.mT * units[..., None, :], free

    @property
    def is_free(self):
        free, (K, p) = self._whitening[1], self.parameters.level.shape
        return np.hstack([np.ones((K, p), dtype=bool), free.reshape(K, -1)])

    def score(self, statistics):
        known, of_levels = self.parameters, np.sqrt(self.parameters.precision)
        K, p, q = known.matrix.shape
        found = np.empty((K, p, q + 1))
        for j, moments in enumerate(statistics.outputs):
            B, S, weight = known.matrix[:, j], moments.scatter, moments.weight
            deviation = moments.mean[:, :q] - known.centre[:, j]
            error = moments.mean[:, q] - known.level[:, j] - np.einsum("kq,kq->k", B, deviation)
            slopes = S[:, q, :q] - np.einsum("kq,kqr->kr", B, S[:, :q, :q])
            slopes += (weight * error)[:, None] * deviation
            found[:, j, 0] = weight * error / of_levels[:, j]
            found[:, j, 1:] = np.einsum("kqr,kr->kq", self._whitening[0][:, j], slopes)
        return np.hstack([found[:, :, 0], found[:, :, 1:].reshape(K, -1)])

    def natural(self, v):
        return v

    whitened = natural

    def is_proper(self, prior):
        return all((part.weight >= 0.0).all() for part in prior.outputs)

    def moved(self, v):
        known = self.parameters
        K, p, q = known.matrix.shape
        slopes = np.einsum("kpqr,kpq->kpr", self._whitening[0], v[:, p:].reshape(K, p, q))
        level = known.level + v[:, :p] / np.sqrt(known.precision)
        return replace(known, level=level, matrix=known.matrix + slopes)


@dataclass(frozen=True, eq=False)
class BernoulliRegression(
    Family[BernoulliRegressions, BernoulliRegressionStatistics],
    ConjugatePriors[BernoulliRegressions, BernoulliRegressionStatistics],
    FewValues,
):
    r"""Logistic regressions of bits on inputs that are known.

    .. math::
        & p(y \mid x, k) = \prod_j \sigma(\psi_j)^{y_j} (1 - \sigma(\psi_j))^{1 - y_j},
        \quad \psi = B_k x + c_k, \\
        & u_j \sim \mathrm{PG}(1, \psi_j), \quad
        p(y_j, u_j \mid x, k) \propto e^{(y_j - 1/2) \psi_j - u_j \psi_j^2 / 2}

    The first columns of a row are the inputs x, the others the bits y, and a density is that of y
    given x. A bit has a hidden precision u of a Polya-Gamma distribution. Its expectation given x
    and y is :math:`\tanh(\psi / 2) / (2 \psi)`, and given u the log density is a quadratic form in
    the coefficients. So the M-step is closed: it is least squares of (y - 1/2) / E[u] with the
    weights r E[u]. The likelihood never falls, and a fixed point is a weighted maximum of it. The
    bound of EM is that of Jaakkola and Jordan. Stochastic EM draws components, not precisions.

    Inputs have no model. Each component carries the moments of the inputs that it has seen,
    weighted by E[u], which are the inertia of online EM. With :math:`\Omega_k = E[u x x']`, where x
    has a 1 for the intercept, the divergence of y and u is

    .. math:: \tfrac{1}{2} (\tilde\beta - \beta)' \Omega_k (\tilde\beta - \beta).

    Samples have normal inputs of the moments seen. Parameters are `BernoulliRegressions`;
    statistics are centred (`BernoulliRegressionStatistics`).

    Parameters
    ----------
    n_inputs : int
        How many first columns of a row are inputs, at least 1.

    See Also
    --------
    GaussianRegression : The same for real outputs.

    References
    ----------
    Polson, Scott & Windle, "Bayesian inference for logistic models using Polya-Gamma latent
    variables", JASA 2013, theorem 1; Jaakkola & Jordan, "Bayesian parameter estimation via
    variational methods", Statistics and Computing 2000; Scott & Sun, "Expectation-maximization for
    logistic regression", 2013; Cappe & Moulines, "On-line expectation-maximization algorithm for
    latent data models", JRSS-B 2009.

    Examples
    --------
    Of the rows with x = 1, three of four are ones:

    >>> import numpy as np
    >>> from sklearn_onlineem.families import BernoulliRegression
    >>> rows = np.array([[-1.0, 0], [-1, 1], [1, 1], [1, 1], [1, 1], [1, 0]])
    >>> family, weights = BernoulliRegression(n_inputs=1), np.ones((6, 1))
    >>> found = family.m_step(family.expected_statistics(rows, weights))
    >>> for _ in range(50):
    ...     found = family.m_step(family.posterior_statistics(found, rows, weights))
    >>> family.predicted(found, np.array([[-1.0], [1.0]])).ravel().round(3)
    array([0.5 , 0.75])
    """

    tangents = BernoulliRegressionTangents
    is_linear = False
    parts = (
        Part("coef", "real", "kpd", lambda _, parameters: parameters.matrix, _put_matrix),
        Part("intercept", "real", "kp", lambda _, parameters: parameters.offset, _put_offset),
    )

    n_inputs: int

    def __post_init__(self):
        if not isinstance(self.n_inputs, int | np.integer) or self.n_inputs < 1:
            raise ValueError(f"n_inputs must be a whole number from 1 up, got {self.n_inputs!r}.")

    def check(self, X: Floats) -> None:
        outputs = X[:, self.n_inputs :]
        if not outputs.shape[1]:
            raise ValueError(
                f"X must have columns of bits after its n_inputs={self.n_inputs} columns of"
                f" inputs, got {X.shape[1]} columns."
            )
        if not np.isin(outputs, (0.0, 1.0)).all():
            raise ValueError("Bits must be 0 or 1.")

    def blank(self, n_components: int, n_outputs: int) -> BernoulliRegressions:
        """Return parameters into which known ones are put.

        Parameters
        ----------
        n_components, n_outputs : int
            K and p.
        """
        K, p, q = n_components, n_outputs, self.n_inputs
        unit = np.eye(q)
        return BernoulliRegressions(
            np.zeros((K, q)), np.tile(unit, (K, 1, 1)), np.zeros((K, p, q)), np.zeros((K, p)),
            np.full((K, p), 0.25), np.zeros((K, p, q)), np.tile(unit, (K, p, 1, 1)),
        )  # fmt: skip

    def with_inputs_of(
        self, parameters: BernoulliRegressions, X: Floats, sample_weight: Floats | None = None
    ) -> BernoulliRegressions:
        """Return known parameters with the moments of the inputs of first rows.

        Parameters
        ----------
        parameters : BernoulliRegressions
            Of K components.
        X : ndarray of shape (n_rows, n_features)
            Inputs and outputs, side by side.
        sample_weight : ndarray of shape (n_rows,), default=None
            Not below 0; None: 1 for each row.
        """
        weight = np.ones(len(X)) if sample_weight is None else sample_weight
        shares = np.repeat(weight[:, None], len(parameters), axis=1)
        seen = self.m_step(self.posterior_statistics(parameters, X, shares), parameters)
        seen = replace(seen, matrix=parameters.matrix)
        return _put_offset(self, seen, parameters.offset)

    def covariances_given(self, parameters: BernoulliRegressions, means: Floats) -> Floats:
        """Return covariances of bits with these probabilities, of shape (..., K, p, p).

        Parameters
        ----------
        parameters : BernoulliRegressions
            Of K components.
        means : ndarray of shape (..., K, p)
            Like those of `predicted`.
        """
        return (means * (1.0 - means))[..., None] * np.eye(means.shape[-1])

    def rest(self, parameters: BernoulliRegressions, component: int, inputs: Floats) -> Floats:
        """Return probabilities that, as all lags of a component, nearly follow, (p,).

        Parameters
        ----------
        parameters : BernoulliRegressions
            Of K components.
        component : int
            Number of the component.
        inputs : ndarray of shape (n_known,)
            Inputs that are no lags; lags are the first ones.
        """
        p = parameters.matrix.shape[1]
        n_lags, rest = (self.n_inputs - len(inputs)) // p, np.full(p, 0.5)
        for _ in range(_RESTING):
            x = np.append(np.tile(rest, n_lags), inputs)[None]
            rest = 0.5 * (rest + self.predicted(parameters, x)[0, component])
        return rest

    def log_odds(self, parameters: BernoulliRegressions, inputs: Floats) -> Floats:
        """Return the log odds of each bit in each component, an ndarray of shape (n_rows, K, p).

        Parameters
        ----------
        parameters : BernoulliRegressions
            Of K components.
        inputs : ndarray of shape (n_rows, n_inputs)
            The x of each row.
        """
        K, p, q = parameters.matrix.shape
        # About a centre, as a large offset would cost digits.
        origin = parameters.centre[0, 0]
        deviation = inputs.astype(np.float64, copy=False) - origin
        shift = np.einsum("kpq,kpq->kp", parameters.matrix, parameters.centre - origin)
        linear = deviation @ parameters.matrix.reshape(K * p, q).T
        return linear.reshape(len(inputs), K, p) + (parameters.level - shift)

    def predicted(self, parameters: BernoulliRegressions, inputs: Floats) -> Floats:
        """Return the probabilities of ones in each component, of shape (n_rows, K, p).

        Parameters
        ----------
        parameters, inputs
            Like those of `log_odds`.
        """
        return expit(self.log_odds(parameters, inputs))

    def log_density(
        self, parameters: BernoulliRegressions, X: Floats, n_threads: int = 1
    ) -> Floats:
        psi = self.log_odds(parameters, X[:, : self.n_inputs])
        signs = 2.0 * X[:, None, self.n_inputs :] - 1.0
        return -np.logaddexp(0.0, -signs * psi).sum(axis=2).astype(X.dtype)

    def expected_statistics(
        self, X: Floats, responsibilities: Floats, n_threads: int = 1
    ) -> BernoulliRegressionStatistics:
        # No parameters are given: log odds are 0.
        shape = (len(X), responsibilities.shape[1], X.shape[1] - self.n_inputs)
        return self._statistics(X, responsibilities, np.full(shape, 0.25), n_threads)

    def posterior_statistics(
        self, parameters: BernoulliRegressions, X: Floats, posterior: Floats, n_threads: int = 1
    ) -> BernoulliRegressionStatistics:
        psi = self.log_odds(parameters, X[:, : self.n_inputs])
        return self._statistics(X, posterior, _expected_precision(psi), n_threads)

    def _statistics(self, X, responsibilities, precisions, n_threads):
        x, y = np.split(X.astype(np.float64, copy=False), [self.n_inputs], axis=1)
        shares = responsibilities.astype(np.float64, copy=False)
        inputs = Gaussian().expected_statistics(np.ascontiguousarray(x), shares, n_threads)
        outputs = [
            _moments(x, (y[:, j, None] - 0.5) / precisions[:, :, j], shares * precisions[:, :, j])
            for j in range(y.shape[1])
        ]
        return BernoulliRegressionStatistics(inputs, tuple(outputs))

    def own_statistics(
        self, parameters: BernoulliRegressions, weights: Floats
    ) -> BernoulliRegressionStatistics:
        scatter, outputs = weights[:, None, None] * parameters.input_covariance, []
        inputs = Moments(weights, weights, parameters.input_mean, scatter)
        for j, B in enumerate(np.swapaxes(parameters.matrix, 0, 1)):
            weight = weights * parameters.precision[:, j]
            whole = np.concatenate([np.tile(np.eye(self.n_inputs), (len(B), 1, 1)), B[:, None]], 1)
            scatter = weight[:, None, None] * (whole @ parameters.spread[:, j] @ whole.mT)
            mean = np.column_stack([parameters.centre[:, j], parameters.level[:, j]])
            outputs.append(Moments(weight, weight, mean, scatter))
        return BernoulliRegressionStatistics(inputs, tuple(outputs))

    def m_step(
        self,
        statistics: BernoulliRegressionStatistics,
        previous: BernoulliRegressions | None = None,
    ) -> BernoulliRegressions:
        count, q = statistics.weight, self.n_inputs
        if previous is None:
            previous = self.blank(len(count), len(statistics.outputs))
        seen = count > NEGLIGIBLE
        share = np.where(seen, count, 1.0)

        def kept(new, old):
            return np.where(seen.reshape(-1, *[1] * (new.ndim - 1)), new, old)

        columns = []
        for j, moments in enumerate(statistics.outputs):
            mean, weight = moments.mean, np.where(seen, moments.weight, 1.0)
            resolution = weight[:, None] * (ROUNDING * mean[:, :q]) ** 2
            arrays = moments.scatter, previous.matrix[:, j, None], resolution
            B = np.array([*map(coefficients, *arrays)])[:, 0]
            spread = moments.scatter[:, :q, :q] / weight[:, None, None]
            columns.append((B, mean[:, q], weight / share, mean[:, :q], spread))
        names = "matrix", "level", "precision", "centre", "spread"
        found = {
            name: kept(np.stack(parts, axis=1), getattr(previous, name))
            for name, parts in zip(names, zip(*columns, strict=True), strict=True)
        }
        covariance = statistics.inputs.scatter / share[:, None, None]
        return BernoulliRegressions(
            kept(statistics.inputs.mean, previous.input_mean),
            kept(covariance, previous.input_covariance),
            **found,
        )

    def expected_log_density(
        self, parameters: BernoulliRegressions, statistics: BernoulliRegressionStatistics
    ) -> float:
        q, total = self.n_inputs, 0.0
        for j, moments in enumerate(statistics.outputs):
            B, S = parameters.matrix[:, j], moments.scatter
            shift = moments.mean[:, :q] - parameters.centre[:, j]
            error = moments.mean[:, q] - parameters.level[:, j]
            error -= np.einsum("kq,kq->k", B, shift)
            residual = np.column_stack([-B, np.ones(len(B))])
            squares = np.einsum("ki,kij,kj->k", residual, S, residual)
            total -= 0.5 * float((squares + moments.weight * error**2).sum())
        return total

    def kl_divergence(self, p: BernoulliRegressions, q: BernoulliRegressions) -> Floats:
        """Return the divergences of bits and precisions, over inputs that p has seen, (K,).

        Parameters
        ----------
        p, q : BernoulliRegressions
            Parameters of K components each.
        """
        slopes = q.matrix - p.matrix
        level = q.level + np.einsum("kpq,kpq->kp", q.matrix, p.centre - q.centre) - p.level
        squares = level**2 + np.einsum("kpi,kpij,kpj->kp", slopes, p.spread, slopes)
        return 0.5 * (p.precision * squares).sum(axis=1)

    def sample(
        self, parameters: BernoulliRegressions, components: Integers, rng: np.random.Generator
    ) -> Floats:
        x = rng.standard_normal((len(components), self.n_inputs))
        roots = square_roots(parameters.input_covariance)
        x = parameters.input_mean[components] + np.einsum("nij,nj->ni", roots[components], x)
        return np.hstack([x, self.sample_outputs(parameters, components, x, rng)])

    def sample_outputs(
        self,
        parameters: BernoulliRegressions,
        components: Integers,
        inputs: Floats,
        rng: np.random.Generator,
    ) -> Floats:
        """Draw the bits of given inputs, an ndarray of shape (n_rows, p).

        Parameters
        ----------
        parameters : BernoulliRegressions
            Of K components.
        components : ndarray of int of shape (n_rows,)
            The component of each row.
        inputs : ndarray of shape (n_rows, n_inputs)
            The x of each row.
        rng : numpy.random.Generator
            Source of random numbers.
        """
        p = self.predicted(parameters, inputs)[np.arange(len(inputs)), components]
        return (rng.random(p.shape) < p).astype(np.float64)

    def n_parameters(self, parameters: BernoulliRegressions) -> int:
        return parameters.matrix.size + parameters.level.size

    def n_values(self, rows: Rows) -> float:
        return rows.X.shape[1] - self.n_inputs

    def prior_statistics(
        self,
        n_components: int,
        *,
        n_features: int,
        matrix_precision: ArrayLike = 0.0,
        offset_precision: float = 0.0,
    ) -> BernoulliRegressionStatistics:
        r"""Return normal priors about 0 on the coefficients and intercepts of all components.

        .. math:: B_j \sim N(0, K^{-1}), \quad c_j \sim N(0, 1 / k)

        Parameters
        ----------
        n_components, n_features : int
            K, and columns of a row, inputs and bits.
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
        return BernoulliRegressionStatistics(nothing, (column,) * (n_features - q))
