"""Batch EM, with quasi-Newton steps where it is slow."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from sklearn_onlineem.data import Batch as Observations
from sklearn_onlineem.em.certificate import Certificate
from sklearn_onlineem.em.loop import Passes, Progress
from sklearn_onlineem.em.quasi_newton import Evaluation, QuasiNewton, suits
from sklearn_onlineem.em.solvers.base import Plan, Solver
from sklearn_onlineem.em.state import State
from sklearn_onlineem.em.stopping import StandardErrorStopping
from sklearn_onlineem.models import Model
from sklearn_onlineem.models.coordinates import COORDINATES
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
        Like that of `Batch`.
    """
    settled, here, values = plan.stopping(), None, []
    may_accelerate = acceleration is not None and settled.tol > 0.0
    newton, is_fast, certificate = QuasiNewton(), False, None
    if isinstance(settled, StandardErrorStopping):
        certificate = Certificate(settled.tol, newton, is_plain=acceleration is None)
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
            if not values:
                is_suited = (may_accelerate or certificate is not None) and suits(here, now=False)
                certificate = certificate if is_suited else None
                may_accelerate &= is_suited
                gains_tell = is_suited and COORDINATES[type(here.model)].gains_tell
            may_accelerate = may_accelerate and math.isfinite(here.log_posterior)
        value = here.log_posterior if is_suited and here.prior else here.log_likelihood
        values = [*values, value][-5:]
        # To look takes a fourth of a pass over few rows, so that every third pass is enough.
        looks = may_accelerate and (not gains_tell or state.n_steps % 3 == 1)
        are_enough = len(values) > _LEAST_GAINS
        if len(values) == 2 and looks and not gains_tell and suits(here):
            # Where other systems are as likely, first steps may lead far away among these.
            are_enough = here.coordinates.are_determined
        if not is_fast and looks and are_enough:
            gains = [after - before for before, after in pairwise(values)]
            if not gains_tell or _is_slow(settled.outlook(gains), progress, here):
                is_fast = may_accelerate = suits(here)
        there, promised = newton.step(here, evaluate) if is_fast else (None, None)
        model = here.model.m_step(here.statistics) if there is None else there.model
        after = _after(state, here, model, n_read)
        is_settled = settled(value, after.step.kl_divergence, promised)
        is_settled = is_settled and after.step.n_components is None
        if certificate is not None:
            if not certificate.is_due(settled.left):
                is_settled = False
            elif suits(here):
                is_stuck = there is here
                there = evaluate(model) if there is None else there
                is_settled = certificate.holds(there, evaluate, is_stuck, settled.left == 0.0)
                progress.distance = settled.distance(certificate.gain) if is_settled else math.inf
                there, is_fast = certificate.ahead or there, may_accelerate
                # The last step is one of EM, whose E-step has been made.
                model = there.model.m_step(there.statistics) if is_settled else there.model
                after = _after(state, here, model, n_read)
            else:
                certificate = None
        take(after)
        yield here.log_likelihood, is_settled
        here = there


def _after(state, here, model, n_read):
    """Return the state after a pass from an E-step to a model, for `n_read` reads of the data."""
    state = state._replace(n_rows=state.n_rows + (n_read - 1) * here.data.n_rows)
    size = state.size_of(here.data)
    return state.after(model, math.inf, here.log_likelihood, here.data, size)


def _is_slow(outlook, progress, here):
    """Return whether the passes of EM to come take much longer than quasi-Newton steps."""
    n_rows = max(here.model.size_of(here.data), here.data.n_rows, _LEAST_ROWS)
    cost = 1.0 + _ROWS_OF_A_STEP / n_rows
    # Early gains may rise.
    is_early = outlook.n_passes == math.inf and len(progress.lower_bounds) < _MANY_PASSES * cost
    return outlook.n_passes > _FEW_PASSES * cost and not is_early
