"""Batch EM, with quasi-Newton steps where it is slow."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from sklearn_onlineem.data import Batch as Observations
from sklearn_onlineem.em.certificate import Certificate
from sklearn_onlineem.em.loop import Passes, Progress
from sklearn_onlineem.em.quasi_newton import Evaluation, QuasiNewton, suits
from sklearn_onlineem.em.solvers.base import Plan, Solver
from sklearn_onlineem.em.state import State
from sklearn_onlineem.em.stopping import StandardErrorStopping, never
from sklearn_onlineem.models import Model
from sklearn_onlineem.statistics import Statistics

__all__ = ["Batch", "batch_passes"]


@dataclass(frozen=True)
class Batch(Solver):
    """Batch EM: each pass is one E-step over all data, and one M-step.

    Passes of EM multiply what the likelihood still gains by a rate that is near 1 where much is
    hidden: in linear systems with little noise, chains, mixtures that overlap, and strings that
    have little in common. Where the latest passes say that many more are needed, and in linear
    systems with known matrices from the second pass on, quasi-Newton steps take their place, from
    the same E-steps: see :class:`~sklearn_onlineem.em.quasi_newton.QuasiNewton`.

    With ``tol="auto"`` a fit has converged if it has a certificate of a local maximum, from some
    further E-steps: see :class:`~sklearn_onlineem.em.certificate.Certificate`. Models without
    standard errors, Laplace distributions, E-steps that draw, and priors that empty components have
    none, and the rule of :class:`~sklearn_onlineem.em.stopping.StandardErrorStopping`, or a number,
    decides alone.

    Parameters
    ----------
    acceleration : "auto" or None, default="auto"
        Whether quasi-Newton steps may replace those of EM. Such a pass may read the data more than
        once, as `n_rows` in ``history_`` tells. None: every pass is one of EM, unless it leaves a
        saddle or zeros. So it is with ``tol=0``, which asks for a number of passes, and with models
        whose complete data are no exponential family.

    Examples
    --------
    A random walk of small steps, seen through much noise: EM needs hundreds of passes.

    >>> import numpy as np
    >>> from sklearn_onlineem import KalmanFilter
    >>> from sklearn_onlineem.em import Batch
    >>> rng = np.random.default_rng(0)
    >>> X = 0.05 * rng.normal(size=(2000, 1)).cumsum(axis=0) + rng.normal(size=(2000, 1))
    >>> for solver in [Batch(), Batch(acceleration=None)]:
    ...     walk = KalmanFilter(
    ...         em_vars=["transition_covariance", "observation_covariance"], solver=solver).fit(X)
    ...     print(walk.transition_covariance_.round(3), walk.n_iter_ < 100, walk.converged_)
    [[0.003]] True True
    [[0.003]] False True
    """

    acceleration: str | None = "auto"

    def __post_init__(self):
        if self.acceleration not in ("auto", None):
            raise ValueError(f"acceleration must be 'auto' or None, got {self.acceleration!r:.60}.")

    def passes(self, progress: Progress, data: Observations, plan: Plan) -> Passes:
        def e_step(state, model):
            rng = state.rng() if model.draws else None
            return *model.e_step(data, rng=rng), data

        return batch_passes(self, progress, plan, e_step, progress.take)


def batch_passes(
    solver: Solver,
    progress: Progress,
    plan: Plan,
    e_step: Callable[[State, Model], tuple[Statistics, float, Observations]],
    take: Callable[[State], object],
) -> Passes:
    """Take passes of batch EM over data that `e_step` reads, as `Solver.passes` does.

    That returns the evidence of all data, their mean log-likelihood, and the data, or what stands
    for them: their weight, rows, and lengths. `take` is called with each new state. `solver` says
    whether passes are accelerated, stop, or are averaged.
    """

    def evaluate(model, n_more=1):
        """Return the evaluation of a model, and count reads of the data, with those before it."""
        nonlocal n_read
        n_read += n_more
        state = progress.state
        evidence, log_likelihood, data = e_step(state, model)
        size = state.size_of(data)
        prior = state.prior_terms(size, size / data.total_weight)
        return Evaluation(model, evidence, log_likelihood, prior, data)

    rule, n_read = never() if solver.is_stochastic else plan.stopping(), 0
    here, is_plain = evaluate(progress.state.model), solver.acceleration is None
    accelerates = not is_plain and rule.tol > 0.0
    is_certified = isinstance(rule, StandardErrorStopping)
    is_suited = (accelerates or is_certified) and suits(here, now=False)
    newton, certificate = QuasiNewton(is_suited and accelerates), None
    if is_suited and is_certified:
        certificate = Certificate(rule, newton, is_plain)
    for number in count(1):
        there = promised = None
        is_certain = certificate is not None and here is certificate.sure
        if is_certain:
            there, promised = here, certificate.gain
        elif newton.takes_over(here, rule, progress):
            there, promised = newton.step(here, evaluate)
        before, log_likelihood, data = progress.state, here.log_likelihood, here.data
        model = here.stepped if there is None else there.model
        state = before.after_pass(model, log_likelihood, data, n_read * data.n_rows)
        value = here.log_posterior if is_suited else log_likelihood
        is_last = rule(value, state.step.kl_divergence, promised)
        is_last = is_last and state.step.n_components is None
        if certificate is not None and not certificate.is_due():
            is_last = False
        elif certificate is not None and suits(there := there or evaluate(here.stepped)):
            is_stuck = there is here and not is_certain
            is_last, there = certificate.holds(there, evaluate, is_stuck)
            progress.distance = rule.distance(certificate.gain) if is_last else math.inf
            # The last step is one of EM, whose E-step has been made.
            model = there.stepped if is_last else there.model
            state = before.after_pass(model, log_likelihood, data, n_read * data.n_rows)
        else:
            certificate = None
        take(solver._averaged(state, before, number))
        yield log_likelihood, is_last
        n_read = 0
        here = there or evaluate(progress.state.model)
