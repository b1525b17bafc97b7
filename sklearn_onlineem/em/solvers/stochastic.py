"""Stochastic EM: hidden variables are drawn."""

from __future__ import annotations

from dataclasses import dataclass

from sklearn_onlineem._checks import check_count
from sklearn_onlineem.data import Batch as Observations
from sklearn_onlineem.em.loop import Passes, Progress
from sklearn_onlineem.em.solvers.base import Plan, Solver
from sklearn_onlineem.em.solvers.batch import batch_passes
from sklearn_onlineem.em.solvers.gibbs import sweeps
from sklearn_onlineem.em.state import State
from sklearn_onlineem.models.capabilities import SampledChains
from sklearn_onlineem.statistics import Statistics

__all__ = ["Stochastic"]


@dataclass(frozen=True)
class Stochastic(Solver):
    """Stochastic EM: hidden variables are drawn from their posterior in each E-step.

    Iterates do not converge, so that a fit takes all of its `max_iter` passes; their average does.
    Streams take online steps with draws, too. Draws depend on `random_state` and the number of the
    step, not on threads. :class:`~sklearn_onlineem.distributed.DistributedEM` draws on shards.

    Parameters
    ----------
    average_from : int, default=None
        First pass of a fit whose iterates are averaged, at least 1, see :class:`Online`. None: the
        fit returns the last iterate. Average late passes only: early iterates pull the mean back.

    References
    ----------
    Celeux & Diebolt, "The SEM algorithm", 1985; Delyon, Lavielle & Moulines, "Convergence of a
    stochastic approximation version of the EM algorithm", Annals of Statistics 1999 (averaging);
    Zaheer, Wick, Kottur & Tristan, "Comparing Gibbs, EM and SEM for MAP Inference in Mixture
    Models".

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import PoissonMixture
    >>> from sklearn_onlineem.em import Stochastic
    >>> rng = np.random.default_rng(0)
    >>> X = rng.poisson(rng.choice([1.0, 20.0], size=(3000, 1)))
    >>> solver = Stochastic(average_from=10)
    >>> mixture = PoissonMixture(2, solver=solver, max_iter=30, random_state=0).fit(X)
    >>> np.sort(mixture.means_.ravel()).round(), mixture.n_iter_
    (array([ 1., 20.]), 30)
    """

    average_from: int | None = None
    draws = is_stochastic = True
    acceleration = None

    def __post_init__(self):
        check_count("average_from", self.average_from, optional=True)

    def start(
        self, state: State, data: Observations, pseudo_statistics: Statistics | None, n_passes: int
    ) -> State:
        # A start takes expectations, and the next steps draw.
        state.model.e_step(data[:1], rng=state.rng())
        return super().start(state, data, pseudo_statistics, n_passes)

    def passes(self, progress: Progress, data: Observations, plan: Plan) -> Passes:
        state = progress.state
        if isinstance(state.model, SampledChains):
            chain = state.model.chain(data, state.prior, state.rng(), collapsed=False)
            if chain is not None:
                return sweeps(progress, data, chain, self.average_from)

        def e_step(state, model):
            return *model.e_step(data, rng=state.rng()), data

        return batch_passes(self, progress, plan, e_step, progress.take)
