"""Online EM without a learning rate: models that remember differently much, mixed by weights."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from sklearn_onlineem._checks import check_bool
from sklearn_onlineem.data import Batch
from sklearn_onlineem.em.loop import Passes, Progress
from sklearn_onlineem.em.schedules import PowerDecayInRows
from sklearn_onlineem.em.solvers.auto import Auto
from sklearn_onlineem.em.solvers.base import Plan, Solver
from sklearn_onlineem.em.state import State


@dataclass(frozen=True)
class Adaptive(Solver):
    r"""Online EM that needs no learning rate: several models learn, and those predict that did.

    Each model remembers the past for another half-life, and takes the steps of `Online`. Their
    weights are learnt by online EM, too, with a fixed share for all: after a batch of b rows,

    .. math::
        w_j \leftarrow (1 - \gamma) w_j + \gamma \Big((1 - a)
        \frac{w_j \, e^{\ell_j}}{\sum_i w_i \, e^{\ell_i}} + \frac{a}{J}\Big), \qquad
        \gamma = 1 - 2^{-b / 250}, \quad a = 0.06,

    where :math:`\ell_j` is the mean log-likelihood of the batch, per observation, before model j
    learns it. *Scores are those of the mixture*, :math:`\log \sum_j w_j p_j(x)` of each
    observation: `score_samples`, `score`, and criteria made of them. `model_`, and all that has
    components or states, is the model with the largest weight, which also enters merges. `eta0`,
    `beta` and `schedule` are ignored, but by `fit` of topics.

    Streams start as those of `Online`; all models begin from each new start. `fit` learns as
    :class:`~sklearn_onlineem.em.Auto`, and all models of a stream that continues begin from it.

    Parameters
    ----------
    half_lives : tuple of float, default=(inf, 5.0, 1.0)
        For each model, the rows after which the past counts for half, above 0, in multiples of the
        rows that determine a model (the number of its parameters for each column). Infinity: all
        rows count alike. The time of a step grows with their number.
    reinitialises, start_rows, skips_outliers
        See :class:`~sklearn_onlineem.em.Online`.

    Notes
    -----
    Entries of `history_` are :class:`~sklearn_onlineem.em.state.ComponentStep`, with the new
    `model_weights`. Learning rate and divergence are those of the model with the largest weight;
    the log-likelihood is :math:`\log \sum_j w_j e^{\ell_j}`, which is at most the mean score of the
    batch, and equal for one observation. A model that cannot take a step, as the batch is
    impossible under it, becomes a copy of the one with the largest weight.

    References
    ----------
    Herbster & Warmuth, "Tracking the Best Expert", Machine Learning 1998 (fixed share); Cappe &
    Moulines, JRSS-B 2009 (online EM, here of the weights).

    Examples
    --------
    One of two rates doubles:

    >>> import numpy as np
    >>> from sklearn_onlineem import PoissonMixture
    >>> rng = np.random.default_rng(0)
    >>> for solver in ["online", "adaptive"]:
    ...     mixture = PoissonMixture(2, solver=solver, random_state=0)
    ...     for means in 50 * [[2.0, 20.0]] + 5 * [[2.0, 40.0]]:
    ...         mixture = mixture.partial_fit(rng.poisson(rng.choice(means, size=(100, 1))))
    ...     print(mixture.means_.ravel().round())
    [ 2. 27.]
    [ 2. 40.]
    """

    half_lives: tuple[float, ...] = (math.inf, 5.0, 1.0)
    reinitialises: bool = True
    start_rows: int = 100
    skips_outliers: bool = True
    has_own_rates = True

    def __post_init__(self):
        check_bool("reinitialises", self.reinitialises)
        check_bool("skips_outliers", self.skips_outliers)
        self.stream_stages()  # It checks the numbers.

    def trial(self, state: State, data: Batch, plan: Plan) -> tuple[int, int | None]:
        return Auto().trial(state, data, _plan_of_fit(state, plan))

    def passes(self, progress: Progress, data: Batch, plan: Plan) -> Passes:
        yield from Auto().passes(progress, data, _plan_of_fit(progress.state, plan))


def _plan_of_fit(state, plan):
    """Return a plan with the default of the parameters for rates, but of topics."""
    if not state.model.is_exact:
        return plan
    schedule = PowerDecayInRows(state.constants.observations_needed, 0.6)
    return replace(plan, schedule=schedule, rate_is_chosen=False)
