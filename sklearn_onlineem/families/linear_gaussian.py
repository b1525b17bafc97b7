"""Linear-Gaussian regressions, y given x: the transitions and emissions of a Kalman filter."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg
from scipy.linalg import lapack

from sklearn_onlineem._checks import above, at_least, check_has_mode, finite, positive_semidefinite
from sklearn_onlineem._kernels import _regressions
from sklearn_onlineem._kernels._rows import are_finite
from sklearn_onlineem._python import cached_property
from sklearn_onlineem._typing import Floats, Generator, Integers
from sklearn_onlineem._values import Rebuilt
from sklearn_onlineem.families._family import NOTHING, Family
from sklearn_onlineem.families.capabilities import ConjugatePriors
from sklearn_onlineem.families.covariance_shapes import LOG_2_PI, NEGLIGIBLE, Covariance, Full
from sklearn_onlineem.statistics import Moments

_EPS = np.finfo(float).eps


def joined(xx, yx, yy):
    """Return covariances of (x, y), from those of x, of y with x, and of y."""
    q, n = xx.shape[-1], xx.shape[-1] + yy.shape[-1]
    joint = np.empty((*yy.shape[:-2], n, n))
    joint[..., :q, :q], joint[..., :q, q:] = xx, yx.mT
    joint[..., q:, :q], joint[..., q:, q:] = yx, yy
    return joint


def _trace(values, vectors, spread):
    """Return that of a pseudo-inverse, by its eigenvalues and eigenvectors, times spread."""
    return np.vdot(vectors / values, spread @ vectors)


def _support(covariance):
    """Return eigenvalues and eigenvectors of a covariance, without those of 0."""
    values, vectors, failed = lapack.dsyevd(covariance, lower=1)
    if failed:
        raise np.linalg.LinAlgError("Eigenvalues did not converge.")
    least = len(values) * _EPS * max(values[-1], 0.0)
    kept = slice(values.searchsorted(least, side="right"), None)
    return values[kept], vectors[:, kept]


def square_roots(covariances):
    """Return square roots of covariances of shape (K, p, p), which may be singular."""
    values, vectors = np.linalg.eigh(covariances)
    return vectors * np.sqrt(np.maximum(values, 0.0))[:, None]


def _ready(array):
    """Return an array as kernels take it."""
    return np.ascontiguousarray(array, np.float64)


ALL_PARAMETERS = ("matrix", "offset", "covariance")


@dataclass(frozen=True, eq=False, init=False)
class AffineGaussian(Rebuilt):
    """Parameters of K regressions, y | x ~ N(matrix x + offset, covariance).

    Parameters
    ----------
    matrix : ndarray of shape (K, p, q)
        Coefficients of the q inputs, for each of the p outputs.
    offset : ndarray of shape (K, p)
        Expected outputs where all inputs are 0.
    covariance : ndarray of shape (K, p, p)
        Covariances of the noise.
    """

    matrix: Floats
    offset: Floats
    covariance: Floats

    # Quick for the reason that `quick` gives; kernels take the arrays as they are.
    def __init__(self, matrix: Floats, offset: Floats, covariance: Floats) -> None:
        values = self.__dict__
        values["matrix"], values["offset"] = _ready(matrix), _ready(offset)
        values["covariance"] = _ready(covariance)
        fits = matrix.ndim == 3 and matrix.shape[:2] == offset.shape
        if not fits or covariance.shape != (*offset.shape, offset.shape[1]):
            raise ValueError(
                "matrix, offset and covariance of regressions must be of shapes (K, p, q), (K, p)"
                f" and (K, p, p), got {matrix.shape}, {offset.shape} and {covariance.shape}."
            )

    @classmethod
    def single(cls, matrix: ArrayLike, offset: ArrayLike, covariance: ArrayLike) -> AffineGaussian:
        """Return the parameters of one regression.

        They are coefficients of shape (p, q), the outputs (p,) expected where all inputs are 0, and
        the covariance (p, p) of the noise.

        Parameters
        ----------
        matrix : array-like of shape (p, q)
            Coefficients of the inputs.
        offset : array-like of shape (p,)
            Expected outputs where all inputs are 0.
        covariance : array-like of shape (p, p)
            Covariance of the noise.
        """
        return cls(*(np.asarray(a, dtype=np.float64)[None] for a in (matrix, offset, covariance)))

    @classmethod
    def zeros(cls, n_components: int, n_inputs: int, n_outputs: int) -> AffineGaussian:
        """Return parameters that are all 0, for an M-step to begin with; q may be 0.

        Parameters
        ----------
        n_components, n_inputs, n_outputs : int
            K, q and p; q may be 0.
        """
        return cls(
            np.zeros((n_components, n_outputs, n_inputs)),
            np.zeros((n_components, n_outputs)),
            np.zeros((n_components, n_outputs, n_outputs)),
        )

    @property
    def _arrays(self):
        return self.matrix, self.offset, self.covariance

    @cached_property
    def roots(self) -> Floats:
        """Square roots of the covariances, of shape (K, p, p)."""
        return square_roots(self.covariance)

    def __len__(self):
        return len(self.offset)

    def __iter__(self):
        """Iterate over (matrix, offset, covariance) of the components."""
        return zip(*self._arrays, strict=True)


@dataclass(frozen=True, eq=False)
class LinearGaussian(Family[AffineGaussian, Moments], ConjugatePriors[AffineGaussian, Moments]):
    r"""Regressions with Gaussian noise.

    .. math:: p(y \mid x, k) = N(y; B_k x + c_k, S_k)

    A row is the stacked vector :math:`z = (x, y)`, and a density is that of y given x. The
    statistics are the centred moments of z, which merge by the parallel-axis formula: with the
    blocks :math:`S_{yx}` and :math:`S_{xx}` of the scatter, :math:`B = S_{yx} S_{xx}^{-1}` and
    :math:`c = m_y - B m_x`. Without inputs (q = 0) it is a Gaussian.

    Expectations under the model depend on x: where other families take weights of components, this
    one takes moments of their inputs.

    Parameters
    ----------
    shape : Covariance, default=Full()
        Of the noise: `Full()`, `Diagonal()` or `Spherical()`; regressions do not share one.
    floor : ndarray of shape (p,), default=None
        Added to the variances of the noise by the M-step; None: nothing.

    Notes
    -----
    Methods take these, and those of `Family`:

    inputs : Moments, or ndarray of shape (K,) or (n_rows, q)
        Moments of x for each regression; weights alone if there are no inputs; of `sample`, each x.
    learnt : collection of str
        Of "matrix", "offset" and "covariance"; the others are fixed.

    References
    ----------
    Ghahramani & Hinton, "Parameter Estimation for Linear Dynamical Systems", 1996; Amid & Warmuth,
    UAI 2020, section 4.3, with sums of their statistics as means over sequences.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.families.linear_gaussian import AffineGaussian, LinearGaussian
    >>> z = np.array([[0.0, 1.0], [1.0, 3.0], [2.0, 5.2]])
    >>> family = LinearGaussian()
    >>> statistics = family.expected_statistics(z, np.ones((3, 1)))
    >>> found = family.m_step(statistics, AffineGaussian.zeros(1, n_inputs=1, n_outputs=1))
    >>> found.matrix.round(3), found.offset.round(3)
    (array([[[2.1]]]), array([[0.967]]))
    """

    shape: Covariance = Full()
    floor: Floats | None = None

    def __post_init__(self):
        if self.shape.is_shared:
            raise ValueError(
                "Regressions do not share a covariance: shape must be Full(), Diagonal() or"
                f" Spherical(), got {self.shape}."
            )

    def log_density(self, parameters: AffineGaussian, X: Floats, n_threads: int = 1) -> Floats:
        q = parameters.matrix.shape[2]
        x, y = (part.astype(np.float64, copy=False) for part in (X[:, :q], X[:, q:]))
        columns = [_log_density(y - x @ B.T - c, S) for B, c, S in parameters]
        return np.stack(columns, axis=1).astype(X.dtype, copy=False)

    def expected_statistics(
        self, X: Floats, responsibilities: Floats, n_threads: int = 1
    ) -> Moments:
        return Full()._centred_statistics(X, responsibilities, n_threads)

    def own_statistics(self, parameters: AffineGaussian, inputs: Moments | Floats) -> Moments:
        """Return the moments of (x, y), given `Moments` of x, or weights (K,) without inputs."""
        inputs, (K, p, q) = _moments_of(inputs), parameters.matrix.shape
        mean, scatter = np.empty((K, q + p)), np.empty((K, q + p, q + p))
        _regressions.expected_moments(
            parameters._arrays, self._floor, _arrays(inputs), mean, scatter
        )
        return Moments(inputs.weight, inputs.degrees, mean, scatter)

    def m_step(
        self,
        statistics: Moments,
        previous: AffineGaussian | None = None,
        learnt: Collection[str] = ALL_PARAMETERS,
    ) -> AffineGaussian:
        """Return the parameters that maximise the statistics over what is learnt.

        Parameters
        ----------
        statistics : Moments
            Moments of (x, y).
        previous : AffineGaussian, default=None
            Gives the number of inputs, fixed values, and values that are kept where there is no
            evidence. None: there are no inputs.
        learnt : collection of str
            Of "matrix", "offset" and "covariance"; the others are fixed, and the learnt ones are
            the best given these.
        """
        if previous is None:
            n_components, n_outputs = statistics.mean.shape
            previous = AffineGaussian.zeros(n_components, 0, n_outputs)
        values = tuple(array.copy() for array in previous._arrays)
        moments = statistics.weight, _ready(statistics.degrees), statistics.mean, statistics.scatter
        flags = "matrix" in learnt, "offset" in learnt, "covariance" in learnt
        _regressions.maximise(moments, self._floor, *flags, values)
        if "covariance" in learnt and not isinstance(self.shape, Full):
            # Callers that make a model refuse those that overflow.
            with np.errstate(over="ignore", invalid="ignore"):
                for k in np.flatnonzero(statistics.degrees > NEGLIGIBLE):
                    values[2][k] = self.shape.nearest(values[2][k])
        return AffineGaussian(*values)

    def _added(self, n_outputs):
        return np.diag(self._floor) if len(self._floor) else np.zeros((n_outputs, n_outputs))

    @cached_property
    def _floor(self):
        """What the M-step adds to variances; none instead of zeros."""
        if self.floor is None or not np.any(self.floor):
            return NOTHING
        return _ready(np.diag(self.shape.nearest(np.diag(self.floor))))

    def expected_log_density(self, parameters: AffineGaussian, statistics: Moments) -> float:
        # For a singular covariance, along the directions in which it is not 0.
        floor, total = self._added(parameters.offset.shape[1]), 0.0
        for moments, (B, c, S) in zip(_by_component(statistics), parameters, strict=True):
            weight, degrees, mean, scatter = moments
            contrast = np.concatenate([-B, np.eye(len(B))], axis=1)
            shift = contrast @ mean - c
            spread = contrast @ scatter @ contrast.T + weight * np.outer(shift, shift)
            values, vectors = _support(S)
            trace = _trace(values, vectors, spread + degrees * floor)
            total -= 0.5 * (trace + degrees * np.log(values).sum())
        return float(total)

    def kl_divergence(
        self, p: AffineGaussian, q: AffineGaussian, inputs: Moments | Floats | None = None
    ) -> Floats:
        """Return the expectations over x of KL(p(y | x, k) || q(y | x, k)), of shape (K,).

        Inputs are as in `own_statistics`, and divergences are times the weights; None: there are
        none, and weights are 1.
        """
        inputs = _moments_of(np.ones(len(p)) if inputs is None else inputs)
        found = np.empty(len(p))
        _regressions.kl_divergences(p._arrays, q._arrays, _arrays(inputs), found)
        if not are_finite(found):
            singular = np.isnan(found)
            pairs = [*zip(p, q, _by_component(inputs), strict=True)]
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                found[singular] = [_divergence(*pairs[k]) for k in np.flatnonzero(singular)]
        return found

    def sample(
        self,
        parameters: AffineGaussian,
        components: Integers,
        rng: Generator,
        inputs: Floats | None = None,
    ) -> Floats:
        """Draw one y from each of the given components, an ndarray of shape (n_rows, p).

        Inputs are of shape (n_rows, q), or None if there are none.
        """
        y = rng.standard_normal((len(components), parameters.offset.shape[1]))
        x = np.empty((len(y), 0)) if inputs is None else inputs
        for k, (B, c, _) in enumerate(parameters):
            rows = components == k if len(parameters) > 1 else slice(None)
            y[rows] = x[rows] @ B.T + c + y[rows] @ parameters.roots[k].T
        return y

    def n_parameters(
        self, parameters: AffineGaussian, learnt: Collection[str] = ALL_PARAMETERS
    ) -> int:
        """Return the number of free parameters in those learnt of matrix, offset, covariance."""
        n_components, n_outputs = parameters.offset.shape
        numbers = {
            "matrix": parameters.matrix.size,
            "offset": parameters.offset.size,
            "covariance": n_components * self.shape.n_parameters(n_outputs),
        }
        return sum(numbers[name] for name in learnt)

    def prior_statistics(
        self,
        n_components: int,
        *,
        n_features: int,
        n_inputs: int = 0,
        matrix: ArrayLike = 0.0,
        matrix_precision: ArrayLike = 0.0,
        offset: ArrayLike = 0.0,
        offset_precision: float = 0.0,
        covariance: ArrayLike = 0.0,
        degrees_of_freedom: float | None = None,
    ) -> Moments:
        r"""Return a matrix-normal inverse-Wishart prior, whose joint mode is taken.

        .. math:: B \sim MN(M, S, K^{-1}), \quad c \sim N(c_0, S / k), \quad S \sim IW(\Psi, \nu)

        The prior of the offset is on :math:`y` where :math:`x = 0`. All components have the same
        prior. ValueError if a hyper-parameter is out of its range, or weighs inputs where
        `n_inputs` is 0.

        Parameters
        ----------
        n_components : int
            How many regressions have the prior.
        n_features, n_inputs : int
            Lengths of y and x.
        matrix : array broadcasting to (n_features, n_inputs)
            M.
        matrix_precision : float or array of shape (n_inputs, n_inputs)
            K, positive semidefinite; a number is a multiple of the unit matrix.
        offset : array broadcasting to (n_features,)
            c_0.
        offset_precision : float
            k, pseudo-rows of the offset, not below 0.
        covariance : float or array of shape (n_features, n_features)
            Psi, positive semidefinite; a number is a multiple of the unit matrix.
        degrees_of_freedom : float, default=None
            nu, above n_features - 1; None: no prior on the covariance.
        """
        if n_inputs == 0:
            for name, value in (("matrix", matrix), ("matrix_precision", matrix_precision)):
                if np.any(np.asarray(value) != 0.0):
                    raise ValueError(
                        f"{name} must be left out where there are no inputs (n_inputs=0)."
                    )
        M = finite("matrix", matrix, (n_features, n_inputs))
        K = positive_semidefinite("matrix_precision", matrix_precision, n_inputs)
        Psi = positive_semidefinite("covariance", covariance, n_features)
        scatter = joined(K, M @ K, Psi + M @ K @ M.T)
        mean = np.append(np.zeros(n_inputs), finite("offset", offset, (n_features,)))
        weight = at_least("offset_precision", offset_precision, 0.0)
        mode = 0.0
        if degrees_of_freedom is not None:
            mode = above("degrees_of_freedom", degrees_of_freedom, n_features - 1.0)
            # NumPy takes empty matrices from 2.1 on.
            rank = np.linalg.matrix_rank(K) if K.size else 0
            mode = mode + n_features + 1.0 + rank + (weight > 0.0)
        check_has_mode("covariance", np.tile(Psi, (n_components, 1, 1)), mode, "degrees_of_freedom")
        return Moments(
            np.full(n_components, float(weight)),
            np.full(n_components, float(mode)),
            np.tile(mean, (n_components, 1)),
            np.tile(scatter, (n_components, 1, 1)),
        )

    def mean_form(
        self, prior: Moments, n_inputs: int = 0, learnt: Collection[str] = ALL_PARAMETERS
    ) -> Moments:
        """Return a prior that leads the M-step to the posterior's mean of the covariance.

        Means of matrix and offset are their modes. Without a prior on the covariance, its maximum
        likelihood estimate is kept.

        Parameters
        ----------
        prior : Moments
            From `prior_statistics`; ValueError if the covariance has no mean under it.
        n_inputs : int, default=0
            Length of x.
        learnt : collection of str
            As in `m_step`; the other parameters are known.
        """
        if "covariance" not in learnt or not prior.degrees.any():
            return prior
        n_integrated = n_inputs * ("matrix" in learnt) + ("offset" in learnt)
        lost = self.shape.degrees_of_mean(prior.mean.shape[1] - n_inputs) + n_integrated
        if not (prior.degrees > lost).all():
            raise ValueError(
                "The covariance of the noise has no posterior mean under this prior: increase"
                " degrees_of_freedom, or set estimate='mode'."
            )
        return replace(prior, degrees=prior.degrees - lost)


def _arrays(inputs):
    return inputs.weight, _ready(inputs.mean), _ready(inputs.scatter)


def _moments_of(inputs):
    """Return moments of inputs, from weights alone if there are no inputs."""
    if isinstance(inputs, Moments):
        return inputs
    n = len(inputs)
    return Moments(inputs, inputs, np.empty((n, 0)), np.empty((n, 0, 0)))


def _by_component(moments):
    return zip(moments.weight, moments.degrees, moments.mean, moments.scatter, strict=True)


def _divergence(p, q, inputs):
    """Return KL(p || q) of a component, in expectation over its inputs and times their weight."""
    (matrix, offset, covariance), (other_matrix, other_offset, other_covariance) = p, q
    weight, _, mean, scatter = inputs
    difference = matrix - other_matrix
    shift = difference @ mean + offset - other_offset
    spread = weight * (covariance + shift[:, None] * shift)
    spread += difference @ scatter @ difference.T
    values, vectors = _support(other_covariance)
    turned, total = covariance @ vectors, covariance.trace()
    # Variance outside their span.
    if len(values) < len(covariance) and total - np.vdot(vectors, turned) > 1e-10 * total:
        return math.inf
    own_values = lapack.dsyevd(vectors.T @ turned, compute_v=0, lower=1)[0]
    log_det_ratio = np.log(values / np.abs(own_values)).sum()
    return 0.5 * (_trace(values, vectors, spread) + weight * (log_det_ratio - len(values)))


def _log_density(residual, covariance):
    """Return the log density of each residual under N(0, covariance)."""
    root = linalg.cholesky(covariance, lower=True)
    whitened = linalg.solve_triangular(root, residual.T, lower=True)
    log_det = 2.0 * np.log(np.diag(root)).sum()
    return -0.5 * ((whitened**2).sum(axis=0) + log_det + len(root) * LOG_2_PI)
