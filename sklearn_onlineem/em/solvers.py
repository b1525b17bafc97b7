r"""Solvers: small frozen values that yield passes over data, for any model.

A solver says in which order statistics are summed up and maximised; what it needs besides stands in
a `Plan`, and what it changes in a `Training`. `SOLVERS` translates the strings of estimators.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain, count, islice

import numpy as np

from sklearn_onlineem.em.inertia import Exact, Inertia
from sklearn_onlineem.em.settings import Settings, check_count
from sklearn_onlineem.em.stopping import Never

__all__ = [
    "SOLVERS",
    "Auto",
    "Batch",
    "Newton",
    "Online",
    "Plan",
    "Solver",
    "Stochastic",
    "mini_batches",
]


@dataclass(frozen=True)
class Plan:
    """Arguments of one fit that are the same for any solver.

    Parameters
    ----------
    schedule : callable
        Learning rates of online steps.
    batch_size : int
        Observations in a mini-batch.
    stopping : callable
        Returns a new stopping rule, a function of a pass's log-likelihood and divergence.
    rng : numpy.random.Generator
        Of the orders in which observations are taken.
    rate_is_chosen : bool, default=False
        Whether the user has said which rate to take first.
    """

    schedule: Callable
    batch_size: int
    stopping: Callable
    rng: np.random.Generator
    rate_is_chosen: bool = False


class Solver(Settings, ABC):
    """Base of the solvers: `step` learns from a stream, `passes` from data at hand.

    Attributes
    ----------
    inertia : Inertia
        Regularisation of online steps towards the old model.
    samples : bool
        Whether hidden variables are drawn from their posterior instead of averaged over.
    """

    inertia = Exact()
    samples = False

    def step(self, training, batch, schedule):
        """Update with the next batch of a stream, by the rate for the observations so far."""
        eta = training.rate(schedule, batch)
        size = training.state.size_seen + training.size_of(batch)
        return training.update(batch, eta, size, self.inertia, self.samples)

    @abstractmethod
    def passes(self, training, data, plan):
        """Take passes over the data, without end.

        Parameters
        ----------
        training : Training
            It advances.
        data : Batch
        plan : Plan

        Yields
        ------
        log_likelihood : float
            Mean over the pass, each batch before it was learnt, in nats per observation.
        is_last : bool
            Whether the stopping rule is satisfied.
        """


def mini_batches(data, size, order=None, begin=0, end=None):
    """Yield batches of observations number `begin` to `end` of an order, or as they come.

    Parameters
    ----------
    data : Batch
    size : int
        Observations in a batch, but for the last.
    order : ndarray of int of shape (n,), default=None
        Permutation of the observations. None: as they come.
    begin, end : int, default=0, None
        Which of them to take; None: up to the last.
    """
    end = len(data) if end is None else end
    for start in range(begin, end, size):
        chosen = slice(start, min(start + size, end))
        yield data[chosen if order is None else order[chosen]]


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

    Raises
    ------
    ValueError
        If `average_from` is no whole number from 1 up, or `inertia` is none.

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

    def __post_init__(self):
        check_count("average_from", self.average_from, optional=True)
        if not isinstance(self.inertia, Inertia):
            raise ValueError(f"inertia must be Exact() or Sampled(...), got {self.inertia!r}.")

    def passes(self, training, data, plan):
        settled = plan.stopping()
        for number in count(1):
            before = training.state.model
            averages = self.average_from is not None and number >= self.average_from
            log_likelihood = self._pass(training, data, plan, averages)
            state = training.state
            divergence = state.model.kl_divergence(before, like=state.lengths)
            yield log_likelihood, settled(log_likelihood, divergence)

    def _pass(self, training, data, plan, averages):
        """Take one shuffled pass in mini-batches; return the mean log-likelihood on the way."""
        log_likelihood = weight = 0.0
        order, size = plan.rng.permutation(len(data)), training.size_of(data)
        for batch in mini_batches(data, plan.batch_size, order):
            n_batch = batch.total_weight
            eta = training.rate(plan.schedule, batch)
            step = training.update(batch, eta, size, self.inertia)
            if averages:
                training.average_in()
            log_likelihood += n_batch * step.log_likelihood
            weight += n_batch
            if training.stopped:
                break
        return log_likelihood / weight


@dataclass(frozen=True)
class Batch(Solver):
    """Batch EM: each pass is one E-step over all data, and one M-step."""

    def passes(self, training, data, plan):
        settled = plan.stopping()
        while True:
            step = training.update(data, math.inf, training.size_of(data))
            yield step.log_likelihood, settled(step.log_likelihood, step.kl_divergence)


@dataclass(frozen=True)
class Auto(Solver):
    """Online EM where the user has chosen a rate; else the fastest way to an optimum.

    That is `online_passes` in mini-batches, which come most of the way, and then batch EM, which
    settles what is left in fewer passes than learning rates that decay. Data of no more than one
    batch are fitted by batch EM alone.

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

    def passes(self, training, data, plan):
        if plan.rate_is_chosen:
            return Online().passes(training, data, plan)
        n_online = self.online_passes if len(data) > plan.batch_size else 0
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

    def __post_init__(self):
        check_count("average_from", self.average_from, optional=True)

    def passes(self, training, data, plan):
        for number in count(1):
            step = training.update(data, math.inf, training.size_of(data), sampled=True)
            if self.average_from is not None and number >= self.average_from:
                training.average_in()
            yield step.log_likelihood, False


@dataclass(frozen=True)
class Newton(Solver):
    """Newton's method on the likelihood itself, for models that have `newton_step`.

    It takes a few passes where EM needs hundreds. There is no prior on its way.
    """

    def passes(self, training, data, plan):
        if training.prior is not None:
            raise ValueError("solver='newton' maximises the likelihood, and takes no prior.")
        settled = plan.stopping()
        while True:
            new_model, log_likelihood, is_last = training.state.model.newton_step(data)
            lengths = training.state.lengths_with(data)
            n_seen, size = data.total_weight, training.size_of(data)
            step = training.advance(
                new_model,
                math.inf,
                log_likelihood,
                data,
                n_seen,
                size,
                data.n_rows,
                lengths,
            )
            yield log_likelihood, settled(log_likelihood, step.kl_divergence) or is_last


SOLVERS = {
    "auto": Auto,
    "online": Online,
    "batch": Batch,
    "stochastic": Stochastic,
    "newton": Newton,
}
