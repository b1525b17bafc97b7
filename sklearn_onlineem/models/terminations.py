"""Terminations of hidden chains, and the expected occupancies of their states.

The inertia of online EM needs the expected occupancies of the states under the model: those that
transitions leave weigh transition probabilities, and those that emit weigh emissions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

import numpy as np

from sklearn_onlineem._checks import at_least
from sklearn_onlineem._kernels import _forward_backward
from sklearn_onlineem._typing import Floats, Generator, Integers
from sklearn_onlineem._values import frozen
from sklearn_onlineem.data.sequences import LengthDistribution, Sequences
from sklearn_onlineem.families._e_step import drawn_from

# Rows of the horizon of shorter pieces of sequences, and the share of their own occupancies.
HORIZON = 300
OWN_SHARE = 0.5
NEEDS_LENGTHS = "Lengths are not modelled: pass `like`, data with lengths to draw from."
UNKNOWN_LENGTHS = "lengths of sequences are given, not modelled, and unknown before first data."

# Chains without an end count as if they ended once in so many steps.
_LONGEST = 1e12
# Longer sequences, on average, would take minutes to draw.
_MOST_ROWS = 1e6

# Data with lengths.
Lengths: TypeAlias = Sequences | LengthDistribution


@cache
def _ones(n):
    return frozen(np.ones(n))


class Termination(ABC):
    """Termination of a chain of K states.

    The transition matrix has K rows; a further column, if there is one, has the probabilities of
    ending after each state.
    """

    def transitions(self, transmat: Floats) -> Floats:
        """Return the probabilities (K, K) of transitions within a sequence.

        Parameters
        ----------
        transmat : ndarray of shape (K, K) or (K, K + 1)
            Probabilities of transitions and, in a further column, of ends.
        """
        return transmat

    def final(self, transmat: Floats) -> Floats:
        """Return p(the sequence ends here | state), of shape (K,); 1 if lengths are given.

        Parameters
        ----------
        transmat : ndarray of shape (K, K) or (K, K + 1)
            As in `transitions`.
        """
        return _ones(len(transmat))

    @abstractmethod
    def occupancies(
        self, start: Floats, transmat: Floats, like: Lengths | None
    ) -> tuple[Floats, Floats]:
        """Return expected transitions from each state and emissions by it, per sequence, two (K,).

        Parameters
        ----------
        start : ndarray of shape (K,)
            Probabilities of the first state.
        transmat : ndarray of shape (K, K) or (K, K + 1)
            As in `transitions`.
        like : Sequences or LengthDistribution
            Data with lengths; None if the chain ends by itself.
        """

    def size_of(self, data: Sequences) -> float:
        """Return a number proportional to the occupancies for all sequences of a batch.

        Parameters
        ----------
        data : Sequences
            A batch.
        """
        return data.total_weight

    def sample_states(
        self, start: Floats, transmat: Floats, n: int, rng: Generator, like: Lengths | None = None
    ) -> tuple[Integers, Integers]:
        """Draw n state sequences; return offsets (n + 1,) and states (n_rows,).

        ValueError if sequences end by themselves, and a state that can be reached cannot reach an
        end, or they would have more than a million rows on average.

        Parameters
        ----------
        start : ndarray of shape (K,)
            Probabilities of the first state, or weights: finite and not below 0.
        transmat : ndarray of shape (K, K) or (K, K + 1)
            As in `transitions`, or weights.
        n : int
            How many sequences.
        rng : numpy.random.Generator
            Source of random numbers.
        like : Sequences, default=None
            Data to draw lengths from, if lengths are given.
        """
        start, transmat = _weights("start", start, 1), _weights("transmat", transmat, 2)
        transitions, n_states = self.transitions(transmat), len(start)
        if transitions.shape != (n_states, n_states):
            raise ValueError(
                f"start has {n_states} states, but transmat has the shape {transmat.shape}."
            )
        final = self.final(transmat)
        lengths = self._sample_lengths(n, rng, like)
        if lengths is None:
            _check_ends(start, transitions, final)
        transitions = _cumulative_shares(transitions)
        alive, steps = np.arange(n), []
        states = drawn_from(np.repeat(_cumulative_shares(start[None]), n, axis=0), rng)
        while len(alive):
            steps.append((alive, states))
            if lengths is None:
                stays = rng.random(len(alive)) >= final[states]
            else:
                stays = lengths[alive] > len(steps)
            alive = alive[stays]
            states = drawn_from(transitions[states[stays]], rng)
        sequence = np.concatenate([alive for alive, _ in steps])
        drawn = np.concatenate([states for _, states in steps])
        offsets = np.concatenate(([0], np.cumsum(np.bincount(sequence, minlength=n))))
        return offsets, drawn[np.argsort(sequence, kind="stable")]

    def _sample_lengths(self, n, rng, like):
        """Draw lengths, or return None if the chain ends by itself."""
        return None


@dataclass(frozen=True)
class GivenLength(Termination):
    r"""Lengths are given, not modelled; occupancies are averages over those of the batch.

    .. math:: u = \sum_t P(T > t) \, \pi A^t

    over transitions :math:`t = 1..T-1` and emissions :math:`t = 1..T` (Amid & Warmuth, UAI 2020,
    section 4.2, with one u for both). Half the weight of a short piece of a sequence goes to the
    occupancies within a longer horizon.
    """

    def _sample_lengths(self, n, rng, like):
        if like is None:
            raise ValueError(NEEDS_LENGTHS)
        return like.draw_lengths(n, rng)

    def size_of(self, data: Sequences) -> float:
        return data.row_weight

    def occupancies(
        self, start: Floats, transmat: Floats, like: Lengths | None
    ) -> tuple[Floats, Floats]:
        if like is None:
            raise ValueError(UNKNOWN_LENGTHS)
        transitions, emissions = np.zeros(len(start)), np.zeros(len(start))
        sums = transitions, emissions
        _forward_backward.occupancies(start, transmat, *like.steps, *sums)
        if like.before is None:
            return sums
        # A piece of a sequence, given the state before it.
        n_rows, share = int(like.offsets[1]), like.share_of_first
        is_short = n_rows < HORIZON
        # Nothing is emitted by the state before.
        steps = np.array([1, n_rows + 1]), np.array([0.0, OWN_SHARE * share if is_short else share])
        _forward_backward.occupancies(like.before, transmat, *steps, *sums)
        if is_short:
            ahead = _visits(like.before, transmat, 1.0 - 1.0 / HORIZON)
            ahead *= (1.0 - OWN_SHARE) * share * n_rows / ahead.sum()
            transitions += ahead
            emissions += ahead @ transmat
        return sums


@dataclass(frozen=True)
class EndState(Termination):
    r"""The chain leaves its states at the end of a sequence, without emitting a row.

    The last column of the transition matrix has the probabilities of that, and
    :math:`u = \pi (I - Q)^{-1}` counts transitions and emissions exactly (Amid & Warmuth, UAI 2020,
    section 4.2, absorbing chains).
    """

    def transitions(self, transmat: Floats) -> Floats:
        return np.ascontiguousarray(transmat[:, :-1])

    def final(self, transmat: Floats) -> Floats:
        return np.ascontiguousarray(transmat[:, -1])

    def occupancies(
        self, start: Floats, transmat: Floats, like: Lengths | None
    ) -> tuple[Floats, Floats]:
        occupancy = _absorbed_occupancy(start, transmat[:, :-1])
        return occupancy, occupancy


@dataclass(frozen=True)
class AbsorbingStates(Termination):
    """A sequence ends at its first visit to an absorbing state, which emits its last row.

    Parameters
    ----------
    states : tuple of int
        The absorbing states.
    """

    states: tuple[int, ...]

    def _is_absorbing(self, n_states):
        mask = np.zeros(n_states, dtype=bool)
        mask[list(self.states)] = True
        return mask

    def transitions(self, transmat: Floats) -> Floats:
        return np.where(self._is_absorbing(len(transmat))[:, None], 0.0, transmat)

    def final(self, transmat: Floats) -> Floats:
        return self._is_absorbing(len(transmat)).astype(float)

    def occupancies(
        self, start: Floats, transmat: Floats, like: Lengths | None
    ) -> tuple[Floats, Floats]:
        transient = ~self._is_absorbing(len(start))
        transitions = np.zeros_like(start)
        inner = transmat[np.ix_(transient, transient)]
        transitions[transient] = _absorbed_occupancy(start[transient], inner)
        return transitions, np.where(transient, transitions, start + transitions @ transmat)


def _visits(start, inner, going_on):
    """Solve u = start + going_on u inner: how often states are visited."""
    out = np.empty(len(start))
    _forward_backward.visits(start, np.ascontiguousarray(inner, dtype=float), going_on, out)
    return out


def _absorbed_occupancy(start, inner):
    return _visits(np.ascontiguousarray(start, dtype=float), inner, 1.0 - 1.0 / _LONGEST)


def _check_ends(start, transitions, final):
    can_move = transitions > 0.0
    reached = _closure(start > 0.0, can_move)
    stuck = (final < 1.0) & ~can_move.any(axis=1)
    endless = reached & (stuck | ~_closure(final > 0.0, can_move.T))
    if endless.any():
        raise ValueError(
            "Sequences that are drawn would never end: no path leads from states"
            f" {np.flatnonzero(endless).tolist()} to the end. Change transmat_ or endprob_."
        )
    shares = np.diff(_cumulative_shares(transitions), axis=1, prepend=0.0)
    stays = np.clip(1.0 - final, 0.0, 1.0)
    check_number_of_rows(_absorbed_occupancy(start / start.sum(), stays[:, None] * shares).sum())


def check_number_of_rows(n_rows: float) -> None:
    """Raise ValueError if drawn sequences would have too many rows on average."""
    if not n_rows <= _MOST_ROWS:
        raise ValueError(
            f"Sequences that are drawn would have {n_rows:.3g} rows on average, more than"
            f" {_MOST_ROWS:.0g}. Change transmat_ or endprob_."
        )


def _weights(name, values, ndim):
    """Return weights as a plain array of floats; ValueError if they are none."""
    weights = at_least(name, values, 0.0, np.shape(values))
    with np.errstate(over="ignore"):
        total = weights.sum()
    if weights.ndim != ndim or not 0.0 < total < np.inf:
        raise ValueError(f"{name} must have {ndim} dimension(s), and a finite sum above 0.")
    return weights


def _closure(states, can_move):
    """Return the states that some of these lead to, themselves included."""
    while True:
        more = states | can_move[states].any(axis=0)
        if (more == states).all():
            return states
        states = more


def _cumulative_shares(weights):
    """Return cumulative sums of rows divided by the last; zeros for rows without any weight."""
    cumulative = np.cumsum(weights, axis=1)
    totals = cumulative[:, -1:]
    return np.divide(cumulative, totals, out=cumulative, where=totals > 0.0)
