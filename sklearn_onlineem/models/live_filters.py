"""Filters of a running sequence, updated after each observation."""

from __future__ import annotations

import math
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike

from sklearn_onlineem._kernels._rows import are_finite, are_ready
from sklearn_onlineem._typing import Floats
from sklearn_onlineem._values import Loaded
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.data.sequences import Sequences
from sklearn_onlineem.families._checks import finite, positive_semidefinite
from sklearn_onlineem.families.capabilities import Marginals
from sklearn_onlineem.models.forecasts import checked_levels
from sklearn_onlineem.models.hidden_markov import HiddenMarkovModel
from sklearn_onlineem.models.linear_dynamical import LinearDynamicalModel

_ONE_ROW = np.array([0, 1])
_NAME = "live_filter().update"


class _LiveFilter(Loaded):
    """What filters have in common."""

    def forecast(
        self, n_steps: int = 1, *, return_cov: bool = False, quantiles: ArrayLike | None = None
    ) -> Floats | tuple[Floats, ...]:
        """Return the expectations of the rows to come, after those so far.

        Parameters
        ----------
        n_steps : int, default=1
            Rows ahead.
        return_cov : bool, default=False
            Whether to also return covariances.
        quantiles : array-like of shape (n_quantiles,), default=None
            Probabilities in (0, 1). Quantiles of each column are returned, too.

        Returns
        -------
        means : ndarray of shape (n_steps, n_features)
        covariances : ndarray of shape (n_steps, n_features, n_features)
            With ``return_cov=True``.
        quantiles : ndarray of shape (n_quantiles, n_steps, n_features)
            With `quantiles`.

        Raises
        ------
        ValueError
            As `forecast` of the estimator.
        """
        name = "live_filter().forecast"
        if isinstance(n_steps, bool) or not isinstance(n_steps, Integral) or n_steps < 1:
            raise ValueError(f"n_steps of {name} must be a whole number above 0, got {n_steps!r}.")
        levels = None if quantiles is None else checked_levels(f"quantiles of {name}", quantiles)
        ahead = self._model.ahead(self._states, int(n_steps))
        parts = [ahead.mean[0]]
        if return_cov:
            parts.append(ahead.covariance[0])
        if levels is not None:
            parts.append(ahead.quantiles(levels)[:, 0])
        return parts[0] if len(parts) == 1 else tuple(parts)


class StateFilter(_LiveFilter):
    """The distribution of the hidden state of a running sequence, given all rows so far.

    `live_filter` of a fitted hidden Markov model returns one.

    Parameters
    ----------
    model : HiddenMarkovModel
        Later updates of the estimator do not change it.
    probabilities : ndarray of shape (n_components,), default=None
        Distribution of the state before the next row, of a sequence that goes on. None: a new
        sequence begins.

    Attributes
    ----------
    probabilities : ndarray of shape (n_components,)
        P(h_t | v_1..t); None before the first row of a new sequence.
    n_steps : int
        Rows so far.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import PoissonHMM
    >>> X = np.repeat([[1], [9], [1], [9]], 50, axis=0)
    >>> live = PoissonHMM(2, random_state=0).fit(X).live_filter()
    >>> live.update([1]).argmax() != live.update([9]).argmax()
    np.True_
    """

    def __init__(self, model: HiddenMarkovModel, probabilities: Floats | None = None) -> None:
        self._model = model
        self._n_features = model.n_features
        self.probabilities = probabilities
        self.n_steps = 0

    @property
    def _states(self):
        return None if self.probabilities is None else self.probabilities[None]

    def update(self, row: ArrayLike) -> Floats:
        """Take the next row, and return the new distribution.

        Parameters
        ----------
        row : array-like of shape (n_features,)
            NaN if nothing was observed; single values may be missing if the emissions have
            distributions of the others, as Gaussian ones have. ValueError, and no change, for rows
            that are infinite, impossible, of another length or outside of the emissions' support.
        """
        X, family = _as_row(row, self._n_features), self._model.family
        data = Sequences.unchecked(Rows.unchecked(X), _ONE_ROW, self.probabilities)
        if are_ready(X, X.shape[1]):
            data.__dict__["observed"] = None
            family.check(X)
        elif not _missing(X).all() and not isinstance(family, Marginals):
            raise ValueError(f"{_NAME}: {family} does not accept rows with some values missing.")
        probabilities = self._model.filtered(data)[0]
        if not probabilities.sum() > 0.0:
            raise ValueError("The row is impossible under the model after the rows before it.")
        self.probabilities = probabilities
        self.n_steps += 1
        return probabilities


class MomentFilter(_LiveFilter):
    """The mean and covariance of the state of a running sequence, given all rows so far.

    `live_filter` of a fitted Kalman filter returns one.

    Parameters
    ----------
    model : LinearDynamicalModel
        Later updates of the estimator do not change it.
    mean : ndarray of shape (n_dim_state,), default=None
        Mean of the state before the next row, of a sequence that goes on. None: a new sequence
        begins.
    covariance : ndarray of shape (n_dim_state, n_dim_state), default=None
        Its covariance; None with the mean.

    Attributes
    ----------
    mean : ndarray of shape (n_dim_state,)
        E(h_t | v_1..t); None before the first row of a new sequence.
    covariance : ndarray of shape (n_dim_state, n_dim_state)
        Cov(h_t | v_1..t); None before the first row of a new sequence.
    n_steps : int
        Rows so far.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import KalmanFilter
    >>> walk = np.cumsum(np.random.default_rng(0).normal(size=(200, 1)), axis=0)
    >>> live = KalmanFilter(random_state=0).fit(walk).live_filter()
    >>> before = live.update([0.0])[1]
    >>> after_a_gap = live.update([np.nan])[1]
    >>> bool(after_a_gap > before)
    True
    """

    def __init__(
        self,
        model: LinearDynamicalModel,
        mean: Floats | None = None,
        covariance: Floats | None = None,
    ) -> None:
        self._model = model
        self.mean = mean
        self.covariance = covariance
        self.n_steps = 0

    @property
    def _states(self):
        return None if self.mean is None else (self.mean[None], self.covariance[None])

    def start_from(self, mean: ArrayLike, covariance: ArrayLike) -> None:
        """Set the moments of the state given the rows so far.

        Parameters
        ----------
        mean : array-like of shape (n_dim_state,)
            Finite.
        covariance : array-like of shape (n_dim_state, n_dim_state)
            Finite, symmetric and positive semidefinite; else a ValueError.
        """
        k = self._model.n_components
        if np.shape(mean) != (k,) or np.shape(covariance) != (k, k):
            raise ValueError(
                f"mean and covariance must be of shapes {(k,)} and {(k, k)}, got {np.shape(mean)}"
                f" and {np.shape(covariance)}."
            )
        mean = finite("mean", mean, (k,)).copy()
        covariance = positive_semidefinite("covariance", covariance, k).copy()
        self.mean, self.covariance = mean, covariance

    def update(self, row: ArrayLike) -> tuple[Floats, Floats]:
        """Take the next row, and return the new mean and covariance.

        Parameters
        ----------
        row : array-like of shape (n_features,)
            NaN where nothing was observed. ValueError, and no change, for rows of another length or
            with values that are infinite or whose squares overflow, and if the moments overflow,
            as those of an unstable system will.
        """
        X = _as_row(row, self._model.n_features)
        if not are_ready(X, X.shape[1]):
            _missing(X)
        before = None if self.mean is None else (self.mean, self.covariance)
        data = Sequences.unchecked(Rows.unchecked(X), _ONE_ROW, before)
        mean, covariance = self._model.filtered_end(data)
        if not are_finite(mean, covariance):
            raise ValueError(f"{_NAME}: the moments of the state overflow.")
        self.mean, self.covariance = mean, covariance
        self.n_steps += 1
        return self.mean, self.covariance


def _as_row(row, n_features):
    if isinstance(row, np.ma.MaskedArray):
        row = np.where(np.ma.getmaskarray(row), np.nan, np.ma.getdata(row))
    X = np.array(row)
    if X.dtype != np.float64:
        if X.dtype.kind == "c":
            raise ValueError(f"{_NAME}: a row must not be complex.")
        try:
            X = X.astype(np.float64)
        except OverflowError:
            raise ValueError(f"{_NAME}: the row has numbers beyond the largest float.") from None
    # A single value is a row of one feature.
    if X.shape not in ((n_features,), (1, n_features)) and (X.shape or n_features > 1):
        raise ValueError(f"{_NAME}: a row must have {n_features} features, got shape {X.shape}.")
    return X.reshape(1, n_features)


def _missing(X):
    """Return which values are missing; ValueError if the squares of the others overflow."""
    missing = np.isnan(X)
    observed = X[~missing]
    with np.errstate(over="ignore"):
        if not math.isfinite(observed @ observed):
            raise ValueError(f"{_NAME}: the row has values that are infinite, or too large.")
    return missing
