"""The base of solvers: what they are told of a fit, and how passes are taken in mini-batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sklearn_onlineem.data import Batch
from sklearn_onlineem.em.inertia import Exact, Inertia
from sklearn_onlineem.em.schedules import RateSchedule
from sklearn_onlineem.em.settings import Settings
from sklearn_onlineem.em.steps import AnyStep
from sklearn_onlineem.em.training import Passes, Training
from sklearn_onlineem.models import Model
from sklearn_onlineem.statistics import Statistics

__all__ = ["Plan", "Solver", "mini_batches", "shuffled_pass"]

# Streams make structural moves once in so many steps.
_MOVE_STEPS = 32


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
    max_iter : int, default=None
        Most passes. None: no solver is told.
    """

    schedule: RateSchedule
    batch_size: int
    stopping: Callable[[], Callable[[float, float], bool]]
    rng: np.random.Generator
    rate_is_chosen: bool = False
    max_iter: int | None = None


class Solver(Settings, ABC):
    """Base of the solvers: `step` learns from a stream, `passes` from data at hand.

    Attributes
    ----------
    inertia : Inertia
        Regularisation of online steps towards the old model.
    samples : bool
        Whether hidden variables are drawn from their posterior instead of averaged over.
    wanders : bool
        Whether no rule ends a fit, as its iterates wander for ever.
    carries : bool
        Whether learning rates come from what is carried, and not from a schedule.
    revives : bool
        Whether components that have starved in a stream may come back.
    """

    inertia: Inertia = Exact()
    samples = False
    wanders = False
    carries = False
    revives = True

    def prior_of(self, model: Model, prior: Statistics | None) -> Statistics | None:
        """Return the pseudo-statistics of a prior that lead to the estimate, or None.

        Parameters
        ----------
        model : Model
            Of the step.
        prior : Statistics or None
            Pseudo-statistics that lead to the mode of the posterior.

        Returns
        -------
        prior : Statistics or None

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem.em import BayesianOnline, Online
        >>> from sklearn_onlineem.families import Poisson
        >>> from sklearn_onlineem.models import MixtureModel
        >>> model = MixtureModel(Poisson(), np.array([1.0]), np.array([[2.0]]))
        >>> prior = model.own_statistics()
        >>> solvers = Online(), BayesianOnline(), BayesianOnline(estimate="mean")
        >>> [solver.prior_of(model, prior) is prior for solver in solvers]
        [True, True, False]
        """
        return prior

    def check_stream(self, training: Training) -> None:
        """Raise ValueError if the solver cannot learn a stream of the training's model.

        Parameters
        ----------
        training : Training
            With the model, and with a prior if there is one.

        Raises
        ------
        ValueError
            If the model has not what the solver needs.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem.em import Recursive, State, Training
        >>> from sklearn_onlineem.families import Poisson
        >>> from sklearn_onlineem.models import MixtureModel
        >>> model = MixtureModel(Poisson(), np.array([1.0]), np.array([[2.0]]))
        >>> try:
        ...     Recursive().check_stream(Training(State(model)))
        ... except ValueError as error:
        ...     print(error)
        solver='recursive' learns hidden Markov models of symbols only: use another solver.
        """

    def step(self, training: Training, batch: Batch, schedule: RateSchedule) -> AnyStep:
        """Update with the next batch of a stream, by the rate for the observations so far.

        Parameters
        ----------
        training : Training
            It advances.
        batch : Batch
            In the form that the model takes.
        schedule : callable t -> eta
            Learning rates, or a `Schedule`.

        Returns
        -------
        step : Step, StructuralStep or CarriedStep

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem.data import Rows
        >>> from sklearn_onlineem.em import Constant, Online, State, Training
        >>> from sklearn_onlineem.families import Poisson
        >>> from sklearn_onlineem.models import MixtureModel
        >>> model = MixtureModel(Poisson(), np.array([1.0]), np.array([[2.0]]))
        >>> training = Training(State(model))
        >>> step = Online().step(training, Rows(np.array([[4.0]])), Constant(1.0))
        >>> step.eta, training.state.model.parameters
        (1.0, array([[3.]]))
        """
        self.check_stream(training)
        size_seen, size = training.state.size_seen, training.size_of(batch)
        eta = training.rate(schedule, size)
        total = max(size_seen + size, training.expected_size)
        may_move = (training.state.n_steps + 1) % _MOVE_STEPS == 0
        move = self._move if may_move else None
        return training.update(batch, eta, size, total, self.inertia, self.samples, move)

    def _move(self, model, batch, n_remembered):
        """Return the structural move that a model makes in a stream, or None."""
        return model.revived(batch) if self.revives else None

    def score(self, model: Model, log_likelihood: float, data: Batch) -> float:
        """Return that by which fits from several starts are compared: higher is better.

        Parameters
        ----------
        model : Model
            To which a fit has led.
        log_likelihood : float
            Of its last pass, in nats per observation.
        data : Batch
            Of the fit.

        Returns
        -------
        score : float

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem.data import Rows
        >>> from sklearn_onlineem.em import Online, SplitMerge
        >>> from sklearn_onlineem.families import Poisson
        >>> from sklearn_onlineem.models import MixtureModel
        >>> model = MixtureModel(Poisson(), np.array([1.0]), np.array([[2.0]]))
        >>> data = Rows(np.ones((100, 1)))
        >>> [round(solver.score(model, -2.0, data), 1) for solver in (Online(), SplitMerge())]
        [-2.0, -202.3]
        """
        return log_likelihood

    @abstractmethod
    def passes(self, training: Training, data: Batch, plan: Plan) -> Passes:
        """Take passes over the data, without end.

        Parameters
        ----------
        training : Training
            It advances.
        data : Batch
            All there are, in the form that the model takes.
        plan : Plan
            Of the fit.

        Yields
        ------
        log_likelihood : float
            Mean over the pass, each batch before it was learnt, in nats per observation.
        is_last : bool
            Whether the stopping rule is satisfied.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem.data import Rows
        >>> from sklearn_onlineem.em import (
        ...     Batch, Constant, LikelihoodStopping, Plan, State, Training)
        >>> from sklearn_onlineem.families import Poisson
        >>> from sklearn_onlineem.models import MixtureModel
        >>> model = MixtureModel(Poisson(), np.array([1.0]), np.array([[2.0]]))
        >>> data, training = Rows(np.array([[4.0], [6.0]])), Training(State(model))
        >>> rng = np.random.default_rng(0)
        >>> plan = Plan(Constant(1.0), 100, lambda: LikelihoodStopping(1e-3), rng)
        >>> passes = Batch().passes(training, data, plan)
        >>> [is_last for log_likelihood, is_last in (next(passes), next(passes), next(passes))]
        [False, False, True]
        >>> training.state.model.parameters
        array([[5.]])
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


def shuffled_pass(training, data, plan, learn):
    """Take one pass in shuffled mini-batches; return the mean log-likelihood on the way.

    Parameters
    ----------
    training : Training
    data : Batch
    plan : Plan
    learn : callable
        Learns a batch; returns the step.

    Returns
    -------
    log_likelihood : float
        Each batch's before it was learnt, in nats per observation.
    """
    log_likelihood = weight = 0.0
    order = plan.rng.permutation(len(data))
    for batch in mini_batches(data, plan.batch_size, order):
        n_batch = batch.total_weight
        log_likelihood += n_batch * learn(batch).log_likelihood
        weight += n_batch
        if training.stopped:
            break
    return log_likelihood / weight
