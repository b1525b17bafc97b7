"""Wishart distributions of matrices, their degrees of freedom learnt or given."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import multigammaln, polygamma, psi

from sklearn_onlineem._checks import (
    LEAST_SHAPE,
    MOST_SHAPE,
    above,
    at_least,
    at_most,
    check_has_mode,
    check_positive_definite,
    check_setting,
    definite,
    finite,
    positive_semidefinite,
)
from sklearn_onlineem._python import cached_property
from sklearn_onlineem._typing import Floats, Generator, Integers
from sklearn_onlineem.families._family import ExponentialFamily
from sklearn_onlineem.families._gaussian_posteriors import wishart_triangles
from sklearn_onlineem.families.capabilities import ConjugatePriors
from sklearn_onlineem.families.gamma import increasing_root
from sklearn_onlineem.families.parts import Part, means_part
from sklearn_onlineem.families.tangents import (
    Tangents,
    symmetric,
    symmetric_exponential,
    upper_entries,
)
from sklearn_onlineem.statistics import Sums

_LOG_2 = math.log(2.0)
# Inverses of smaller matrices overflow, times rows. Rows whose squares underflow are refused, too.
_LEAST_VARIANCE = 1e-145


def _degrees(family, parameters):
    return family.degrees_and_scales(parameters)[0]


def _put_degrees(family, parameters, degrees):
    before, scales = family.degrees_and_scales(parameters)
    above("degrees_of_freedom_", degrees, scales.shape[1] - 1.0, degrees.shape)
    if not isinstance(family, Wishart) and not np.allclose(degrees, before, rtol=1e-6):
        raise ValueError(
            f"degrees_of_freedom_ is fixed by the parameter degrees_of_freedom={family.degrees}."
        )
    return wisharts(family, degrees, scales)


def _scales(family, parameters):
    return family.degrees_and_scales(parameters)[1]


def _put_scales(family, parameters, scales):
    return wisharts(family, _degrees(family, parameters), definite("scales_", scales))


def wisharts(family, degrees, scales):
    """Return the parameters of degrees of freedom and scales."""
    if not isinstance(family, Wishart):
        return (family.degrees * scales).reshape(len(scales), -1)
    return family.from_natural(np.column_stack([0.5 * degrees, _flat_natural(scales)]))


class _Matrices(ExponentialFamily[Floats, Sums]):
    """Base of both Wishart families: rows are flattened symmetric matrices."""

    # The name of the degrees of freedom among the settings.
    _setting = "degrees"
    support_is_convex = True
    parts = (
        Part("degrees_of_freedom", None, "k", _degrees, _put_degrees),
        Part("scales", "covariance", "kss", _scales, _put_scales),
        means_part("real"),
    )

    def __post_init__(self):
        check_setting(self._setting, getattr(self, self._setting), LEAST_SHAPE, MOST_SHAPE)

    @abstractmethod
    def degrees_and_scales(self, parameters: Floats) -> tuple[Floats, Floats]:
        """Return degrees of freedom (K,) and scale matrices (K, d, d)."""

    def check(self, X: Floats) -> None:
        side = math.isqrt(X.shape[1])
        if side**2 != X.shape[1]:
            raise ValueError(
                "Wishart rows are flattened square matrices, so the number of features must be a"
                f" square; got {X.shape[1]}."
            )
        matrices = _unflatten(X)
        scale = np.abs(matrices).max(axis=(1, 2), keepdims=True)
        tolerance = 1e3 * np.finfo(X.dtype).eps * scale
        if (np.abs(matrices - matrices.transpose(0, 2, 1)) > tolerance).any():
            raise ValueError("Wishart rows must be symmetric matrices.")
        if not _are_definite(matrices):
            raise ValueError("Wishart rows must be positive-definite matrices.")
        degrees, least = getattr(self, self._setting), side - 1
        if degrees <= least:
            raise ValueError(
                f"{self._setting} must be above {least} for matrices of this size, got {degrees}."
            )

    def check_means(self, means: Floats) -> None:
        super().check_means(means)
        if np.diagonal(_unflatten(means), axis1=1, axis2=2).min() < _LEAST_VARIANCE:
            raise ValueError(f"Wishart means must have variances of {_LEAST_VARIANCE:g} or more.")

    def sample(self, parameters: Floats, components: Integers, rng: Generator) -> Floats:
        degrees, scales = self.degrees_and_scales(parameters)
        triangles = wishart_triangles(degrees[components], scales.shape[1], rng)
        roots = np.linalg.cholesky(scales)[components] @ triangles
        return (roots @ roots.mT).reshape(len(components), -1)


class FixedDegreesWishartTangents(Tangents):
    """Directions of the scales of Wishart distributions."""

    parts = {"scales": slice(None)}

    def __init__(self, family, parameters):
        super().__init__(family, parameters)
        self._degrees, self._scales = family.degrees_and_scales(parameters)

    @property
    def n_own(self):
        d = self._scales.shape[1]
        return d * (d + 1) // 2

    @cached_property
    def _root(self):
        return np.linalg.cholesky(self._scales)

    @cached_property
    def _inverse_root(self):
        return np.linalg.inv(self._root)

    @property
    def _unit(self):
        """Standard deviations of Y beside its diagonal."""
        return np.sqrt(self._degrees)[:, None]

    def _relative(self, v):
        """Return moves V of natural parameters in units of the inverse scales, (K, d, d)."""
        return symmetric(v / (2.0 * self._unit), self._scales.shape[1])

    def _standardised(self, raw):
        """Return sums of Y, from sums of flattened X."""
        X = raw.reshape(len(raw), *self._scales.shape[1:])
        return self._inverse_root @ X @ self._inverse_root.mT

    def _moved_scales(self, V):
        """Return scales moved along V, positive definite for any of them."""
        root = self._root @ symmetric_exponential(V)
        return root @ root.mT

    def moved(self, v):
        scales = self._moved_scales(self._relative(v))
        return (self._degrees[:, None, None] * scales).reshape(len(v), -1)

    def whitened(self, raw):
        return upper_entries(self._standardised(raw)) / self._unit

    def size(self, v):
        return max(np.abs(v).max(), 2.0 * np.abs(self._relative(v)).max())


class WishartTangents(FixedDegreesWishartTangents):
    """Directions of the degrees of freedom and scales of Wishart distributions."""

    parts = {"degrees of freedom": slice(0, 1), "scales": slice(1, None)}
    unsolved = Tangents._unsolved_by_roots

    @property
    def n_own(self):
        return 1 + super().n_own

    @cached_property
    def _own_deviation(self):
        """Standard deviation of log |X| given the trace of Y."""
        d, degrees = self._scales.shape[1], self._degrees
        halves = 0.5 * (degrees[:, None] - np.arange(d))
        return np.sqrt(polygamma(1, halves).sum(axis=1) - 2.0 * d / degrees)

    def _moves(self, v):
        """Return moves of n / 2, and V."""
        halves = v[:, 0] / self._own_deviation
        shared = (halves / self._degrees)[:, None, None] * np.eye(self._scales.shape[1])
        return halves, self._relative(v[:, 1:]) - shared

    def moved(self, v):
        halves, V = self._moves(v)
        # Above d - 1 for any v.
        least = self._scales.shape[1] - 1.0
        excess = self._degrees - least
        degrees = least + excess * np.exp(2.0 * halves / excess)
        precisions = np.linalg.inv(self._moved_scales(V)).reshape(len(v), -1)
        return self.family.from_natural(np.column_stack([0.5 * degrees, -0.5 * precisions]))

    def whitened(self, raw):
        trace = np.trace(self._standardised(raw[:, 1:]), axis1=1, axis2=2)
        own = (raw[:, 0] - trace / self._degrees) / self._own_deviation
        return np.column_stack([own, super().whitened(raw[:, 1:])])

    def size(self, v):
        halves, V = self._moves(v)
        return max(
            np.abs(v).max(), 2.0 * np.abs(V).max(), np.abs(2.0 * halves / self._degrees).max()
        )


@dataclass(frozen=True)
class Wishart(_Matrices, ConjugatePriors[Floats, Sums]):
    r"""Wishart matrices with n degrees of freedom and scale S, both learnt.

    .. math::
        p(X \mid n, S) = \frac{|X|^{(n - d - 1)/2} e^{-\operatorname{tr}(S^{-1} X)/2}}
        {2^{nd/2} |S|^{n/2} \Gamma_d(n/2)}

    :math:`\phi(X) = (\log |X|, X)`, :math:`\theta = (n/2, -S^{-1}/2)`. Parameters are the means of
    :math:`\phi`, an ndarray of shape (K, 1 + d * d). Means have variances of 1e-145 or more.

    Parameters
    ----------
    max_degrees : float, default=1e6
        Ceiling of the degrees of freedom, from 1e-10 to 1e15.

    See Also
    --------
    sklearn_onlineem.families.wishart.FixedDegreesWishart : The same with known degrees of freedom.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.families import Wishart
    >>> family = Wishart()
    >>> mean = family.from_natural(np.array([[3.0, -0.5, 0.0, 0.0, -0.5]]))
    >>> degrees, scales = family.degrees_and_scales(mean)
    >>> degrees.round(9), scales.round(9)
    (array([6.]), array([[[1., 0.],
            [0., 1.]]]))
    """

    tangents = WishartTangents

    max_degrees: float = 1e6

    _setting = "max_degrees"
    determined_by_means = False
    parts = (_Matrices.parts[0]._replace(kind="positive"), *_Matrices.parts[1:])

    def sufficient_statistics(self, X: Floats) -> Floats:
        return np.concatenate([_log_dets(X)[:, None].astype(X.dtype), X], axis=1)

    def log_base_measure(self, X: Floats, n_threads: int = 1) -> Floats:
        return -(math.isqrt(X.shape[1]) + 1) / 2.0 * _log_dets(X)

    def degrees_and_scales(self, parameters: Floats) -> tuple[Floats, Floats]:
        mean = _unflatten(parameters[:, 1:])
        side = mean.shape[1]
        target = np.minimum(parameters[:, 0] - np.linalg.slogdet(mean)[1], -1e-300)
        # The gap tends to d (d + 1) / (2 n) as n grows.
        start = side - 1.0 + side * (side + 1.0) / (-2.0 * target)
        degrees = increasing_root(
            lambda n: _log_det_gap(n, side),
            lambda n: _log_det_gap_slope(n, side),
            target,
            np.minimum(start, self.max_degrees),
            lower=side - 1.0,
        )
        return degrees, mean / degrees[:, None, None]

    def to_natural(self, parameters: Floats) -> Floats:
        degrees, scales = self.degrees_and_scales(parameters)
        return np.column_stack([degrees / 2.0, _flat_natural(scales)])

    def from_natural(self, natural: Floats) -> Floats:
        degrees, scales = _degrees_and_scales_of(natural)
        side = scales.shape[1]
        log_det = np.linalg.slogdet(scales)[1] + side * np.log(degrees)
        mean = (degrees[:, None, None] * scales).reshape(len(degrees), -1)
        return np.column_stack([log_det + _log_det_gap(degrees, side), mean])

    def means(self, parameters: Floats) -> Floats:
        return parameters[:, 1:]

    def with_means(self, parameters: Floats, means: Floats) -> Floats:
        degrees, _ = self.degrees_and_scales(parameters)
        natural = _flat_natural(_unflatten(means) / degrees[:, None, None])
        return self.from_natural(np.column_stack([degrees / 2.0, natural]))

    def log_partition(self, natural: Floats) -> Floats:
        return _log_partition(*_degrees_and_scales_of(natural))

    def regularise(self, mean: Floats) -> Floats:
        matrices = _unflatten(mean[:, 1:])
        side = matrices.shape[1]
        ceiling = np.linalg.slogdet(matrices)[1] + _log_det_gap(self.max_degrees, side)
        return np.column_stack([np.minimum(mean[:, 0], ceiling), mean[:, 1:]])

    def n_parameters(self, parameters: Floats) -> int:
        return len(parameters) + _n_symmetric(parameters[:, 1:])

    def prior_statistics(
        self,
        n_components: int,
        *,
        n_features: int,
        pseudo_count: ArrayLike = 0.0,
        mean_log_det: ArrayLike = 0.0,
        mean: ArrayLike | None = None,
    ) -> Sums:
        """Return a conjugate prior worth `pseudo_count` matrices of these means of log det X and X.

        Parameters
        ----------
        n_components, n_features : int
            K, and d * d.
        pseudo_count : float, default=0.0
            Pseudo-matrices, not below 0.
        mean_log_det : float, default=0.0
            Mean of log det X, at most log det of the mean.
        mean : array of shape (d, d), default=None
            Mean of X, positive definite; None: the unit matrix.
        """
        count = at_least("pseudo_count", pseudo_count, 0.0)
        side = math.isqrt(n_features)
        if mean is None:
            mean = np.eye(side)
        else:
            shape = (side**2,) if np.ndim(mean) == 1 else (side, side)
            mean = finite("mean", mean, shape).reshape(side, side)
            check_positive_definite("mean", mean)
        log_det = np.linalg.slogdet(mean)[1]
        mean_log_det = at_most("mean_log_det", mean_log_det, log_det, "log det of mean")
        total = count * np.append(mean_log_det, mean)
        return Sums(np.full(n_components, count), np.tile(total, (n_components, 1)))


@dataclass(frozen=True)
class FixedDegreesWishart(_Matrices, ConjugatePriors[Floats, Sums]):
    r"""Wishart matrices with n known degrees of freedom; the scales S are learnt.

    :math:`\phi(X) = X`, :math:`\theta = -S^{-1}/2`. Parameters are the means nS, an ndarray of
    shape (K, d * d).

    Parameters
    ----------
    degrees : float
        Degrees of freedom n, above d - 1, from 1e-10 to 1e15.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.families.wishart import FixedDegreesWishart
    >>> FixedDegreesWishart(degrees=4.0).to_natural(np.array([[8.0]]))
    array([[-0.25]])
    """

    tangents = FixedDegreesWishartTangents

    degrees: float

    def log_base_measure(self, X: Floats, n_threads: int = 1) -> Floats:
        return (self.degrees - math.isqrt(X.shape[1]) - 1) / 2.0 * _log_dets(X)

    def degrees_and_scales(self, parameters: Floats) -> tuple[Floats, Floats]:
        return np.full(len(parameters), self.degrees), _unflatten(parameters) / self.degrees

    def to_natural(self, parameters: Floats) -> Floats:
        return _flat_natural(self.degrees_and_scales(parameters)[1])

    def from_natural(self, natural: Floats) -> Floats:
        scales = -0.5 * np.linalg.inv(_unflatten(natural))
        return (self.degrees * scales).reshape(natural.shape)

    def log_partition(self, natural: Floats) -> Floats:
        scales = -0.5 * np.linalg.inv(_unflatten(natural))
        return _log_partition(np.full(len(natural), self.degrees), scales)

    def n_parameters(self, parameters: Floats) -> int:
        return _n_symmetric(parameters)

    def prior_statistics(
        self,
        n_components: int,
        *,
        n_features: int,
        degrees: float | None = None,
        inverse_scale: ArrayLike = 0.0,
    ) -> Sums:
        """Return a Wishart(degrees, W) prior on each inverse scale.

        Parameters
        ----------
        n_components, n_features : int
            K, and d * d.
        degrees : float, default=None
            Of the prior, above d - 1; None: those of a prior worth no matrices.
        inverse_scale : float or array of shape (d, d), default=0.0
            W's inverse, positive semidefinite, in the units of the rows; a number is a multiple of
            the unit matrix.
        """
        side = math.isqrt(n_features)
        pseudo_degrees = 0.0
        if degrees is not None:
            pseudo_degrees = above("degrees", degrees, side - 1.0) - side - 1.0
        inverse_scale = positive_semidefinite("inverse_scale", inverse_scale, side)
        total = np.tile(inverse_scale.ravel(), (n_components, 1))
        check_has_mode("inverse_scale", total, degrees or 0.0, "degrees")
        return Sums(np.full(n_components, pseudo_degrees / self.degrees), total)


def _are_definite(matrices):
    """Return whether correlations have no eigenvalue that is 0 but for rounding."""
    # Cholesky's algorithm alone passes half of the singular matrices. If its pivots show that the
    # determinant of the correlations is large, so is their smallest eigenvalue.
    try:
        roots = np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        return False
    variances = np.diagonal(matrices, axis1=1, axis2=2)
    least = 8.0 * matrices.shape[1] * np.finfo(matrices.dtype).eps
    determinants = (np.diagonal(roots, axis1=1, axis2=2) ** 2 / variances).prod(axis=1)
    doubtful = ~(determinants > 10.0 * least)
    if not doubtful.any():
        return True
    scales = np.sqrt(variances[doubtful])
    correlations = matrices[doubtful] / scales[:, :, None] / scales[:, None, :]
    return bool((np.linalg.eigvalsh(correlations)[:, 0] > least).all())


def _unflatten(rows):
    side = math.isqrt(rows.shape[1])
    return rows.reshape(len(rows), side, side)


def _n_symmetric(flat):
    side = math.isqrt(flat.shape[1])
    return len(flat) * side * (side + 1) // 2


def _log_dets(X):
    return np.linalg.slogdet(_unflatten(X).astype(np.float64, copy=False))[1]


def _flat_natural(scales):
    return -0.5 * np.linalg.inv(scales).reshape(len(scales), -1)


def _degrees_and_scales_of(natural):
    return 2.0 * natural[:, 0], -0.5 * np.linalg.inv(_unflatten(natural[:, 1:]))


def _log_partition(degrees, scales):
    side = scales.shape[1]
    log_dets = np.linalg.slogdet(scales)[1]
    return degrees / 2.0 * (side * _LOG_2 + log_dets) + multigammaln(degrees / 2.0, side)


def _log_det_gap(degrees, side):
    """Return E log|X| - log|E X|, which is below 0 and depends on the degrees of freedom alone."""
    halves = (np.asarray(degrees)[..., None] - np.arange(side)) / 2.0
    return psi(halves).sum(axis=-1) + side * (_LOG_2 - np.log(degrees))


def _log_det_gap_slope(degrees, side):
    halves = (np.asarray(degrees)[..., None] - np.arange(side)) / 2.0
    return polygamma(1, halves).sum(axis=-1) / 2.0 - side / degrees
