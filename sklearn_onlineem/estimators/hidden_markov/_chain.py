"""The chain of a hidden Markov model: its start, transitions and termination."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sklearn_onlineem.estimators._validation import shares
from sklearn_onlineem.families._checks import above
from sklearn_onlineem.models.terminations import AbsorbingStates, EndState, GivenLength

__all__ = ["Chain", "excess"]

TERMINATIONS = {
    "given_length": lambda absorbing: GivenLength(),
    "end_state": lambda absorbing: EndState(),
    "absorbing_states": lambda absorbing: AbsorbingStates(tuple(absorbing.tolist())),
}


@dataclass(frozen=True)
class Chain:
    """Parameters of an estimator that describe its hidden chain.

    Parameters
    ----------
    n_states : int
    termination : str
        A key of `TERMINATIONS`.
    absorbing_states : array-like of int, default=None
    start, transmat : array-like, default=None
        Given start values.
    """

    n_states: int
    termination: str
    absorbing_states: object = None
    start: object = None
    transmat: object = None

    def parts(self, mean_length):
        """Return start, transition matrix and termination of a model.

        Parameters
        ----------
        mean_length : float
            Rows of a sequence, from which ends that are not given start.
        """
        absorbing = self._absorbing()
        termination = TERMINATIONS[self.termination](absorbing)
        return self._start(absorbing), self._transmat(absorbing, mean_length), termination

    def _absorbing(self):
        """Indices of the absorbing states."""
        given = [] if self.absorbing_states is None else self.absorbing_states
        states = np.unique(np.asarray(given, dtype=np.int64))
        if len(states) and (states[0] < 0 or states[-1] >= self.n_states):
            raise ValueError(f"absorbing_states must be in 0..{self.n_states - 1}.")
        if self.termination == "end_state" and len(states):
            raise ValueError(
                "absorbing_states are never left, so that no sequence could end with"
                " termination='end_state'; did you mean 'absorbing_states'?"
            )
        if self.termination == "absorbing_states" and not len(states):
            raise ValueError(
                "termination='absorbing_states' needs absorbing_states; for sequences that end"
                " from any state there is 'end_state'."
            )
        if self.termination == "absorbing_states" and len(states) == self.n_states:
            raise ValueError("absorbing_states leaves no transient state.")
        return states

    def _start(self, absorbing):
        if self.start is not None:
            start = shares("startprob_init", self.start, (self.n_states,))
        else:
            start = np.ones(self.n_states)
            if self.termination == "absorbing_states":
                start[absorbing] = 0.0
        return start / start.sum()

    def _transmat(self, absorbing, mean_length):
        n_states, has_end = self.n_states, self.termination == "end_state"
        if self.transmat is not None:
            transmat = self._given_transmat(has_end)
        elif has_end:
            # An end that is certain would stay so, even if longer sequences follow.
            end = 1.0 / max(mean_length, 2.0)
            transmat = np.full((n_states, n_states + 1), (1.0 - end) / n_states)
            transmat[:, -1] = end
        else:
            transmat = np.ones((n_states, n_states))
        transmat = transmat / transmat.sum(axis=1, keepdims=True)
        transmat[absorbing] = np.eye(*transmat.shape)[absorbing]
        return transmat

    def _given_transmat(self, has_end):
        """`transmat_init`; with an end state, a column for it that rows may leave out."""
        n_states = self.n_states
        with_end = has_end and np.shape(self.transmat) == (n_states, n_states + 1)
        lacks_end = has_end and not with_end
        shape = (n_states, n_states + with_end)
        transmat = shares("transmat_init", self.transmat, shape, may_lack=lacks_end)
        if lacks_end:
            rest = np.maximum(1.0 - transmat.sum(axis=1), 0.0)
            transmat = np.column_stack([transmat, rest])
        # What a row lacks may be rounding.
        if has_end and transmat[:, -1].max() <= n_states * np.finfo(np.float64).eps:
            raise ValueError(
                "transmat_init leaves no room for the end: with termination='end_state' rows of"
                f" {n_states} entries add up to less than 1, and the rest is the probability to end"
                f" there; or rows of {n_states + 1} entries have it last, above 0 in one at least."
            )
        return transmat


def excess(concentration, name):
    """Pseudo-counts of a Dirichlet prior beyond those of the uniform one."""
    if concentration is None:
        return 0.0
    return above(name, concentration, 0.0, np.shape(concentration)) - 1.0
