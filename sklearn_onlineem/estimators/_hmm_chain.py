"""The chain of a hidden Markov model: its start, transitions and termination."""

from __future__ import annotations

import numpy as np

from sklearn_onlineem.models import (
    AbsorbingStates,
    EndState,
    GivenLength,
    HiddenMarkovModel,
    HiddenMarkovStatistics,
)

__all__ = ["ChainParameters"]


class ChainParameters:
    """Translates `startprob_init`, `transmat_init`, `termination` and their like into a model."""

    # Letters of `params` that stand for the emissions.
    _emission_letters = "e"

    def _model(self, family, parameters):
        """The model that `startprob_init`, `transmat_init` and emission parameters make."""
        transmat = self._start_transmat()
        return HiddenMarkovModel(
            family,
            self._start_startprob(),
            transmat,
            parameters,
            self._termination(),
            self._learnt(),
        )

    def _learnt(self):
        emissions = any(letter in self.params for letter in self._emission_letters)
        unknown = set(self.params) - set("st" + self._emission_letters)
        if unknown:
            raise ValueError(
                f"params of {type(self).__name__} has letters other than"
                f" 'st{self._emission_letters}': {self.params!r}."
            )
        return "".join(c for c in "st" if c in self.params) + "e" * emissions

    def _termination(self):
        if self.termination == "given_length":
            return GivenLength()
        if self.termination == "end_state":
            return EndState()
        return AbsorbingStates(tuple(self._absorbing().tolist()))

    def _absorbing(self):
        """Indices of the absorbing states."""
        states = [] if self.absorbing_states is None else self.absorbing_states
        states = np.unique(np.asarray(states, dtype=np.int64))
        if len(states) and (states[0] < 0 or states[-1] >= self.n_components):
            raise ValueError(
                f"absorbing_states of {type(self).__name__} must be in 0..{self.n_components - 1}."
            )
        if self.termination == "end_state" and len(states):
            raise ValueError(
                f"absorbing_states of {type(self).__name__} are never left, so that no sequence"
                " could end with termination='end_state'; did you mean 'absorbing_states'?"
            )
        if self.termination == "absorbing_states" and not len(states):
            raise ValueError(
                f"{type(self).__name__} with termination='absorbing_states' needs absorbing_states;"
                " for sequences that end from any state there is 'end_state'."
            )
        if len(states) == self.n_components and self.termination == "absorbing_states":
            raise ValueError(
                f"absorbing_states of {type(self).__name__} leaves no transient state."
            )
        return states

    def _start_startprob(self):
        if self.startprob_init is not None:
            given = self._checked_shares("startprob_init", self.startprob_init, 1)
            return given / given.sum()
        start = np.ones(self.n_components)
        if self.termination == "absorbing_states":
            start[self._absorbing()] = 0.0
        return start / start.sum()

    def _start_transmat(self):
        n_states, absorbing = self.n_components, self._absorbing()
        ends_silently = self.termination == "end_state"
        if self.transmat_init is not None:
            transmat = self._checked_shares("transmat_init", self.transmat_init, 2)
            if ends_silently and transmat.shape[1] == n_states:
                transmat = np.column_stack([transmat, 1.0 - transmat.sum(axis=1)])
                if transmat.min() < 0:
                    raise ValueError("rows of transmat_init must add up to at most 1.")
        elif ends_silently:
            # An end that is certain would stay so, even if longer sequences follow.
            end = 1.0 / max(self._rows_per_sequence, 2.0)
            transmat = np.full((n_states, n_states + 1), (1.0 - end) / n_states)
            transmat[:, -1] = end
        else:
            transmat = np.ones((n_states, n_states))
        transmat = transmat / transmat.sum(axis=1, keepdims=True)
        transmat[absorbing] = np.eye(*transmat.shape)[absorbing]
        return transmat

    def _checked_shares(self, name, values, n_dimensions):
        """Convert start values that are shares: not negative, and not all 0 in a row."""
        values = np.asarray(values, dtype=np.float64)
        shape = (self.n_components,) * n_dimensions
        ends_silently = self.termination == "end_state"
        if n_dimensions == 2 and ends_silently and values.shape == (shape[0], shape[0] + 1):
            shape = values.shape
        values = self._checked_start(name, values, shape)
        if values.min() < 0 or not values.sum(axis=-1).all():
            raise ValueError(f"{name} of {type(self).__name__} must not be negative, nor all 0.")
        return values

    def _prior(self, model):
        emissions = self._emission_prior(model.family)
        start, transitions = self.startprob_prior, self.transmat_prior
        if emissions is None and start is None and transitions is None:
            return None
        if emissions is None:
            nothing = np.zeros(self.n_components)
            emissions = model.family.own_statistics(model.parameters, nothing)
        # Structural zeros are certain, whatever the prior says of the rest.
        return HiddenMarkovStatistics(
            _excess(start, "startprob_prior") * (model.start > 0),
            _excess(transitions, "transmat_prior") * (model.transmat > 0),
            emissions,
        )


def _excess(concentration, name):
    """Pseudo-counts of a Dirichlet prior beyond those of the uniform one."""
    if concentration is None:
        return 0.0
    concentration = np.asarray(concentration, dtype=np.float64)
    if not ((concentration > 0) & np.isfinite(concentration)).all():
        raise ValueError(f"{name} must be finite and above 0, got {concentration!r}.")
    return concentration - 1.0
