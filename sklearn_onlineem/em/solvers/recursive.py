"""Online EM of an endless sequence, row by row."""

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

    Statistics of all rows so far are kept for each state that the chain may be in, and smoothed as
    it moves on: no past is kept, and an endless sequence has no seams. The M-step follows each row,
    with the step size :math:`\gamma_t = \eta_t / (1 + \eta_t)` of the estimator's schedule, where t
    counts rows. How a stream is cut into pieces for ``partial_fit(..., continues=True)`` changes
    nothing, after the first piece, which gives the start.

    It is good for predicting what comes next of a stream that is seen once. In several passes the
    solver "online" comes about as far in the same time. A row takes K^2 (K^2 + K C) products, for K
    states and C symbols: some microseconds where both are few.

    Parameters
    ----------
    warm_up : int, default=100
        Rows that are seen before the first M-step, which has nothing to go by before. The first
        piece of a stream, on which its start settles, counts.

    Raises
    ------
    ValueError
        If `warm_up` is no whole number from 0 up; in a fit, if the model is no hidden Markov model
        of symbols, or its sequences end by themselves.

    Notes
    -----
    An entry of `history_` stands for a batch: its log-likelihood is of each row given those before
    it, by the model that these have led to, and its learning rate is that of one step with the same
    weight. One thread does all the work.

    References
    ----------
    Mongillo & Deneve, "Online learning with hidden Markov models", Neural Computation 2008; Cappe,
    "Online EM algorithm for hidden Markov models", JCGS 2011.

    Examples
    --------
    Two coins that take turns, hundred tosses each, learnt toss by toss:

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
            # Those of the rows before, so that it does not matter where this batch ends.
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
        settled = plan.stopping()

        def learn(state, batch):
            return self.step(state, batch, plan.schedule)

        while True:
            before = progress.state.model
            log_likelihood = self._shuffled_pass(progress, data, plan, learn)
            state = progress.state
            divergence = state.model.kl_divergence(before, like=state.lengths)
            yield log_likelihood, settled(log_likelihood, divergence)
