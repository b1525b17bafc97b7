"""Linear regressions with Gaussian noise on known inputs, as components of mixtures."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg, stats
from scipy.linalg import lapack

from sklearn_onlineem._checks import MOST, check_count, check_setting, definite
from sklearn_onlineem._kernels._rows import are_finite
from sklearn_onlineem._python import cached_property
from sklearn_onlineem._typing import Floats, Generator, Integers
from sklearn_onlineem._values import Rebuilt
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.families._family import Evidence, Family, Parameters
from sklearn_onlineem.families.capabilities import Distribution, Means, PosteriorMeans
from sklearn_onlineem.families.covariance_shapes import (
    LOG_2_PI,
    NEGLIGIBLE,
    Covariance,
    Full,
    Gaussians,
    Spherical,
    check_covariance,
)
from sklearn_onlineem.families.gaussian import Gaussian, variance_floor
from sklearn_onlineem.families.gaussian_tangents import MatrixTangents
from sklearn_onlineem.families.linear_gaussian import (
    AffineGaussian,
    LinearGaussian,
    joined,
    square_roots,
)
from sklearn_onlineem.families.parts import Part, means_part
from sklearn_onlineem.families.tangents import Tangents, symmetric, symmetric_exponential
from sklearn_onlineem.statistics import Moments

_BLOCK = 1024
# Standard deviations of inputs, relative to their means, that are rounding, and the least share of
# an input's variance that others may leave unexplained.
ROUNDING, LEAST_SHARE = 4.0 * np.finfo(float).eps, 1e-10


@dataclass(frozen=True, eq=False)
class Regressions(Rebuilt):
    """Parameters of K regressions of p outputs on q inputs, and the moments of their inputs.

    Parameters
    ----------
    mean : ndarray of shape (K, q + p)
        Means of the inputs that each component has seen, and its expected outputs there.
    matrix : ndarray of shape (K, p, q)
        Coefficients of the inputs, for each of the outputs.
    covariance : ndarray of shape (K, p, p)
        Covariances of the noise; ValueError if one is not positive definite.
    input_covariance : ndarray of shape (K, q, q)
        Covariances of the inputs that each component has seen.

    Attributes
    ----------
    offset : ndarray of shape (K, p)
        Expected outputs where all inputs are 0.
    noise : Gaussians
        The noise, about `mean`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.families.gaussian_regression import Regressions
    >>> mean, one = np.array([[2.0, 7.0]]), np.ones((1, 1, 1))
    >>> Regressions(mean, matrix=3.0 * one, covariance=one, input_covariance=one).offset
    array([[1.]])
    """

    mean: Floats
    matrix: Floats
    covariance: Floats
    input_covariance: Floats

    def __post_init__(self):
        q = self.matrix.shape[2]
        if not are_finite(self.input_covariance):
            raise ValueError("the moments of the inputs overflow; is matrix_precision too large?")
        # Factorised here, as a singular covariance is an error.
        self.__dict__["noise"] = Gaussians(self.mean[:, q:], self.covariance)

    @property
    def offset(self) -> Floats:
        outputs = self.mean[:, self.matrix.shape[2] :]
        return outputs - np.einsum("kpq,kq->kp", self.matrix, self.input_mean)

    @property
    def input_mean(self) -> Floats:
        return self.mean[:, : self.matrix.shape[2]]

    def __len__(self):
        return len(self.mean)

    def _about(self, mean):
        """Return the regressions of deviations from `mean` (K, q + p)."""
        q = self.matrix.shape[2]
        shift = self.mean - mean
        offset = shift[:, q:] - np.einsum("kpq,kq->kp", self.matrix, shift[:, :q])
        return AffineGaussian(self.matrix, offset, self.covariance)

    def _with(self, matrix, offset):
        """Return regressions with other coefficients, on the same inputs."""
        outputs = offset + np.einsum("kpq,kq->kp", matrix, self.input_mean)
        return replace(self, mean=np.hstack([self.input_mean, outputs]), matrix=matrix)

    def _inputs(self, weights):
        """Return the moments of the inputs of components with weights, about their means."""
        scatter = weights[:, None, None] * self.input_covariance
        return Moments(weights, weights, np.zeros(scatter.shape[:2]), scatter)


def _noise(family, parameters):
    shape, covariance = family.noise, parameters.covariance
    return covariance if shape.axes == "kdd" else np.einsum("kpp->kp", covariance)[shape.shown]


class RegressionTangents(Tangents):
    """Tangents of regressions on known inputs.

    They are orthonormal combinations of those of joint Gaussians of inputs and outputs.
    """

    def __init__(self, family, regressions):
        M, B, R = regressions.input_covariance, regressions.matrix, regressions.covariance
        across, (p, q) = B @ M, B.shape[1:]
        covariance = joined(M, across, across @ B.mT + R)
        floor = np.append(np.zeros(q), family._regression._added(p).diagonal())
        super().__init__(family, regressions)
        joint = Gaussians(regressions.mean, covariance)
        self._tangents = MatrixTangents(Gaussian(floor=floor), joint)
        self._basis = _basis(q, p, family.noise)

    @property
    def n_own(self):
        return self._basis.shape[1]

    @property
    def parts(self):
        p, q = self.parameters.matrix.shape[1:]
        of_matrix = slice(p, p + p * q)
        return {
            "intercepts": slice(0, p),
            "coefficients": of_matrix,
            "covariances": slice(of_matrix.stop, None),
        }

    def effective_counts(self, statistics):
        counts = np.repeat(statistics.degrees[:, None], self.n_own, axis=1)
        counts[:, self.parts["intercepts"]] = statistics.weight[:, None]
        return counts

    def score(self, statistics):
        return self._tangents.score(statistics) @ self._basis

    def is_proper(self, prior):
        return self._tangents.is_proper(prior)

    def floor_penalty(self, statistics):
        return self._tangents.floor_penalty(statistics)

    @cached_property
    def _roots(self):
        """Triangular roots of the covariances of the inputs, and of the noise."""
        regressions = self.parameters
        arrays = regressions.input_covariance, regressions.covariance
        return tuple(np.linalg.cholesky(values) for values in arrays)

    def moved(self, v):
        regressions, (root_x, root_y) = self.parameters, self._roots
        p, q = regressions.matrix.shape[1:]
        u, U, _ = (v[:, columns] for columns in self.parts.values())
        noise = v[:, self.parts["covariances"]] @ self._basis[:, self.parts["covariances"]].T
        V = symmetric(noise[:, p + q :], p + q)[:, q:, q:]
        mean = regressions.mean.copy()
        mean[:, q:] += (root_y @ u[:, :, None])[:, :, 0]
        # U R_x^-1, by the transposed equations.
        slopes = np.linalg.solve(root_x.mT, U.reshape(-1, q, p)).mT
        roots = root_y @ symmetric_exponential(0.5 * V)
        matrix = regressions.matrix + root_y @ slopes
        return Regressions(mean, matrix, roots @ roots.mT, regressions.input_covariance)


def _basis(q, p, noise):
    """Return columns of directions of the outputs' means, of B by inputs, and of the noise."""
    n = q + p
    i, j = np.triu_indices(n)
    every = np.eye(n + len(i))
    of_mean, of_products = every[:, q:n], every[:, n:]
    own = of_products[:, i >= q]
    if not isinstance(noise, Full):
        own = of_products[:, (i >= q) & (i == j)]
    if isinstance(noise, Spherical):
        own = own.sum(axis=1, keepdims=True) / np.sqrt(p)
    return np.hstack([of_mean, of_products[:, (i < q) & (j >= q)], own])


def _put_matrix(family, parameters, matrix):
    return parameters._with(matrix, parameters.offset)


def _put_offset(family, parameters, offset):
    return parameters._with(parameters.matrix, offset)


# Parts of regressions of any outputs.
COEFFICIENTS = (
    Part("coef", "real", "kpd", lambda _, parameters: parameters.matrix, _put_matrix),
    Part("intercept", "real", "kp", lambda _, parameters: parameters.offset, _put_offset),
)


def _put_noise(family, parameters, values):
    if values.ndim < 3:
        variances = values.reshape(len(values), -1, 1)
        values = variances * np.eye(parameters.covariance.shape[1])
    return replace(parameters, covariance=definite("covariances_", values))


@dataclass(frozen=True, eq=False)
class RegressionFamily(Family[Parameters, Evidence]):
    """Contract of regressions of outputs on known inputs, the first `n_inputs` columns of a row.

    Notes
    -----
    Methods take these, and those of `Family`:

    inputs : ndarray of shape (n_rows, n_inputs)
        First columns of the rows.
    n_outputs, component : int
        Number of the other columns, and of a component.
    means, variances : ndarray of shape (..., K, n_outputs)
        Moments of the outputs given the inputs.
    """

    # Whether outputs are linear in lags, so that moments of several steps are known.
    is_linear = False
    # What outputs are called.
    outputs = "outputs"

    n_inputs: int

    def __post_init__(self):
        check_count("n_inputs", self.n_inputs)

    def check(self, X: Floats) -> None:
        if X.shape[1] <= self.n_inputs:
            raise ValueError(
                f"X must have columns of {self.outputs} after its n_inputs={self.n_inputs} columns"
                f" of inputs, got {X.shape[1]} columns."
            )

    def n_values(self, rows: Rows) -> float:
        return rows.X.shape[1] - self.n_inputs

    def sample(self, parameters: Parameters, components: Integers, rng: Generator) -> Floats:
        x = self._drawn_inputs(parameters, components, rng)
        return np.hstack([x, self.sample_outputs(parameters, components, x, rng)])

    def _drawn_inputs(self, parameters, components, rng):
        x = rng.standard_normal((len(components), self.n_inputs))
        roots = square_roots(parameters.input_covariance)
        return parameters.input_mean[components] + np.einsum("nij,nj->ni", roots[components], x)


@dataclass(frozen=True, eq=False)
class GaussianRegression(
    RegressionFamily[Regressions, Moments], Means[Regressions], PosteriorMeans[Regressions, Moments]
):
    r"""Linear regressions with Gaussian noise, on inputs that are known.

    .. math:: p(y \mid x, k) = N(y; B_k x + c_k, R_k)

    The first columns of a row are the inputs x, the others the outputs y, and a density is that of
    y given x. Inputs have no model. So the statistics that a component has of itself, the inertia
    of online EM, need the moments of inputs: each component carries those it has seen, by its
    responsibilities, and its KL divergence is the expectation over them,

    .. math::
        E_{M_k} \mathrm{KL}(N(B_k x + c_k, R_k) \,\|\, N(\tilde B_k x + \tilde c_k, \tilde R_k)).

    The statistics are the centred moments of (x, y): with the blocks of the scatter S,
    :math:`B = S_{yx} S_{xx}^{-1}`, :math:`R = (S_{yy} - B S_{xy}) / w` and the covariance of the
    inputs is :math:`S_{xx} / w`. Means are those of (x, y), and samples have normal inputs of the
    moments seen. Parameters are `Regressions`.

    Parameters
    ----------
    n_inputs : int
        How many first columns of a row are inputs, at least 1.
    noise : Covariance, default=Full()
        Shape of its covariances: `Full()`, `Diagonal()` or `Spherical()`.
    reg_covar : float, default=None
        Added to the variances of the noise by the M-step, from 0 to 1e100. None: 1e-6 times the
        variance of each output in the first data.
    floor : ndarray of shape (n_outputs,), default=None
        Computed from `reg_covar` by `bind`, for each output.

    See Also
    --------
    families.linear_gaussian.LinearGaussian : The same of given inputs, in Kalman filters.

    References
    ----------
    DeSarbo & Cron, "A maximum likelihood methodology for clusterwise linear regression", Journal of
    Classification 1988; Cappe & Moulines, "On-line expectation-maximization algorithm for latent
    data models", JRSS-B 2009, section 4 (mixtures of regressions).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.families import GaussianRegression
    >>> rows = np.array([[0.0, 1.0], [1.0, 3.0], [2.0, 5.2]])
    >>> family = GaussianRegression(n_inputs=1)
    >>> found = family.m_step(family.expected_statistics(rows, np.ones((3, 1))))
    >>> found.matrix.round(3), found.offset.round(3)
    (array([[[2.1]]]), array([[0.967]]))
    """

    tangents = RegressionTangents
    is_linear = True

    noise: Covariance = Full()
    reg_covar: float | None = None
    floor: Floats | None = None

    @property
    def parts(self) -> tuple[Part, ...]:
        axes = self.noise.axes.replace("d", "p")
        return (
            means_part(),
            *COEFFICIENTS,
            Part("covariances", self.noise.kind, axes, _noise, _put_noise),
        )

    def __post_init__(self):
        super().__post_init__()
        if self.reg_covar is not None:
            check_setting("reg_covar", self.reg_covar, 0.0, MOST)
        check_covariance("noise", self.noise)
        # It refuses a shape that components would share.
        self.__dict__["_regression"] = LinearGaussian(self.noise, self.floor)

    def bind(self, X: Floats, sample_weight: Floats | None = None) -> Self:
        if self.floor is not None:
            return self
        floor = variance_floor(X[:, self.n_inputs :], sample_weight, self.reg_covar)
        return replace(self, floor=floor)

    def log_density(self, parameters: Regressions, X: Floats, n_threads: int = 1) -> Floats:
        noise, out = parameters.noise, np.empty((len(X), len(parameters)), X.dtype)
        offsets = -0.5 * (noise.log_det + noise.mean.shape[1] * LOG_2_PI)
        for start in range(0, len(X), _BLOCK):
            block = X[start : start + _BLOCK].astype(np.float64, copy=False)
            for k, (mean, B) in enumerate(zip(parameters.mean, parameters.matrix, strict=True)):
                # About the mean of the inputs, as a large offset would cost digits.
                deviation = block - mean
                residual = deviation[:, self.n_inputs :] - deviation[:, : self.n_inputs] @ B.T
                whitened = residual @ noise.precision_factor[k]
                squares = np.einsum("ij,ij->i", whitened, whitened)
                out[start : start + _BLOCK, k] = offsets[k] - 0.5 * squares
        return out

    def blank(self, n_components: int, n_outputs: int) -> Regressions:
        """Return parameters of K components with p outputs, into which known ones are put."""
        K, q, p = n_components, self.n_inputs, n_outputs
        covariance, moments = (np.tile(np.eye(n), (K, 1, 1)) for n in (p, q))
        return Regressions(np.zeros((K, q + p)), np.zeros((K, p, q)), covariance, moments)

    def with_inputs_of(
        self, parameters: Regressions, X: Floats, sample_weight: Floats | None = None
    ) -> Regressions:
        """Return known parameters with the moments of the inputs of first rows."""
        q, weight = self.n_inputs, np.ones(len(X)) if sample_weight is None else sample_weight
        shares = np.repeat(weight[:, None] / weight.sum(), len(parameters), axis=1)
        inputs = self.expected_statistics(X[:, :q].astype(np.float64, order="C"), shares)
        mean = np.hstack([inputs.mean, parameters.mean[:, q:]])
        seen = replace(parameters, mean=mean, input_covariance=inputs.scatter)
        return seen._with(parameters.matrix, parameters.offset)

    def covariances_given(self, parameters: Regressions, means: Floats) -> Floats:
        """Return covariances of outputs with expectations (..., K, p), of shape (..., K, p, p)."""
        return np.broadcast_to(parameters.covariance, (*means.shape, means.shape[-1]))

    def distribution_given(self, means: Floats, variances: Floats) -> Distribution:
        """Return independent outputs with these moments, ndarrays of one shape, many in one."""
        return stats.norm(means, np.sqrt(variances))

    def rest(self, parameters: Regressions, component: int, inputs: Floats) -> Floats:
        """Return the outputs that, as all lags of a component, are expected to follow, (p,).

        `inputs`, (n_known,), are those that are no lags; lags are the first ones.
        """
        B, c = parameters.matrix[component], parameters.offset[component]
        lagged, known = np.split(B, [self.n_inputs - len(inputs)], axis=1)
        change = np.eye(len(c)) - lagged.reshape(len(c), -1, len(c)).sum(axis=1)
        return np.linalg.lstsq(change, c + known @ inputs, rcond=None)[0]

    def predicted(self, parameters: Regressions, inputs: Floats) -> Floats:
        """Return the outputs expected of inputs, (n_rows, n_inputs), of shape (n_rows, K, p)."""
        mean, B, q = parameters.mean, parameters.matrix, self.n_inputs
        deviation = inputs[:, None, :].astype(np.float64, copy=False) - mean[:, :q]
        return mean[:, q:] + np.einsum("nkq,kpq->nkp", deviation, B)

    def expected_statistics(
        self, X: Floats, responsibilities: Floats, n_threads: int = 1
    ) -> Moments:
        return self._regression.expected_statistics(X, responsibilities, n_threads)

    def own_statistics(self, parameters: Regressions, weights: Floats) -> Moments:
        inputs, regressions = parameters._inputs(weights), parameters._about(parameters.mean)
        about_means = self._regression.own_statistics(regressions, inputs)
        return replace(about_means, mean=parameters.mean)

    def m_step(self, statistics: Moments, previous: Regressions | None = None) -> Regressions:
        q, weight, mean = self.n_inputs, statistics.weight, statistics.mean
        zeros, seen = np.zeros_like(mean), (weight > NEGLIGIBLE)[:, None]
        if previous is None:
            known = AffineGaussian.zeros(len(mean), q, mean.shape[1] - q)
            B, R, input_covariance = known.matrix, known.covariance, np.zeros((len(mean), q, q))
        else:
            B, R, input_covariance = previous.matrix, previous.covariance, previous.input_covariance
            mean = np.where(seen, mean, previous.mean)
        # About the means, where offsets are 0.
        resolution = weight[:, None] * (ROUNDING * mean[:, :q]) ** 2
        arrays = statistics.scatter, B, resolution
        B = np.array([*map(coefficients, *arrays)])
        found = self._regression.m_step(
            replace(statistics, mean=zeros), AffineGaussian(B, zeros[:, q:], R), {"covariance"}
        )
        with np.errstate(over="ignore"):
            input_covariance = np.divide(
                statistics.scatter[:, :q, :q], weight[:, None, None],
                out=input_covariance.copy(), where=seen[:, :, None],
            )  # fmt: skip
        return Regressions(mean, B, found.covariance, input_covariance)

    def expected_log_density(self, parameters: Regressions, statistics: Moments) -> float:
        about_means = replace(statistics, mean=statistics.mean - parameters.mean)
        regressions = parameters._about(parameters.mean)
        return self._regression.expected_log_density(regressions, about_means)

    def kl_divergence(self, p: Regressions, q: Regressions) -> Floats:
        # Expectations over the inputs that p has seen.
        regressions = p._about(p.mean), q._about(p.mean)
        return self._regression.kl_divergence(*regressions, p._inputs(np.ones(len(p))))

    def sample_outputs(
        self, parameters: Regressions, components: Integers, inputs: Floats, rng: Generator
    ) -> Floats:
        """Draw the outputs of inputs, (n_rows, n_inputs), an ndarray of shape (n_rows, p)."""
        q = self.n_inputs
        deviation = inputs - parameters.mean[components, :q]
        regressions = parameters._about(parameters.mean)
        y = self._regression.sample(regressions, components, rng, deviation)
        return parameters.mean[components, q:] + y

    def means(self, parameters: Regressions) -> Floats:
        return parameters.mean

    def with_means(self, parameters: Regressions, means: Floats) -> Regressions:
        return replace(parameters, mean=means)

    def n_parameters(self, parameters: Regressions) -> int:
        return self._regression.n_parameters(parameters._about(parameters.mean))

    @property
    def prior_keys(self) -> list[str]:
        return self._regression.prior_keys

    def prior_statistics(
        self, n_components: int, *, n_features: int, **of_regression: ArrayLike | None
    ) -> Moments:
        """Return a matrix-normal inverse-Wishart prior, that of `LinearGaussian` on y given x.

        It is worth pseudo-rows, whose inputs count as seen: a number for `matrix_precision` is a
        ridge penalty.

        Parameters
        ----------
        **of_regression
            As in `LinearGaussian.prior_statistics`: `matrix`, `matrix_precision`, `offset`,
            `offset_precision`, `covariance` and `degrees_of_freedom`.
        """
        q = self.n_inputs
        return self._regression.prior_statistics(
            n_components, n_features=n_features - q, n_inputs=q, **of_regression
        )

    def mean_form(self, prior: Moments) -> Moments:
        return self._regression.mean_form(prior, self.n_inputs)


def coefficients(scatter, previous, resolution):
    """Return the matrix B that maximises a scatter of (x, y).

    Combinations of inputs that do not vary keep their coefficients.
    """
    q = previous.shape[1]
    xx, yx = scatter[:q, :q], scatter[q:, :q]
    varies = xx.diagonal() > resolution
    inverse = np.zeros(q)
    inverse[varies] = xx.diagonal()[varies] ** -0.5
    correlation = xx * inverse[:, None] * inverse
    right = ((yx - previous @ xx) * inverse).T
    factor, failed = lapack.dpotrf(correlation, lower=1)
    if not failed and (factor.diagonal() ** 2 > LEAST_SHARE).all():
        solution = lapack.dpotrs(factor, right, lower=1)[0]
    else:
        solution = linalg.pinvh(correlation, rtol=LEAST_SHARE) @ right
    return previous + (solution * inverse[:, None]).T
