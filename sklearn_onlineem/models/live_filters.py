"""Filters of a running sequence, updated after each observation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_onlineem._checks import finite, positive_semidefinite
from sklearn_onlineem._kernels._rows import are_finite, are_ready
from sklearn_onlineem._python import ours
from sklearn_onlineem._typing import Floats
from sklearn_onlineem._values import Loaded
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.data.sequences import (
    Sequences,
    SequencesWithInputs,
    lagged,
    with_inputs_before,
)
from sklearn_onlineem.families.capabilities import Marginals
from sklearn_onlineem.models.forecasts import checked_levels
from sklearn_onlineem.models.hidden_markov.markov import HiddenMarkovModel
from sklearn_onlineem.models.hidden_markov.regression_forecasts import (
    LaggedRows,
    RegressionForecast,
)
from sklearn_onlineem.models.kalman.linear_dynamical import LinearDynamicalModel

_ONE_ROW = np.array([0, 1])
_NAME = "live_filter().update"


class _LiveFilter(Loaded):
    """What filters have in common."""

    _categories: Mapping[int, NDArray[np.generic]] | None = None
    # Known inputs of a row.
    _n_inputs = 0

    def _named(self, rows):
        """Return rows with the categories that codes stand for."""
        if not self._categories:
            return rows
        are_numbers = all(known.dtype.kind in "iu" for known in self._categories.values())
        out = rows.copy() if are_numbers else rows.astype(object)
        for j, known in self._categories.items():
            out[:, j] = known[rows[:, j].astype(int)]
        return out

    def forecast(
        self,
        n_steps: int = 1,
        *,
        return_cov: bool = False,
        quantiles: ArrayLike | None = None,
        inputs: ArrayLike | None = None,
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
        inputs : array-like of shape (n_steps, n_inputs), default=None
            Known inputs of the rows to come; None: the model has none.

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
            As `forecast` of the estimator; if lags were not all observed since the filter began,
            or no row was, where the start is diffuse.
        """
        name = "live_filter().forecast"
        if isinstance(n_steps, bool) or not isinstance(n_steps, Integral) or n_steps < 1:
            raise ValueError(f"n_steps of {name} must be a whole number above 0, got {n_steps!r}.")
        levels = None if quantiles is None else checked_levels(f"quantiles of {name}", quantiles)
        future = _future_inputs(inputs, (int(n_steps), self._n_inputs))
        ahead = self._ahead(int(n_steps), future)
        parts = [self._named(ahead.mean[0])]
        if return_cov:
            parts.append(ahead.covariance[0])
        if levels is not None:
            parts.append(ahead.quantiles(levels)[:, 0])
        return parts[0] if len(parts) == 1 else tuple(parts)

    def _ahead(self, n_steps, future):
        return self._model.ahead(self._states, n_steps)


class StateFilter(_LiveFilter):
    """The distribution of the hidden state of a running sequence, given all rows so far.

    `live_filter` of a fitted hidden Markov model returns one.

    Parameters
    ----------
    model : HiddenMarkovModel
        Later updates of the estimator do not change it.
    probabilities : ndarray of shape (n_components,), default=None
        Distribution of the state before the next row, of a sequence that goes on; with durations,
        what `filtered_end` of the model returns. None: a new sequence begins.
    categories : dict of int to ndarray, default=None
        What codes of nominal columns stand for, by column: `update` takes these instead of codes,
        and `forecast` returns them. None: codes.

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

    def __init__(
        self,
        model: HiddenMarkovModel,
        probabilities: Floats | None = None,
        categories: Mapping[int, NDArray[np.generic]] | None = None,
    ) -> None:
        self._model, self._categories = model, categories
        self._n_features = model.n_features
        self._end = probabilities
        self.n_steps = 0

    @property
    def probabilities(self) -> Floats | None:
        return None if self._end is None else self._model.states_of_end(self._end)

    @probabilities.setter
    def probabilities(self, value: Floats | None) -> None:
        self._end = value

    @property
    def _states(self):
        return None if self._end is None else self._end[None]

    def update(self, row: ArrayLike) -> Floats:
        """Take the next row, and return the new distribution.

        Parameters
        ----------
        row : array-like of shape (n_features,)
            NaN if nothing was observed; single values may be missing if the emissions have
            distributions of the others, as Gaussian ones have. ValueError, and no change, for rows
            that are infinite, impossible, of another length or outside of the emissions' support.
        """
        row = self._coded(row) if self._categories else row
        X = _as_row(row, self._n_features)
        return self._after(Sequences.unchecked(Rows.unchecked(X), _ONE_ROW, self._end), X)

    def _after(self, data, X):
        """Take the next row X, in data, and return the new distribution."""
        family = self._model.family
        if are_ready(X, X.shape[1]):
            try:
                family.check(data.X)
            except ours(ValueError) as error:
                raise type(error)(f"{_NAME}: {error}") from None
        elif not _missing(X).all() and not isinstance(family, Marginals):
            name = type(family).__name__
            raise ValueError(f"{_NAME}: {name} does not accept rows with some values missing.")
        end = self._model.filtered_end(data)
        if end is None:
            raise ValueError(
                f"{_NAME}: the row is impossible under the model after the rows before it."
            )
        self._end = end
        self.n_steps += 1
        return self.probabilities

    def _coded(self, row):
        """Return a row with the codes of known categories; ValueError for others."""
        row = np.array(row, dtype=object)
        if row.shape != (self._n_features,):
            return row  # The error is that of codes.
        for j, known in self._categories.items():
            is_missing = row[j] is None or row[j] != row[j]
            found = [np.nan] if is_missing else np.flatnonzero(known == row[j])
            if len(found) == 0:
                raise ValueError(f"{_NAME}: the first data had no category {row[j]!r}.")
            row[j] = found[0]
        return row


class RegressionFilter(StateFilter):
    """The distribution of the hidden state of a running sequence whose states are regressions.

    `live_filter` of a fitted `RegressionHMM` returns one.

    Parameters
    ----------
    model : HiddenMarkovModel
        Of a family of regressions. Later updates of the estimator do not change it.
    probabilities : ndarray of shape (n_components,), default=None
        As in `StateFilter`.
    last : ndarray of shape (n_inputs + n_outputs,), default=None
        The row before the next, lags and inputs first, of a sequence that goes on.
    lags : int, default=0
        How many earlier rows are among the inputs of the model.

    Attributes
    ----------
    probabilities, n_steps
        As in `StateFilter`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import RegressionHMM
    >>> rng = np.random.default_rng(0)
    >>> x, slope = rng.normal(size=200), np.repeat([1.0, -1.0], 100)
    >>> hmm = RegressionHMM(2, random_state=0).fit((slope * x)[:, None], inputs=x)
    >>> live = hmm.live_filter()
    >>> live.update([0.5], inputs=[0.5]).argmax() == hmm.coef_.argmax()
    np.True_
    """

    def __init__(
        self,
        model: HiddenMarkovModel,
        probabilities: Floats | None = None,
        last: Floats | None = None,
        *,
        lags: int = 0,
    ) -> None:
        super().__init__(model, probabilities)
        self._n_features -= model.family.n_inputs
        self._n_lags, self._last = lags, last

    def update(self, row: ArrayLike, inputs: ArrayLike | None = None) -> Floats:
        """Take the next row, and return the new distribution.

        Parameters
        ----------
        row : array-like of shape (n_features,)
            NaN if nothing was observed. ValueError, and no change, for rows that are infinite,
            impossible, or of another length.
        inputs
            As in `MomentFilter.update`.
        """
        X, q = _as_row(row, self._n_features), self._model.family.n_inputs
        past = lagged(X, _ONE_ROW, self._n_lags, self._last)
        known = _known_inputs(inputs, self._n_inputs)
        rows = Rows.unchecked(np.hstack([past, known, X]))
        data = Sequences.unchecked(rows, _ONE_ROW, self._end)
        is_missing = self._n_lags and (self._lagged is not None or np.isnan(X).any())
        before = self._lags() if is_missing else None
        probabilities = self._after(SequencesWithInputs.of(data, q), X)
        self._last, self._lagged = rows.X[0], None
        if before is not None and np.isnan(self._past()).any():
            self._lagged = self._end, before.step(known[0], X[0])[1]
        return probabilities

    # The end and the lags of which some are not observed, as they are expected then.
    _lagged = None

    def _past(self):
        """Return the lags of the next row, NaN where they are not observed."""
        n_lagged, q = self._n_lags * self._n_features, self._model.family.n_inputs
        last = np.full(q + self._n_features, np.nan) if self._last is None else self._last
        return np.append(last[q:], last[:n_lagged])[:n_lagged]

    def _lags(self):
        """Return the distribution of the lags of the next row, or None if they are unknown."""
        if self._lagged is not None and self._lagged[0] is self._end:
            return self._lagged[1]
        past = self._past()
        return None if np.isnan(past).any() else LaggedRows.after(self._model, self._end, past)

    @property
    def _n_inputs(self):
        return self._model.family.n_inputs - self._n_lags * self._n_features

    def _ahead(self, n_steps, future):
        lags = self._lags()
        if lags is None:
            raise ValueError(
                f"live_filter() knows no {self._n_lags} observed rows that follow each other."
            )
        found = lags.ahead(future)
        return RegressionForecast(self._model.family, *(values[None] for values in found))


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
    last : ndarray of shape (n_inputs,), default=None
        Inputs of the row before the next, of a sequence that goes on, if the model has any.

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
        last: Floats | None = None,
    ) -> None:
        self._model, self._last = model, last
        self.mean = mean
        self.covariance = covariance
        self.n_steps = 0

    @property
    def _state(self):
        return None if self.mean is None else (self.mean, self.covariance)

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

    def update(self, row: ArrayLike, inputs: ArrayLike | None = None) -> tuple[Floats, Floats]:
        """Take the next row, and return the new mean and covariance.

        Parameters
        ----------
        row : array-like of shape (n_features,)
            NaN where nothing was observed. ValueError, and no change, for rows of another length or
            with values that are infinite or whose squares overflow, and if the moments overflow,
            as those of an unstable system will.
        inputs : array-like of shape (n_inputs,), default=None
            Its known inputs; None: the model has none. ValueError, and no change, if they are of
            another length, or have values that are not finite.
        """
        X = _as_row(row, self._model.n_features)
        if not are_ready(X, X.shape[1]):
            _missing(X)
        data, known = Sequences.unchecked(Rows.unchecked(X), _ONE_ROW, self._state), None
        if self._n_inputs or inputs is not None:
            known = _known_inputs(inputs, self._n_inputs)
            data = with_inputs_before(X, known, _ONE_ROW, self._last).continued(self._state)
        mean, covariance = self._model.filtered_end(data)
        if not are_finite(mean, covariance):
            raise ValueError(f"{_NAME}: the moments of the state overflow.")
        self.mean, self.covariance = mean, covariance
        self._last = None if known is None else known[0]
        self.n_steps += 1
        return self.mean, self.covariance

    @property
    def _n_inputs(self):
        return self._model.n_inputs

    def _ahead(self, n_steps, future):
        inputs = (self._last, future) if self._n_inputs else None
        return self._model.ahead(self._state, n_steps, inputs)


def _known_inputs(inputs, n_known):
    """Return the inputs of a row, of shape (1, n_known)."""
    known = _as_row([] if inputs is None else inputs, n_known, "inputs")
    if not are_finite(known):
        raise ValueError(f"{_NAME}: inputs must be finite.")
    return known


def _future_inputs(inputs, shape):
    """Return the inputs of rows to come."""
    known = np.empty((shape[0], 0)) if inputs is None else np.array(inputs, np.float64, order="C")
    if known.shape != shape or not are_finite(known):
        raise ValueError(f"inputs must be finite and of shape {shape}, got {known.shape}.")
    return known


def _as_row(row, n_features, what="a row"):
    if isinstance(row, np.ma.MaskedArray):
        row = np.where(np.ma.getmaskarray(row), np.nan, np.ma.getdata(row))
    X = np.array(row)
    if X.dtype != np.float64:
        if X.dtype.kind == "c":
            raise ValueError(f"{_NAME}: {what} must not be complex.")
        try:
            X = X.astype(np.float64)
        except OverflowError:
            raise ValueError(f"{_NAME}: {what} has numbers beyond the largest float.") from None
        except ours(TypeError, ValueError) as error:
            raise ValueError(f"{_NAME}: {what} must have numbers: {error}.") from error
    # A single value is a row of one feature.
    if X.shape not in ((n_features,), (1, n_features)) and (X.shape or n_features > 1):
        raise ValueError(f"{_NAME}: {what} must have {n_features} features, got shape {X.shape}.")
    return X.reshape(1, n_features)


def _missing(X):
    """Return which values are missing; ValueError if the squares of the others overflow."""
    missing = np.isnan(X)
    observed = X[~missing]
    with np.errstate(over="ignore"):
        if not math.isfinite(observed @ observed):
            raise ValueError(f"{_NAME}: the row has values that are infinite, or too large.")
    return missing
