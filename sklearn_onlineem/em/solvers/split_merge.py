"""Batch EM with split and merge steps, which keep or find the number of components."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sklearn_onlineem._errors import ours
from sklearn_onlineem.data import Batch as Observations
from sklearn_onlineem.em.loop import Passes, Progress
from sklearn_onlineem.em.settings import check_count
from sklearn_onlineem.em.solvers.base import Plan, Solver, has_settled
from sklearn_onlineem.em.solvers.batch import Batch
from sklearn_onlineem.em.step import batch_step
from sklearn_onlineem.models.capabilities import SplitsAndMerges
from sklearn_onlineem.statistics import Statistics

# Steps of a fixed number of components begin when a pass of EM gains less, and end when the last
# ones have gained less, in nats per row.
_NEARLY_SETTLED, _LEAST_GAIN = 1e-2, 2e-3
# Passes of EM after each, and after what else leads out of an optimum.
PASSES = 5


def regrouping_step(
    model: SplitsAndMerges,
    data: Observations,
    rng: np.random.Generator,
    prior: Sequence[tuple[float, Statistics]] = (),
) -> tuple[SplitsAndMerges, float, float] | None:
    """Merge and split components of which there are as many afterwards; take some passes of EM.

    Return None if that does not raise the likelihood of the data, times the prior; else the new
    model, the mean log-likelihood of the data *under the old one*, and the gain per observation.

    Parameters
    ----------
    model : SplitsAndMerges
        Where batch EM has nearly converged.
    data : Batch
        Observations.
    rng : numpy.random.Generator
        Draws samples, and starts of splits.
    prior : sequence of (float, Statistics), default=()
        Weights and pseudo-statistics of conjugate priors, as of `batch_step`.
    """
    new = model.regrouped(data, rng, prior)
    if new is None:
        return None
    log_likelihood = model.e_step(data)[1]
    try:
        for _ in range(PASSES):
            new, _ = batch_step(new, data, prior)
    except ours(ValueError):
        # Some rows determine no parameters.
        return None
    gain = new.e_step(data)[1] - log_likelihood
    gain += sum(
        a * (new.expected_log_likelihood(s) - model.expected_log_likelihood(s)) for a, s in prior
    )
    return (new, log_likelihood, gain) if gain > 0.0 else None


@dataclass(frozen=True)
class SplitMerge(Solver):
    r"""Batch EM with split and merge steps: out of local optima, and to the number of components.

    With ``n_components="fixed"`` their number stays: two components are merged, and another one is
    split. EM cannot do that where two components share one cluster and a third one has two. With
    many rows a fit is usually better than the best of ten starts, in the time of one to two. After
    some passes of batch EM it tries triples whose split gains most and whose merge loses least, by
    EM of these components and of those that overlap them, on a sample of the rows. Triples are
    taken that gain 0.002 nats a row, and half a nat for each parameter of a component, and leave no
    component with less than four values for each of its parameters. Five passes of EM follow, and
    all is kept if that raises the likelihood of all rows, times the prior. When it does not, or by
    less than 0.002 nats, batch EM goes on until `tol`.

    With ``n_components="free"``, the default, it also finds the number of components:
    `n_components` of the estimator is the largest number; unused components have a weight of
    exactly 0, and `n_components_` counts the others. When batch EM has converged, it tries the
    merges that lose the least, by the divergence of
    :func:`~sklearn_onlineem.combine_estimators`, then splits across the first axis of a component.
    EM converges again after each, and the step is kept if it raises

    .. math:: \sum_n \log p(x_n) - \tfrac{1}{2} \, \text{parameters} \times \log N,

    which is Schwarz's criterion (BIC) times -1/2, with N the total weight of the rows. A fit ends
    when no step raises it. Passes are those of batch EM, and the steps that are kept.

    Streams take online steps, and keep their components. See :ref:`number_of_components`.

    Parameters
    ----------
    n_merges : int, default=8
        Merges to try before splits, at least 1; another number requires ``n_components="free"``.
    n_components : {"free", "fixed"}, default="free"
        Whether the steps change the number of components.

    Raises
    ------
    ValueError
        In a fit, if the model is no mixture, or components are known. If the number is free: if a
        prior gives weight to all components, or `tol` is 0. If it is fixed: if a prior removes
        components.

    References
    ----------
    Ueda, Nakano, Ghahramani & Hinton, "SMEM algorithm for mixture models", Neural Computation 2000
    (a fixed number); Figueiredo & Jain, "Unsupervised learning of finite mixture models", PAMI 2002
    (from many components down); Schwarz, "Estimating the dimension of a model", 1978.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import GaussianMixture
    >>> from sklearn_onlineem.em import SplitMerge
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(600, 2)) + rng.choice([-8.0, 0.0, 8.0], size=(600, 1))
    >>> mixture = GaussianMixture(9, solver=SplitMerge(), random_state=0).fit(X)
    >>> mixture.n_components_, np.sort(mixture.weights_).round(2)
    (3, array([0.  , 0.  , 0.  , 0.  , 0.  , 0.  , 0.31, 0.32, 0.36]))

    From two means in one cluster, and one between the two others:

    >>> stuck = {"covariance_type": "tied", "means_init": [[-9.0, -8.0], [-7.0, -8.0], [4.0, 4.0]]}
    >>> for solver in ["batch", SplitMerge(n_components="fixed")]:
    ...     mixture = GaussianMixture(3, solver=solver, **stuck).fit(X)
    ...     print(round(mixture.score(X), 1))
    -4.9
    -3.9
    """

    n_merges: int = 8
    n_components: str = "free"
    requires = SplitsAndMerges
    # A cluster that comes up is none.
    skips_outliers = False

    def __post_init__(self):
        check_count("n_merges", self.n_merges)
        if self.n_components not in ("free", "fixed"):
            raise ValueError(f"n_components must be 'free' or 'fixed', got {self.n_components!r}.")
        if self.n_components == "fixed" and self.n_merges != SplitMerge.n_merges:
            raise ValueError(
                f"n_merges={self.n_merges!r} requires n_components='free', got 'fixed'."
            )

    def passes(self, progress: Progress, data: Observations, plan: Plan) -> Passes:
        if self.n_components == "fixed":
            return self._regrouping_passes(progress, data, plan)
        return self._criterion_passes(progress, data, plan)

    def _regrouping_passes(self, progress, data, plan):
        state = progress.state
        self._required(state.model).check_split_merge(state.prior, data, fixed=True)
        size, gain, before = state.size_of(data), math.inf, -math.inf
        for log_likelihood, _ in Batch(None).passes(progress, data, plan):
            yield log_likelihood, False
            if not log_likelihood - before > _NEARLY_SETTLED:
                break
            before = log_likelihood
        while gain > _LEAST_GAIN:
            state = progress.state
            found = regrouping_step(state.model, data, plan.rng, state.prior_terms(size))
            if found is None:
                break
            model, log_likelihood, gain = found
            progress.take(state.after_pass(model, log_likelihood, data))
            yield log_likelihood, False
        yield from Batch().passes(progress, data, plan)

    def _criterion_passes(self, progress, data, plan):
        settled, is_settled = plan.stopping(is_exact=False), False
        if not settled.tol > 0.0:
            raise ValueError(f"solver=SplitMerge() requires tol > 0, got {settled.tol!r}.")
        # Models without split and merge steps are refused at once.
        self._candidates(progress.state, data)
        while not is_settled:
            state = progress.state
            size = state.size_of(data)
            progress.take(state.after(self._stepped(state, data, math.inf, size, size)))
            step = progress.state.step
            is_settled = has_settled(settled, step)
            yield step.log_likelihood, False
        log_likelihood = progress.state.model.e_step(data)[1]
        best = _criterion(progress.state.model, log_likelihood, data)
        moves = self._candidates(progress.state, data)
        while (candidate := next(moves, None)) is not None:
            trial = _settled(candidate, progress.state, data, plan)
            trial_log_likelihood = trial.e_step(data)[1]
            criterion = _criterion(trial, trial_log_likelihood, data)
            if criterion > best:
                progress.take(progress.state.after_pass(trial, log_likelihood, data))
                yield log_likelihood, False
                log_likelihood, best = trial_log_likelihood, criterion
                moves = self._candidates(progress.state, data)
        yield from Batch().passes(progress, data, plan)

    def score(self, progress: Progress, data: Observations) -> float:
        score = super().score(progress, data)
        if self.n_components == "fixed":
            return score
        return _criterion(progress.state.model, score, data)

    def _candidates(self, state, data):
        return self._required(state.model).split_merge_steps(data, self.n_merges, state.prior)


def _criterion(model, log_likelihood, data):
    """Return minus half the BIC, in nats."""
    n = data.total_weight
    return n * log_likelihood - 0.5 * model.n_parameters() * math.log(n)


def _settled(model, state, data, plan):
    """Return a model after batch EM from it has converged."""
    settled, terms = plan.stopping(is_exact=False), state.prior_terms(state.size_of(data))
    # Most passes of batch EM that a split or merge step may take to converge.
    for _ in range(100):
        new_model, log_likelihood = batch_step(model, data, terms)
        is_settled = settled(log_likelihood, new_model.kl_divergence(model, like=data))
        if is_settled and new_model.n_active == model.n_active:
            return new_model
        model = new_model
    return model
