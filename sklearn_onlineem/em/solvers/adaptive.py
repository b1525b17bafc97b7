"""Online EM without a learning rate: models that remember differently much, mixed by weights."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from sklearn_onlineem._typing import Floats
from sklearn_onlineem.data import Batch
from sklearn_onlineem.em.loop import Passes, Progress
from sklearn_onlineem.em.schedules import Forgetting, Harmonic, RateSchedule
from sklearn_onlineem.em.settings import check_bool, check_count, check_number
from sklearn_onlineem.em.solvers.auto import Auto
from sklearn_onlineem.em.solvers.base import Plan, Solver
from sklearn_onlineem.em.state import ComponentStep, Opening, State
from sklearn_onlineem.models import Model

__all__ = ["Adaptive", "Memories"]

# Rows between changes of the best model, as the weights expect them.
_ROWS_BETWEEN_CHANGES = 1000.0


class Memories(NamedTuple):
    """Models of one stream that remember differently much.

    Attributes
    ----------
    models : tuple of Model
        One for each half-life of the solver.
    weights : ndarray of shape (n_models,)
        Weights of the models in the mixture that predicts the next data; they add up to 1.
    ends : tuple
        Filtered distribution of each model's last state, if the last sequence may continue; else
        empty.
    """

    models: tuple[Model, ...]
    weights: Floats
    ends: tuple = ()

    def log_likelihood(self, data: Batch) -> Floats:
        r"""Return :math:`\log \sum_j w_j p_j(x)` of each observation, of shape (n,), in nats.

        Parameters
        ----------
        data : Batch
            Observations.
        """
        pairs = zip(self.weights, self.models, strict=True)
        return np.logaddexp.reduce([math.log(w) + m.log_likelihood(data) for w, m in pairs])

    def batches(self, batch: Batch) -> list[Batch]:
        """Return a batch for each model: a sequence that continues does so from its own state.

        Parameters
        ----------
        batch : Batch
            In the form that the models take.
        """
        if self.ends and batch.before is not None:
            return [batch.continued(end) for end in self.ends]
        return len(self.models) * [batch]

    def with_ends(self, data: Batch) -> Memories:
        """Return the models with their filtered distributions at the end of data.

        Parameters
        ----------
        data : Batch
            The last sequence, or piece of it, which the models have learnt.
        """
        pairs = zip(self.models, self.batches(data), strict=True)
        return self._replace(ends=tuple(model.filtered_end(part) for model, part in pairs))


@dataclass(frozen=True)
class Adaptive(Solver):
    r"""Online EM that needs no learning rate: several models learn, and those predict that did.

    Each model remembers the past for another half-life, and takes the online steps of
    :class:`~sklearn_onlineem.em.Online`. Their weights are by fixed share: after each batch of b
    rows,

    .. math::
        w_j \leftarrow (1 - a) \frac{w_j \, p_j(\text{batch})}{\sum_i w_i \, p_i(\text{batch})}
        + \frac{a}{J}, \qquad a = \min(0.5, b / 1000),

    where :math:`p_j` is the density before the step. *Scores are those of the mixture*,
    :math:`\log \sum_j w_j p_j(x)` of each observation: `score_samples` and `score`, and criteria
    from them. `model_`, and all that has components or states, is the model with the largest
    weight, which also enters merges. `eta0`, `beta` and `schedule` are ignored.

    Streams start as those of ``Online``, with one model. `fit` learns as
    :class:`~sklearn_onlineem.em.Auto`, since data at hand are shuffled, and all models of a stream
    that continues begin from the result.

    Parameters
    ----------
    half_lives : tuple of float, default=(inf, 5.0, 1.0)
        For each model, the rows after which the past counts for half, above 0, in multiples of the
        rows that determine a model (the number of its parameters for each column). Infinity: all
        rows count alike. The time of a step grows with their number.
    reinitialises, start_rows
        As of :class:`~sklearn_onlineem.em.Online`.

    Notes
    -----
    Entries of `history_` are :class:`~sklearn_onlineem.em.state.ComponentStep`, with the new
    `model_weights`. Learning rate and divergence are those of the model with the largest weight;
    the log-likelihood is :math:`\log \sum_j w_j p_j(\text{batch})`, per observation. A model that
    cannot take a step, as a batch is impossible under it, becomes a copy of the one with the
    largest weight.

    References
    ----------
    Herbster & Warmuth, "Tracking the Best Expert", Machine Learning 1998 (fixed share).

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
    has_own_rates = True

    def __post_init__(self):
        if not isinstance(self.half_lives, tuple) or not self.half_lives:
            raise ValueError(f"half_lives must be a tuple of numbers, got {self.half_lives!r}.")
        for half_life in self.half_lives:
            if half_life != math.inf:
                check_number("half_lives", half_life, 0.0, math.inf)
        check_bool("reinitialises", self.reinitialises)
        check_count("start_rows", self.start_rows, least=0)

    def step(self, state: State, batch: Batch, schedule: RateSchedule | None = None) -> State:
        rates = _schedules(self.half_lives, state.observations_needed)
        before, n_models = state.kept, len(rates)
        if isinstance(before, Opening):
            return super().step(state, batch, rates[0])
        if not isinstance(before, Memories) or len(before.models) != n_models:
            before = Memories(n_models * (state.model,), np.full(n_models, 1.0 / n_models))
        steps, log_likelihoods = self._steps(state, batch, before, rates)
        # Relative to the best, as densities of many rows are not in the range of numbers.
        excess = batch.total_weight * (log_likelihoods - log_likelihoods.max())
        joint = before.weights * np.exp(excess)
        log_likelihood = log_likelihoods.max() + math.log(joint.sum()) / batch.total_weight
        share = min(0.5, state.model.size_of(batch) / _ROWS_BETWEEN_CHANGES)
        weights = (1.0 - share) * joint / joint.sum() + share / n_models
        weights /= weights.sum()
        leader = steps[weights.argmax()]
        models = tuple((leader if one is None else one).model for one in steps)
        # Kept until those after this batch are known.
        ends = before.ends if before.ends and batch.before is not None else ()
        step = leader.step
        record = ComponentStep(
            step.eta, log_likelihood, step.kl_divergence, step.n_rows, None, step.n_components,
            step.reinitialised, step.half_of, weights,
        )  # fmt: skip
        return leader._replace(kept=Memories(models, weights, ends), step=record)

    def _steps(self, state, batch, before, rates):
        """Return the states after a step of each model, and log-likelihoods before it.

        A model that cannot take the step has None, and -inf; if none can, the first error is
        raised.
        """
        steps, errors = [], []
        for model, part, rate in zip(before.models, before.batches(batch), rates, strict=True):
            try:
                steps.append(super().step(state._replace(model=model, kept=None), part, rate))
            except ValueError as error:
                steps.append(None)
                errors.append(error)
        if len(errors) == len(steps):
            raise errors[0]
        values = [-math.inf if one is None else one.step.log_likelihood for one in steps]
        return steps, np.array(values)

    def passes(self, progress: Progress, data: Batch, plan: Plan) -> Passes:
        yield from Auto().passes(progress, data, plan)


@lru_cache(maxsize=128)
def _schedules(half_lives, observations_needed):
    return tuple(
        Harmonic() if one == math.inf else Forgetting(half_life=one * observations_needed)
        for one in half_lives
    )
