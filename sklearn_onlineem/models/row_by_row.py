"""Hidden Markov models of symbols with an M-step after each row, by recursive smoothing."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sklearn_onlineem._kernels import _recursive_symbols
from sklearn_onlineem._typing import Floats

__all__ = ["SmoothedStatistics", "learn_rows"]


@dataclass(frozen=True)
class SmoothedStatistics:
    """Expected statistics of all rows so far, given the state of the last one."""

    # Distribution of that state.
    filtered: Floats
    # Averages per row given each state: starts, transitions, and symbols of each state.
    conditional: Floats

    @classmethod
    def of_model(cls, model, lengths, filtered=None):
        """Return a model's own statistics, the same for each state."""
        own = model.own_statistics(lengths)
        average = _flat(own) / own.emissions.weight.sum()
        filtered = model.start if filtered is None else filtered
        return cls(filtered, np.tile(average, (model.n_components, 1)))

    @property
    def average(self):
        """Expected statistics, averages per row, an ndarray of shape (n_statistics,)."""
        return self.filtered @ self.conditional

    def keeping(self, share):
        """Return it, or None for a share of 0; averages are the same."""
        return self if share > 0.0 else None


def learn_rows(model, data, before, step_sizes, prior=(), n_held=0):
    r"""Learn sequences with an M-step after each row (Cappe's online EM).

    With :math:`\phi` the filter, :math:`r(i|k) = \phi_i a_{ik} / \sum_m \phi_m a_{mk}`, and
    :math:`s` the statistics of a row in state k after i,

    .. math::
        S_k \leftarrow (1 - \gamma) \sum_i r(i|k) S_i + \gamma \sum_i r(i|k) s(i, k, y), \qquad
        \Theta \leftarrow \operatorname{M} \bigl(\sum_k \phi_k S_k\bigr)

    The `model` has a `Categorical` family. The first sequence continues from `before` if the data
    have a `before`; all others start from the model. `step_sizes` in [0, 1] are one for each row.
    Each M-step adds the weighted pseudo-statistics of `prior`; none follows the first `n_held`
    rows. Return the new model, the new smoothed statistics, and the log-likelihood of each row
    given those before it, under the model learnt from these.

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
            "Some sequences are impossible under the model, because of known states or zeros"
            " among probabilities of starts, transitions and symbols."
        )
    start, transmat, parameters = learnt
    model = replace(model, start=start, transmat=transmat, parameters=parameters)
    return model, SmoothedStatistics(filtered, conditional), log_likelihoods


def _codes(family, data):
    """Return the codes of rows as columns of the probabilities, -1 where nothing was observed."""
    X = data.X
    complete = X if data.observed is None else np.where(np.isnan(X), 0.0, X)
    family.check(complete)
    columns = complete.astype(np.int64) + family.n_categories * np.arange(X.shape[1])
    return columns if data.observed is None else np.where(np.isnan(X), -1, columns)


def _flat(statistics):
    parts = statistics.start, statistics.transitions, statistics.emissions.total
    return np.concatenate([part.ravel() for part in parts])
