"""Distributions of the rows that follow a sequence whose states are regressions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

import numpy as np

from sklearn_onlineem._typing import Floats
from sklearn_onlineem.data.sequences import SequencesWithInputs
from sklearn_onlineem.families import Family
from sklearn_onlineem.families.linear_gaussian import joined
from sklearn_onlineem.models.forecasts import mixture_quantiles, moments_of_mixture
from sklearn_onlineem.models.hidden_markov.markov import HiddenMarkovModel

# Values of lags that are followed, each with its probability; how many are drawn where there would
# be more; and probabilities of the next row that are held.
_MOST_VALUES, _N_DRAWN, _MOST_CHANCES = 1 << 12, 1 << 10, 1 << 20
# Values so far from expectations, and standard deviations, and values less probable, are left out.
_FAR, _FAR_DEVIATIONS, _NEGLIGIBLE = 12.0, 8.0, 1e-14


@dataclass(frozen=True)
class RegressionForecast:
    r"""Rows of a mixture of states, each with moments of its own.

    .. math::
        \operatorname{E} v = m = \sum_k p_k m_k, \qquad
        \operatorname{Cov} v = \sum_k p_k (S_k + (m_k - m) (m_k - m)')

    `probabilities` are (n_sequences, n_steps, K), and means and covariances are given the state
    that makes a row. Where lags are bits or counts, `chances` (n_sequences, n_steps, n_features,
    n_values) are probabilities of values of each column, and the last axis of `grid` has the first
    of these values, and the distance of the next ones, 1 unless there are very many.
    """

    family: Family
    probabilities: Floats
    means: Floats
    covariances: Floats
    chances: Floats | None = None
    grid: Floats | None = None

    @property
    def mean(self) -> Floats:
        """Expectations (n_sequences, n_steps, n_features)."""
        return np.einsum("nsk,nskd->nsd", self.probabilities, self.means)

    @property
    def covariance(self) -> Floats:
        """Covariances, of shape (n_sequences, n_steps, n_features, n_features)."""
        return moments_of_mixture(self.probabilities, self.means, self.covariances)[1]

    def quantiles(self, levels: Floats) -> Floats:
        """Return quantiles of each column, of shape (n_levels, n_sequences, n_steps, n_features).

        Real numbers are taken as normal given the state that makes them. With lags they are
        mixtures of normal rows from the second step on.
        """
        if self.chances is not None:
            below = self.chances.cumsum(axis=-1)
            levels = levels[:, None, None, None] * below[..., -1]
            return self.grid[..., 0] + self.grid[..., 1] * (below < levels[..., None]).sum(axis=-1)
        variances = np.diagonal(self.covariances, axis1=-2, axis2=-1)
        columns = [
            self.family.distribution_given(self.means[..., j], variances[..., j])
            for j in range(self.means.shape[-1])
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

    `future` (n_sequences, n_steps, n_known) are known inputs of the rows to come; `n_lags` earlier
    rows are the first inputs.
    """
    n_steps = future.shape[1]
    if not n_lags:
        family, flat = model.family, future.reshape(-1, future.shape[2])
        means = family.predicted(model.parameters, flat)
        means = means.reshape(*future.shape[:2], *means.shape[1:])
        covariances = family.covariances_given(model.parameters, means)
        probabilities = model.forecast(data, n_steps).probabilities
        return RegressionForecast(family, probabilities, means, covariances)
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
            data.rows[begin : begin + last + 1], np.array([0, last + 1]), None if i else data.before
        )
        state = model.filtered_end(seen)
        if state is None:
            raise ValueError(f"sequence {i} is impossible under the model.")
        lagged = LaggedRows.after(model, state, past[last])
        for row in rows[last + 1 :]:
            _, lagged = lagged.step(row[n_lagged : data.n_inputs], row[data.n_inputs :])
        ahead.append(lagged.ahead(future[i]))
    return RegressionForecast(model.family, *map(_stacked, zip(*ahead, strict=True)))


@dataclass(frozen=True)
class LaggedRows:
    r"""Distributions of the lags of the next row, given the state and the rows left to its segment.

    They are mixtures of what may have been before, and their moments are exact. Given the state j
    that makes a row, with lags z and known inputs x,

    .. math::
        m_j = A_j E_j z + B_j x + c_j, \qquad S_j = A_j \operatorname{Cov}_j(z) A_j' + R_j

    `rests` (K, D + 1) is p(state, rows that are left to its segment) after the last row; `means`
    and `spreads`, covariances, are those of the lags, given these.

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
    ) -> LaggedRows | LaggedValues:
        """Return those after rows that are known.

        `state` is the filtered end of the rows before, as `ahead` takes it, or None if a new
        sequence begins; `past` (n_lagged,) are the lags.
        """
        if not model.family.is_linear:
            return LaggedValues(model, model.rests_of(state)[:, :, None], past[None])
        rests, n_lagged = model.rests_of(state), len(past)
        spreads = np.zeros((*rests.shape, n_lagged, n_lagged))
        return cls(model, rests, np.tile(past, (*rests.shape, 1)), spreads)

    def step(self, x: Floats, seen: Floats | None = None) -> tuple[tuple[Floats, ...], LaggedRows]:
        """Return probabilities of states and moments of the next row given these, and what follows.

        Shapes are (K,), (K, n_features) and (K, n_features, n_features). `x` are known inputs of
        the row, and `seen` is the row, if all of it is known; it is a lag, and tells nothing of the
        state. ValueError if the sequence surely ends before it.
        """
        model, n_lagged = self.model, self.means.shape[-1]
        lagged, known = np.split(model.parameters.matrix, [n_lagged], axis=2)
        moves = model.termination.transitions(model.transmat)
        before = _shares(self.rests[:, :1] * moves, axis=0).T
        of_new = moments_of_mixture(before, self.means[:, 0], self.spreads[:, 0])
        begins = (self.rests[:, 0] @ moves)[:, None] * model.table_of_durations
        rests = np.stack([self.rests[:, 1:], begins], axis=-1)
        # What goes on, and what begins.
        old = (self.means[:, 1:], self.spreads[:, 1:])
        pairs = (
            np.stack([a, np.broadcast_to(b[:, None], a.shape)], axis=2)
            for a, b in zip(old, of_new, strict=True)
        )
        means, spreads = moments_of_mixture(_shares(rests), *pairs)
        rests = rests.sum(axis=-1)
        if not rests.any():
            raise ValueError("a sequence surely ends before the last of the rows to come.")
        rests /= rests.sum()
        rows = np.einsum("kpz,krz->krp", lagged, means)
        rows += (known @ x + model.parameters.offset)[:, None]
        across = lagged[:, None] @ spreads
        noise = across @ lagged.mT[:, None] + model.parameters.covariance[:, None]
        found = rests.sum(axis=1), *moments_of_mixture(_shares(rests), rows, noise)
        if seen is not None and not np.isnan(seen).any():
            rows, noise, across = np.broadcast_to(seen, rows.shape), 0.0 * noise, 0.0 * across
        joint = joined(noise, across.mT, spreads)
        means = np.concatenate([rows, means], axis=-1)[..., :n_lagged]
        after = rests, means, joint[..., :n_lagged, :n_lagged]
        return found, LaggedRows(model, *map(_with_none, after))

    def ahead(self, inputs: Floats) -> tuple[Floats, ...]:
        """Return what `step` does of rows to come, each with an axis of these in front."""
        found, lagged = [], self
        for x in inputs:
            moments, lagged = lagged.step(x)
            found.append(moments)
        return tuple(map(_stacked, zip(*found, strict=True)))


@dataclass(frozen=True)
class LaggedValues:
    """Probabilities of the lags of the next row of bits or counts, the state, and the rows left.

    `rests` (K, D + 1, n_values) is p(state, rows that are left to its segment, lags) after the last
    row, and `lags` (n_values, n_lagged) are their values. Where there would be too many, some are
    drawn, always the same. `n_steps` rows have followed those that are known.
    """

    model: HiddenMarkovModel
    rests: Floats
    lags: Floats
    n_steps: int = 0

    ahead = LaggedRows.ahead

    def step(
        self, x: Floats, seen: Floats | None = None
    ) -> tuple[tuple[Floats, ...], LaggedValues]:
        """Return what `LaggedRows.step` does, and probabilities of values from the least up."""
        model, lags = self.model, self.lags
        moves = model.termination.transitions(model.transmat)
        begins = (moves.T @ self.rests[:, 0])[:, None] * model.table_of_durations[:, :, None]
        rests = self.rests[:, 1:] + begins
        if not rests.any():
            raise ValueError("a sequence surely ends before the last of the rows to come.")
        rests /= rests.sum()
        family, rows = model.family, np.hstack([lags, np.tile(x, (len(lags), 1))])
        means = np.swapaxes(family.predicted(model.parameters, rows), 0, 1)
        of_state = rests.sum(axis=1)
        within = family.covariances_given(model.parameters, means)
        values, distances, chances = zip(
            *(
                _chances(family.distribution_given(means[..., j]), of_state)
                for j in range(means.shape[2])
            ),
            strict=True,
        )
        found = (
            of_state.sum(axis=1), *moments_of_mixture(_shares(of_state), means, within),
            _stacked([np.einsum("kh,khv->v", of_state, column) for column in chances]),
            np.array([(column[0], d) for column, d in zip(values, distances, strict=True)]),
        )  # fmt: skip
        if seen is not None and not np.isnan(seen).any():
            lags = np.hstack([np.tile(seen, (len(lags), 1)), lags])[:, : lags.shape[1]]
        elif lags.shape[1]:
            next_lags = _followed(rests, lags, values, chances) if max(distances) == 1 else None
            rests, lags = next_lags or self._drawn(rests, rows)
        return found, LaggedValues(model, _with_none(rests), lags, self.n_steps + 1)

    def _drawn(self, rests, rows):
        """Return equal probabilities of lags that are drawn, and these."""
        rng, n = np.random.default_rng(self.n_steps), _N_DRAWN
        ends = rests.cumsum()
        points = (np.arange(n) + rng.random()) / n * ends[-1]
        states, left, which = np.unravel_index(np.searchsorted(ends, points), rests.shape)
        new = self.model.family.sample_outputs(self.model.parameters, states, rows[which], rng)
        drawn = np.zeros((*rests.shape[:2], n))
        drawn[states, left, np.arange(n)] = 1.0 / n
        return drawn, np.hstack([new, self.lags[which]])[:, : self.lags.shape[1]]


def _chances(distribution, weights):
    """Return whole values of distributions (K, H), their distance, and probabilities of them.

    The last are of shape (K, H, n_values): those of values since the one before.
    """
    mean, far = distribution.mean(), _FAR + _FAR_DEVIATIONS * distribution.std()
    ends = np.clip(np.floor([mean - far, mean + far]), *distribution.support())
    least, most = ends[0, weights > 0.0].min(), ends[1, weights > 0.0].max()
    distance = math.ceil((most - least + 1.0) * weights.size / _MOST_CHANCES)
    values = least + distance * np.arange(1 + math.ceil((most - least) / distance))
    below = distribution.cdf(values[:, None, None])
    return values, distance, np.moveaxis(np.diff(below, axis=0, prepend=0.0), 0, -1)


def _followed(rests, lags, values, chances):
    """Return the probabilities of the next lags, and these, from values of the columns of a row.

    None: there are too many.
    """
    K, n_values = len(rests), math.prod(map(len, values))
    if n_values * len(lags) > _MOST_CHANCES:
        return None
    of_rows = np.ones((K, len(lags), 1))
    for column in chances:
        of_rows = (of_rows[..., None] * column[:, :, None]).reshape(K, len(lags), -1)
    every = rests[:, :, None] * np.moveaxis(of_rows, 2, 1)[:, None]
    every = every.reshape(*rests.shape[:2], -1)
    kept = every.sum(axis=(0, 1)) > _NEGLIGIBLE / n_values
    rows = np.repeat(np.array([*product(*values)]), len(lags), axis=0)
    pairs = np.hstack([rows, np.tile(lags, (n_values, 1))])[kept, : lags.shape[1]]
    lags, which = np.unique(pairs, axis=0, return_inverse=True)
    if len(lags) > _MOST_VALUES:
        return None
    rests = np.zeros((*rests.shape[:2], len(lags)))
    np.add.at(rests, (slice(None), slice(None), which.reshape(-1)), every[..., kept])
    return rests, lags


def _stacked(arrays):
    """Return arrays on a new first axis, with zeros where a last axis is shorter than others."""
    size = max(array.shape[-1] for array in arrays)
    return np.stack(
        [np.pad(a, [*[(0, 0)] * (a.ndim - 1), (0, size - a.shape[-1])]) for a in arrays]
    )


def _with_none(values):
    """Add the most rows that could be left: nothing has them."""
    return np.concatenate([values, np.zeros_like(values[:, :1])], axis=1)


def _shares(weights, axis=-1):
    """Return weights that add up to 1; any do where all are 0."""
    weights = weights + np.finfo(float).tiny
    return weights / weights.sum(axis=axis, keepdims=True)
