"""Batch EM of many components, of which each row has a few candidates."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from sklearn_onlineem.data import Batch as Observations
from sklearn_onlineem.em.loop import Passes, Progress
from sklearn_onlineem.em.schedules import RateSchedule, step_size
from sklearn_onlineem.em.settings import check_count
from sklearn_onlineem.em.solvers.base import Plan, Solver
from sklearn_onlineem.em.solvers.batch import Batch, batch_passes
from sklearn_onlineem.em.state import State
from sklearn_onlineem.models.capabilities import SplitsAndMerges, TruncatedESteps
from sklearn_onlineem.models.truncated import Neighbourhoods

__all__ = ["Truncated", "climb"]

# In streams of fewer components all are looked at, which takes no longer. Neighbours are found anew
# when less of the mixture's statistics is as old as they.
_LEAST_COMPONENTS, _LEAST_SHARE = 1 << 12, 0.7
# Fewest components, parameters for each feature, and rows of each component, with which most passes
# of a default fit are sparse, and candidates of a row there. A pass over all components takes time
# for all parameters, a sparse one for the features. Chosen by benchmarks/speed/many_components.py.
_MANY, _PARAMETERS, _ROWS_OF_EACH, _SPARSE_CANDIDATES = 300, 4_000, 20, 32


@dataclass(frozen=True)
class Truncated(Solver):
    r"""Batch EM with a truncated E-step: responsibilities are 0 but for a few components a row.

    A pass takes time for `n_candidates`, not for all components. It pays from some hundreds of
    components on. Each row has a home, the component that is likeliest for it, and the candidates
    of its home, which are those that matter for the rows there. Passes raise

    .. math:: \frac{1}{N} \sum_n \log \sum_{k \in C(\text{home}_n)} w_k \, p(x_n \mid \theta_k),

    *a lower bound of the log-likelihood*, which is what `lower_bounds_` and `history_` of such a
    fit record. Homes and candidates change only where that raises the bound, so that it never
    falls. `score`, `score_samples`, `predict` and `predict_proba` use all components.

    The first homes are those of the nearest means, or of all components where the family has none.
    Passes are accelerated as those of `Batch`.

    Steps of streams have all components where these are fewer than 4,096, or share parameters, have
    a prior, or no means. Else the candidates of a row are the neighbours of the component whose
    mean is nearest, and a step changes only these, and the weights of the others. Neighbours are
    the likeliest of those with near means, found anew when .3 of what is remembered is newer.

    Parameters
    ----------
    n_candidates : int, default=40
        Components of a row, at least 1. With all of them this is batch EM. With the default, 1,000
        components of Covertype are .007 and .013 nats per row behind it after as many passes, from
        two starts; see benchmarks/speed/many_components.py.

    Raises
    ------
    ValueError
        In a fit, if the model is no mixture of rows, if its statistics have no fixed size, or if
        rows have missing values or known components.

    References
    ----------
    Forster & Luecke, "Can clustering scale sublinearly with its clusters?", AISTATS 2018;
    Hirschberger, Forster & Luecke, "A variational EM acceleration for efficient clustering at very
    large scales", PAMI 2022. There candidates are those of each row, found by a distance of
    components; here those of each home, found by its rows.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import GaussianMixture
    >>> from sklearn_onlineem.em import Truncated
    >>> rng = np.random.default_rng(0)
    >>> X = rng.integers(20, size=(20_000, 2)) + 0.1 * rng.normal(size=(20_000, 2))
    >>> settings = {"covariance_type": "spherical", "max_iter": 10, "tol": 0.0, "random_state": 0}
    >>> few = GaussianMixture(400, solver=Truncated(8), **settings).fit(X)
    >>> every = GaussianMixture(400, solver="batch", **settings).fit(X)
    >>> print(round(few.score(X), 1), round(every.score(X), 1))
    -4.2 -4.2
    """

    n_candidates: int = 40
    requires = TruncatedESteps

    def __post_init__(self):
        check_count("n_candidates", self.n_candidates)

    def step(self, state: State, batch: Observations, schedule: RateSchedule) -> State:
        model, known, near = state.model, state.kept, None
        if not isinstance(known, Neighbourhoods) or known.share < _LEAST_SHARE:
            known = None
        is_many = isinstance(model, TruncatedESteps) and model.n_components >= _LEAST_COMPONENTS
        # A prior moves all components.
        if is_many and state.prior is None:
            near = model.near(batch, self.n_candidates, state.rng(), known)
        if near is None:
            return super().step(state, batch, schedule)
        after = super().step(state._replace(model=near), batch, schedule)
        return after._replace(model=model) if after.model is near else after

    def _with_recent(self, after, before, batch):
        near = before.model
        if not hasattr(near, "whole_after"):
            return super()._with_recent(after, before, batch)
        known = near.neighbourhoods
        known = known._replace(share=known.share * (1.0 - step_size(after.step.eta)))
        after = after._replace(model=near.whole_after(after.model), kept=known)
        after = super()._with_recent(after, before._replace(model=near.whole), batch)
        # A component that starts elsewhere has other neighbours.
        return after._replace(kept=None) if after.step.reinitialised >= 0 else after

    def passes(self, progress: Progress, data: Observations, plan: Plan) -> Passes:
        model = self._required(progress.state.model)
        truncated = model.truncated_e_step(data, self.n_candidates, plan.rng)
        return _passes(progress, data, plan, truncated, "auto")


def _passes(progress, data, plan, truncated, acceleration):
    def e_step(state, model):
        return *truncated.e_step(model), data

    return batch_passes(progress, plan, e_step, progress.take, acceleration, truncated.renewed)


def climb(
    progress: Progress, data: Observations, plan: Plan, acceleration: str | None = "auto"
) -> Passes:
    """Take passes of batch EM to the maximum; of many components, most see a few for each row.

    Parameters
    ----------
    progress : Progress
        Of the fit.
    data : Batch
        Of the fit.
    plan : Plan
        Of the fit.
    acceleration : "auto" or None, default="auto"
        As of `Batch`.
    """
    model, sparse = progress.state.model, None
    if isinstance(model, SplitsAndMerges) and isinstance(model, TruncatedESteps):
        is_many = _MANY <= model.n_components <= len(data) // _ROWS_OF_EACH
        # Where one of the conditions is not met, all components take part.
        with suppress(ValueError):
            is_slow = is_many and model.n_parameters() >= _PARAMETERS * data.n_features
            if is_slow and plan.stopping().tol > 0.0:
                model.check_split_merge(progress.state.prior, data, fixed=True)
                sparse = model.truncated_e_step(data, _SPARSE_CANDIDATES, plan.rng, is_sparse=True)
    if sparse is None:
        return Batch(acceleration).passes(progress, data, plan)
    return _passes(progress, data, plan, sparse, acceleration)
