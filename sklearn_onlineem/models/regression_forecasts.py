"""Distributions of the rows that follow a sequence whose states are regressions."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy import stats

from sklearn_onlineem._typing import Floats
from sklearn_onlineem.data.sequences import SequencesWithInputs
from sklearn_onlineem.families import Family
from sklearn_onlineem.models.forecasts import mixture_quantiles
from sklearn_onlineem.models.hidden_markov import HiddenMarkovModel

# Values of the lags of bits, each of which has a probability.
_MOST_VALUES = 1 << 12


@dataclass(frozen=True)
class RegressionForecast:
    r"""Rows of a mixture of states, each with moments of its own.

    .. math::
        \operatorname{E} v = m = \sum_k p_k m_k, \qquad
        \operatorname{Cov} v = \sum_k p_k (S_k + (m_k - m) (m_k - m)')

    Parameters
    ----------
    probabilities : ndarray of shape (n_sequences, n_steps, K)
        They add up to 1.
    means : ndarray of shape (n_sequences, n_steps, K, n_features)
        Expected rows given the state that makes them.
    covariances : ndarray of shape (n_sequences, n_steps, K, n_features, n_features)
        Covariances given that state.
    """

    probabilities: Floats
    means: Floats
    covariances: Floats

    @property
    def mean(self) -> Floats:
        """Expectations (n_sequences, n_steps, n_features)."""
        return np.einsum("nsk,nskd->nsd", self.probabilities, self.means)

    @property
    def covariance(self) -> Floats:
        """Covariances, of shape (n_sequences, n_steps, n_features, n_features)."""
        return _mixed(self.probabilities, self.means, self.covariances)[1]

    def quantiles(self, levels: Floats) -> Floats:
        """Return quantiles of each column, of shape (n_levels, n_sequences, n_steps, n_features).

        Rows are taken as normal given the state that makes them. With lags they are mixtures of
        normal rows from the second step on.

        Parameters
        ----------
        levels : ndarray of shape (n_levels,)
            Probabilities in (0, 1).
        """
        scales = np.sqrt(np.diagonal(self.covariances, axis1=-2, axis2=-1))
        columns = [
            stats.norm(self.means[..., j], scales[..., j]) for j in range(self.means.shape[-1])
        ]
        found = [mixture_quantiles(column, self.probabilities, levels) for column in columns]
        return np.stack(found, axis=-1)


class BitsForecast(RegressionForecast):
    """Rows of bits, whose quantiles are bits."""

    def quantiles(self, levels: Floats) -> Floats:
        noughts = 1.0 - self.mean
        return (levels[:, None, None, None] > noughts).astype(np.float64)


def forecast_of(family: Family, parts: tuple[Floats, ...]) -> RegressionForecast:
    """Return the forecast of a family from probabilities of states, means and covariances.

    Parameters
    ----------
    family : GaussianRegression or BernoulliRegression
        Of the rows.
    parts : tuple of ndarray
        Fields of the forecast.
    """
    return (RegressionForecast if family.is_linear else BitsForecast)(*parts)


def forecast_of_regressions(
    model: HiddenMarkovModel, data: SequencesWithInputs, future: Floats, n_lags: int
) -> RegressionForecast:
    """Return the distributions of the rows that follow each sequence.

    They are those given the rows up to the last one whose lags and itself are observed. Later ones
    of which some are missing are lags where they are observed, and tell nothing of the state, as in
    the likelihood. ValueError for a sequence that is impossible, or never has `n_lags` observed
    rows in a row.

    Parameters
    ----------
    model : HiddenMarkovModel
        Of the family `GaussianRegression` or `BernoulliRegression`.
    data : SequencesWithInputs
        With n_sequences.
    future : ndarray of shape (n_sequences, n_steps, n_known)
        Known inputs of the rows to come.
    n_lags : int
        How many earlier rows are the first inputs.
    """
    n_steps = future.shape[1]
    if not n_lags:
        family, flat = model.family, future.reshape(-1, future.shape[2])
        means = family.predicted(model.parameters, flat)
        means = means.reshape(*future.shape[:2], *means.shape[1:])
        covariances = family.covariances_given(model.parameters, means)
        probabilities = model.forecast(data, n_steps).probabilities
        return forecast_of(family, (probabilities, means, covariances))
    ahead, n_lagged = [], n_lags * data.n_features
    for i, (begin, end) in enumerate(zip(data.offsets[:-1], data.offsets[1:], strict=True)):
        rows = data.X[begin:end].astype(np.float64)
        # The rows that will be lags, after each row.
        past = np.hstack([rows[:, data.n_inputs :], rows[:, :n_lagged]])[:, :n_lagged]
        known = np.flatnonzero(~np.isnan(past).any(axis=1))
        if not len(known):
            raise ValueError(
                f"sequence {i} never has {n_lags} observed rows that follow each other."
            )
        last = known[-1]
        seen = data.with_rows(
            data.rows[begin : begin + last + 1],
            np.array([0, last + 1]),
            None if i else data.before,
        )
        state = model.filtered_end(seen)
        if state is None:
            raise ValueError(f"sequence {i} is impossible under the model.")
        lagged = LaggedRows.after(model, state, past[last])
        for row in rows[last + 1 :]:
            _, lagged = lagged.step(row[n_lagged : data.n_inputs], row[data.n_inputs :])
        ahead.append(lagged.ahead(future[i]))
    return forecast_of(model.family, tuple(map(np.stack, zip(*ahead, strict=True))))


@dataclass(frozen=True)
class LaggedRows:
    r"""Distributions of the lags of the next row, given the state and the rows left to its segment.

    They are mixtures of what may have been before, and their moments are exact. Given the state j
    that makes a row, with lags z and known inputs x,

    .. math::
        m_j = A_j E_j z + B_j x + c_j, \qquad S_j = A_j \operatorname{Cov}_j(z) A_j' + R_j

    Parameters
    ----------
    model : HiddenMarkovModel
        Of the family `GaussianRegression`.
    rests : ndarray of shape (K, D + 1)
        p(state, rows that are left to its segment) after the last row.
    means : ndarray of shape (K, D + 1, n_lagged)
        Of the lags, given these.
    spreads : ndarray of shape (K, D + 1, n_lagged, n_lagged)
        Covariances of the lags.

    References
    ----------
    Costa, Fragoso & Marques, "Discrete-Time Markov Jump Linear Systems", 2005, section 3.2.
    """

    model: HiddenMarkovModel
    rests: Floats
    means: Floats
    spreads: Floats

    @classmethod
    def after(
        cls, model: HiddenMarkovModel, state: Floats | None, past: Floats
    ) -> LaggedRows | LaggedBits:
        """Return those after rows that are known.

        Parameters
        ----------
        model : HiddenMarkovModel
            Like that of the class.
        state : ndarray, or None
            Filtered end of the rows before, as `ahead` takes it; None: a new sequence begins.
        past : ndarray of shape (n_lagged,)
            The lags.
        """
        if not model.family.is_linear:
            return LaggedBits(model, model.rests_of(state)[:, :, None], past[None])
        rests, n_lagged = model.rests_of(state), len(past)
        spreads = np.zeros((*rests.shape, n_lagged, n_lagged))
        return cls(model, rests, np.tile(past, (*rests.shape, 1)), spreads)

    def step(self, x: Floats, seen: Floats | None = None) -> tuple[tuple[Floats, ...], LaggedRows]:
        """Return probabilities of states and moments of the next row given these, and what follows.

        Parameters
        ----------
        x : ndarray of shape (n_known,)
            Known inputs of the row.
        seen : ndarray of shape (n_features,), default=None
            The row, if all of it is known; it is a lag, and tells nothing of the state.

        Returns
        -------
        moments : tuple of ndarrays
            Probabilities (K,), means (K, n_features), covariances (K, n_features, n_features).
        after : LaggedRows

        Raises
        ------
        ValueError
            If the sequence surely ends before it.
        """
        model, n_lagged = self.model, self.means.shape[-1]
        lagged, known = np.split(model.parameters.matrix, [n_lagged], axis=2)
        moves = model.termination.transitions(model.transmat)
        before = _shares(self.rests[:, :1] * moves, axis=0).T
        of_new = _mixed(before, self.means[:, 0], self.spreads[:, 0])
        begins = (self.rests[:, 0] @ moves)[:, None] * model.table_of_durations
        rests = np.stack([self.rests[:, 1:], begins], axis=-1)
        # What goes on, and what begins.
        old = (self.means[:, 1:], self.spreads[:, 1:])
        pairs = (
            np.stack([a, np.broadcast_to(b[:, None], a.shape)], axis=2)
            for a, b in zip(old, of_new, strict=True)
        )
        means, spreads = _mixed(_shares(rests), *pairs)
        rests = rests.sum(axis=-1)
        if not rests.any():
            raise ValueError("a sequence surely ends before the last of the rows to come.")
        rests /= rests.sum()
        rows = np.einsum("kpz,krz->krp", lagged, means)
        rows += (known @ x + model.parameters.offset)[:, None]
        across = lagged[:, None] @ spreads
        noise = across @ lagged.mT[:, None] + model.parameters.covariance[:, None]
        found = rests.sum(axis=1), *_mixed(_shares(rests), rows, noise)
        if seen is not None and not np.isnan(seen).any():
            rows, noise, across = np.broadcast_to(seen, rows.shape), 0.0 * noise, 0.0 * across
        joint = np.concatenate(
            [
                np.concatenate([noise, across], axis=-1),
                np.concatenate([across.mT, spreads], axis=-1),
            ],
            axis=-2,
        )
        means = np.concatenate([rows, means], axis=-1)[..., :n_lagged]
        after = rests, means, joint[..., :n_lagged, :n_lagged]
        return found, LaggedRows(model, *map(_with_none, after))

    def ahead(self, inputs: Floats) -> tuple[Floats, ...]:
        """Return what `step` does of rows to come, each with an axis of these in front.

        Parameters
        ----------
        inputs : ndarray of shape (n_steps, n_known)
            Known inputs of each row.
        """
        found, lagged = [], self
        for x in inputs:
            moments, lagged = lagged.step(x)
            found.append(moments)
        return tuple(map(np.array, zip(*found, strict=True)))


@dataclass(frozen=True)
class LaggedBits:
    """Probabilities of the lags of the next row of bits, with the state and the rows left to it.

    Parameters
    ----------
    model : HiddenMarkovModel
        Of the family `BernoulliRegression`.
    rests : ndarray of shape (K, D + 1, n_values)
        p(state, rows that are left to its segment, lags) after the last row.
    lags : ndarray of shape (n_values, n_lagged)
        Their values.
    """

    model: HiddenMarkovModel
    rests: Floats
    lags: Floats

    ahead = LaggedRows.ahead

    def step(self, x: Floats, seen: Floats | None = None) -> tuple[tuple[Floats, ...], LaggedBits]:
        """Return what `LaggedRows.step` does.

        Parameters
        ----------
        x, seen
            As there.
        """
        model, lags = self.model, self.lags
        moves = model.termination.transitions(model.transmat)
        begins = (moves.T @ self.rests[:, 0])[:, None] * model.table_of_durations[:, :, None]
        rests = self.rests[:, 1:] + begins
        if not rests.any():
            raise ValueError("a sequence surely ends before the last of the rows to come.")
        rests /= rests.sum()
        rows = np.hstack([lags, np.tile(x, (len(lags), 1))])
        ones = np.swapaxes(model.family.predicted(model.parameters, rows), 0, 1)
        of_state = rests.sum(axis=1)
        given = _shares(of_state)
        mean = np.einsum("kh,khp->kp", given, ones)
        second = np.einsum("kh,khp,khr->kpr", given, ones, ones)
        p = np.arange(mean.shape[1])
        second[:, p, p] = mean
        found = of_state.sum(axis=1), mean, second - mean[:, :, None] * mean[:, None]
        if seen is not None and not np.isnan(seen).any():
            lags = np.hstack([np.tile(seen, (len(lags), 1)), lags])[:, : lags.shape[1]]
        elif lags.shape[1]:
            values = np.array([*product((0.0, 1.0), repeat=len(p))])
            chances = np.where(values[:, None, None] > 0.0, ones, 1.0 - ones).prod(axis=3)
            every = rests[:, :, None] * np.moveaxis(chances, 0, 1)[:, None]
            pairs = np.hstack(
                [np.repeat(values, len(lags), axis=0), np.tile(lags, (len(values), 1))]
            )
            lags, which = np.unique(pairs[:, : lags.shape[1]], axis=0, return_inverse=True)
            if len(lags) > _MOST_VALUES:
                raise ValueError(
                    f"forecasts of bits would follow more than {_MOST_VALUES} values of lags."
                )
            flat, rests = (
                every.reshape(*every.shape[:2], -1),
                np.zeros((*every.shape[:2], len(lags))),
            )
            np.add.at(rests, (slice(None), slice(None), which.reshape(-1)), flat)
        return found, LaggedBits(model, _with_none(rests), lags)


def _with_none(values):
    """Add the most rows that could be left: nothing has them."""
    return np.concatenate([values, np.zeros_like(values[:, :1])], axis=1)


def _shares(weights, axis=-1):
    """Return weights that add up to 1; any do where all are 0."""
    weights = weights + np.finfo(float).tiny
    return weights / weights.sum(axis=axis, keepdims=True)


def _mixed(weights, means, covariances):
    """Return means and covariances of mixtures, of weights (..., K) that add up to 1."""
    shape = weights.shape[:-1]
    means = np.broadcast_to(means, (*shape, *means.shape[-2:]))
    mean = np.einsum("...k,...kd->...d", weights, means)
    deviation = means - mean[..., None, :]
    squares = covariances + deviation[..., :, None] * deviation[..., None, :]
    return mean, np.einsum("...k,...kij->...ij", weights, squares)
