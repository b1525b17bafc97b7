"""Start of hidden Markov models: the chain of the parameters, and clusters of rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import xlogy

from sklearn_onlineem._checks import above, relative_shares, require, shares
from sklearn_onlineem._python import ours
from sklearn_onlineem.estimators._known import learnt_parts, with_start_values
from sklearn_onlineem.estimators._start import (
    LEAST_GAIN,
    STARTS,
    ClusterInitialiser,
    climbed,
    distinct_rows,
    likeliest,
    start_model,
)
from sklearn_onlineem.estimators.sequences import observed_rows
from sklearn_onlineem.estimators.threads import single_threaded_openmp
from sklearn_onlineem.families import MixtureOf
from sklearn_onlineem.models.hidden_markov.durations import DURATIONS, lasts_one_row
from sklearn_onlineem.models.hidden_markov.markov import HiddenMarkovModel
from sklearn_onlineem.models.hidden_markov.semi_markov import HiddenSemiMarkovModel, check_moves
from sklearn_onlineem.models.terminations import AbsorbingStates, EndState, GivenLength

# Passes of EM in which starts are compared, and rows from which parts of states are told, in pieces
# of successive ones.
_PASSES, _MOST_ROWS, _PIECE = 10, 1 << 16, 1 << 10

TERMINATIONS = {
    "given_length": GivenLength(),
    "end_state": EndState(),
    "absorbing_states": AbsorbingStates(()),
}


def chain_model(hmm, family, parameters, mean_length=2.0):
    """Return the model of an estimator with these emissions, and with the chain of its parameters.

    `mean_length` is that of sequences.
    """
    given = [] if hmm.absorbing_states is None else hmm.absorbing_states
    states, n_states = np.unique(np.asarray(given, dtype=np.int64)), hmm.n_components
    termination = TERMINATIONS[hmm.termination]
    if len(states) and (states[0] < 0 or states[-1] >= n_states):
        raise ValueError(f"absorbing_states must be in 0..{n_states - 1}.")
    if hmm.termination == "end_state" and len(states):
        raise ValueError(
            "absorbing_states are never left, so that no sequence could end with"
            " termination='end_state'; did you mean termination='absorbing_states'?"
        )
    start = np.ones(n_states)
    if isinstance(termination, AbsorbingStates):
        if not len(states):
            raise ValueError(
                "termination='absorbing_states' needs absorbing_states; for sequences that end"
                " from any state there is 'end_state'."
            )
        if len(states) == n_states:
            raise ValueError("absorbing_states leaves no transient state.")
        start[states] = 0.0
        termination = AbsorbingStates(tuple(states.tolist()))
    if hmm.startprob_init is not None:
        start = shares("startprob_init", hmm.startprob_init, (n_states,))
    transmat = _transmat(hmm, states, mean_length)
    parts = {
        "family": family,
        "start": start / start.sum(),
        "transmat": transmat,
        "parameters": parameters,
        "termination": termination,
        "fixed": hmm._fixed(),
    }
    lasting = _lasting(hmm, transmat, states)
    return HiddenSemiMarkovModel(**parts, **lasting) if lasting else HiddenMarkovModel(**parts)


def segment_durations(hmm):
    """Return the distributions of durations, as models take them."""
    return DURATIONS[hmm.durations](learnt_parts(hmm)["durationprob"], hmm.left_censored)


def _lasting(hmm, transmat, absorbing):
    if hmm.durations is None:
        given = {
            "the mask 'durationprob' of params": isinstance(hmm.params, Mapping)
            and "durationprob" in hmm.params,
            "max_duration": hmm.max_duration is not None,
            "left_censored": hmm.left_censored,
            "durationprob_init": hmm.durationprob_init is not None,
        }
        for name, is_given in given.items():
            if is_given:
                raise ValueError(f"{name} requires durations.")
        return {}
    if hmm.max_duration is None:
        raise ValueError("durations require max_duration, the most rows of a segment.")
    if hmm.transmat_init is not None:
        check_moves("transmat_init", transmat)
    # At first any scale of durations is as likely as another.
    table = np.tile(1.0 / np.arange(1.0, hmm.max_duration + 1.0), (hmm.n_components, 1))
    if hmm.durationprob_init is not None:
        table = shares("durationprob_init", hmm.durationprob_init, table.shape)
    table = table / table.sum(axis=1, keepdims=True)
    if hmm.termination == "absorbing_states":
        if hmm.durationprob_init is not None and (table[absorbing, 0] < 1.0).any():
            raise ValueError("durationprob_init must be 1 for one row in absorbing states.")
        table[absorbing] = np.eye(1, hmm.max_duration)
    return {"durations": segment_durations(hmm), "table": table}


def _transmat(hmm, absorbing, mean_length):
    """Return the transition matrix, with a column for the end state if there is one."""
    n_states, has_end = hmm.n_components, hmm.termination == "end_state"
    if hmm.transmat_init is not None:
        with_end = has_end and np.shape(hmm.transmat_init) == (n_states, n_states + 1)
        lacks_end = has_end and not with_end
        shape = (n_states, n_states + with_end)
        transmat = shares("transmat_init", hmm.transmat_init, shape, may_lack=lacks_end)
        if lacks_end:
            rest = np.maximum(1.0 - transmat.sum(axis=1), 0.0)
            transmat = np.column_stack([transmat, rest])
        # The rest of a row may be rounding.
        if has_end and transmat[:, -1].max() <= n_states * np.finfo(np.float64).eps:
            raise ValueError(
                "transmat_init leaves no room for the end: with termination='end_state' rows of"
                f" {n_states} entries add up to less than 1, and the rest is the probability to"
                f" end there; or rows of {n_states + 1} entries have it last, above 0 in one at"
                " least."
            )
    else:
        transmat = np.ones((n_states, n_states + has_end))
        if has_end:
            # A probability of 1 would never change, even if longer sequences follow.
            end = 1.0 / max(mean_length, 2.0)
            transmat[:, :n_states] = (1.0 - end) / n_states
            transmat[:, -1] = end
        if hmm.durations is not None and transmat.size > 1:
            # Segments are followed by those of other states, or the end.
            np.fill_diagonal(transmat, 0.0)
    transmat = transmat / transmat.sum(axis=1, keepdims=True)
    if len(absorbing):
        transmat[absorbing] = np.eye(*transmat.shape)[absorbing]
    return transmat


def excess(concentration, name, possible):
    """Return the pseudo-counts of a Dirichlet prior beyond those of the uniform one.

    `possible` are the entries that a prior may change: structural zeros stay.
    """
    if concentration is None:
        return 0.0 * possible
    counts, shape = above(name, concentration, 0.0, np.shape(concentration)) - 1.0, possible.shape
    pairs = zip(counts.shape[::-1], shape[::-1], strict=False)
    fits = counts.ndim <= len(shape) and all(n in (1, m) for n, m in pairs)
    require(fits, name, f"a number or of the shape {shape}", counts.shape)
    return counts * possible


def start_probabilities(hmm, name, values, model):
    """Return start values of probabilities, which need not add up to 1 in each group."""
    shape = model.parameters.shape
    groups = -1, getattr(model.family, "n_categories", shape[1])
    values = relative_shares(name, values, shape).reshape(groups)
    return (values / values.sum(axis=1, keepdims=True)).reshape(shape)


@dataclass(frozen=True)
class HiddenMarkovInitialiser(ClusterInitialiser):
    """Emissions start from clusters of rows in any order, chains from given probabilities."""

    other = "random_from_data"
    # No symbol is in two clusters. Emissions made of them alone would never share one, and EM could
    # not change that.
    shares_symbols = True
    _rows = staticmethod(observed_rows)

    def _model(self, mixture, data):
        mean_length = data.row_weight / data.total_weight
        model = chain_model(self.estimator, mixture.family, mixture.parameters, mean_length)
        model = with_start_values(self.estimator, model, data)
        return model if self.estimator.durations is None else self._lasting(model, data)

    def _lasting(self, model, data):
        """Return the model with durations of its kind: those that fit any durations best."""
        if self.estimator.durations == "categorical":
            return model
        counts, running = model.table, np.zeros(self.n_components)
        if self.estimator.durationprob_init is None:
            evidence, _ = model.e_step(data)
            # One more segment, as likely as any, keeps durations possible that are yet to come.
            counts = data.total_weight * evidence.durations + model.table
            running = data.total_weight * evidence.running
        kind = replace(model.durations, learns=True)
        return replace(model, table=kind.m_step(counts, running, model.table))

    def _started(self, data, family, rows, random_state, pseudo_rows):
        model = super()._started(data, family, rows, random_state, pseudo_rows)
        if not (isinstance(self.init, str) and isinstance(family, MixtureOf)):
            return model
        if family.tied or min(family.n_mix, self.n_components) == 1:
            return model
        # Parts of a state may lie anywhere, but rows enter and leave them alike.
        found = self._states_of_parts(data, family, rows, random_state)
        if found is None:
            return model
        arguments = family, found[0], self.n_components, random_state, pseudo_rows, self.prior
        other = self._model(start_model(found[1], *arguments), data)
        least = LEAST_GAIN * data.row_weight / data.total_weight

        def likelihood_of(start):
            prior, terms = self.prior(start.family, data.n_features), []
            if prior is not None:
                prior = start.chain_statistics(0.0 * start.start, 0.0 * start.transmat, prior)
                terms = [(1.0 / data.total_weight, prior)]
            return climbed(start, data, _PASSES, terms)[1]

        return likeliest((model, other), likelihood_of, least)

    def _states_of_parts(self, data, family, rows, random_state):
        """Return rows, and states of their clusters that follow each other alike, or None."""
        n_parts = self.n_components * family.n_mix
        times = np.arange(data.n_rows)
        if data.observed is not None:
            times = times[data.observed]
        sequence = np.searchsorted(data.offsets, times, side="right")
        step = -(-len(rows) // _MOST_ROWS)
        chosen = np.flatnonzero(np.arange(len(rows)) // _PIECE % step == 0)
        rows, times, sequence = rows[chosen], times[chosen], sequence[chosen]
        distinct, group = distinct_rows(replace(rows, labels=None))
        if len(distinct) <= n_parts:
            return None
        first = STARTS[self.init]
        with single_threaded_openmp():
            parts = first(family.family, distinct, n_parts, random_state, lambda *start: 0.0)
        parts = (parts if parts.ndim == 1 else parts.argmax(axis=1))[group]
        follows = np.flatnonzero((np.diff(times) == 1) & (np.diff(sequence) == 0))
        moves = np.zeros((n_parts, n_parts))
        weight = 1.0 if rows.sample_weight is None else rows.sample_weight[follows]
        np.add.at(moves, (parts[follows], parts[follows + 1]), weight)
        states = grouped(np.stack([moves, moves.T], axis=1), self.n_components)
        return rows, np.eye(self.n_components)[states[parts]]

    def _pseudo_statistics(self, model, emissions):
        # One pseudo-transition from each state, and one pseudo-start.
        return model.chain_statistics(model.start, model.transmat, emissions, 1.0)

    def another(self, data, random_state):
        """Return a further start, of other clusters, whose chain is drawn where it is not given."""
        # Symbols have no other clusters: the transitions alone tell starts apart.
        has_symbols, n_states = self.family.has_symbols, self.n_components
        model = (self.model if has_symbols else super().another)(data, random_state)
        start, transmat, learnt = model.start, model.transmat, model.learnt
        # Zeros and the probabilities to end stay.
        if not has_symbols and self.estimator.startprob_init is None and "start" in learnt:
            start = start * random_state.exponential(size=n_states)
            start = start / start.sum()
        if self.estimator.transmat_init is None and "transmat" in learnt:
            before = transmat[:, :n_states]
            factors = random_state.exponential(size=before.shape)
            if not has_symbols:
                # Regimes may last, and EM hardly finds those that do from chains that do not.
                staying = random_state.uniform()
                factors += staying / (1.0 - staying) * n_states * np.eye(n_states)
            drawn = before * factors
            totals = drawn.sum(axis=1, keepdims=True)
            drawn *= before.sum(axis=1, keepdims=True) / np.where(totals > 0.0, totals, 1.0)
            transmat = np.hstack([drawn, transmat[:, n_states:]])
        model = replace(model, start=start, transmat=transmat)
        if self.estimator.durations is None or self.estimator.durationprob_init is not None:
            return model
        n_durations = model.table.shape[1]
        table = np.exp(-np.arange(n_durations) / n_durations ** random_state.uniform())
        one_row = lasts_one_row(model.table)[:, None]
        table = np.where(one_row, model.table, table / table.sum())
        return self._lasting(replace(model, table=table), data)

    def further(self, data, random_state):
        if len(np.unique(observed_rows(data).X, axis=0)) <= self.n_components:
            return None
        try:
            return self.estimated(data, random_state)
        except ours(ValueError):  # as of clusters without a variance
            return None

    def lasting(self, pseudo_statistics):
        return replace(pseudo_statistics, emissions=pseudo_statistics.emissions.scale(0.0))


def grouped(counts, n_groups):
    """Return a group of each part, by merging those whose counts tell least of them apart.

    `counts`, of shape (n_parts, n_kinds, n_outcomes), are of several kinds of outcomes.
    """
    group, counts = np.arange(len(counts)), counts.copy()

    def information(counts):
        totals = counts.sum(axis=-1)
        return (xlogy(counts, counts).sum(axis=-1) - xlogy(totals, totals)).sum(axis=-1)

    def losses(i):
        found = information(counts[i]) + own - information(counts[i] + counts)
        found[i], found[~is_left] = np.inf, np.inf
        return found

    is_left, own = np.ones(len(counts), dtype=bool), information(counts)
    loss = np.array([losses(i) for i in range(len(counts))])
    for _ in range(len(counts) - n_groups):
        i, j = sorted(np.unravel_index(loss.argmin(), loss.shape))
        counts[i] += counts[j]
        group[group == j], own[i], is_left[j] = i, information(counts[i]), False
        loss[j] = loss[:, j] = np.inf
        loss[i] = loss[:, i] = losses(i)
    return np.unique(group, return_inverse=True)[1]
