"""Bayesian online EM: a solver that carries the statistics of a posterior along."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

from sklearn_onlineem.data import Batch
from sklearn_onlineem.em.carried import Carried
from sklearn_onlineem.em.schedules import RateSchedule
from sklearn_onlineem.em.settings import check_number
from sklearn_onlineem.em.solver import Plan, Solver, shuffled_pass
from sklearn_onlineem.em.state import State
from sklearn_onlineem.em.steps import AnyStep
from sklearn_onlineem.em.training import Passes, Training
from sklearn_onlineem.models import Model
from sklearn_onlineem.statistics import Statistics

__all__ = ["BayesianOnline"]


@dataclass(frozen=True)
class BayesianOnline(Solver):
    r"""Bayesian online EM: the statistics that are carried along are a posterior's.

    Each batch adds its expected statistics to those of all before, which are never recomputed from
    the model, and the model is the mode or the mean of the conjugate posterior. So learning rates
    come from the prior and the data, one for each component, and `eta0`, `beta` and `schedule`
    have no say. A fit takes one pass, after which each observation has counted once.

    It is online EM with the schedule "bayesian" where a batch is told of the past what the model
    itself says of it; they differ in what the statistics of a component remember beyond its
    parameters: the prior's mass on its emissions.

    Parameters
    ----------
    estimate : {"mode", "mean"}, default="mode"
        What the model is made of: the posterior's joint mode, or its mean. Without a prior both are
        the maximum of the likelihood of the expected statistics.
    start_mass : float, default=0.01
        Observations for which each component of a start counts, above 0; a start without components
        counts for so many itself. It decides how soon components leave it: for counts of many words
        less than one, or all documents go where the first went. The first batch of a stream, on
        which a start settles, counts for itself instead.
    forgetting : float, default=1.0
        Share of what is carried that a batch leaves, in (0, 1]: the forgetting factor. At 1 the
        model settles; below, it follows data that drift. Priors are not forgotten.

    Raises
    ------
    ValueError
        If a value is out of its range, or a fit's model has statistics that grow with the data.

    References
    ----------
    Brochu, de Freitas & Bao, "Owed to a Martingale: A Fast Bayesian On-Line EM Algorithm for
    Multinomial Models", 2004; Sato, "Convergence of on-line EM algorithm", 2000 (forgetting).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import PoissonMixture
    >>> rng = np.random.default_rng(0)
    >>> X = rng.poisson(rng.choice([1.0, 20.0], size=(3000, 1)))
    >>> mixture = PoissonMixture(2, solver="bayesian", random_state=0)
    >>> for batch in np.array_split(X, 30):
    ...     mixture = mixture.partial_fit(batch)
    >>> np.sort(mixture.means_.ravel()).round()
    array([ 1., 20.])
    >>> rates = mixture.history_[-1].component_rates
    >>> rates.round(2)
    array([0.03, 0.03])
    """

    estimate: str = "mode"
    start_mass: float = 0.01
    forgetting: float = 1.0
    carries = True

    def __post_init__(self):
        if self.estimate not in ("mode", "mean"):
            raise ValueError(f"estimate must be 'mode' or 'mean', got {self.estimate!r}.")
        check_number("start_mass", self.start_mass, 0.0, math.inf)
        if not self.forgetting == 1.0:
            check_number("forgetting", self.forgetting, 0.0, 1.0)

    def step(self, training: Training, batch: Batch, schedule: RateSchedule) -> AnyStep:
        return training.update_carried(batch, self)

    def passes(self, training: Training, data: Batch, plan: Plan) -> Passes:
        learn = partial(training.update_carried, solver=self)
        yield shuffled_pass(training, data, plan, learn), True

    def prior_of(self, model: Model, prior: Statistics | None) -> Statistics | None:
        return prior if prior is None or self.estimate == "mode" else model.mean_form(prior)

    def start(self, state: State, data: Batch) -> Carried:
        """Return what a model stands for that has carried nothing so far.

        Parameters
        ----------
        state : State
            Of the model, which has learnt by other solvers or not at all.
        data : Batch
            The next, whose lengths count where the model asks for them.

        Returns
        -------
        carried : Carried
            Of the observations seen, or else of `start_mass` for each component, or for the model.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem.data import Rows
        >>> from sklearn_onlineem.em import BayesianOnline, State
        >>> from sklearn_onlineem.families import Poisson
        >>> from sklearn_onlineem.models import MixtureModel
        >>> model = MixtureModel(Poisson(), np.array([0.5, 0.5]), np.array([[2.0], [9.0]]))
        >>> BayesianOnline(start_mass=0.01).start(State(model), Rows(np.array([[4.0]]))).mass
        0.02
        """
        model = state.model
        mass = state.n_seen or self.start_mass * (model.n_components if model.has_components else 1)
        return Carried.of_model(model, mass, state.lengths_with(data))
