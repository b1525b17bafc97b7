"""Distributions of the rows that follow a sequence whose states are regressions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from sklearn_onlineem._typing import Floats
from sklearn_onlineem.data.sequences import SequencesWithInputs
from sklearn_onlineem.models.forecasts import mixture_quantiles
from sklearn_onlineem.models.hidden_markov import HiddenMarkovModel
from sklearn_onlineem.models.hidden_semi_markov import HiddenSemiMarkovModel


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
        Of the family `GaussianRegression`.
    data : SequencesWithInputs
        With n_sequences.
    future : ndarray of shape (n_sequences, n_steps, n_known)
        Known inputs of the rows to come.
    n_lags : int
        How many earlier rows are the first inputs.
    """
    n_steps = future.shape[1]
    if not n_lags:
        means = np.einsum("kpq,nsq->nskp", model.parameters.matrix, future)
        means += model.parameters.offset
        covariances = np.broadcast_to(model.parameters.covariance, (*means.shape, means.shape[-1]))
        probabilities = model.forecast(data, n_steps).probabilities
        return RegressionForecast(probabilities, means, covariances)
    filtered = model.filtered(data).astype(np.float64)
    ahead, n_lagged = [], n_lags * data.n_features
    for i, (begin, end) in enumerate(zip(data.offsets[:-1], data.offsets[1:], strict=True)):
        rows = data.X[begin:end].astype(np.float64)
        if not filtered[begin:end].any(axis=1).all():
            raise ValueError(f"sequence {i} is impossible under the model.")
        # The rows that will be lags, after each row.
        past = np.hstack([rows[:, data.n_inputs :], rows[:, :n_lagged]])[:, :n_lagged]
        known = np.flatnonzero(~np.isnan(past).any(axis=1))
        if not len(known):
            raise ValueError(
                f"sequence {i} never has {n_lags} observed rows that follow each other."
            )
        last = known[-1]
        inputs = np.vstack([rows[last + 1 :, n_lagged : data.n_inputs], future[i]])
        seen = rows[last + 1 :, data.n_inputs :]
        found = regressions_ahead(model, filtered[begin + last], past[last], inputs, seen)
        ahead.append([values[-n_steps:] for values in found])
    return RegressionForecast(*map(np.stack, zip(*ahead, strict=True)))


def regressions_ahead(
    model: HiddenMarkovModel,
    state: Floats | None,
    past: Floats,
    inputs: Floats,
    seen: Floats | None = None,
) -> tuple[Floats, Floats, Floats]:
    r"""Return probabilities of the states to come, and moments of rows given these.

    Given the state j that makes a row, its lags z are those of a mixture of the states i before it,
    of weights :math:`\propto p_i a_{ij}`. Their moments are exact:

    .. math::
        m_j = A_j E_j z + B_j x + c_j, \qquad S_j = A_j \operatorname{Cov}_j(z) A_j' + R_j

    Parameters
    ----------
    model : HiddenMarkovModel
        Of the family `GaussianRegression`.
    state : ndarray of shape (K,), or None
        Filtered end of the rows before, as `ahead` takes it; None: a new sequence begins.
    past : ndarray of shape (n_lagged,)
        Lags of the first row.
    inputs : ndarray of shape (n_steps, n_known)
        Known inputs of each row.
    seen : ndarray of shape (n_seen, n_features), default=None
        Rows of the first steps that are lags of later ones, with NaN where they are unknown.

    Returns
    -------
    probabilities : ndarray of shape (n_steps, K)
    means : ndarray of shape (n_steps, K, n_features)
    covariances : ndarray of shape (n_steps, K, n_features, n_features)

    References
    ----------
    Costa, Fragoso & Marques, "Discrete-Time Markov Jump Linear Systems", 2005, section 3.2.
    """
    regressions, n_lagged = model.parameters, len(past)
    if n_lagged and isinstance(model, HiddenSemiMarkovModel):
        raise ValueError("forecasts with lags need durations=None, got others.")
    lagged, known = np.split(regressions.matrix, [n_lagged], axis=2)
    K, d = regressions.offset.shape
    means = np.tile(past, (K, 1))
    spreads = np.zeros((K, n_lagged, n_lagged))
    steps = model.ahead(None if state is None else state[None], len(inputs)).probabilities[0]
    found, before = ([], []), state
    transitions = model.termination.transitions(model.transmat)
    for t, (now, x) in enumerate(zip(steps, inputs, strict=True)):
        if before is not None and n_lagged:
            # Where a state is impossible, any weights do.
            weights = (before[:, None] * transitions).T + np.finfo(float).tiny
            weights /= weights.sum(axis=1, keepdims=True)
            means, spreads = _mixed(weights, means, spreads)
        rows = np.einsum("kpz,kz->kp", lagged, means) + known @ x + regressions.offset
        across = lagged @ spreads
        noise = across @ lagged.mT + regressions.covariance
        found[0].append(rows)
        found[1].append(noise)
        if seen is not None and t < len(seen) and not np.isnan(seen[t]).any():
            rows, noise, across = np.tile(seen[t], (K, 1)), np.zeros_like(noise), 0.0 * across
        means = np.hstack([rows, means])[:, :n_lagged]
        joint = np.concatenate(
            [
                np.concatenate([noise, across], axis=2),
                np.concatenate([across.mT, spreads], axis=2),
            ],
            axis=1,
        )
        spreads, before = joint[:, :n_lagged, :n_lagged], now
    return steps, *map(np.array, found)


def _mixed(weights, means, covariances):
    """Return means and covariances of mixtures, of weights (..., K) that add up to 1."""
    shape = weights.shape[:-1]
    means = np.broadcast_to(means, (*shape, *means.shape[-2:]))
    mean = np.einsum("...k,...kd->...d", weights, means)
    deviation = means - mean[..., None, :]
    squares = covariances + deviation[..., :, None] * deviation[..., None, :]
    return mean, np.einsum("...k,...kij->...ij", weights, squares)
