"""Hidden Markov chains of symbols that are learnt row by row, by smoothing recursively."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sklearn_onlineem._kernels import _recursive_symbols
from sklearn_onlineem._typing import Floats

__all__ = ["SmoothedStatistics", "learn_rows"]


@dataclass(frozen=True)
class SmoothedStatistics:
    """Expected statistics of all rows so far, given the state of the last one.

    Attributes
    ----------
    filtered : ndarray of shape (n_states,)
        Distribution of that state.
    conditional : ndarray of shape (n_states, n_statistics)
        Averages per row given each state: starts, moves, and symbols of each state.
    """

    filtered: Floats
    conditional: Floats

    @classmethod
    def of_model(cls, model, lengths, filtered=None):
        """What a model says itself, whatever the state is; that has some distribution."""
        own = model.own_statistics(lengths)
        average = _flat(own) / own.emissions.weight.sum()
        filtered = model.start if filtered is None else filtered
        return cls(filtered, np.tile(average, (model.n_components, 1)))

    @property
    def average(self):
        """Expected statistics, averages per row, an ndarray of shape (n_statistics,)."""
        return self.filtered @ self.conditional

    def keeping(self, share):
        """Return it, or None where none of what it stands for is kept; averages are the same."""
        return self if share > 0.0 else None


def learn_rows(model, data, before, step_sizes, prior=(), n_held=0):
    r"""Learn sequences with an M-step after each row (Cappe's online EM).

    With :math:`\phi` the filter, :math:`r(i|k) = \phi_i a_{ik} / \sum_m \phi_m a_{mk}`, and
    :math:`s` what a row adds to the statistics if its state is k after i,

    .. math::
        S_k \leftarrow (1 - \gamma) \sum_i r(i|k) S_i + \gamma \sum_i r(i|k) s(i, k, y), \qquad
        \Theta \leftarrow \operatorname{M} \bigl(\sum_k \phi_k S_k\bigr)

    Parameters
    ----------
    model : HiddenMarkovModel
        Of a `Categorical` family.
    data : Sequences
    before : SmoothedStatistics
        Those of the rows before. The first sequence continues from them where the data have a
        `before`, and else all begin anew.
    step_sizes : ndarray of shape (n_rows,)
        In [0, 1].
    prior : iterable of (float, HiddenMarkovStatistics), default=()
        Weights of pseudo-statistics, which each M-step takes.
    n_held : int, default=0
        First rows that no M-step follows.

    Returns
    -------
    model : HiddenMarkovModel
    after : SmoothedStatistics
    log_likelihoods : ndarray of shape (n_rows,)
        Of each row given those before it, by the model that these led to.

    References
    ----------
    Mongillo & Deneve, "Online learning with hidden Markov models", Neural Computation 2008; Cappe,
    "Online EM algorithm for hidden Markov models", JCGS 2011.
    """
    n_rows, rows = data.n_rows, data.rows
    learnt = [np.array(part) for part in (model.start, model.transmat, model.parameters)]
    filtered, conditional = np.array(before.filtered), np.array(before.conditional)
    known = np.empty(0) if rows.labels is None else rows.labels
    begins = np.zeros(n_rows, dtype=np.int64)
    begins[data.offsets[int(data.before is not None) : -1]] = 1
    pseudo = sum((weight * _flat(part) for weight, part in prior), np.zeros(conditional.shape[1]))
    log_likelihoods = np.empty(n_rows)
    impossible = _recursive_symbols.learn(
        _codes(model.family, data), known.astype(np.int64), begins, step_sizes, pseudo,
        model.family.n_categories, n_held, model.family.min_probability, model.learnt,
        *learnt, filtered, conditional, log_likelihoods,
    )  # fmt: skip
    if impossible >= 0:
        raise ValueError(
            "The model cannot make all of the sequences: known states, or zeros among start"
            " and transition probabilities, forbid some."
        )
    start, transmat, parameters = learnt
    model = replace(model, start=start, transmat=transmat, parameters=parameters)
    return model, SmoothedStatistics(filtered, conditional), log_likelihoods


def _codes(family, data):
    """Columns of the probabilities that rows show, -1 where nothing was observed."""
    X = data.X
    complete = X if data.observed is None else np.where(np.isnan(X), 0.0, X)
    family.check(complete)
    columns = complete.astype(np.int64) + family.n_categories * np.arange(X.shape[1])
    return columns if data.observed is None else np.where(np.isnan(X), -1, columns)


def _flat(statistics):
    parts = statistics.start, statistics.transitions, statistics.emissions.total
    return np.concatenate([part.ravel() for part in parts])
