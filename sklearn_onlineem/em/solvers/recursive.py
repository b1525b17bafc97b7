"""Online EM of an endless sequence, one row at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sklearn_onlineem.data import Batch
from sklearn_onlineem.em.loop import Passes, Progress
from sklearn_onlineem.em.schedules import RateSchedule, learning_rate, rate_of, step_size
from sklearn_onlineem.em.settings import check_count
from sklearn_onlineem.em.solvers.base import Plan, Solver
from sklearn_onlineem.em.state import State
from sklearn_onlineem.models.capabilities import RowUpdates
from sklearn_onlineem.models.row_by_row import SmoothedStatistics, learn_rows

__all__ = ["Recursive"]


@dataclass(frozen=True)
class Recursive(Solver):
    r"""Cappe's online EM: a hidden Markov model of symbols learns after each row.

    It keeps smoothed statistics of all rows so far for each present state, but no rows. The M-step
    follows each row, with the step size :math:`\gamma_t = \eta_t / (1 + \eta_t)` of the estimator's
    schedule, where t counts rows. After the first piece, which gives the initial model, the result
    does not depend on how ``partial_fit(..., continues=True)`` cuts the stream. See
    :ref:`recursive`.

    It predicts well on streams that are seen once; in several passes the solver "online" is as good
    in the same time. A row takes K^2 (K^2 + K C) products, for K states and C symbols.

    Parameters
    ----------
    warm_up : int, default=100
        Rows before the first M-step, from 0 up; the first piece of a stream counts.

    Raises
    ------
    ValueError
        In a fit, if the model is no hidden Markov model of symbols, or its sequences end by
        themselves.

    Notes
    -----
    An entry of `history_` describes a batch: the log-likelihood of each row is given the rows
    before it, under the model at that row, and the learning rate is that of one step with the same
    weight. It uses one thread.

    References
    ----------
    Mongillo & Deneve, "Online learning with hidden Markov models", Neural Computation 2008; Cappe,
    "Online EM algorithm for hidden Markov models", JCGS 2011.

    Examples
    --------
    Two coins in turn, a hundred tosses each:

    >>> import numpy as np
    >>> from sklearn_onlineem import CategoricalHMM
    >>> rng = np.random.default_rng(0)
    >>> loaded = np.arange(20_000) // 100 % 2
    >>> tosses = (rng.random(20_000) < np.where(loaded, 0.9, 0.4)).astype(int)[:, None]
    >>> hmm = CategoricalHMM(
    ...     2, solver="recursive", transmat_init=[[0.9, 0.1], [0.1, 0.9]], random_state=0)
    >>> for piece in np.array_split(tosses, 40):
    ...     hmm = hmm.partial_fit(piece, continues=True)
    >>> np.sort(hmm.emissionprob_[:, 1]).round(1)
    array([0.4, 0.9])
    """

    warm_up: int = 100
    requires = RowUpdates
    reinitialises = False
    start_rows = 0

    def __post_init__(self):
        check_count("warm_up", self.warm_up, least=0)

    def check(self, state: State) -> None:
        self._required(state.model).check_row_updates()

    def step(self, state: State, batch: Batch, schedule: RateSchedule) -> State:
        self.check(state)
        size, n_rows = state.size_of(batch), batch.n_rows
        each = size / n_rows
        rates = [rate_of(schedule, state.size_seen + t * each, each) for t in range(n_rows)]
        step_sizes = np.array([step_size(rate) for rate in rates])
        before = state.kept
        if not isinstance(before, SmoothedStatistics):
            # Lengths of the rows before, so that the end of this batch changes nothing.
            known = state.lengths_with(batch) if state.lengths is None else state.lengths
            before = SmoothedStatistics.of_model(state.model, known, batch.before)
        total = max(state.size_seen + size, state.expected_size)
        n_held = max(0, self.warm_up - round(state.size_seen / each))
        model, after, log_likelihoods = learn_rows(
            state.model, batch, before, step_sizes, state.prior_terms(total, each), n_held
        )
        with np.errstate(divide="ignore"):
            eta = learning_rate(-np.expm1(np.log1p(-step_sizes).sum()))
        mean = log_likelihoods.sum() / batch.total_weight
        return state.after(model, eta, mean, batch, size, kept=after)

    def passes(self, progress: Progress, data: Batch, plan: Plan) -> Passes:
        settled = plan.stopping(is_exact=False)

        def learn(state, batch):
            return self.step(state, batch, plan.schedule)

        while True:
            before = progress.state.model
            log_likelihood = self._shuffled_pass(progress, data, plan, learn)
            state = progress.state
            divergence = state.model.kl_divergence(before, like=state.lengths)
            yield log_likelihood, settled(log_likelihood, divergence)
