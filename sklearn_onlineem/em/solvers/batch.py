"""Batch EM, with quasi-Newton steps where it is slow."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from sklearn_onlineem.data import Batch as Observations
from sklearn_onlineem.em.loop import Passes, Progress
from sklearn_onlineem.em.quasi_newton import Evaluation, QuasiNewton, suits
from sklearn_onlineem.em.solvers.base import Plan, Solver
from sklearn_onlineem.em.state import State
from sklearn_onlineem.models import Model
from sklearn_onlineem.models._coordinates import COORDINATES
from sklearn_onlineem.statistics import Statistics

__all__ = ["Batch", "batch_passes"]

# Gains that tell how fast EM is.
_LEAST_GAINS = 3
# Passes that it may still need without acceleration, and those after which gains that do not fall
# are those of a slow fit, if one takes much longer than a quasi-Newton step alone, which takes
# about as long as so many rows do. A pass takes as long as one over 100 rows, at least.
_FEW_PASSES, _MANY_PASSES, _ROWS_OF_A_STEP, _LEAST_ROWS = 10, 30, 2000, 100


@dataclass(frozen=True)
class Batch(Solver):
    """Batch EM: each pass is one E-step over all data, and one M-step.

    Passes of EM multiply what the likelihood still gains by a rate that is near 1 where much is
    hidden: in linear systems with little noise, chains, mixtures that overlap, and strings that
    have little in common. Where the latest passes say that many more are needed, and in linear
    systems with known matrices from the second pass on, quasi-Newton steps take their place, from
    the same E-steps: see :class:`~sklearn_onlineem.em.quasi_newton.QuasiNewton`.

    Parameters
    ----------
    acceleration : "auto" or None, default="auto"
        Whether quasi-Newton steps may replace those of EM. Such a pass may read the data more than
        once, as `n_rows` in ``history_`` tells. None: every pass is one of EM. So it is with
        ``tol=0``, which asks for a number of passes, and with models whose complete data are no
        exponential family.

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

        return batch_passes(progress, plan, e_step, progress.take, self.acceleration)


def batch_passes(
    progress: Progress,
    plan: Plan,
    e_step: Callable[[State, Model], tuple[Statistics, float, Observations]],
    take: Callable[[State], object],
    acceleration: str | None = None,
) -> Passes:
    """Take passes of batch EM over data that `e_step` reads, as `Solver.passes` does.

    Parameters
    ----------
    progress : Progress
        Of the fit.
    plan : Plan
        Of the fit.
    e_step : callable (state, model) -> (Statistics, float, Batch)
        Returns the evidence of all data, their mean log-likelihood, and the data, or what stands
        for them: their weight, rows, and lengths.
    take : callable (state) -> None
        Called with each new state.
    acceleration : "auto" or None, default=None
        As of `Batch`.
    """
    settled, here, newton, values = plan.stopping(), None, None, []
    may_accelerate = acceleration is not None and settled.tol > 0.0
    while True:
        state, n_read = progress.state, 0

        def evaluate(model, state=state):
            nonlocal n_read
            n_read += 1
            evidence, log_likelihood, data = e_step(state, model)
            prior = ()
            if state.prior is not None:
                size = state.size_of(data)
                prior = state.prior_terms(size, size / data.total_weight)
            return Evaluation(model, evidence, log_likelihood, prior, data)

        if here is None:
            here = evaluate(state.model)
            if may_accelerate and not values:
                may_accelerate = suits(here, now=False)
                gains_tell = may_accelerate and COORDINATES[type(here.model)].gains_tell
            may_accelerate = may_accelerate and math.isfinite(here.log_posterior)
        value = here.log_posterior if may_accelerate and here.prior else here.log_likelihood
        values = [*values, value][-5:]
        # To look takes a fourth of a pass over few rows, so that every third pass is enough.
        looks = may_accelerate and (not gains_tell or state.n_steps % 3 == 1)
        are_enough = len(values) > _LEAST_GAINS
        if len(values) == 2 and looks and not gains_tell and suits(here):
            # Where other systems are as likely, first steps may lead far away among these.
            are_enough = here.coordinates.are_determined
        if newton is None and looks and are_enough:
            gains = [after - before for before, after in pairwise(values)]
            if not gains_tell or _is_slow(settled.outlook(gains), progress, here):
                may_accelerate = suits(here)
                newton = QuasiNewton() if may_accelerate else None
        there = promised = None
        if newton is None:
            model = here.model.m_step(here.statistics)
        else:
            there, promised = newton.step(here, evaluate)
            model = there.model
        data = here.data
        if n_read != 1:
            state = state._replace(n_rows=state.n_rows + (n_read - 1) * data.n_rows)
        take(state.after(model, math.inf, here.log_likelihood, data, state.size_of(data)))
        step = progress.state.step
        is_settled = settled(values[-1], step.kl_divergence, promised)
        yield here.log_likelihood, is_settled and step.n_components is None
        here = there


def _is_slow(outlook, progress, here):
    """Return whether the passes of EM to come take much longer than quasi-Newton steps."""
    n_rows = max(here.model.size_of(here.data), here.data.n_rows, _LEAST_ROWS)
    cost = 1.0 + _ROWS_OF_A_STEP / n_rows
    # Early gains may rise.
    is_early = outlook.n_passes == math.inf and len(progress.lower_bounds) < _MANY_PASSES * cost
    return outlook.n_passes > _FEW_PASSES * cost and not is_early
