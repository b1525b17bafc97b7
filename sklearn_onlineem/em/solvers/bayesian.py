"""Bayesian online EM: running statistics are the hyper-parameters of a posterior."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import numpy as np

from sklearn_onlineem._checks import check_bool, check_number
from sklearn_onlineem._typing import Floats, Generator
from sklearn_onlineem.data import Batch
from sklearn_onlineem.data.sequences import LengthDistribution
from sklearn_onlineem.em.loop import Passes, Progress
from sklearn_onlineem.em.solvers.base import Plan, Solver
from sklearn_onlineem.em.stages.reinitialise import Reinitialise
from sklearn_onlineem.em.state import Carry, State, Update
from sklearn_onlineem.em.step import AnyModel, Terms
from sklearn_onlineem.models import Model
from sklearn_onlineem.statistics import Statistics, combine

__all__ = ["BayesianOnline", "RunningStatistics", "running_step"]


@dataclass(frozen=True)
class BayesianOnline(Solver):
    """Bayesian online EM: running statistics are the hyper-parameters of a posterior.

    Each batch adds its expected statistics to those of all batches before, and the model is the
    mode or the mean of the conjugate posterior. Learning rates, one for each component, follow from
    the prior and the data; `eta0`, `beta` and `schedule` are ignored. A fit takes one pass, so that
    each observation counts once. See :ref:`bayesian`.

    Parameters
    ----------
    estimate : {"mode", "mean"}, default="mode"
        Whether the model is the posterior's joint mode or its mean. Without a prior both maximise
        the likelihood of the expected statistics.
    start_mass : float, default=0.01
        Observations that each component of the initial model counts for, above 0; or the whole
        model if it has no components. Components leave their start later the larger it is: use less
        than 1 for counts of many words, or all documents join the component of the first. A stream
        uses its first batch instead.
    forgetting : float, default=1.0
        Forgetting factor in (0, 1]: the share of the running statistics that is kept after a batch.
        At 1 the model converges; below, it follows data that drift, and empty components are
        reinitialised as by `Online`. Priors are not forgotten.
    skips_outliers : bool, default=False
        Like that of :class:`~sklearn_onlineem.em.Online`. Starts from a first batch have too
        narrow components, and usual rows may look like outliers to them.

    References
    ----------
    Brochu, de Freitas & Bao, "Owed to a Martingale: A Fast Bayesian On-Line EM Algorithm for
    Multinomial Models", 2004, eqs. (7)-(12); Sato, "Convergence of on-line EM algorithm", 2000
    (forgetting).

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
    >>> mixture.history_[-1].component_rates.round(2)
    array([0.03, 0.03])
    """

    estimate: str = "mode"
    start_mass: float = 0.01
    forgetting: float = 1.0
    skips_outliers: bool = False
    has_own_rates = True
    start_rows = 0
    follows_levels = False

    def __post_init__(self):
        check_bool("skips_outliers", self.skips_outliers)
        if self.estimate not in ("mode", "mean"):
            raise ValueError(f"estimate must be 'mode' or 'mean', got {self.estimate!r}.")
        check_number("start_mass", self.start_mass, 0.0, math.inf)
        if not self.forgetting == 1.0:
            check_number("forgetting", self.forgetting, 0.0, 1.0)

    def _begun(self, update, evidence, pseudo, prior):
        # With a proper prior the model maximises the posterior, without the pseudo-statistics.
        model = update.model
        counts = model.effective_counts(prior[0][1]) if prior else None
        is_proper = counts is not None and (counts > 0.0).all()
        update = super()._begun(update, evidence, [] if is_proper else pseudo, prior)
        counts = model.effective_counts(evidence)
        # The statistics of components are from this batch only.
        update.component_rates = None if counts is None else (counts > 0.0).astype(float)
        running = RunningStatistics(update.data.total_weight, evidence)
        update.carry[RunningStatistics.name] = running
        return update

    def check(self, state: State) -> None:
        if not state.model.is_conjugate:
            raise ValueError(
                "solver='bayesian' requires statistics of a fixed size; those of"
                f" {type(state.model).__name__} grow with the data."
            )

    @property
    def reinitialises(self) -> bool:
        """Whether empty components are reinitialised: without forgetting none is, for good."""
        return self.forgetting < 1.0

    def _learn(self, state, batch, stream, found=None):
        before = state.carry.get(RunningStatistics.name)
        if before is None:
            # Another solver has fitted the model, or none.
            n_components = state.model.n_components if state.model.has_components else 1
            n = state.counters.n_seen or self.start_mass * n_components
            before = RunningStatistics.of_model(state.model, n, state.lengths_with(batch))
        prior = self.prior_of(state)
        terms = () if prior is None else ((1.0, prior),)
        rng = state.rng() if state.model.draws else None
        model, running, rates, log_likelihood = running_step(
            state.model, batch, before, terms, self.forgetting, rng, found and found[:2]
        )
        eta = batch.total_weight / (self.forgetting * before.mass)
        size = state.size_of(batch)
        carry = {RunningStatistics.name: running}
        return Update(model, eta, log_likelihood, batch, size, None, rates, carry=carry)

    def passes(self, progress: Progress, data: Batch, plan: Plan) -> Passes:
        self.check(progress.state)
        step = self._learn
        stage = self.stage(Reinitialise)
        if stage is not None and isinstance(progress.state.model, stage.requires):
            step = partial(stage.step, step)

        def learn(state, batch):
            return state.after(step(state, batch, None))

        yield self._shuffled_pass(progress, data, plan, learn), True

    def prior_of(self, state: State) -> Statistics | None:
        prior = state.prior
        return prior if prior is None or self.estimate == "mode" else state.model.mean_form(prior)


@dataclass(frozen=True)
class RunningStatistics(Carry):
    """Expected statistics of all observations so far, each under the model at its time.

    Parameters
    ----------
    mass : float
        Number of observations, with those that the initial model counts for.
    statistics : Statistics
        Averages per observation.
    """

    mass: float
    statistics: Statistics
    name = "running_statistics"

    @classmethod
    def of_model(cls, model: Model, mass: float, lengths: LengthDistribution | None = None) -> Self:
        """Return the statistics of an initial model that counts for `mass` observations.

        Parameters
        ----------
        model, mass : Model, float
            The initial model, and a number above 0.
        lengths : LengthDistribution, default=None
            Lengths of sequences, if the model does not have a distribution of them.
        """
        return cls(mass, model.own_statistics(lengths))

    def with_model(self, model: Model, state: State) -> RunningStatistics:
        return self.of_model(model, self.mass, state.lengths)

    def restarted(self, state: State, n_rows: int, share: float) -> RunningStatistics | None:
        return replace(self, mass=share * self.mass) if share > 0.0 else None


def running_step(
    model: AnyModel,
    data: Batch,
    running: RunningStatistics,
    prior: Terms = (),
    kept: float = 1.0,
    rng: Generator | None = None,
    found: tuple[Statistics, float] | None = None,
) -> tuple[AnyModel, RunningStatistics, Floats | None, float]:
    r"""Add the expected statistics of a batch to the running statistics, and maximise.

    .. math::
        s^+ = \zeta s + \sum_n E[S \mid x_n, \Theta], \qquad
        \Theta^+ = \operatorname*{M}(s^+ + s_0)

    If all hidden variables are known and :math:`\zeta = 1`, :math:`s^+ + s_0` are the
    hyper-parameters of the conjugate posterior, in any order of the batches.

    Parameters
    ----------
    model, data : Model, Batch
        The old model, and data in the form that its `e_step` takes.
    running : RunningStatistics
        Of all batches before.
    prior : iterable of (float, Statistics), default=()
        Weights and pseudo-statistics whose sum is :math:`s_0`, which is not forgotten.
    kept : float, default=1.0
        The forgetting factor :math:`\zeta`.
    rng, found
        See :func:`~sklearn_onlineem.em.step.online_step`.

    Returns
    -------
    new_model : Model
    running : RunningStatistics
        The new ones.
    rates : ndarray of shape (n_components,) or None
        Learning rates of the components: the share of the batch in the statistics of each.
    log_likelihood : float
        Mean log-likelihood of the batch per observation, *under the old model*.
    """
    evidence, log_likelihood = model.e_step(data, rng=rng) if found is None else found
    n, before = data.total_weight, kept * running.mass
    mass = before + n
    total = combine([(n / mass, evidence), (before / mass, running.statistics)])
    running = RunningStatistics(mass, total)
    if prior:
        total = combine([(1.0, total), *((weight / mass, term) for weight, term in prior)])
    rates, counts = None, model.effective_counts(evidence)
    if counts is not None:
        # Rates are 0 where a component has no counts.
        whole, scale = model.effective_counts(total), n / mass
        rates = np.divide(scale * counts, whole, out=np.zeros(len(whole)), where=whole > 0.0)
    return model.m_step(total), running, rates, log_likelihood
