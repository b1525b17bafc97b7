r"""Solvers: small frozen values that yield passes over data, for any model.

A solver says in which order statistics are summed up and maximised; what it needs besides stands in
a `Plan`, and what it changes in a `Training`. `SOLVERS` translates the strings of estimators.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import chain, count, islice

import numpy as np

from sklearn_onlineem.data import Batch as Observations
from sklearn_onlineem.em.bayesian import BayesianOnline
from sklearn_onlineem.em.componentwise import Componentwise
from sklearn_onlineem.em.inertia import Exact, Inertia
from sklearn_onlineem.em.recursive import Recursive
from sklearn_onlineem.em.sampling import Sampler
from sklearn_onlineem.em.settings import check_bool, check_count
from sklearn_onlineem.em.solver import Plan, Solver, shuffled_pass
from sklearn_onlineem.em.steps import has_settled
from sklearn_onlineem.em.stopping import Never
from sklearn_onlineem.em.training import Passes, Training

__all__ = [
    "SOLVERS",
    "Auto",
    "Batch",
    "Gibbs",
    "Newton",
    "Online",
    "Stochastic",
]


@dataclass(frozen=True)
class Online(Solver):
    r"""Online EM and nothing else: passes over shuffled mini-batches, by the learning rates.

    A pass is scored on the way, each batch before it is learnt, so that the stopping rule looks at
    data that the model did not know.

    Parameters
    ----------
    average_from : int, default=None
        First pass of a fit whose iterates are averaged: the fit returns the maximiser of the mean
        of their own statistics (Polyak-Ruppert), instead of the last iterate. A stream, which has
        no passes, always has the last iterate. None: no averaging.
    inertia : Inertia, default=Exact()
        The old model's own statistics, or an estimate of them, `Sampled`.
    revives : bool, default=True
        Whether components of a mixture that have starved in a stream come back where its rows ask
        for it. Say no where the source returns to what it was, as by day and by night.

    Raises
    ------
    ValueError
        If `average_from` is no whole number from 1 up, `inertia` is none, or `revives` no bool.

    References
    ----------
    Amid & Warmuth, UAI 2020, eq. (3); Cappe & Moulines, JRSS-B 2009, section 4.1 (averaging).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import PoissonMixture
    >>> from sklearn_onlineem.em import Online
    >>> rng = np.random.default_rng(0)
    >>> X = rng.poisson(rng.choice([1.0, 20.0], size=(3000, 1)))
    >>> mixture = PoissonMixture(
    ...     2, solver=Online(average_from=2), eta0=1.0, batch_size=100, random_state=0)
    >>> np.sort(mixture.fit(X).means_.ravel()).round()
    array([ 1., 20.])
    """

    average_from: int | None = None
    inertia: Inertia = Exact()
    revives: bool = True

    def __post_init__(self):
        check_bool("revives", self.revives)
        check_count("average_from", self.average_from, optional=True)
        if not isinstance(self.inertia, Inertia):
            raise ValueError(f"inertia must be Exact() or Sampled(...), got {self.inertia!r}.")

    def passes(self, training: Training, data: Observations, plan: Plan) -> Passes:
        settled = plan.stopping()
        for number in count(1):
            before = training.state.model
            averages = self.average_from is not None and number >= self.average_from
            log_likelihood = self._pass(training, data, plan, averages)
            state = training.state
            divergence = state.model.kl_divergence(before, like=state.lengths)
            is_last = settled(log_likelihood, divergence)
            yield log_likelihood, is_last and state.model.n_survivors == before.n_survivors

    def _pass(self, training, data, plan, averages):
        size_of_all = training.size_of(data)

        def learn(batch):
            size = training.size_of(batch)
            eta = training.rate(plan.schedule, size)
            step = training.update(batch, eta, size, size_of_all, self.inertia)
            if averages:
                training.average_in()
            return step

        return shuffled_pass(training, data, plan, learn)


@dataclass(frozen=True)
class Batch(Solver):
    """Batch EM: each pass is one E-step over all data, and one M-step."""

    def passes(self, training: Training, data: Observations, plan: Plan) -> Passes:
        settled = plan.stopping()
        while True:
            size = training.size_of(data)
            step = training.update(data, math.inf, size, size)
            yield step.log_likelihood, has_settled(settled, step)


@dataclass(frozen=True)
class Auto(Solver):
    """Online EM where the user has chosen a rate; else the fastest way to an optimum.

    That is `online_passes` in mini-batches, which come most of the way, and then batch EM, which
    settles what is left in fewer passes than learning rates that decay. Data of no more than one
    batch are fitted by batch EM alone, and so is what goes on from another fit.

    Parameters
    ----------
    online_passes : int, default=1
        Passes in mini-batches before batch EM.

    Raises
    ------
    ValueError
        If `online_passes` is below 1.
    """

    online_passes: int = 1

    def __post_init__(self):
        check_count("online_passes", self.online_passes)

    def passes(self, training: Training, data: Observations, plan: Plan) -> Passes:
        if plan.rate_is_chosen:
            return Online().passes(training, data, plan)
        is_new = training.bound_before == -math.inf
        n_online = self.online_passes if is_new and len(data) > plan.batch_size else 0
        online = Online().passes(training, data, replace(plan, stopping=Never))
        return chain(islice(online, n_online), Batch().passes(training, data, plan))


@dataclass(frozen=True)
class Stochastic(Solver):
    r"""Stochastic EM: hidden variables are drawn from their posterior in each E-step.

    A fit makes as many passes as it may, as iterates wander about the optimum for ever: no rule
    stops them. Averaging makes an estimate of them that settles. Streams take online steps from
    what is drawn. Draws depend on `random_state` and the number of the step alone, not on
    threads.

    Parameters
    ----------
    average_from : int, default=None
        First pass of a fit whose iterates are averaged, see :class:`Online`. None: the fit returns
        the last iterate. Where EM is slow, average the last passes only: iterates that are still on
        their way have a mean that lags behind the last of them.

    Raises
    ------
    ValueError
        If `average_from` is below 1.

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
    samples = True
    wanders = True

    def __post_init__(self):
        check_count("average_from", self.average_from, optional=True)

    def passes(self, training: Training, data: Observations, plan: Plan) -> Passes:
        state = training.state
        chain = state.model.chain(data, training.prior, state.rng(), collapsed=False)
        if chain is not None:
            yield from _sweeps(training, data, chain, self.average_from)
        for number in count(1):
            size = training.size_of(data)
            step = training.update(data, math.inf, size, size, sampled=True)
            if self.average_from is not None and number >= self.average_from:
                training.average_in()
            yield step.log_likelihood, False


@dataclass(frozen=True)
class Gibbs(Solver):
    r"""Collapsed Gibbs sampling: each hidden variable is drawn given all the others.

    Parameters are integrated out under their prior, and a fit returns those that maximise the
    statistics of what was drawn. As with :class:`Stochastic`, sweeps wander for ever and no rule
    stops them; averaging takes the mean over sweeps and chains. Streams take online steps, as with
    :class:`Online`. Mixtures need a proper `prior`; rows have no weights.

    Parameters
    ----------
    average_from : int, default=None
        First sweep of a fit that is averaged. None: the fit returns the last of the first chain.
    n_chains : int, default=1
        Chains, each with draws of its own. The first begins with the model that a fit starts from,
        the others away from it, where the model has more than one. In averages they are numbered as
        the first.
    n_draws : int, default=0
        Draws of the parameters that each chain keeps, spread evenly over the sweeps from
        `average_from` on, or over the second half; fewer where a callback ends the fit.

    Raises
    ------
    ValueError
        If a parameter is out of its range, there are fewer sweeps than draws, or a fit's model has
        no such sampler, or one of a single chain.

    Notes
    -----
    A fit leaves a record, :class:`~sklearn_onlineem.em.Chains`, as `chains_` of the estimator:
    scores of sweeps, R-hat, effective sample size, and draws.

    References
    ----------
    Griffiths & Steyvers, "Finding scientific topics", PNAS 2004; Zaheer, Wick, Kottur & Tristan,
    "Comparing Gibbs, EM and SEM for MAP Inference in Mixture Models"; Neal, "Markov chain sampling
    methods for Dirichlet process mixture models", JCGS 2000, algorithm 3.

    Examples
    --------
    A mixture, and the posterior of its rates:

    >>> import numpy as np
    >>> from sklearn_onlineem import PoissonMixture
    >>> from sklearn_onlineem.em import Gibbs
    >>> rng = np.random.default_rng(0)
    >>> X = rng.poisson(np.repeat([[2.0], [20.0]], 50, axis=0))
    >>> solver = Gibbs(average_from=50, n_chains=2, n_draws=50)
    >>> mixture = PoissonMixture(
    ...     2, solver=solver, prior={"rate": 0.1}, max_iter=200, random_state=0).fit(X)
    >>> rates = np.array([drawn.parameters.ravel() for drawn in mixture.chains_.draws[0]])
    >>> np.sort(rates.mean(axis=0)).round(), np.sort(rates.std(axis=0)).round(1)
    (array([ 2., 21.]), array([0.2, 0.6]))

    Topics:

    >>> import numpy as np
    >>> from sklearn_onlineem import LatentDirichletAllocation
    >>> from sklearn_onlineem.em import Gibbs
    >>> X = np.repeat([[8, 8, 0, 0], [0, 0, 8, 8]], 20, axis=0)
    >>> solver = Gibbs(average_from=30)
    >>> lda = LatentDirichletAllocation(2, solver=solver, max_iter=60, random_state=0).fit(X)
    >>> topics = lda.components_ / lda.components_.sum(axis=1, keepdims=True)
    >>> topics[topics[:, 0].argsort()].round(1)
    array([[0. , 0. , 0.5, 0.5],
           [0.5, 0.5, 0. , 0. ]])
    """

    average_from: int | None = None
    n_chains: int = 1
    n_draws: int = 0
    # What a fit returns wanders with its draws.
    wanders = True

    def __post_init__(self):
        check_count("average_from", self.average_from, optional=True)
        check_count("n_chains", self.n_chains)
        check_count("n_draws", self.n_draws, least=0)

    def passes(self, training: Training, data: Observations, plan: Plan) -> Passes:
        first, keeps = self._kept_sweeps(plan.max_iter)
        state = training.state
        sampler = Sampler(
            state.model, data, training.prior, state.rng(), self.n_chains, keeps, first
        )
        for passed in _sweeps(training, data, sampler, self.average_from):
            training.chains = sampler.record()
            yield passed

    def _kept_sweeps(self, n_sweeps):
        """The first sweep that counts, and those after which parameters are drawn."""
        first = self.average_from
        if first is None:
            first = 1 if n_sweeps is None else n_sweeps // 2 + 1
        if self.n_draws == 0:
            return first, []
        if n_sweeps is None or n_sweeps - first + 1 < self.n_draws:
            raise ValueError(
                f"n_draws={self.n_draws} are more than the sweeps from {first} to {n_sweeps}: raise"
                " max_iter."
            )
        return first, np.linspace(n_sweeps, first, self.n_draws).astype(int).tolist()


def _sweeps(training, data, chain, average_from):
    """Let a chain go on for ever, and the model follow it."""
    for number in count(1):
        log_likelihood = chain.sweep(training.state.rng())
        if average_from is not None and number >= average_from:
            chain.average_in()
        training.advance_by_pass(chain.model(), log_likelihood, data)
        yield log_likelihood, False


@dataclass(frozen=True)
class Newton(Solver):
    """Newton's method on the likelihood itself, for models that have `newton_step`.

    It takes a few passes where EM needs hundreds. There is no prior on its way.
    """

    def passes(self, training: Training, data: Observations, plan: Plan) -> Passes:
        if training.prior is not None:
            raise ValueError("solver='newton' maximises the likelihood, and takes no prior.")
        settled = plan.stopping()
        while True:
            new_model, log_likelihood, is_last = training.state.model.newton_step(data)
            step = training.advance_by_pass(new_model, log_likelihood, data)
            yield log_likelihood, settled(log_likelihood, step.kl_divergence) or is_last


SOLVERS: dict[str, type[Solver]] = {
    "auto": Auto,
    "online": Online,
    "batch": Batch,
    "stochastic": Stochastic,
    "bayesian": BayesianOnline,
    "componentwise": Componentwise,
    "gibbs": Gibbs,
    "newton": Newton,
    "recursive": Recursive,
}
