"""The fraction of missing information, which is the rate of EM."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real
from typing import NamedTuple

import numpy as np
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from sklearn_onlineem._checks import array_of, check_count, require
from sklearn_onlineem._python import cached_property
from sklearn_onlineem._typing import Floats, SequenceData
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.diagnostics.reading import coordinates_at, model_and_data
from sklearn_onlineem.estimators.base import OnlineEM
from sklearn_onlineem.families.tangents import inverse
from sklearn_onlineem.models.mixtures.mixture import MixtureModel

# For so few coordinates, all products are faster than Lanczos' method.
_FEW = 64
# Further vectors of Lanczos' method; more of them do not save products.
_SPARE = 4
# From this tolerance on, differences to one side suffice.
_QUICK = 1e-4
# Most pairs and parts of a direction in a summary, and their least share.
_MOST_NAMED, _LEAST_SHARE = 3, 0.1


class Direction(NamedTuple):
    """A direction in which EM contracts errors by one eigenvalue.

    Attributes
    ----------
    eigenvalue : float
        Share of an error along it that a pass of EM leaves, between 0 and 1.
    shares : ndarray of shape (n_components,)
        Share of each component or state in the direction, by complete-data information; a single 1
        for Kalman filters and edit distances.
    parts : dict of float
        Share of each kind of parameter ("weights", "means", ...; "match", "end"), likewise.
    overlaps : ndarray of shape (n_components, n_components), or None
        Share of each pair of components in the missing information; sums to 2. None for others
        than mixtures.
    derivatives : dict of ndarray
        Derivatives of the fitted attributes along the direction, by name.
    """

    eigenvalue: float
    shares: Floats
    parts: dict[str, float]
    overlaps: Floats | None
    derivatives: dict[str, Floats]


@dataclass(frozen=True)
class MissingInformation:
    """The leading eigenvalues of the fraction of missing information, and their directions.

    Attributes
    ----------
    eigenvalues : ndarray of shape (n_values,)
        In descending order.
    directions : tuple of Direction
        Eigenvectors.
    what : str
        "components", "states", "system" (of Kalman filters) or "transducer" (of edit distances).
    """

    eigenvalues: Floats
    directions: tuple[Direction, ...]
    what: str

    def __post_init__(self):
        array_of("eigenvalues", self.eigenvalues)
        valid = isinstance(self.directions, tuple) and all(map(_is_direction, self.directions))
        if not valid or not 0 < len(self.directions) == len(self.eigenvalues):
            raise ValueError("directions must be a tuple of Direction, one for each eigenvalue.")
        if not isinstance(self.what, str):
            raise ValueError(f"what must be a str, got {self.what!r:.60}.")

    @property
    def rate(self) -> float:
        """Factor by which a pass of batch EM contracts the error of the parameters."""
        return float(self.eigenvalues[0])

    @property
    def loss_rate(self) -> float:
        """Factor by which a pass contracts the gap of the log-likelihood, the rate's square."""
        return self.rate * self.rate

    def summary(self) -> str:
        """Return a text on the rates, and a line for each direction."""
        speed = f"A pass of EM leaves {self.rate:.4g} of the error of the parameters"
        speed += f" and {self.loss_rate:.4g} of the gap of the log-likelihood"
        if self.rate >= 1.0:
            speed += ": this is no maximum, or one along a ridge."
        elif self.rate < 1e-8:
            speed += ": nothing is hidden."
        else:
            passes = math.ceil(math.log(10.0) / -math.log(self.loss_rate))
            speed += f", which is {passes} passes for each digit of it."
        lines = [speed]
        for number, direction in enumerate(self.directions, start=1):
            parts = _listed(direction.parts.items(), "{0} ({1:.0%})")
            who = self._who(direction)
            lines.append(f"{number}. {direction.eigenvalue:.4f}: {who}; parameters: {parts}.")
        return "\n".join(lines)

    def _who(self, direction):
        if self.what in ("system", "transducer"):
            return f"the {self.what}"
        if direction.overlaps is None:
            moving = _listed(enumerate(direction.shares), "{0} ({1:.0%})")
            return f"{self.what} that move: {moving}"
        i, j = np.triu_indices(len(direction.shares), 1)
        pairs = zip(zip(i, j, strict=True), direction.overlaps[i, j], strict=True)
        return f"{self.what} that overlap: {_listed(pairs, '{0[0]} and {0[1]} ({1:.0%})')}"


def _is_direction(value):
    if not isinstance(value, Direction) or not isinstance(value.parts, dict):
        return False
    arrays = [value.shares] if value.overlaps is None else [value.shares, value.overlaps]
    return (
        all(isinstance(array, np.ndarray) and array.dtype == np.float64 for array in arrays)
        and value.shares.ndim == 1
        and (value.overlaps is None or value.overlaps.shape == 2 * value.shares.shape)
        and all(isinstance(part, float) for part in (value.eigenvalue, *value.parts.values()))
    )


def missing_information(
    estimator: OnlineEM, X: SequenceData, n_values: int = 5, tol: float = 1e-3, **where: object
) -> MissingInformation:
    """Return the leading fractions of missing information: the rate of EM at the fitted model.

    .. math:: M = I_{x,z}^{-1} I_{z|x}

    is the Jacobian of a step of batch EM at a fixed point, from the information of complete data
    and that of hidden variables given the data. Its largest eigenvalue is the factor by which the
    error of the parameters falls in a pass, and its square that of the gap of the log-likelihood.
    The data have little information on directions with eigenvalues near 1.

    Eigenvalues are found by Lanczos' method, with a pass over the data for each product, and no
    matrix of all parameters. Products are differences of E-steps, with errors of some 1e-8, or 1e-6
    from a `tol` of 1e-4 on. A prior counts as complete data, and the rate is that of MAP
    estimation. Floors of variances (`reg_covar`) are ignored. If all parameters of a Kalman filter
    are learnt, some eigenvalues are 1, as states may be rotated.

    Parameters
    ----------
    estimator : OnlineEM
        As in `standard_errors`, with the same models refused.
    X : array-like, or list of array-likes
        The data that it was fitted to, in any form that its `fit` takes.
    n_values : int, default=5
        Number of eigenvalues, at most that of parameters.
    tol : float, default=1e-3
        Relative error of eigenvalues; isolated ones have about its square. 0: all digits, as always
        with up to 64 coordinates.
    **where : dict
        Further data of `fit`: `y`, `sample_weight`, `lengths`, `groups`.

    Raises
    ------
    NotFittedError, TypeError
        If the estimator is not fitted, or is none of this library.
    ValueError
        If the data or `n_values` are invalid, or the model is of another kind.

    References
    ----------
    Dempster, Laird & Rubin, JRSS-B 1977, section 3; Kunstner, Kumar & Schmidt,
    "Homeomorphic-Invariance of EM", AISTATS 2021, section 5.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import GaussianMixture
    >>> from sklearn_onlineem.diagnostics import missing_information
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(loc=rng.choice([0.0, 2.5, 20.0], size=(3000, 1)))
    >>> start = [[0.0], [2.5], [20.0]]
    >>> mixture = GaussianMixture(3, means_init=start, solver="batch", tol=1e-9, max_iter=2000)
    >>> slow = missing_information(mixture.fit(X), X, n_values=1)
    >>> print(slow.summary())
    A pass ...
    """
    check_count("n_values of missing_information", n_values)
    is_share = isinstance(tol, Real) and not isinstance(tol, bool) and 0.0 <= tol < 1.0
    require(is_share, "tol of missing_information", "in [0, 1)", tol)
    n_values, tol = int(n_values), float(tol)
    model, data = model_and_data(estimator, X, **where)
    _, coordinates = coordinates_at(estimator, model, data)
    missing = Missing(coordinates, data, is_quick=tol >= _QUICK and not _is_small(coordinates))
    values, vectors = _leading(coordinates, missing, n_values, tol)
    views = coordinates.shown_by(estimator)
    directions = (
        _direction(coordinates, missing, value, x, views)
        for value, x in zip(values, vectors, strict=True)
    )
    return MissingInformation(values, tuple(directions), coordinates.what)


def _is_small(coordinates):
    return math.prod(coordinates.shape) <= _FEW


def _leading(coordinates, missing, n_values, tol):
    """Return the leading eigenvalues, and eigenvectors in coordinates of unit information."""
    shape, size = coordinates.shape, math.prod(coordinates.shape)

    def product(x):
        v = coordinates.direction(x.reshape(shape))
        return coordinates.unit_score(missing.product(v)).ravel()

    n_values = max(1, min(n_values, coordinates.model.n_parameters()))
    if _is_small(coordinates) or size <= n_values + 1:
        matrix = np.array([product(unit) for unit in np.eye(size)])
        values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    else:
        operator = LinearOperator((size, size), matvec=product, dtype=np.float64)
        start = np.random.default_rng(0).standard_normal(size)
        n_kept = min(size, 2 * n_values + _SPARE)
        try:
            values, vectors = eigsh(operator, n_values, which="LA", v0=start, ncv=n_kept, tol=tol)
        except ArpackNoConvergence as error:
            raise ValueError(
                f"n_values must be smaller, got {n_values}: Lanczos' method found only"
                f" {len(error.eigenvalues)}, as the others are too close to each other."
            ) from error
    best = np.argsort(-values, kind="stable")[:n_values]
    return np.maximum(values[best], 0.0), vectors.T[best].reshape(-1, *shape)


def _direction(coordinates, missing, value, x, views):
    v = coordinates.direction(x)
    moves = x**2
    moves /= max(moves.sum(), np.finfo(float).tiny)
    parts = {name: float(moves[:, columns].sum()) for name, columns in coordinates.parts.items()}
    overlaps = missing.overlaps(v)
    if overlaps is not None and overlaps.sum() > 0.0:
        overlaps = overlaps / (0.5 * overlaps.sum())
    derivatives = coordinates.derivatives(v, views)
    return Direction(float(value), moves.sum(axis=1), parts, overlaps, derivatives)


def _listed(named, form):
    ordered = sorted(named, key=lambda pair: -pair[1])
    named = [pair for pair in ordered[:_MOST_NAMED] if pair[1] >= _LEAST_SHARE]
    return ", ".join(form.format(*pair) for pair in named or ordered[:1]) or "none"


# Derivatives of observations along all coordinates that are held at a time.
_MOST_VALUES = 1 << 22
# Relative steps of differences: errors of central ones are some 1e-8 by curvature, and 1e-12 by
# rounding; those of differences to one side are some 1e-6 and 1e-10.
_STEP, _STEP_TO_ONE_SIDE = 1e-4, 1e-6


class Missing:
    r"""Missing information: that of complete data less that of the data.

    .. math:: I_{z|x} v = \frac{d}{dh} \frac1n \sum_n E_{\theta + h v}[s(x_n, z) \mid x_n]

    with the scores s of complete data about the model. The E-step of a model along v takes their
    expectations (Oakes, JRSS-B 1999). `is_quick` allows errors of some 1e-6.
    """

    def __init__(self, coordinates, data, is_quick=False):
        self.coordinates, self._is_quick = coordinates, is_quick
        self._is_mixture = isinstance(coordinates.model, MixtureModel)
        # Differences need all digits.
        is_single = isinstance(data, Rows) and data.dtype != np.float64
        self.data = replace(data, X=data.X.astype(np.float64)) if is_single else data

    def product(self, v):
        """Return the missing information times a direction, (K, width)."""
        if not self._is_quick:
            return self.slope(v, self._score)
        if not (size := self.coordinates.size(v)):
            return np.zeros_like(v)
        step = _STEP_TO_ONE_SIDE / size
        return (self._score(self.coordinates.moved(step * v)) - self._present) / step

    @cached_property
    def _present(self):
        return self._score(self.coordinates.model)

    def _score(self, model):
        return self.coordinates.score(model.e_step(self.data)[0])

    def slope(self, v, function):
        """Return the derivative of a function of the model along v."""
        step = _STEP / (self.coordinates.size(v) or 1.0)
        ahead, behind = (function(self.coordinates.moved(sign * step * v)) for sign in (1.0, -1.0))
        return (ahead - behind) / (2.0 * step)

    def _by_coordinate(self, function):
        """Return derivatives of a function along all coordinates, (P, ...); 0 along fixed ones."""
        free = np.flatnonzero(self.coordinates.scale)
        units = np.eye(self.coordinates.scale.size)[free].reshape(-1, *self.coordinates.shape)
        out = np.zeros((self.coordinates.scale.size, function(self.coordinates.model).size))
        for i, unit in zip(free, units, strict=True):
            out[i] = self.slope(unit, function).ravel()
        return out

    def dense(self):
        """Return the missing information, (P, P)."""
        missing = self._by_coordinate(self._score)
        return 0.5 * (missing + missing.T)

    def squares(self):
        """Return the mean of squares of the observations' scores, (P, P)."""
        total = 0.0
        for part, weight in self._blocks():
            if self._is_mixture:
                scores = self._scores_of_rows(part)
            else:
                scores = self._by_coordinate(lambda model, part=part: model.log_likelihood(part))
            total = total + weight * scores @ scores.T
        return total

    def _scores_of_rows(self, rows):
        """Return the scores of rows of a mixture, (P, n_rows): all components move at once."""
        posterior, shape = _posterior(self.coordinates.model, rows), self.coordinates.shape
        roots = np.sqrt(self.coordinates.model.weights)
        scores = np.empty((len(rows), *shape))
        scores[:, :, 0] = posterior * inverse(roots) - roots
        for column in range(1, shape[1]):
            v = np.zeros(shape)
            v[:, column] = self.coordinates.scale[:, column] > 0.0
            scores[:, :, column] = posterior * self.slope(v, partial(_log_joint, rows=rows))
        return scores.reshape(len(rows), -1).T

    def _blocks(self):
        """Yield some observations after the other, and their shares of the total weight."""
        step = max(1, _MOST_VALUES // self.coordinates.scale.size)
        for start in range(0, len(self.data), step):
            part = self.data[start : start + step]
            weight = getattr(part, "sample_weight", None)
            yield part, (1.0 if weight is None else weight) / self.data.total_weight

    def overlaps(self, v):
        r"""Return the share of each pair of components in v times `product(v)`, (K, K), or None.

        .. math:: \frac1n \sum_n r_{nj} r_{nk} (a_{nj} - a_{nk})^2, \quad
            a_{nk} = \frac{d}{dh} \log p_{\theta + h v}(x_n, k)

        None for others than mixtures.
        """
        if not self._is_mixture:
            return None
        out = np.zeros((len(v), len(v)))
        for part, weight in self._blocks():
            posterior = _posterior(self.coordinates.model, part)
            a = self.slope(v, partial(_log_joint, rows=part))
            # (a_j - a_k)^2 from deviations from the mean of the row.
            a -= np.einsum("nk,nk->n", posterior, a)[:, None]
            first, shares = posterior * a, np.broadcast_to(weight, len(a))[:, None]
            square = (first * a * shares).T @ posterior
            out += square + square.T - 2.0 * (first * shares).T @ first
        np.fill_diagonal(out, 0.0)
        return np.maximum(out, 0.0)


def _log_joint(model, rows):
    """Return log p(x_n, k) of rows of a mixture, (n_rows, K); 0 for components without weight."""
    return np.where(model.weights > 0.0, model.log_joint(rows), 0.0)


def _posterior(model, rows):
    """Return p(k | x_n), (n_rows, K), given labels where there are some."""
    posterior = model.posterior(rows)
    if rows.labels is not None:
        known = rows.labels >= 0
        posterior[known] = np.eye(model.n_components)[rows.labels[known]]
    return posterior
