"""Batch EM with split and merge steps, which find the number of components."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sklearn_onlineem.data import Batch
from sklearn_onlineem.em.loop import Passes, Progress
from sklearn_onlineem.em.settings import check_bool, check_count
from sklearn_onlineem.em.solvers.base import Plan, Solver, has_settled
from sklearn_onlineem.em.solvers.batch import Batch as BatchEM
from sklearn_onlineem.em.state import State
from sklearn_onlineem.em.step import batch_step
from sklearn_onlineem.models.capabilities import SplitsAndMerges

__all__ = ["SplitMerge"]


@dataclass(frozen=True)
class SplitMerge(Solver):
    r"""Batch EM that also finds the number of components: it merges and splits them.

    `n_components` is the largest number; unused components have a weight of exactly 0, and
    `n_components_` counts the others. When batch EM has converged, it tries the merges that lose
    the least, by the divergence of :func:`~sklearn_onlineem.combine_estimators`, then splits across
    the first axis of a component. EM converges again after each, and the step is kept if it raises

    .. math:: \sum_n \log p(x_n) - \tfrac{1}{2} \, \text{parameters} \times \log N,

    which is Schwarz's criterion (BIC) times -1/2, with N the total weight of the rows. A fit ends
    when no step raises it; passes are those of batch EM, and the steps that are kept.

    Streams take online steps. With `in_streams` every 32nd of them may merge pairs, if that raises
    the criterion of as many rows as the model remembers, and split a component, if its halves,
    learnt from one half of the batch, make the other a million times likelier. Neither lowers the
    criterion of the batch. See :ref:`number_of_components`.

    Parameters
    ----------
    n_merges : int, default=8
        Merges to try before splits, at least 1.
    in_streams : bool, default=False
        Whether streams merge and split, too.

    Raises
    ------
    ValueError
        In a fit, if the model is no mixture, components are known, a prior gives all of them
        weight, or `tol` is 0.

    References
    ----------
    Ueda, Nakano, Ghahramani & Hinton, "SMEM algorithm for mixture models", Neural Computation 2000;
    Figueiredo & Jain, "Unsupervised learning of finite mixture models", PAMI 2002 (from many
    components down); Schwarz, "Estimating the dimension of a model", 1978.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import GaussianMixture
    >>> from sklearn_onlineem.em import SplitMerge
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(600, 2)) + rng.choice([-8.0, 0.0, 8.0], size=(600, 1))
    >>> mixture = GaussianMixture(9, solver=SplitMerge(), random_state=0).fit(X)
    >>> mixture.n_components_, np.sort(mixture.weights_).round(2)
    (3, array([0.  , 0.  , 0.  , 0.  , 0.  , 0.  , 0.31, 0.32, 0.36]))
    """

    n_merges: int = 8
    in_streams: bool = False
    requires = SplitsAndMerges

    def __post_init__(self):
        check_count("n_merges", self.n_merges)
        check_bool("in_streams", self.in_streams)

    def passes(self, progress: Progress, data: Batch, plan: Plan) -> Passes:
        settled, is_settled = plan.stopping(is_exact=False), False
        if not settled.tol > 0.0:
            raise ValueError(f"solver=SplitMerge() requires tol > 0, got {settled.tol!r}.")
        # Models without split and merge steps are refused at once.
        self._candidates(progress.state, data)
        while not is_settled:
            state = progress.state
            size = state.size_of(data)
            progress.take(self._updated(state, data, math.inf, size, size))
            step = progress.state.step
            is_settled = has_settled(settled, step)
            yield step.log_likelihood, False
        log_likelihood = progress.state.model.e_step(data)[1]
        best = _criterion(progress.state.model, log_likelihood, data)
        moves = self._candidates(progress.state, data)
        while (candidate := next(moves, None)) is not None:
            trial = _settled(candidate, progress.state, data, plan)
            trial_log_likelihood = trial.e_step(data)[1]
            criterion = _criterion(trial, trial_log_likelihood, data)
            if criterion > best:
                state = progress.state
                size = state.size_of(data)
                progress.take(state.after(trial, math.inf, log_likelihood, data, size))
                yield log_likelihood, False
                log_likelihood, best = trial_log_likelihood, criterion
                moves = self._candidates(progress.state, data)
        yield from BatchEM().passes(progress, data, plan)

    def check(self, state: State) -> None:
        if self.in_streams:
            self._required(state.model).check_split_merge(state.prior)

    def _move(self, model, batch, n_remembered):
        if not self.in_streams:
            return super()._move(model, batch, n_remembered)
        return model.restructured(batch, n_remembered, self.n_merges)

    def score(self, progress: Progress, data: Batch) -> float:
        return _criterion(progress.state.model, super().score(progress, data), data)

    def _candidates(self, state, data):
        return self._required(state.model).split_merge_steps(data, self.n_merges, state.prior)


def _criterion(model, log_likelihood, data):
    """Return minus half the BIC, in nats."""
    n = data.total_weight
    return n * log_likelihood - 0.5 * model.n_parameters() * math.log(n)


def _settled(model, state, data, plan):
    """Return a model after batch EM from it has converged."""
    settled, terms = plan.stopping(is_exact=False), state.prior_terms(state.size_of(data))
    # Most passes of batch EM that a split or merge step may take to converge.
    for _ in range(100):
        new_model, log_likelihood = batch_step(model, data, terms)
        is_settled = settled(log_likelihood, new_model.kl_divergence(model, like=data))
        if is_settled and new_model.n_active == model.n_active:
            return new_model
        model = new_model
    return model
