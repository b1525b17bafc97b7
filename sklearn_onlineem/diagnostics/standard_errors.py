"""Standard errors of fitted parameters, from the observed information."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from numbers import Real

import numpy as np
from scipy.special import expit, logit, ndtri
from sklearn.exceptions import ConvergenceWarning

from sklearn_onlineem._typing import Floats, SequenceData
from sklearn_onlineem.diagnostics._missing import missing_of
from sklearn_onlineem.diagnostics._reading import (
    coordinates_of,
    model_and_data,
    prior_of,
    prior_share,
)
from sklearn_onlineem.em.settings import check_bool
from sklearn_onlineem.estimators._base import OnlineEM
from sklearn_onlineem.statistics import combine

__all__ = ["StandardErrors", "standard_errors"]

# An information below is none, but for differences and passes that were lacking.
_LEAST_INFORMATION = 1e-6
# Standard errors by which a fit may miss the maximum without a word.
_NEAR = 0.25


@dataclass(frozen=True)
class StandardErrors:
    """Estimates with their standard errors, each by the name of its fitted attribute.

    Attributes
    ----------
    estimates : dict of ndarray
        ``"weights_"``, ``"means_"``, ``"covariances_"``, ...
    errors : dict of ndarray
        Standard errors, of the same names and shapes.
    kinds : dict of str
        Where each may be: "real", "positive", "probability", or "covariance".

    Raises
    ------
    ValueError
        If these are no such dictionaries, of the same names.
    """

    estimates: dict[str, Floats]
    errors: dict[str, Floats]
    kinds: dict[str, str]

    def __post_init__(self):
        dictionaries = self.estimates, self.errors, self.kinds
        valid = all(isinstance(d, dict) for d in dictionaries)
        if not valid or len({frozenset(d) for d in dictionaries}) > 1:
            raise ValueError("estimates, errors and kinds must be dictionaries of the same names.")
        for name, kind in self.kinds.items():
            if not isinstance(kind, str) or kind not in _INTERVALS:
                raise ValueError(f"kinds must be among {sorted(_INTERVALS)}, got {kind!r:.60}.")
            values = self.estimates[name], self.errors[name]
            ndim = 2 if kind == "covariance" else 0
            if not _are_alike(*values) or values[0].ndim < ndim:
                raise ValueError(f"estimates and errors of {name} must be arrays of one shape.")

    def intervals(self, level: float = 0.95) -> dict[str, Floats]:
        """Return confidence intervals, symmetric about what may be any number.

        That is the value itself, the logarithm of what is positive (variances among covariances),
        and the log-odds of probabilities.

        Parameters
        ----------
        level : float, default=0.95
            Share of intervals that are to hold the truth, in (0, 1).

        Returns
        -------
        intervals : dict of ndarray of shape (2, ...)
            Lower and upper ends.

        Raises
        ------
        ValueError
            If `level` is out of its range.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem.diagnostics.standard_errors import StandardErrors
        >>> rate = {"rates_": np.array(2.0)}
        >>> errors = StandardErrors(rate, {"rates_": np.array(0.5)}, {"rates_": "positive"})
        >>> low, high = errors.intervals(0.95)["rates_"]
        >>> low.round(2), high.round(2), (low * high).round(6)
        (np.float64(1.23), np.float64(3.26), np.float64(4.0))
        """
        if isinstance(level, bool) or not isinstance(level, Real) or not 0.0 < level < 1.0:
            raise ValueError(f"level of intervals must be between 0 and 1, got {level!r}.")
        width = ndtri(0.5 + 0.5 * float(level))
        return {
            name: _INTERVALS[self.kinds[name]](value, width * self.errors[name])
            for name, value in self.estimates.items()
        }


def _are_alike(value, error):
    """Whether both are arrays of real numbers, and of one shape."""
    arrays = all(isinstance(x, np.ndarray) and x.dtype.kind == "f" for x in (value, error))
    return arrays and value.shape == error.shape


def _real(value, reach):
    return np.stack([value - reach, value + reach])


def _positive(value, reach):
    ratio = np.exp(reach / value)
    return np.stack([value / ratio, value * ratio])


def _probability(value, reach):
    with np.errstate(divide="ignore"):
        odds, spread = logit(value), value * (1.0 - value)
    reach = np.divide(reach, spread, out=np.zeros_like(value), where=spread > 0.0)
    return expit(np.stack([odds - reach, odds + reach]))


def _covariance(value, reach):
    ends, i = _real(value, reach), np.arange(value.shape[-1])
    ends[..., i, i] = _positive(value[..., i, i], reach[..., i, i])
    return ends


_INTERVALS = {
    "real": _real,
    "positive": _positive,
    "probability": _probability,
    "covariance": _covariance,
}


def standard_errors(
    estimator: OnlineEM, X: SequenceData, robust: bool = False, **where: object
) -> StandardErrors:
    r"""Return standard errors of the fitted parameters.

    .. math::
        H = n (I_{x,z} - I_{z|x}), \qquad
        \operatorname{Var} g(\hat\theta) \approx J H^{-1} J', \quad
        J = \partial g / \partial \theta

    is the observed information by Louis' identity: that of complete data less what hidden variables
    take of it. Errors of probabilities that add up to 1 are those of all together. With `robust`
    the variance is the sandwich :math:`J H^{-1} (\sum_n s_n s_n') H^{-1} J'` with scores
    :math:`s_n`, which holds where the model is wrong, too. Which component is which is taken for
    known, and so is the number of them.

    Of a Kalman filter they are those of what it learns (`em_vars`). Enough of it must be known for
    the states to have coordinates: a matrix of observations, or, of one state, the variance that it
    gains; what is left open is refused by name, unless a prior tells it. The covariance of first
    states takes more sequences than states have dimensions, or a prior; of a single sequence leave
    it out of `em_vars`. The error of their mean falls with the number of sequences, not with their
    lengths.

    Of a mixture of Markov chains they are given the lengths of the sequences and how often these
    visit each symbol; of transitions alone, first symbols have none.

    Parameters
    ----------
    estimator : OnlineEM
        A fitted mixture or hidden Markov model whose components are Gaussian, Poisson, Bernoulli,
        multinomial, categorical, exponential, gamma, Wishart or Markov chains, or a Kalman filter;
        at a maximum, so fitted with a small `tol`. `LaplaceMixture`, `CompoundDirichlet`,
        `CompoundDirichletMixture`, `LatentDirichletAllocation`, `EditDistance` and families of
        your own are refused.
    X : array-like, or list of array-likes
        The data that it was fitted to, in any form that its `fit` takes. A weight of 2 stands for
        two equal rows.
    robust : bool, default=False
        Whether by the sandwich. Of sequences it needs many.
    **where : dict
        What `fit` takes besides: `y`, `sample_weight`, `lengths`, `groups`.

    Returns
    -------
    errors : StandardErrors
        With a prior, those of the posterior near its mode.

    Warns
    -----
    ConvergenceWarning
        If the model is some way from the maximum.

    Raises
    ------
    NotFittedError
        If the estimator is not fitted.
    TypeError
        If it is none of this library's.
    ValueError
        If the data are invalid or the model is of another kind; if a component has no weight; if
        the information is singular, or the data determine no coordinates of states: then this is no
        maximum, or parameters are not determined, and the message names them.

    References
    ----------
    Louis, "Finding the observed information matrix when using the EM algorithm", JRSS-B 1982;
    Oakes, "Direct calculation of the information matrix via the EM algorithm", JRSS-B 1999.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import GaussianMixture
    >>> from sklearn_onlineem.diagnostics import standard_errors
    >>> X = np.random.default_rng(0).normal(size=(400, 1))
    >>> mixture = GaussianMixture(1).fit(X)
    >>> errors = standard_errors(mixture, X)
    >>> bool(np.isclose(errors.errors["means_"], X.std() / 20.0))
    True
    >>> low, high = errors.intervals()["covariances_"]
    >>> bool(low < 1.0 < high)
    True

    A random walk of steps of variance 0.5, read with noise of variance 1:

    >>> from sklearn_onlineem import KalmanFilter
    >>> steps, noise = np.random.default_rng(0).normal(size=(2, 800))
    >>> walk = np.cumsum(np.sqrt(0.5) * steps) + noise
    >>> level = KalmanFilter(
    ...     transition_matrices=[[1.0]], observation_matrices=[[1.0]], solver="batch", tol=1e-9,
    ...     em_vars=["transition_covariance", "observation_covariance"], max_iter=1000,
    ... ).fit(walk[:, None])
    >>> intervals = standard_errors(level, walk[:, None]).intervals()
    >>> intervals["transition_covariance_"].round(2).ravel()
    array([0.38, 0.65])
    >>> intervals["observation_covariance_"].round(2).ravel()
    array([0.85, 1.17])
    """
    check_bool("robust of standard_errors", robust)
    model, data = model_and_data(estimator, X, **where)
    statistics = combine([(1.0, model.e_step(data)[0]), *prior_share(estimator, data)])
    coordinates = coordinates_of(model, statistics)
    coordinates.check_determined(data.total_weight, prior_of(estimator))
    _check_robust(robust, data)
    missing, basis = missing_of(coordinates, data), _basis(coordinates)
    information = np.eye(len(basis)) - basis @ missing.dense() @ basis.T
    inverse = _inverse(information, coordinates)
    _check_converged(coordinates, statistics, inverse, data.total_weight)
    if robust:
        inverse = inverse @ (basis @ missing.squares() @ basis.T) @ inverse
    attributes, shown = coordinates.attributes(), coordinates.shown_by(estimator)
    return StandardErrors(
        {name: attributes[name].value.copy() for name in shown},
        _errors(coordinates, basis, inverse / data.total_weight, shown),
        {name: attributes[name].kind for name in shown},
    )


def _check_robust(robust, data):
    if robust and len(data) < 2:
        raise ValueError("robust=True needs several observations, and there is one.")


def _basis(coordinates):
    """Directions of unit information, one a row."""
    units = np.eye(math.prod(coordinates.shape)).reshape(-1, *coordinates.shape)
    return np.array([coordinates.direction(unit).ravel() for unit in units])


def _inverse(information, coordinates):
    values, vectors = np.linalg.eigh(0.5 * (information + information.T))
    if not values[0] > _LEAST_INFORMATION:
        moves = (vectors[:, 0] ** 2).reshape(coordinates.shape)
        shares = {part: moves[:, columns].sum() for part, columns in coordinates.parts.items()}
        raise ValueError(
            f"The observed information is not positive definite (least eigenvalue {values[0]:.2g}"
            " of that of complete data): the fit is at no maximum, or its parameters are not"
            f" determined; least is known of the {max(shares, key=shares.get)}. Fit with a smaller"
            f" tol, {coordinates.remedy}, or with more that is known."
        )
    return (vectors / values) @ vectors.T


def _check_converged(coordinates, statistics, inverse, n):
    """Warn if the maximum is some standard errors away: Newton's step, in their units."""
    score = coordinates.unit_score(coordinates.score(statistics)).ravel()
    distance = math.sqrt(max(n * (score @ inverse @ score), 0.0))
    if distance > _NEAR:
        warnings.warn(
            f"The fit is about {distance:.2g} standard errors from the maximum, where these hold."
            " Fit with a smaller tol (floors such as reg_covar may hold it back, too).",
            ConvergenceWarning,
            stacklevel=3,
        )


def _errors(coordinates, basis, covariance, shown):
    """Roots of the variances of attributes, by the delta method."""
    along = [coordinates.derivatives(row.reshape(coordinates.shape)) for row in basis]
    errors = {}
    for name in shown:
        gradient = np.array([derivatives[name] for derivatives in along])
        flat = gradient.reshape(len(basis), -1)
        variances = np.einsum("ij,ij->j", flat, covariance @ flat)
        errors[name] = np.sqrt(np.maximum(variances, 0.0)).reshape(gradient.shape[1:])
    return errors
