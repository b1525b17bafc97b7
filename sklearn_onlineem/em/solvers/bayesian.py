"""Bayesian online EM: running statistics are the hyper-parameters of a posterior."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from sklearn_onlineem._typing import Floats
from sklearn_onlineem.data import Batch
from sklearn_onlineem.data.sequences import LengthDistribution
from sklearn_onlineem.em.loop import Passes, Progress
from sklearn_onlineem.em.schedules import RateSchedule
from sklearn_onlineem.em.settings import check_number
from sklearn_onlineem.em.solvers.base import Plan, Solver
from sklearn_onlineem.em.state import State
from sklearn_onlineem.em.step import AnyModel, Terms, batch_step
from sklearn_onlineem.models import Model
from sklearn_onlineem.statistics import Statistics, combine

__all__ = ["BayesianOnline", "RunningStatistics", "running_step"]


@dataclass(frozen=True)
class BayesianOnline(Solver):
    r"""Bayesian online EM: the running statistics are a posterior's.

    Each batch adds its expected statistics to those of all before, which are never recomputed from
    the model, and the model is the mode or the mean of the conjugate posterior. So learning rates
    come from the prior and the data, one for each component, and `eta0`, `beta` and `schedule`
    have no say. A fit takes one pass, after which each observation has counted once.

    At equal rates it takes the steps of online EM where a batch is told of the past what the model
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
        Share of the running statistics that a batch leaves, in (0, 1]: the forgetting factor. At 1
        the model settles; below, it follows data that drift. Priors are not forgotten.

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
    has_own_rates = True

    def __post_init__(self):
        if self.estimate not in ("mode", "mean"):
            raise ValueError(f"estimate must be 'mode' or 'mean', got {self.estimate!r}.")
        check_number("start_mass", self.start_mass, 0.0, math.inf)
        if not self.forgetting == 1.0:
            check_number("forgetting", self.forgetting, 0.0, 1.0)

    def start(
        self, state: State, data: Batch, pseudo_statistics: Statistics | None, n_passes: int
    ) -> State:
        # The statistics of the last pass are the first to be kept; with a proper prior the model is
        # of their posterior, without the pseudo-statistics.
        share, model, n = 1.0 / data.total_weight, state.model, data.total_weight
        prior = self.prior_of(model, state.prior)
        terms = [(share, term) for term in (pseudo_statistics, prior) if term is not None]
        rng = state.rng() if model.draws else None
        for _ in range(n_passes - 1):
            model, _ = batch_step(model, data, terms, rng)
        _check_conjugate(model)
        evidence, log_likelihood = model.e_step(data, rng=rng)
        counts = None if prior is None else model.effective_counts(prior)
        if counts is not None and (counts > 0.0).all():
            terms = [(share, prior)]
        new_model = model.m_step(combine([(1.0, evidence), *terms]))
        counts = model.effective_counts(evidence)
        # All that components stand for is from this batch.
        rates = None if counts is None else (counts > 0.0).astype(float)
        kept = RunningStatistics(n, evidence)
        size = state.size_of(data)
        return state.after(
            new_model, math.inf, log_likelihood, data, size, kept, rates, before=model
        )

    def step(self, state: State, batch: Batch, schedule: RateSchedule | None = None) -> State:
        _check_conjugate(state.model)
        before = state.kept
        if not isinstance(before, RunningStatistics):
            # The model has learnt by other solvers, or not at all.
            n_components = state.model.n_components if state.model.has_components else 1
            n = state.n_seen or self.start_mass * n_components
            before = RunningStatistics.of_model(state.model, n, state.lengths_with(batch))
        prior = self.prior_of(state.model, state.prior)
        terms = () if prior is None else ((1.0, prior),)
        rng = state.rng() if state.model.draws else None
        model, kept, rates, log_likelihood = running_step(
            state.model, batch, before, terms, self.forgetting, rng
        )
        eta = batch.total_weight / (self.forgetting * before.mass)
        size = state.size_of(batch)
        return state.after(model, eta, log_likelihood, batch, size, kept, rates)

    def passes(self, progress: Progress, data: Batch, plan: Plan) -> Passes:
        yield self._shuffled_pass(progress, data, plan, self.step), True

    def prior_of(self, model: Model, prior: Statistics | None) -> Statistics | None:
        return prior if prior is None or self.estimate == "mode" else model.mean_form(prior)


def _check_conjugate(model):
    if not model.is_conjugate:
        raise ValueError(
            "solver='bayesian' needs statistics of a fixed size, which the hyper-parameters of a"
            " conjugate prior are; those of this model grow with the data."
        )


class RunningStatistics(NamedTuple):
    """Expected statistics of all observations so far, each under the model that met it.

    Attributes
    ----------
    mass : float
        Observations behind them, those that the start stands for among them.
    statistics : Statistics
        Averages per observation.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.data.rows import Rows
    >>> from sklearn_onlineem.em.solvers import RunningStatistics
    >>> from sklearn_onlineem.families import Poisson
    >>> from sklearn_onlineem.models.mixture import MixtureModel
    >>> model = MixtureModel(Poisson(), np.array([1.0]), np.array([[2.0]]))
    >>> evidence, _ = model.e_step(Rows(np.array([[6.0]])))
    >>> running = RunningStatistics.of_model(model, mass=3.0).with_more(1.0, evidence)
    >>> running.mass, model.m_step(running.total()).parameters
    (4.0, array([[3.]]))
    >>> prior = [(4.0, evidence)]
    >>> running.keeping(0.5).mass, model.m_step(running.total(prior)).parameters
    (2.0, array([[4.5]]))
    """

    mass: float
    statistics: Statistics

    @classmethod
    def of_model(cls, model: Model, mass: float, lengths: LengthDistribution | None = None) -> Self:
        """What a model stands for as a start that counts for so many observations.

        Parameters
        ----------
        model : Model
            The start.
        mass : float
            Observations that it counts for, above 0.
        lengths : LengthDistribution, default=None
            Of the sequences that it stands for, where lengths are not modelled.

        Returns
        -------
        running : RunningStatistics
        """
        return cls(mass, model.own_statistics(lengths))

    def with_more(self, n: float, evidence: Statistics, kept: float = 1.0) -> RunningStatistics:
        """Return what is running once the evidence of n observations is added to a share of it.

        Parameters
        ----------
        n : float
            Observations by their weights, above 0.
        evidence : Statistics
            Their expected statistics, averages per observation.
        kept : float, default=1.0
            Share of what is running that is kept, in (0, 1].

        Returns
        -------
        running : RunningStatistics
        """
        before = kept * self.mass
        mass = before + n
        statistics = combine([(n / mass, evidence), (before / mass, self.statistics)])
        return RunningStatistics(mass, statistics)

    def keeping(self, share: float) -> RunningStatistics | None:
        """Return it with a share of its mass, or None if that is nothing.

        Parameters
        ----------
        share : float
            From 0 to 1.

        Returns
        -------
        running : RunningStatistics or None
        """
        return self._replace(mass=share * self.mass) if share > 0.0 else None

    def total(self, prior: Terms = ()) -> Statistics:
        """Return the statistics per observation, with those of priors, terms of all together.

        Parameters
        ----------
        prior : iterable of (float, Statistics), default=()
            Weights, in observations, and pseudo-statistics.

        Returns
        -------
        statistics : Statistics
        """
        if not prior:
            return self.statistics
        terms = [(weight / self.mass, statistics) for weight, statistics in prior]
        return combine([(1.0, self.statistics), *terms])


def running_step(
    model: AnyModel,
    data: Batch,
    running: RunningStatistics,
    prior: Terms = (),
    kept: float = 1.0,
    rng: np.random.Generator | None = None,
) -> tuple[AnyModel, RunningStatistics, Floats | None, float]:
    r"""Add the expected statistics of a batch to those running, and maximise.

    .. math::
        s^+ = \zeta s + \sum_n E[S \mid x_n, \Theta], \qquad
        \Theta^+ = \operatorname*{M}(s^+ + s_0)

    Where all hidden variables are known and nothing is forgotten, :math:`s^+ + s_0` are the
    hyper-parameters of the conjugate posterior, and the order of batches changes nothing.

    Parameters
    ----------
    model : Model
        The old model, under which the expectations are taken.
    data : Batch
        In the form that the model's `e_step` takes.
    running : RunningStatistics
        The statistics of all batches before.
    prior : iterable of (float, Statistics), default=()
        Weights and pseudo-statistics whose sum is :math:`s_0`, which is not forgotten.
    kept : float, default=1.0
        The share of what is running that is kept, :math:`\zeta`.
    rng : numpy.random.Generator, default=None
        If given, hidden variables are sampled instead of averaged over.

    Returns
    -------
    new_model : Model
    running : RunningStatistics
        The new one.
    rates : ndarray of shape (n_components,) or None
        The share of the batch in each component's statistics: their learning rates.
    log_likelihood : float
        Mean log-likelihood of the batch per observation, *under the old model*.

    References
    ----------
    Brochu, de Freitas & Bao, "Owed to a Martingale: A Fast Bayesian On-Line EM Algorithm for
    Multinomial Models", 2004, eqs. (7)-(12); Sato, "Convergence of on-line EM algorithm", 2000
    (forgetting).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.data.rows import Rows
    >>> from sklearn_onlineem.em.solvers import RunningStatistics, running_step
    >>> from sklearn_onlineem.families import Poisson
    >>> from sklearn_onlineem.models.mixture import MixtureModel
    >>> model = MixtureModel(Poisson(), np.array([1.0]), np.array([[2.0]]))
    >>> running = RunningStatistics.of_model(model, mass=3.0)
    >>> new, running, rates, _ = running_step(model, Rows(np.array([[6.0]])), running)
    >>> new.parameters, running.mass, rates
    (array([[3.]]), 4.0, array([0.25]))
    """
    evidence, log_likelihood = model.e_step(data, rng=rng)
    n = data.total_weight
    running = running.with_more(n, evidence, kept)
    total = running.total(prior)
    rates = _shares(
        model.effective_counts(evidence), model.effective_counts(total), n / running.mass
    )
    return model.m_step(total), running, rates, log_likelihood


def _shares(part, whole, scale):
    """Shares of a batch in what components stand for; 0 of a component that nothing stands for."""
    if part is None:
        return None
    return np.divide(scale * part, whole, out=np.zeros(len(whole)), where=whole > 0.0)
