"""Linear dynamical systems: what Kalman filters filter."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from sklearn_onlineem.data import Rows
from sklearn_onlineem.data.sequences import Sequences
from sklearn_onlineem.families.gaussian_matrix import MatrixMoments
from sklearn_onlineem.families.linear_gaussian import AffineGaussian, LinearGaussian
from sklearn_onlineem.models._kalman import Padded
from sklearn_onlineem.models._model import Model
from sklearn_onlineem.models._sequence_parts import LinearDynamicalStatistics, parts, split_by_gaps
from sklearn_onlineem.models._shared_gains import SharedGains
from sklearn_onlineem.models._state_occupancies import occupancies
from sklearn_onlineem.statistics import combine

__all__ = ["LinearDynamicalModel", "LinearDynamicalStatistics"]

_INITIAL = {"initial_state_mean": "offset", "initial_state_covariance": "covariance"}
_TRANSITIONS = {
    "transition_matrices": "matrix",
    "transition_offsets": "offset",
    "transition_covariance": "covariance",
}
_EMISSIONS = {
    "observation_matrices": "matrix",
    "observation_offsets": "offset",
    "observation_covariance": "covariance",
}
IDENTIFIABLE = frozenset({*_INITIAL, *_TRANSITIONS, *_EMISSIONS} - {"transition_offsets"})


@dataclass(frozen=True, eq=False)
class LinearDynamicalModel(Model):
    r"""A state that moves linearly and is seen through a linear map, both with Gaussian noise.

    .. math::
        h_1 \sim N(m_1, V_1), \quad h_t = A h_{t-1} + b + N(0, Q), \quad v_t = C h_t + d + N(0, R)

    A missing value is NaN; any of a row may be missing.

    Parameters
    ----------
    initial_mean : ndarray of shape (k,)
    initial_covariance : ndarray of shape (k, k)
    transition : ndarray of shape (k, k)
    transition_offset : ndarray of shape (k,)
    transition_covariance : ndarray of shape (k, k)
    observation : ndarray of shape (d, k)
    observation_offset : ndarray of shape (d,)
    observation_covariance : ndarray of shape (d, d)
        Positive definite; the other covariances may be singular.
    learnt : frozenset of str
        pykalman's names of what the M-step changes. The default leaves out the offsets of the
        transitions, as those of the observations make up for them.
    initial, transitions, emissions : LinearGaussian
        Shapes of the noise covariances, and floors.

    References
    ----------
    Amid & Warmuth, UAI 2020, section 6, with sums over t = 1..T-1 of transitions and t = 1..T of
    emissions, each averaged over sequences.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.data import Rows
    >>> from sklearn_onlineem.data import Sequences
    >>> from sklearn_onlineem.models import LinearDynamicalModel
    >>> one = np.ones((1, 1))
    >>> walk = LinearDynamicalModel(
    ...     np.zeros(1), one, one, np.zeros(1), one, one, np.zeros(1), one)
    >>> data = Sequences(Rows(np.array([[1.0], [np.nan], [2.0]])), np.array([0, 3]))
    >>> walk.filtered(data)[0].round(3)
    array([[0.5  ],
           [0.5  ],
           [1.571]])
    """

    initial_mean: np.ndarray
    initial_covariance: np.ndarray
    transition: np.ndarray
    transition_offset: np.ndarray
    transition_covariance: np.ndarray
    observation: np.ndarray
    observation_offset: np.ndarray
    observation_covariance: np.ndarray
    learnt: frozenset = IDENTIFIABLE
    initial: LinearGaussian = LinearGaussian()
    transitions: LinearGaussian = LinearGaussian()
    emissions: LinearGaussian = LinearGaussian()

    @property
    def n_components(self):
        return len(self.initial_mean)

    @property
    def n_features(self):
        return len(self.observation_offset)

    @cached_property
    def _start(self):
        empty = np.empty((self.n_components, 0))
        return AffineGaussian(empty, self.initial_mean, self.initial_covariance)

    @cached_property
    def _move(self):
        return AffineGaussian(self.transition, self.transition_offset, self.transition_covariance)

    @cached_property
    def _emission(self):
        return AffineGaussian(
            self.observation, self.observation_offset, self.observation_covariance
        )

    # ------------------------------------------------------------------------------------ the EM

    def e_step(self, data, rng=None):
        complete, others = split_by_gaps(data) if rng is None else (None, data)
        gains = self._gains(complete)
        if gains is None:
            sums = self._sums(data, rng)
        else:
            sums = [gains.expected(complete)]
            sums += self._sums(others, rng) if others else []
        evidence = combine([(1.0 / len(data), statistics) for statistics, _ in sums])
        return evidence, sum(log_likelihood for _, log_likelihood in sums) / len(data)

    def _gains(self, data):
        """Gains of sequences without gaps, or None if there are no such, or too many gains."""
        if data is None:
            return None
        start = self.initial_mean, self.initial_covariance
        gains = SharedGains(self._padded, start, data.lengths.max())
        return gains if gains.suffice else None

    def _sums(self, data, rng):
        """Sums over sequences, by part: expected statistics, and log-likelihood."""
        # One generator, as others that it spawns would not depend on its state alone.
        return [self._padded.expected(part, data.n_threads, rng) for part in self._parts(data)]

    def _parts(self, data):
        return parts(data, (self.initial_mean, self.initial_covariance))

    def own_statistics(self, like=None):
        departures, states = self._occupancies(like)
        nothing = MatrixMoments(_one(like), _one(like), np.empty((1, 0)), np.empty((1, 0, 0)))
        return LinearDynamicalStatistics(
            self.initial.own_statistics(self._start, nothing),
            self.transitions.own_statistics(self._move, departures),
            self.emissions.own_statistics(self._emission, states),
        )

    def m_step(self, statistics):
        start = self.initial.m_step(statistics.initial, self._start, self._learnt(_INITIAL))
        move = self.transitions.m_step(
            statistics.transitions, self._move, self._learnt(_TRANSITIONS)
        )
        emission = self.emissions.m_step(
            statistics.emissions, self._emission, self._learnt(_EMISSIONS)
        )
        return replace(
            self,
            initial_mean=start.offset,
            initial_covariance=start.covariance,
            transition=move.matrix,
            transition_offset=move.offset,
            transition_covariance=move.covariance,
            observation=emission.matrix,
            observation_offset=emission.offset,
            observation_covariance=emission.covariance,
        )

    def _learnt(self, names):
        return {part for name, part in names.items() if name in self.learnt}

    def n_parameters(self):
        """Return the number of free parameters among those that are learnt."""
        return (
            self.initial.n_parameters(self._start, self._learnt(_INITIAL))
            + self.transitions.n_parameters(self._move, self._learnt(_TRANSITIONS))
            + self.emissions.n_parameters(self._emission, self._learnt(_EMISSIONS))
        )

    def kl_divergence(self, other, like=None):
        departures, states = self._occupancies(like)
        nothing = MatrixMoments(_one(like), _one(like), np.empty((1, 0)), np.empty((1, 0, 0)))
        return max(
            0.0,
            self.initial.kl_divergence(self._start, other._start, nothing)
            + self.transitions.kl_divergence(self._move, other._move, departures)
            + self.emissions.kl_divergence(self._emission, other._emission, states),
        )

    def lengths(self, data):
        return data.length_distribution

    def aligned_to(self, reference, like=None):
        """Return the same distribution of the rows, in coordinates of the states as in a reference.

        They are changed by the linear map T that brings the readings of the states now and in the
        steps to come, C, C A, C A A, ..., closest to those of the reference, in least squares.
        """
        if self is reference:
            return self
        T = np.linalg.lstsq(reference._readings, self._readings, rcond=None)[0]
        if np.linalg.matrix_rank(T) < self.n_components:
            raise ValueError("the readings of the states do not say which is which.")
        inverse = np.linalg.inv(T)
        return replace(
            self,
            initial_mean=T @ self.initial_mean,
            initial_covariance=_congruent(T, self.initial_covariance),
            transition=T @ self.transition @ inverse,
            transition_offset=T @ self.transition_offset,
            transition_covariance=_congruent(T, self.transition_covariance),
            observation=self.observation @ inverse,
        )

    @property
    def _readings(self):
        """What rows to come say of the state (the observability matrix)."""
        blocks = [self.observation]
        for _ in range(self.n_components - 1):
            blocks.append(blocks[-1] @ self.transition)
        return np.concatenate(blocks)

    def _occupancies(self, like):
        return occupancies(self._padded, (self.initial_mean, self.initial_covariance), like)

    # --------------------------------------------------------------------------------- inference

    def log_likelihood(self, data):
        return np.add.reduceat(self.row_log_likelihoods(data), data.offsets[:-1])

    def row_log_likelihoods(self, data):
        """Return log p(v_t | v_1..t-1), an ndarray of shape (n_rows,); 0 where nothing is seen."""
        return self._filtered(data)[-1]

    def filtered(self, data):
        """Return means (n_rows, k) and covariances (n_rows, k, k) of p(h_t | v_1..t)."""
        return self._filtered(data, filtered=True)[2:4]

    def predicted(self, data):
        """Return means (n_rows, d) and covariances (n_rows, d, d) of p(v_t | v_1..t-1)."""
        return self._emitted(*self._filtered(data, predicted=True)[:2])

    def forecast(self, data, n_steps):
        """Return moments of the rows that follow each sequence.

        Returns
        -------
        means : ndarray of shape (n_sequences, n_steps, d)
        covariances : ndarray of shape (n_sequences, n_steps, d, d)
        """
        means, covariances = (part[data.offsets[1:] - 1] for part in self.filtered(data))
        steps = []
        for _ in range(n_steps):
            means = means @ self.transition.T + self.transition_offset
            covariances = self.transition @ covariances @ self.transition.T
            covariances = covariances + self.transition_covariance
            steps.append(self._emitted(means, covariances))
        return tuple(np.stack(part, axis=1) for part in zip(*steps, strict=True))

    def _emitted(self, means, covariances):
        C = self.observation
        return (
            means @ C.T + self.observation_offset,
            C @ covariances @ C.T + self.observation_covariance,
        )

    def smoothed(self, data):
        """Return the moments of p(h_t | v).

        Returns
        -------
        means : ndarray of shape (n_rows, k)
        covariances : ndarray of shape (n_rows, k, k)
        lags : ndarray of shape (n_rows, k, k)
            Cov(h_t, h_t-1 | v), 0 for the first row of a sequence.
        """
        return self._smoothed(data)[:3]

    def imputed(self, data):
        """Return the rows (n_rows, d), what is missing replaced by its expectation given all."""
        return self._smoothed(data)[3]

    def _filtered(self, data, **wanted):
        return self._over_parts(data, self._padded.filtered, wanted)

    def _smoothed(self, data):
        return self._over_parts(data, self._padded.smoothed, {})

    def _over_parts(self, data, function, wanted):
        found = []
        for part in self._parts(data):
            arrays = function(part, data.n_threads, **wanted)
            found.append([array[part.n_lead :] for array in arrays])
        if len(found) == 1:
            return tuple(found[0])
        return tuple(np.concatenate(arrays) for arrays in zip(*found, strict=True))

    @cached_property
    def _padded(self):
        return Padded(self)

    def sample(self, n, rng, like=None):
        """Draw n sequences.

        Parameters
        ----------
        n : int
        rng : numpy.random.Generator
        like : Sequences
            Data whose lengths are drawn from, as these are not modelled.

        Returns
        -------
        data : Sequences
        states : ndarray of shape (n_rows, k)
        """
        if like is None:
            raise ValueError(
                "Lengths are not modelled: pass `like`, data with lengths to draw from."
            )
        lengths = like.draw_lengths(n, rng)
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        states = np.empty((offsets[-1], self.n_components))
        now = self.initial.sample(self._start, np.empty((n, 0)), rng)
        for t in range(lengths.max(initial=0)):
            alive = lengths > t
            if t:
                now[alive] = self.transitions.sample(self._move, now[alive], rng)
            states[offsets[:-1][alive] + t] = now[alive]
        X = self.emissions.sample(self._emission, states, rng)
        return Sequences(Rows(X), offsets), states


def _one(like):
    """Share of the sequences that begin at their first row."""
    return np.array([1.0 if like is None or like.before is None else 1.0 - 1.0 / len(like)])


def _congruent(T, covariance):
    moved = T @ covariance @ T.T
    return 0.5 * (moved + moved.T)
