"""Newton's method on the likelihood."""

from __future__ import annotations

from dataclasses import dataclass

from sklearn_onlineem.data import Batch as Observations
from sklearn_onlineem.em.loop import Passes, Progress
from sklearn_onlineem.em.solvers.base import Plan, Solver
from sklearn_onlineem.models.capabilities import NewtonSteps


@dataclass(frozen=True)
class Newton(Solver):
    """Newton's method on the likelihood, for models that have `newton_step`.

    It takes a few passes where EM needs hundreds, and supports no priors.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import CompoundDirichlet
    >>> from sklearn_onlineem.em import Newton
    >>> rng = np.random.default_rng(0)
    >>> X = rng.multinomial(20, rng.dirichlet([0.5, 1.0, 2.0], size=2000))
    >>> bursty = CompoundDirichlet(solver=Newton()).fit(X)
    >>> bursty.alpha_.round(1), bursty.n_iter_
    (array([0.5, 1. , 2. ]), 3)
    """

    requires = NewtonSteps

    def passes(self, progress: Progress, data: Observations, plan: Plan) -> Passes:
        if progress.state.prior is not None:
            raise ValueError("solver='newton' maximises the likelihood and cannot use a prior.")
        settled = plan.stopping()
        self._required(progress.state.model)
        while True:
            model, log_likelihood, is_last = progress.state.model.newton_step(data)
            progress.take(progress.state.after_pass(model, log_likelihood, data))
            divergence = progress.state.step.kl_divergence
            yield log_likelihood, settled(log_likelihood, divergence) or is_last
